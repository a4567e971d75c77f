"""Downstream tasks are cleared, so that the launch runs again where it may not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.bypass.ground import Ground, Try

from pretrain_archive.domain import kinds
from pretrain_archive.services import data, gating, processing

CLOSED = "closed"


def _reject(ground: Ground, at: int = 3) -> None:
    ground.line.answer("prepare", ground.line.ask("prepare", try_number=at), option="Reject")


def _expire(ground: Ground) -> None:
    ground.line.ask("prepare", try_number=4)
    gating.let_expire(ground.line.ledger, ground.line.caller("prepare_gate", try_number=4), ground.line.run_uid,
                      "prepare")  # fmt: skip


def _cleared(*steps: Callable[[Ground], object], words: str = CLOSED, tries: tuple[int, ...] = (2,), **call: Any) -> (
    Callable[[Ground], object]
):  # fmt: skip
    def act(ground: Ground) -> None:
        for step in steps:
            step(ground)
        for number in tries:
            ground.refused(words, try_number=number, **call)

    return act


def _new_snapshot(ground: Ground) -> None:
    """The snapshot's task is cleared too, after its source changed: another version stands now."""
    snapshot = ground.line.view().latest(kinds.SnapshotCreated)
    assert snapshot is not None
    ground.add(
        "snapshot.created", snapshot.model_copy(update={"version": snapshot.version + 1}), task="snapshot"
    )


def _again(task: str) -> Callable[[Ground], object]:
    """A data task is cleared and runs again: what it records is another fact."""

    def act(ground: Ground) -> None:
        line, caller = ground.line, ground.line.caller(task, try_number=6)
        source = line.folder / "source"
        for number in range(9):
            (source / f"doc{number}.txt").write_text(f"other words {number}\n" * 9)
        if task == "quality_check":
            data.quality(line.ledger, line.store, caller, line.run_uid)
        elif task == "process":
            processing.process(line.ledger, line.store, caller, line.run_uid)

    return act


def _failed_gate(ground: Ground) -> None:
    ground.add("run.failed", kinds.RunFailed(task_id="prepare_gate", error_code="x", reason="gone", hint=""))
    _reject(ground, at=11)


def _close(outcome: str) -> Callable[[Ground], object]:
    return lambda ground: ground.add(
        "run.closed", kinds.RunClosed.model_validate({"outcome": outcome, "reason": "over"}),
        unique=f"close/{ground.line.run_uid}",
    )  # fmt: skip


TRIES = [
    Try("rejected, launch cleared", "asked", _cleared(_reject)),
    Try("rejected, launch cleared three times", "asked", _cleared(_reject, tries=(2, 3, 4))),
    Try("rejected after it was approved", "signed", _cleared(_reject)),
    Try("rejected after it was approved, cleared with upstream", "signed", _cleared(_reject, tries=(9,))),
    Try("expired after it was approved", "signed", _cleared(_expire)),
    Try("expired, launch cleared", "asked", _cleared(_expire)),
    Try("gate failed, then rejected", "asked", _cleared(_failed_gate)),
    Try("gate failed, then rejected, after an approval", "signed", _cleared(_failed_gate)),
    Try("snapshot cleared too", "signed", _cleared(_new_snapshot, words="stale approval")),
    Try("snapshot cleared twice", "signed", _cleared(_new_snapshot, words="stale approval", tries=(2, 3))),
    Try("cleared before anybody was asked", "data", _cleared(words="no decision")),
    Try("cleared while it waits", "asked", _cleared(words="no decision")),
    Try("quality cleared while it waits", "asked", _cleared(_again("quality_check"), words="no decision")),
    Try("process cleared while it waits", "asked", _cleared(_again("process"), words="no decision")),
    Try("whole DAG run cleared under another id", "signed",
        _cleared(words="belongs to DAG run", dag_run_id="manual__line_1")),
    *(
        Try(f"closed as {outcome} when {stage}, launch cleared", stage, _cleared(_close(outcome)))
        for outcome, stage in (
            ("rejected", "signed"), ("expired", "signed"), ("continue", "signed"), ("clean_up", "signed"),
            ("rejected", "asked"), ("expired", "data"),
        )
    ),
]  # fmt: skip
