"""Choose where the next attempt goes on, and compare afterwards what it did with what was there before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pretrain_archive.artifacts.verification import Unfit, search_verified
from pretrain_archive.compute.reconcile import reconcile, unreconciled
from pretrain_archive.domain.errors import AlreadyRecordedError
from pretrain_archive.domain.kinds import AttemptReconciled, CheckpointRefused, read_payload
from pretrain_archive.domain.records import Draft
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller


@dataclass(frozen=True, kw_only=True, slots=True)
class ResumePoint:
    """Where the next attempt goes on: folder and step of a checkpoint that holds now, None to begin anew.

    ``refused`` says of each newer checkpoint why it is not taken.
    """

    resume: tuple[Path, int] | None
    refused: tuple[str, ...] = ()


def resume_point(ledger: Ledger, caller: Caller, view: RunView) -> ResumePoint:
    """Read the run's checkpoints again, byte for byte, from the newest backward, until one holds.

    What was verified when it was registered may be damaged or gone by now: each that does not hold is recorded as
    refused and said on the task's log. Raises ``LedgerUnavailableError``; then nothing was chosen.
    """
    looked = search_verified(view)
    for unfit in looked.unfit:
        caller.say(f"checkpoint of {unfit.text()}; falling back to the one before it")
        _record_unfit(ledger, caller, view, unfit)
    if looked.found is not None:
        checkpoint, folder = looked.found
        resume = (folder, checkpoint.step)
    else:
        resume = None
        if looked.unfit:
            caller.say(f"none of {len(looked.unfit)} checkpoints holds: the attempt starts from step 0")
        elif view.attempts:
            caller.say("no verified checkpoint is there: the attempt starts from step 0")
    return ResumePoint(resume=resume, refused=tuple(unfit.text() for unfit in looked.unfit))


def _record_unfit(ledger: Ledger, caller: Caller, view: RunView, unfit: Unfit) -> None:
    """Record once why a registered checkpoint is not taken; the same finding is not written again."""
    kept = unfit.checkpoint
    payload = CheckpointRefused(
        location=kept.location, step=kept.step, attempt=kept.attempt,
        problems=[f"registered, and no longer so at the resume: {problem}" for problem in unfit.problems],
    )  # fmt: skip
    known = [record for record in view.records if record.kind == "checkpoint.refused"]
    if any(read_payload(record, CheckpointRefused) == payload for record in known):
        return
    ours = ledger.records(streams=[view.run_uid], kinds=["checkpoint.refused"])
    ordinal = sum(1 for r in ours if r.origin == caller.origin and r.attempt == kept.attempt)
    ledger.append([
        Draft(stream=view.run_uid, kind="checkpoint.refused", payload=payload.to_json(), actor=caller.actor,
              origin=caller.origin, attempt=kept.attempt, ordinal=ordinal)
    ])  # fmt: skip


def reconcile_ended(ledger: Ledger, caller: Caller, view: RunView) -> list[AttemptReconciled]:
    """Reconcile every ended attempt that took over from an earlier one, once, whoever comes first."""
    made = []
    for number in unreconciled(view):
        payload = reconcile(view, number)
        draft = Draft(
            stream=view.run_uid, kind="attempt.reconciled", payload=payload.to_json(), actor=caller.actor,
            origin=caller.origin, attempt=number, unique=f"attempt.reconciled/{view.run_uid}/{number}",
        )  # fmt: skip
        try:
            ledger.append([draft])
        except AlreadyRecordedError:
            continue
        made.append(payload)
        for line in _told(payload):
            caller.say(line)
    return made


def _told(done: AttemptReconciled) -> Iterable[str]:
    where = "step 0" if done.resume_step is None else f"step {done.resume_step}"
    yield (
        f"attempt {done.attempt} went on from {where}: {_known(done.steps_lost)} steps of earlier attempts were lost, "
        f"{_known(done.steps_repeated)} done again"
    )
    for check in done.checks:
        if check["verdict"] != "verified":
            yield f"after the recovery {check['name']} is {check['verdict']}: {check['found']}"


def _known(count: int | None) -> str:
    return "an unrecorded number of" if count is None else str(count)
