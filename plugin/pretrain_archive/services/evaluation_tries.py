"""Each try of an evaluation on record: it begins with a lease on the checkpoint and ends with numbers or a reason.

A try that was killed leaves no end of its own: the next one of the same task says so, and its lease ends by its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pretrain_archive.artifacts.metric_files import RepeatedMetricError
from pretrain_archive.domain.errors import (
    ArchiveError,
    CheckpointError,
    EvaluationFailedError,
    InputError,
)
from pretrain_archive.domain.evaluations import leases
from pretrain_archive.domain.identity import format_time, new_id
from pretrain_archive.domain.kinds import (
    BY_MODEL,
    CheckpointRegistered,
    EvaluationFailed,
    EvaluationFinished,
    EvaluationStarted,
    Payload,
)
from pretrain_archive.domain.records import Draft, Origin
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller

MARGIN = timedelta(minutes=10)
"""What a lease lasts beyond the program: laying out data, ending a tree, reading and hashing."""

Cause = Literal["program", "timeout", "output", "checkpoint", "abandoned", "other"]


@dataclass(frozen=True, kw_only=True)
class Try:
    """One try that has begun."""

    ledger: Ledger
    caller: Caller
    run_uid: str
    started: EvaluationStarted
    attempt: int

    def failed(
        self,
        error: ArchiveError,
        *,
        log: tuple[str | None, str | None],
        took: tuple[float | None, int | None],
    ) -> None:
        """Record why this try gave no numbers."""
        cause, detail = cause_of(error)
        self._append(
            EvaluationFailed(
                **self._same(),
                cause=cause,
                detail=detail,
                exit_code=getattr(error, "exit_code_of_program", None),
                flags=[error.flag] if isinstance(error, RepeatedMetricError) else [],
                seconds=took[0],
                devices=took[1],
                log_uri=log[0],
                log_digest=log[1],
            )
        )

    def finished(self, evaluations: Sequence[str], *, samples: tuple[str, str] | None = None) -> None:
        """Record that this try ended with numbers; ``samples`` is address and digest of outputs for readers."""
        uri, digest = samples or (None, None)
        self._append(
            EvaluationFinished(
                try_id=self.started.try_id,
                checkpoint_id=self.started.checkpoint_id,
                evaluations=list(evaluations),
                samples_uri=uri,
                samples_digest=digest,
            )
        )

    def _same(self) -> dict[str, Any]:
        names = ("try_id", "checkpoint_id", "checkpoint_digest", "program")
        return {name: getattr(self.started, name) for name in names}

    def _append(self, payload: Payload) -> None:
        append(self.ledger, self.caller, self.run_uid, payload, attempt=self.attempt)


def begin(
    ledger: Ledger,
    caller: Caller,
    view: RunView,
    checkpoint: CheckpointRegistered,
    *,
    program: str,
    evaluator_digest: str | None,
    minutes: float,
) -> Try:
    """Record that an evaluation reads ``checkpoint`` from now on, for at most ``minutes`` and a margin.

    Earlier tries of the same task, checkpoint and program that left no end are recorded as abandoned.
    """
    _abandon(ledger, caller, view, checkpoint.checkpoint_id, program)
    until = datetime.now(UTC) + timedelta(minutes=minutes) + MARGIN
    started = EvaluationStarted(
        try_id=new_id("try"),
        checkpoint_id=checkpoint.checkpoint_id,
        checkpoint_digest=checkpoint.digest,
        program=program,
        evaluator_digest=evaluator_digest,
        lease_until=format_time(until),
    )
    append(ledger, caller, view.run_uid, started, attempt=checkpoint.attempt)
    return Try(
        ledger=ledger, caller=caller, run_uid=view.run_uid, started=started, attempt=checkpoint.attempt
    )


def append(ledger: Ledger, caller: Caller, run_uid: str, payload: Payload, *, attempt: int) -> None:
    """Append a fact of this task try, after those of its kind that the try wrote before."""
    kind = BY_MODEL[type(payload)]
    draft = Draft(
        stream=run_uid, kind=kind, payload=payload.to_json(), actor=caller.actor, origin=caller.origin,
        attempt=attempt, ordinal=next_ordinal(load_run(ledger, run_uid), kind, caller.origin),
    )  # fmt: skip
    ledger.append([draft])


def next_ordinal(view: RunView, kind: str, origin: Origin) -> int:
    """How many records of ``kind`` this task try has written: the ordinal of its next one."""
    return sum(1 for record in view.records if record.kind == kind and record.origin == origin)


def cause_of(error: ArchiveError) -> tuple[Cause, str]:
    """What kind of failure an error is, and its words without what a program printed."""
    match error:
        case EvaluationFailedError():
            return ("timeout" if error.exit_code_of_program is None else "program"), error.detail
        case CheckpointError():
            return "checkpoint", error.message
        case InputError():
            return "output", error.message
        case _:
            return "other", error.message


def _abandon(ledger: Ledger, caller: Caller, view: RunView, checkpoint_id: str, program: str) -> None:
    for lease in leases(view):
        fact = lease.record.payload
        if lease.checkpoint_id != checkpoint_id or fact.get("program", "") != program:
            continue
        if not _same_task(lease.record.origin, caller.origin):
            continue
        ended = EvaluationFailed(
            try_id=lease.try_id,
            checkpoint_id=checkpoint_id,
            checkpoint_digest=str(fact["checkpoint_digest"]),
            program=program,
            cause="abandoned",
            detail="the try left no end: its worker was lost or killed",
        )
        append(ledger, caller, view.run_uid, ended, attempt=lease.record.attempt)


def _same_task(left: Origin, right: Origin) -> bool:
    """Whether two tries are of one task: then the older one does not run any more."""
    names = ("dag_id", "dag_run_id", "task_id", "map_index")
    return all(getattr(left, name) == getattr(right, name) for name in names)
