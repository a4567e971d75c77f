"""What a plan judges, and who finds it: checkpoints, snapshots, temporary data, caches, leftovers, logs.

A subject is what is known of something whose bytes may still exist, from records and from a look at it. Whoever
finds subjects of other kinds than checkpoints is a :class:`SubjectSource`; it never decides what may go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from pretrain_archive.retention.world import World

SubjectKind = Literal["checkpoint", "snapshot", "temporary", "cache", "leftover", "log"]

KINDS: tuple[SubjectKind, ...] = ("checkpoint", "snapshot", "temporary", "cache", "leftover", "log")
"""Every kind of subject that a policy can have a rule for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """Why a subject stays, and by what (a reference, a policy field, a state); ``code`` is the kind of reason."""

    reason: str
    by: str
    code: str = "live"


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A thing whose bytes may still exist.

    ``ref`` is its reference (``checkpoint:ID``, ``snapshot:NAME@VERSION``; of other kinds ``KIND:NAME``, stable
    over plans). ``registered_at`` is when the ledger first knew it (RFC 3339, UTC), ``last_used_at`` when it was last
    read as far as recorded, else empty. ``parts`` are bytes by component. ``metrics`` are the values of its newest
    evaluation by name. ``run_uid`` may be empty for what belongs to no run; ``run_state`` is that of the run view,
    ``none`` without one. ``group`` are those among which the last and the best are counted; empty is the run.
    ``live`` says what needs its bytes, ``replaced_by`` names a later artifact at the same location, ``gaps`` is
    missing evidence: it blocks. ``missing``: looked for, and gone; ``partial``: some of it is gone. ``gone_parts`` were
    deleted before. ``position`` is that of its registration in the log.
    """

    ref: str
    kind: SubjectKind = "checkpoint"
    artifact_class: str
    purpose: str = ""
    project: str
    run_uid: str
    step: int = 0
    attempt: int = 0
    registered_at: str
    last_used_at: str = ""
    size: int
    parts: Mapping[str, int] = field(default_factory=dict)
    location: str
    digest: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    metrics_of: str = ""
    responsible: str = ""
    run_state: str = "closed"
    group: str = ""
    live: tuple[Kept, ...] = ()
    replaced_by: str = ""
    missing: bool = False
    partial: bool = False
    gaps: tuple[str, ...] = ()
    gone_parts: tuple[str, ...] = ()
    position: int = -1

    @property
    def present_size(self) -> int:
        """The bytes that are there as far as known: none of what is missing, nor of parts that were deleted."""
        if self.missing:
            return 0
        if not self.gone_parts:
            return self.size
        return self.size - sum(self.parts.get(part, 0) for part in self.gone_parts)

    @property
    def order(self) -> tuple[int, int]:
        """Place in the run: attempt, then step, as numbers."""
        return (self.attempt, self.step)


class _Filling:
    """The same slots without the guard: see :func:`filled_subject`."""

    __slots__ = tuple(f.name for f in fields(Subject))


_NO_METRICS: Mapping[str, float] = {}


def filled_subject(  # noqa: PLR0917 - the fields of a record, in their order
    ref: str, artifact_class: str, purpose: str, project: str, run_uid: str, step: int, attempt: int,
    registered_at: str, size: int, parts: Mapping[str, int], location: str, digest: str, responsible: str,
    position: int,
) -> Subject:  # fmt: skip
    """A checkpoint as its registration tells it, of a closed run.

    A frozen dataclass stores each field through ``object.__setattr__``: that takes twenty times as long as a slot and
    a million subjects four seconds. Here the slots are filled in a class of the same layout, which then becomes this
    one. A test holds it against the constructor.
    """
    made: Any = _Filling()
    made.ref, made.kind, made.artifact_class, made.purpose = ref, "checkpoint", artifact_class, purpose
    made.project, made.run_uid, made.step, made.attempt = project, run_uid, step, attempt
    made.registered_at, made.last_used_at, made.size, made.parts = registered_at, "", size, parts
    made.location, made.digest, made.metrics, made.metrics_of = location, digest, _NO_METRICS, ""
    made.responsible, made.run_state, made.group = responsible, "closed", ""
    made.live = made.gaps = made.gone_parts = ()
    made.replaced_by, made.missing, made.partial, made.position = "", False, False, position
    made.__class__ = Subject
    found: Subject = made
    return found


class SubjectSource(Protocol):
    """Finds subjects of one or more kinds other than checkpoints.

    ``find`` looks at places and records and deletes nothing. What cannot be told (an unreadable folder, an
    unknown run) is a subject with ``gaps``, never left out and never guessed. The plan adds ``live`` from the ledger.
    """

    def find(self, world: World) -> Iterable[Subject]:
        """Every subject there is now, in any order; may be streamed."""
