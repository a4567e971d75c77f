"""What the workers of an attempt said of themselves: the checkpoint that each loaded, the data that each read.

Each worker's report is its own word, written once a start (see the contract in docker/trainer/contract.py). Nobody's
report stands for another's: a worker without one is named, and where nobody reported, nothing is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pretrain_archive.domain.kinds import AttemptStarted, CheckpointRegistered, EventRecorded
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView

NAMED = 5
"""How many workers a text names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reported:
    """Whether all members said the right thing (None: unrecorded), how many did, and how many there are."""

    holds: bool | None
    expected: str
    found: str
    good: int | None = None
    size: int | None = None
    records: tuple[Record, ...] = ()


def loaded_checkpoint(view: RunView, attempt: int) -> Reported:
    """Whether every worker of ``attempt`` loaded the checkpoint that it went on from, with the registered bytes."""
    started = next((s for _, s in view.all(AttemptStarted) if s.attempt == attempt), None)
    expected = "every worker loaded the checkpoint that was chosen"
    if started is not None and started.resume_step is None:
        return Reported(
            holds=True, expected=expected, found="the attempt began anew: there was nothing to load"
        )
    found = _events(view, attempt, "checkpoint_loaded")
    events = [event for _, event in found]
    size = _size([*events, *(event for _, event in _events(view, attempt, "data_read"))])
    if started is None or not events:
        return Reported(holds=None, expected=expected, found="no worker reported what it loaded", size=size)
    workers, digest = _workers(events), _digest_of(view, started)
    faults = [
        f"worker {number}: {fault}"
        for number, event in sorted(workers.items())
        if (fault := _misfit(event, started.resume_step, digest))
    ]
    good = len(workers) - len(faults)
    faults += _silent(workers, size)
    text = f"{good} of {_number(size)} workers loaded step {started.resume_step}"
    return Reported(
        holds=None if size is None else not faults, expected=expected, found=_with(text, faults), good=good, size=size,
        records=tuple(record for record, _ in found),
    )  # fmt: skip


def data_read(view: RunView, attempt: int) -> Reported:
    """Whether every worker of ``attempt`` read the same list of files and the same bytes."""
    expected = "every worker read the same list of files and the same bytes"
    found = [(r, e) for r, e in _events(view, attempt, "data_read") if "manifest_digest" in e.data]
    events = [event for _, event in found]
    workers, size = _workers(events), _size(events)
    if not workers:
        return Reported(holds=None, expected=expected, found="no worker reported what it read", size=size)
    faults = _silent(workers, size)
    good = len(workers)
    for name in ("manifest_digest", "data_digest"):
        said = {number: str(event.data.get(name)) for number, event in sorted(workers.items())}
        common = Counter(said.values()).most_common(1)[0][0]
        other = [number for number, value in said.items() if value != common]
        good = min(good, len(workers) - len(other))
        faults += [
            f"worker {number}: other {name.replace('_', ' ')} {said[number][:19]}…" for number in other
        ]
    files = next(iter(workers.values())).data.get("files")
    text = f"{good} of {_number(size)} workers read the same {files} files"
    return Reported(
        holds=None if size is None else not faults, expected=expected, found=_with(text, faults), good=good, size=size,
        records=tuple(record for record, _ in found),
    )  # fmt: skip


def _events(view: RunView, attempt: int, name: str) -> list[tuple[Record, EventRecorded]]:
    return [(r, e) for r, e in view.all(EventRecorded) if e.attempt == attempt and e.event == name]


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _workers(events: Iterable[EventRecorded]) -> dict[int, EventRecorded]:
    """The last word of each worker."""
    return {n: event for event in events if (n := _whole(event.data.get("worker"))) is not None}


def _size(events: Iterable[EventRecorded]) -> int | None:
    return max((n for e in events if (n := _whole(e.data.get("world_size")))), default=None)


def _number(size: int | None) -> str:
    return "an unrecorded number of" if size is None else str(size)


def _silent(workers: dict[int, EventRecorded], size: int | None) -> list[str]:
    return [f"worker {number}: not reported" for number in range(size or 0) if number not in workers]


def _with(text: str, faults: list[str]) -> str:
    more = f" and {len(faults) - NAMED} more" if len(faults) > NAMED else ""
    return "; ".join((text, *faults[:NAMED])) + more


def _digest_of(view: RunView, started: AttemptStarted) -> str | None:
    """The registered digest of the checkpoint that the attempt went on from."""
    kept = [c for _, c in view.all(CheckpointRegistered) if c.step == started.resume_step]
    path = started.resume_from or ""
    named = [c for c in kept if path and unquote(c.location.removeprefix("file://")) == path]
    return named[-1].digest if named else None


def _misfit(event: EventRecorded, step: int | None, digest: str | None) -> str:
    said = event.data.get("digest")
    if event.step != step:
        return f"loaded step {event.step}"
    if said and digest and said != digest:
        return f"loaded other bytes, {str(said)[:19]}… instead of {digest[:19]}…"
    return ""
