"""The last door before a process: only a consumed launch token of exactly this attempt opens it."""

from __future__ import annotations

from pretrain_archive.compute.spec import JobSpec
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.records import Record
from pretrain_archive.ledger.port import Ledger


def check_intent(spec: JobSpec, intent: Record, ledger: Ledger) -> None:
    """Fail closed: only a consumed launch token of exactly this attempt, not used yet, may start a process."""
    if (intent.kind, intent.stream, intent.attempt) != ("launch.intended", spec.run_uid, spec.attempt):
        raise RefusedError(
            "no process was started: the launch intent is not of this attempt",
            reasons=(
                f"expected launch.intended of {spec.run_uid} attempt {spec.attempt}",
                f"got {intent.kind} of {intent.stream} attempt {intent.attempt}",
            ),
            hint="Consume a launch token for this attempt first.",
        )
    names = ("launch.intended", "attempt.started", "attempt.ended")
    known = [r for r in ledger.records(streams=[spec.run_uid], kinds=names) if r.attempt == spec.attempt]
    if not any(r.kind == "launch.intended" and r.record_id == intent.record_id for r in known):
        raise RefusedError(
            "no process was started: the ledger does not hold this launch intent",
            hint="Consume a launch token for this attempt first.",
        )
    if used := [r.kind for r in known if r.kind != "launch.intended"]:
        raise RefusedError(
            f"no process was started: attempt {spec.attempt} has been used", reasons=tuple(used),
            hint="A launch token starts one process once; consume a new one for the next attempt.",
        )  # fmt: skip
