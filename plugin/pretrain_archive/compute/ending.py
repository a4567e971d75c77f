"""The record of an attempt's end, written once in the ledger whoever comes first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pretrain_archive.compute.ingest import Ingest
from pretrain_archive.compute.log import LogTail
from pretrain_archive.compute.outcome import Outcome
from pretrain_archive.compute.seen import Writer
from pretrain_archive.domain.errors import (
    AlreadyRecordedError,
    LedgerError,
    StillRunningError,
    StreamMovedError,
)
from pretrain_archive.domain.identity import format_time
from pretrain_archive.domain.kinds import AttemptEnded, read_payload
from pretrain_archive.domain.records import Draft, Record


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """What must be known of an attempt to tell how it ended."""

    attempt: int
    accelerators: int
    resume_step: int | None
    target_steps: int | None
    checkpoint_every: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeats:
    """Work that is lost or done again. ``last_step`` is the highest step that earlier attempts reached.

    ``steps_lost`` were done after the last verified checkpoint; ``steps_repeated`` are those that a next attempt
    from ``resume_step`` does again. None where no earlier attempt reported a step.
    """

    last_step: int | None
    resume_step: int | None
    steps_lost: int | None
    steps_repeated: int | None


def repeats_of(
    ends: Iterable[AttemptEnded], resume_step: int | None, *, before: int | None = None
) -> Repeats:
    """Count lost and repeated steps of the attempts ``ends`` (those numbered below ``before``). Pure."""
    done = [end for end in ends if before is None or end.attempt < before]
    steps = [end.last_step for end in done if end.last_step is not None]
    saved = [end.last_checkpoint_step for end in done if end.last_checkpoint_step is not None]
    if not steps:
        return Repeats(last_step=None, resume_step=resume_step, steps_lost=None, steps_repeated=None)
    return Repeats(
        last_step=max(steps),
        resume_step=resume_step,
        steps_lost=max(0, max(steps) - max(saved, default=0)),
        steps_repeated=max(0, max(steps) - (resume_step or 0)),
    )


def ended_payload(attempt: Attempt, outcome: Outcome, ingest: Ingest, tail: LogTail) -> AttemptEnded:
    """The record of an attempt's end from everything that was seen of it."""
    seen = ingest.seen
    seconds = seen.seconds
    by_log = seen.last_step is None and tail.last_step is not None
    last = tail.last_step if by_log else seen.last_step
    saved = seen.last_checkpoint_step if seen.last_checkpoint_step is not None else attempt.resume_step
    return AttemptEnded(
        attempt=attempt.attempt,
        state=outcome.state,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        reason=outcome.reason + (f" (step {last} by the log alone)" if by_log else ""),
        first_step=seen.first_step,
        last_step=last,
        last_checkpoint_step=seen.last_checkpoint_step,
        steps_repeated=_repeated(attempt, ingest),
        steps_lost=None if last is None else max(0, last - (saved or 0)),
        seconds=seconds,
        accelerator_seconds=None if seconds is None else round(seconds * attempt.accelerators, 3),
        cpu_seconds=seen.cpu_seconds,
        max_rss_bytes=seen.max_rss_bytes,
        log_uri=tail.path.absolute().as_uri() if tail.path.exists() else None,
        log_digest=tail.digest(),
        log_bad_bytes=tail.bad_bytes,
        began_at=format_time(seen.first_at) if seen.first_at else None,
        ended_at=format_time(seen.last_at) if seen.last_at else None,
        program_ended_at=format_time(seen.program_ended_at) if seen.program_ended_at else None,
        node_sent_bytes=seen.node_bytes("sent_bytes"),
        node_received_bytes=seen.node_bytes("received_bytes"),
    )


def _repeated(attempt: Attempt, ingest: Ingest) -> int | None:
    """Steps of this attempt that an earlier one had done; None if none is on record."""
    last = ingest.seen.last_step
    repeats = repeats_of(_ends(ingest.writer), attempt.resume_step, before=attempt.attempt)
    if repeats.last_step is None or last is None:
        return None
    return max(0, min(last, repeats.last_step) - (attempt.resume_step or 0))


def _ends(writer: Writer) -> list[AttemptEnded]:
    records = writer.ledger.records(streams=[writer.run_uid], kinds=["attempt.ended"])
    return [read_payload(record, AttemptEnded) for record in records]


def append_end(
    writer: Writer, payload: AttemptEnded, *, before: Iterable[Draft] = (), unless: str = ""
) -> AttemptEnded:
    """Append the end after ``before``; if another process was first, its record is the answer.

    ``unless`` is a kind of record that forbids this end: ``StillRunningError`` if the attempt has one at the very
    moment of the append.
    """
    key = f"attempt.ended/{writer.run_uid}/{writer.attempt}"
    for draft in before:
        writer.ledger.append([draft])
    try:
        stored = _append_unless(writer, payload, key, unless)
    except AlreadyRecordedError:
        known = [end for end in _ends(writer) if end.attempt == writer.attempt]
        if not known:
            raise LedgerError(
                f"the end of attempt {writer.attempt} of {writer.run_uid} is taken but not on record.",
                hint="Check the ledger with: pretrain-archive ledger verify",
            ) from None
        return known[0]
    return read_payload(stored[0], AttemptEnded)


def _append_unless(writer: Writer, payload: AttemptEnded, key: str, unless: str) -> list[Record]:
    while True:
        newest = None
        for record in writer.ledger.records(streams=[writer.run_uid]) if unless else ():
            newest = record.sequence
            if (record.kind, record.attempt) == (unless, writer.attempt):
                raise StillRunningError(
                    f"attempt {writer.attempt} of {writer.run_uid} got its {unless} meanwhile: it is not closed.",
                    hint="Run the task again: it follows what is there.",
                )
        try:
            return writer.ledger.append([writer.draft(payload, 0, unique=key, follows=newest)])
        except StreamMovedError:
            continue
