"""What an attempt reported so far, and how facts about it are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pretrain_archive.compute.events import not_finite
from pretrain_archive.domain.identity import parse_time
from pretrain_archive.domain.kinds import BY_MODEL, Payload
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
        self, payload: Payload, ordinal: int, *, edges: tuple[Edge, ...] = (), unique: str = ""
    ) -> Draft:
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
        )


@dataclass(kw_only=True)
class Seen:
    """What an attempt reported so far.

    ``checkpoints`` and ``last_checkpoint_step`` count verified ones only, the highest step, whatever order the
    program told them in. ``replaced`` names a file of the evidence in whose place lies something else.
    """

    first_step: int | None = None
    last_step: int | None = None
    progress_steps: int = 0
    last_checkpoint_step: int | None = None
    checkpoints: int = 0
    points: int = 0
    complete: bool = False
    complete_step: int | None = None
    worst_loss: tuple[int, float] | None = None
    environment: dict[str, Any] | None = None
    differences: list[dict[str, Any]] = field(default_factory=list)
    program: Mapping[str, Any] | None = None
    ended: Mapping[str, Any] | None = None
    problem: str = ""
    replaced: str = ""
    last_heartbeat: float | None = None
    first_at: datetime | None = None
    last_at: datetime | None = None
    unusable: int = 0
    located: list[dict[str, Any]] = field(default_factory=list)

    def step(self, step: int) -> None:
        """A step was reported."""
        self.first_step = step if self.first_step is None else min(self.first_step, step)
        if self.last_step is None or step > self.last_step:
            self.last_step = step
            self.progress_steps += 1

    def loss(self, step: int, value: float) -> None:
        """A loss was reported; the worst one stays, and what is not finite is worse than any number."""
        if self.worst_loss is None or not_finite(value) or value > self.worst_loss[1]:
            if self.worst_loss is not None and not_finite(self.worst_loss[1]):
                return
            self.worst_loss = (step, value)

    def heard(self, at: object) -> None:
        """The wrapper wrote a line at this time."""
        try:
            moment = parse_time(at) if isinstance(at, str) else None
        except ValueError:
            return
        self.first_at = self.first_at or moment
        self.last_at = moment or self.last_at

    @property
    def seconds(self) -> float | None:
        """How long the attempt lasted as far as its wrapper wrote; None if it never did."""
        if self.ended and isinstance(self.ended.get("seconds"), int | float):
            return float(self.ended["seconds"])
        if self.first_at is None or self.last_at is None:
            return None
        return (self.last_at - self.first_at).total_seconds()
