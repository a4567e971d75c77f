"""Close attempts whose worker vanished, and count what that cost."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from pydantic import ValidationError

from pretrain_archive.compute.ending import Attempt, append_end, ended_payload
from pretrain_archive.compute.events import MAX_LINE
from pretrain_archive.compute.ingest import Ingest, OnCheckpoint
from pretrain_archive.compute.leftovers import end_leftovers
from pretrain_archive.compute.log import LogTail
from pretrain_archive.compute.outcome import conclude
from pretrain_archive.compute.seen import Writer
from pretrain_archive.compute.spec import attempt_folder
from pretrain_archive.domain.kinds import (
    AttemptEnded,
    AttemptStarted,
    ConfigurationDeclared,
    EnvironmentDeclared,
    StopFired,
)
from pretrain_archive.domain.records import Actor, Origin
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.training import target_steps
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.storage.regular import open_regular

log = logging.getLogger(__name__)

STOP_FILE = "stop.json"


def open_attempts(view: RunView) -> list[int]:
    """Attempts with a consumed launch token and no recorded end, oldest first."""
    intended = {record.attempt for record in view.records if record.kind == "launch.intended"}
    ended = {record.attempt for record in view.records if record.kind == "attempt.ended"}
    return sorted(intended - ended)


def close_lost_attempts(
    ledger: Ledger,
    view: RunView,
    work_root: Path,
    *,
    actor: Actor,
    origin: Origin,
    on_checkpoint: OnCheckpoint,
) -> list[AttemptEnded]:
    """Close every attempt that has no end: end its leftovers, read what it wrote, append how it ended.

    The evidence decides: what exited with its end marker is completed, what was asked to end is interrupted,
    else it is ``lost``. Calling it again, also at the same time, changes nothing. Raises
    ``LedgerUnavailableError`` or ``StorageError``, and may then be called again.
    """
    return [
        _close(ledger, view, attempt, work_root, actor=actor, origin=origin, on_checkpoint=on_checkpoint)
        for attempt in open_attempts(view)
    ]


def _close(
    ledger: Ledger, view: RunView, number: int, work_root: Path, *, actor: Actor, origin: Origin,
    on_checkpoint: OnCheckpoint,
) -> AttemptEnded:  # fmt: skip
    stopped = end_leftovers(view.run_uid, number)
    if stopped:
        log.warning("ended %s leftover processes of attempt %s", len(stopped), number)
    folder = attempt_folder(work_root, view.run_uid, number)
    writer = Writer(ledger=ledger, run_uid=view.run_uid, attempt=number, actor=actor, origin=origin)
    declared = view.latest(EnvironmentDeclared)
    ingest = Ingest(
        writer, status=folder / "status.jsonl", events=folder / "events.jsonl", on_checkpoint=on_checkpoint,
        declared=declared.environment if declared else None,
    )  # fmt: skip
    ingest.poll(final=True)
    tail = LogTail(path=folder / "log.txt")
    for _ in tail.blocks(final=True):
        pass
    ingest.seen.replaced = ingest.seen.replaced or tail.replaced
    attempt = _attempt(view, number)
    if fired := _fired(folder):
        ingest.stop(fired)
        ingest.flush()
    outcome = conclude(
        ingest.seen, target_steps=attempt.target_steps, checkpoint_every=attempt.checkpoint_every,
    )  # fmt: skip
    drafts = [draft for draft in (ingest.summary(),) if draft]
    # Whoever creates the job of a cluster may be doing it now: an attempt with a job on record is ended by its launch.
    return append_end(
        writer, ended_payload(attempt, outcome, ingest, tail), before=drafts, unless="job.created"
    )


def _attempt(view: RunView, number: int) -> Attempt:
    """What the ledger knows of the attempt's launch."""
    started = next((s for _, s in view.all(AttemptStarted) if s.attempt == number), None)
    declared = view.latest(ConfigurationDeclared)
    requested = (started.requested.get("accelerators") if started else None) or 0
    return Attempt(
        attempt=number,
        accelerators=declared.budget.accelerators if declared else requested,
        resume_step=started.resume_step if started else None,
        target_steps=target_steps(declared.configuration) if declared else None,
        checkpoint_every=declared.checkpoints.every_steps if declared else None,
    )


def keep_stop(folder: Path, fired: StopFired) -> None:
    """Keep a stop rule that fired beside the attempt, for a recovery, should the ledger stay out of reach.

    The folder is the program's too: the file is made new, so that no pipe or link in its place is written to.
    """
    path = folder / STOP_FILE
    try:
        path.unlink(missing_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(fired.model_dump_json())
    except OSError as error:
        log.warning("the stop rule cannot be kept beside the attempt: %s", error)


def kept_stop(folder: Path) -> StopFired | None:
    """What :func:`keep_stop` kept, None if there is nothing that can be read."""
    return _fired(folder)


def _fired(folder: Path) -> StopFired | None:
    """The stop rule that had fired and perhaps could not be written to the ledger."""
    try:
        with open_regular(folder / STOP_FILE) as file:
            return StopFired.model_validate(json.loads(file.read(MAX_LINE)))
    except (OSError, ValueError, ValidationError, RecursionError):
        return None
