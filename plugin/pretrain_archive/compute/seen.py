"""What an attempt reported so far, and how facts about it are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pretrain_archive.compute.events import not_finite, number_of
from pretrain_archive.compute.stops_signals import LOSSES, LossTrend, Reads
from pretrain_archive.domain.identity import parse_time
from pretrain_archive.domain.kinds import BY_MODEL, Payload, StopFired
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin
from pretrain_archive.ledger.port import Ledger


@dataclass(frozen=True, kw_only=True, slots=True)
class Writer:
    """How facts about one attempt are written."""

    ledger: Ledger
    run_uid: str
    attempt: int
    actor: Actor
    origin: Origin

    def draft(
        self, payload: Payload, ordinal: int, *, edges: tuple[Edge, ...] = (), unique: str = "",
        follows: int | None = None,
    ) -> Draft:  # fmt: skip
        """A draft of this attempt."""
        return Draft(
            stream=self.run_uid,
            kind=BY_MODEL[type(payload)],
            payload=payload.to_json(),
            actor=self.actor,
            origin=self.origin,
            attempt=self.attempt,
            ordinal=ordinal,
            edges=edges,
            unique=unique,
            follows=follows,
        )


@dataclass(kw_only=True)
class WorkerSeen:
    """What one worker's wrapper reported so far.

    ``starts`` counts how often it was started in this attempt: a pod that is queued again starts anew and appends
    to the same file. ``ended`` is the end of its last start, None while that lasts or if it never came.
    ``since_previous`` are differences from what the same worker was before (None: nothing to compare with).
    """

    worker: int = 0
    environment: dict[str, Any] | None = None
    differences: list[dict[str, Any]] = field(default_factory=list)
    since_previous: list[dict[str, Any]] | None = None
    program: Mapping[str, Any] | None = None
    ended: Mapping[str, Any] | None = None
    problem: str = ""
    starts: int = 0
    said: set[str] = field(default_factory=set)
    last_heartbeat: float | None = None
    first_at: datetime | None = None
    last_at: datetime | None = None

    def start_anew(self) -> None:
        """Its wrapper was started (again): what ended before is no end of the attempt."""
        self.starts += 1
        self.ended, self.problem, self.said = None, "", set()

    def begin(self, line: str) -> bool:
        """A first line (``environment``, ``program_started``, ``not_started``) came; True if it begins another start.

        Each of them comes once a start, in either order: a slow probe is heard after the program was started.
        """
        anew = self.starts == 0 or self.ended is not None or line in self.said
        if anew:
            self.start_anew()
        self.said.add(line)
        return anew

    def heard(self, at: object) -> None:
        """The wrapper wrote a line at this time."""
        moment = _moment(at)
        if moment is None:
            return
        self.first_at = self.first_at or moment
        self.last_at = moment

    @property
    def silent_since(self) -> float | None:
        """When (``time.monotonic``) its last heartbeat was read, None before the first and after its end."""
        return None if self.ended else self.last_heartbeat


@dataclass(kw_only=True)
class Seen(WorkerSeen):
    """What an attempt reported so far: its program, worker 0 (the fields of its own), and ``others`` by index.

    ``checkpoints`` and ``last_checkpoint_step`` count verified ones only, the highest step, whatever order the
    program told them in. ``replaced`` names a file of the evidence in whose place lies something else. ``fired``
    is the stop rule that ended the job, whoever noticed it. ``expected`` is the number of workers, None where
    nobody said. ``reached`` is the highest step since worker 0 was started (again): going over steps that an earlier
    start had done is progress. ``trains`` is whether it told a metric or a checkpoint since: what comes before
    (imports, rendezvous, loading) is its start. ``progress_steps`` counts starts, first steps and each that is higher.
    """

    first_step: int | None = None
    last_step: int | None = None
    progress_steps: int = 0
    reached: int | None = None
    trains: bool = False
    last_checkpoint_step: int | None = None
    checkpoints: int = 0
    points: int = 0
    complete: bool = False
    complete_step: int | None = None
    worst_loss: tuple[int, float] | None = None
    losses: dict[str, LossTrend] = field(default_factory=dict)
    reads: Reads = field(default_factory=Reads)
    replaced: str = ""
    unusable: int = 0
    located: list[dict[str, Any]] = field(default_factory=list)
    others: dict[int, WorkerSeen] = field(default_factory=dict)
    expected: int | None = None
    fired: StopFired | None = None

    def of(self, worker: int) -> WorkerSeen:
        """What worker ``worker`` reported."""
        return self if worker == 0 else self.others.setdefault(worker, WorkerSeen(worker=worker))

    @property
    def workers(self) -> list[WorkerSeen]:
        """All workers by index: those that wrote, and those that were expected to."""
        numbers = {0, *self.others, *range(self.expected or 1)}
        return [self.of(number) for number in sorted(numbers)]

    def start_anew(self) -> None:
        """Worker 0 was started (again): the program's steps begin anew too."""
        super().start_anew()
        self.reached, self.trains = None, False
        self.progress_steps += 1

    @property
    def silent_workers(self) -> dict[int, float]:
        """Workers whose end is not known, with the moment (``time.monotonic``) of their last heartbeat."""
        return {w.worker: w.silent_since for w in self.workers if w.silent_since is not None}

    def trained(self) -> None:
        """A step of training was reported: the start is over."""
        if not self.trains:
            self.trains = True
            self.progress_steps += 1

    def step(self, step: int) -> None:
        """A step was reported."""
        self.first_step = step if self.first_step is None else min(self.first_step, step)
        if self.last_step is None or step > self.last_step:
            self.last_step = step
        if self.reached is None or step > self.reached:
            self.reached = step
            self.progress_steps += 1

    def loss(self, step: int, value: float, name: str = "loss") -> None:
        """A loss was reported; the worst one stays, and what is not finite is worse than any number."""
        if name in self.losses or len(self.losses) < LOSSES:
            self.losses.setdefault(name, LossTrend()).add(step, value)
        if self.worst_loss is None or not_finite(value) or value > self.worst_loss[1]:
            if self.worst_loss is not None and not_finite(self.worst_loss[1]):
                return
            self.worst_loss = (step, value)

    @property
    def seconds(self) -> float | None:
        """How long the attempt lasted as far as its wrappers wrote; None if none ever did."""
        alone = not self.others and self.starts <= 1
        if alone and self.ended and isinstance(self.ended.get("seconds"), int | float):
            return float(self.ended["seconds"])
        first = [w.first_at for w in self.workers if w.first_at is not None]
        last = [w.last_at for w in self.workers if w.last_at is not None]
        seconds = (max(last) - min(first)).total_seconds() if first and last else -1.0
        return seconds if seconds >= 0 else None  # a clock that went back tells nothing

    @property
    def program_ended_at(self) -> datetime | None:
        """When worker 0's program was gone, by its wrapper's clock; None while it lasts or if nobody told."""
        return _moment((self.ended or {}).get("program_ended_at"))

    def node_bytes(self, name: str) -> int | None:
        """``sent_bytes`` or ``received_bytes`` of all workers' nodes; None if one did not tell of all its time."""
        told = [_count(w.ended, name) if w.starts <= 1 else None for w in self.workers]
        known = [value for value in told if value is not None]
        return sum(known) if known and len(known) == len(told) else None

    @property
    def cpu_seconds(self) -> float | None:
        """CPU seconds of all workers; None if one did not tell."""
        told = [number_of((w.ended or {}).get("cpu_seconds")) for w in self.workers]
        known = [value for value in told if value is not None]
        return round(sum(known), 3) if len(known) == len(told) else None

    @property
    def max_rss_bytes(self) -> int | None:
        """The most memory that a process of any worker held; None if none told."""
        told = [(w.ended or {}).get("max_rss_bytes") for w in self.workers]
        return max((value for value in told if isinstance(value, int)), default=None)


def _moment(told: object) -> datetime | None:
    """A moment as a wrapper wrote it; None for anything else in its place."""
    try:
        return parse_time(told).astimezone(UTC) if isinstance(told, str) else None
    except (ValueError, OverflowError):
        return None


def _count(ended: Mapping[str, Any] | None, name: str) -> int | None:
    network = (ended or {}).get("network")
    value = network.get(name) if isinstance(network, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None
