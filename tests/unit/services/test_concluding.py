"""The conclusion of an experiment: recorded with evidence that exists, asked for at the close, told with the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.governed import Grounds, by

from pretrain_archive.domain import kinds
from pretrain_archive.domain.checklists import checklist
from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.domain.run_diff import compare
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.package.story import tell
from pretrain_archive.package.words import event_text
from pretrain_archive.services.concluding import Conclusion, conclude, conclusion_document

pytestmark = pytest.mark.requirement("R097")


@pytest.fixture
def grounds(tmp_path: Path) -> Grounds:
    """A ledger with anchors."""
    return Grounds(tmp_path)


def told(view: RunView, **changes: Any) -> Conclusion:
    """A good conclusion of a run, with changes."""
    values: dict[str, Any] = {"outcome": "no_better", "learnt": "a longer warm-up is not enough",
              "evidence": (view.records[-1].record_id,)}  # fmt: skip
    return Conclusion(**values | changes)


def test_an_improvement_over_another_run(grounds: Grounds) -> None:
    """It is recorded with what it is compared with, and told in both languages, in the package and beside others."""
    before, now = grounds.open(), grounds.open()
    view = grounds.view(now)
    record = conclude(grounds.ledger, view, told(
        view, outcome="improved", improved="loss fell from 2.1 to 1.9", against=before, evidence=(before,)
    ), by("carol"))  # fmt: skip
    view = grounds.view(now)
    document = conclusion_document(view)

    assert document is not None
    assert ("improved", before, "run", [before]) == tuple(
        document[name] for name in ("outcome", "against", "against_kind", "evidence")
    )
    assert ("person", "carol") == (record.actor.type, record.actor.name)
    assert "carol" in document["told"]["zh"]
    assert [(str(e.subject), str(e.object)) for e in record.edges][1:] == [(f"run:{now}", f"run:{before}")]
    [why] = [sentence for sentence in tell(view) if sentence.key == "why"]
    assert "loss fell from 2.1 to 1.9" in why.en
    assert "a longer warm-up is not enough" in why.zh
    assert "有改进" in event_text(record)[1]
    conclusions = dict(compare(grounds.view(before), [view]).conclusions)
    assert conclusions[before] is None
    assert "Learnt: a longer warm-up is not enough." in (conclusions[now] or "")


def test_asked_at_the_close(grounds: Grounds) -> None:
    """Missing it is unrecorded and does not block; there it is verified; one after the close changes nothing signed."""
    uid, late = grounds.open(), grounds.open()
    policy = grounds.lookup("p").policy

    def item(run: str) -> tuple[str, bool]:
        [found] = [i for i in checklist("close", grounds.view(run), policy) if i.id == "close.conclusion"]
        return found.verdict.value, found.blocking

    assert ("unrecorded", False) == item(uid)
    conclude(grounds.ledger, grounds.view(uid), told(grounds.view(uid)), by("carol"))
    assert ("verified", False) == item(uid)
    grounds.add(late, kinds.RunClosed(outcome="rejected", reason="x"))
    conclude(grounds.ledger, grounds.view(late), told(grounds.view(late)), by("carol"))
    assert ("unrecorded", False) == item(late)
    assert conclusion_document(grounds.view(late)) is not None


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        pytest.param({"outcome": "improved", "against": "untrained"}, "improved", id="improved, not what"),
        pytest.param({"outcome": "improved", "improved": "x"}, "against", id="improved, against nothing"),
        pytest.param({"improved": "x"}, "improved", id="no better, yet improved"),
        pytest.param({"learnt": " \n"}, "learnt", id="nothing learnt"),
        pytest.param({"evidence": ()}, "evidence", id="no evidence"),
        pytest.param({"evidence": ("rec_of_another",)}, "evidence", id="evidence that is not there"),
        pytest.param({"against": "the best model"}, "against", id="compared with what nobody measured"),
        pytest.param({"outcome": "great"}, "outcome", id="no such outcome"),
    ],
)
def test_refused(grounds: Grounds, changes: dict[str, Any], named: str) -> None:
    """What is not said or not there is named, and nothing is recorded."""
    view = grounds.view(grounds.open())

    with pytest.raises(InputError) as raised:
        conclude(grounds.ledger, view, told(view, **changes), by("carol"))

    assert named == raised.value.field
    assert conclusion_document(grounds.view(view.run_uid)) is None


def test_a_conclusion_is_no_evidence_of_itself(grounds: Grounds) -> None:
    """Neither an earlier conclusion nor the run as a whole carries one, and a run that is not there has none."""
    view = grounds.view(grounds.open())
    first = conclude(grounds.ledger, view, told(view), by("carol"))

    view = grounds.view(view.run_uid)
    for itself in (first.record_id, view.run_uid):
        with pytest.raises(InputError, match="is no record of this run and no other run"):
            conclude(grounds.ledger, view, told(view, evidence=(itself,)), by("carol"))
    stranger = told(view)
    with pytest.raises(RefusedError, match="is not in the ledger"):
        conclude(grounds.ledger, RunView.of("run_x", []), stranger, by("carol"))
