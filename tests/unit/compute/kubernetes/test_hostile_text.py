"""What a cluster says reaches logs and records as one bounded line, whoever wrote it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pretrain_archive.compute.kubernetes.exits import member_of, verdict_of
from pretrain_archive.compute.kubernetes.waiting import wait_of

HOSTILE = "first\n2026-01-01 [info] all is well\x1b[2J\x00\r\u2028" + "\ud800" + "x" * 100_000
POD = {
    "metadata": {"name": "p", "uid": "u"},
    "status": {
        "phase": "Failed", "reason": HOSTILE, "message": HOSTILE,
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": HOSTILE, "message": HOSTILE}],
    },
}  # fmt: skip
JOB = {"metadata": {"name": "j", "uid": "ju"}, "spec": {"parallelism": 1}}


def texts() -> list[str]:
    """Everything that a hostile message gets into."""
    member = member_of(POD, attempt=1, at="2026-01-01T00:00:00Z")
    failed = {
        "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "x", "message": HOSTILE}]}
    }
    event = {"reason": "FailedCreate", "message": HOSTILE, "involvedObject": {"uid": "ju"}}
    wait = wait_of(JOB, [], [event], now=datetime.now(UTC), start_limit_seconds=60)
    assert wait is not None
    return [member.reason, member.message, member.condition, verdict_of(failed, []).reason, wait.message]


@pytest.mark.parametrize("number", range(5))
def test_a_hostile_message_is_one_bounded_line(number: int) -> None:
    """No line of its own, no escape sequence, nothing that a database refuses, no megabytes."""
    text = texts()[number]

    assert text
    assert len(text) <= 2000
    assert text.isprintable(), repr(text[:80])
