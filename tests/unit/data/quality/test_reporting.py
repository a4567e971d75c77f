"""The verdict over gates: what stops data, what is advice, and what was no check at all."""

from __future__ import annotations

import pytest

from pretrain_archive.data.quality.aggregates import Summary
from pretrain_archive.data.quality.facts import Facts
from pretrain_archive.data.quality.reporting import verdict


def gate(severity: str, state: str) -> dict:
    """A gate as far as a verdict looks at it."""
    passed, checked = state == "passed", state != "not checked"
    return {"name": f"{severity} rule", "severity": severity, "passed": passed, "checked": checked}


@pytest.mark.case("Q07")
@pytest.mark.requirement("R047")
@pytest.mark.parametrize(
    ("gates", "documents", "expected"),
    [
        pytest.param([], 3, (False, "nothing was checked: the suite has no rules"), id="no rules"),
        pytest.param([gate("blocking", "passed")], 3, (True, ""), id="passed"),
        pytest.param([gate("blocking", "failed")], 3, (False, "failed: blocking rule"), id="failed"),
        pytest.param([gate("blocking", "not checked")], 3, (False, "failed: blocking rule"), id="not checked"),
        pytest.param([gate("blocking", "passed"), gate("advisory", "failed")], 3, (True, ""), id="advice beside it"),
        pytest.param([gate("advisory", "failed")], 3, (True, ""), id="advice alone"),
        pytest.param(
            [gate("advisory", "not checked")], 3, (False, "nothing was checked: no rule could be judged"),
            id="advice that was not checked",
        ),
        pytest.param(
            [gate("advisory", "not checked")], 0, (False, "nothing was checked: no documents in 2 files"),
            id="no documents",
        ),
    ],
)  # fmt: skip
def test_verdicts(gates, documents, expected):
    """Advice that fails stops nothing; where nothing was judged nothing passes."""
    facts = Facts(judge=None, summary=Summary(), columns=frozenset(), files=2, documents=documents)

    assert expected == verdict(facts, gates)
