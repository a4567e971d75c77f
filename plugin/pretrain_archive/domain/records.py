"""The immutable fact in the ledger, the relation between two things, and who wrote it.

A :class:`Draft` is what a writer hands in; a :class:`Record` is what the ledger keeps. The stored bytes of a
record are the canonical JSON (RFC 8785) of :meth:`Record.body`: they are the leaf of the Merkle tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from pretrain_archive.domain.identity import Ref

FORMAT = "pretrain-archive/record/1"


class Relation(StrEnum):
    """Relations of W3C PROV-O (https://www.w3.org/TR/prov-o/), read subject → object."""

    USED = "used"
    WAS_GENERATED_BY = "was_generated_by"
    WAS_DERIVED_FROM = "was_derived_from"
    WAS_ASSOCIATED_WITH = "was_associated_with"
    WAS_ATTRIBUTED_TO = "was_attributed_to"
    WAS_INVALIDATED_BY = "was_invalidated_by"


class Track(StrEnum):
    """Where a record belongs."""

    DATA = "data"
    COMPUTE = "compute"
    ARTIFACT = "artifact"
    GATES = "gates"


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """A PROV relation between two things at pinned versions; every subject points to what it rests on."""

    subject: Ref
    relation: Relation
    object: Ref

    def to_dict(self) -> dict[str, str]:
        """The edge as three strings."""
        return {"subject": str(self.subject), "relation": self.relation.value, "object": str(self.object)}

    @classmethod
    def from_dict(cls, data: Mapping[str, str]) -> Self:
        """Read what :meth:`to_dict` wrote."""
        return cls(
            subject=Ref.parse(data["subject"]),
            relation=Relation(data["relation"]),
            object=Ref.parse(data["object"]),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Actor:
    """Who stands behind a record: an authenticated ``person``, or a ``task``, ``service`` or ``cli`` process."""

    type: str
    name: str

    def __post_init__(self) -> None:
        if self.type not in {"person", "task", "service", "cli"} or not self.name:
            raise ValueError(
                f"an actor is a named person, task, service or cli, got {self.type!r} {self.name!r}"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """The task try that wrote a record. Outside Airflow: dag_id ``cli``, dag_run_id a fresh id per call."""

    dag_id: str
    dag_run_id: str
    task_id: str
    map_index: int = -1
    try_number: int = 1


UNRECORDED_FIELDS = frozenset({"follows", "beside"})
"""What a draft asks of the log and no record keeps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A fact to be appended.

    ``stream`` is the run's uid, ``project/NAME``, ``data/NAME``, ``source/ID`` (what is
    recorded of a source outside of runs) or ``ledger``. ``attempt`` is 0 before the
    first launch. A retried write with the same stream, attempt, origin, kind and ordinal is the same fact.
    ``unique`` is a key that may be taken once in the whole ledger (a launch, a close). ``follows`` is the
    sequence of the newest record of the stream that the writer has seen: if the stream has moved on, nothing is
    written, so that what was checked is what holds. ``beside`` says the same of other streams (-1: none was there).
    """

    stream: str
    kind: str
    payload: Mapping[str, Any]
    actor: Actor
    origin: Origin
    attempt: int = 0
    ordinal: int = 0
    edges: tuple[Edge, ...] = ()
    unique: str = ""
    schema_version: int = 1
    follows: int | None = None
    beside: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.stream or not self.kind or self.attempt < 0 or self.ordinal < 0:
            raise ValueError(f"a draft needs stream and kind, got {self.stream!r} {self.kind!r}")

    def idempotency_key(self) -> str:
        """The key under which a retried write is found again."""
        o = self.origin
        parts = (
            self.stream,
            self.attempt,
            o.dag_id,
            o.dag_run_id,
            o.task_id,
            o.map_index,
            o.try_number,
            self.kind,
            self.ordinal,
        )
        return "\x1f".join(str(part) for part in parts)


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A fact as the ledger keeps it.

    ``position`` is the leaf's index in the tree (from 0); ``sequence`` the place in its stream (from 0);
    ``previous`` the hex leaf hash of the record before it in the stream, empty for the first;
    ``stored`` the exact bytes that were hashed and ``leaf`` their hex leaf hash.
    """

    record_id: str
    position: int
    stream: str
    sequence: int
    previous: str
    kind: str
    schema_version: int
    attempt: int
    ordinal: int
    payload: Mapping[str, Any]
    actor: Actor
    origin: Origin
    recorded_at: str
    edges: tuple[Edge, ...] = ()
    unique: str = ""
    stored: bytes = field(default=b"", repr=False)
    leaf: str = ""

    def body(self) -> dict[str, Any]:
        """The JSON document that is stored and hashed; position and hash are outside it."""
        return {
            "format": FORMAT,
            "record_id": self.record_id,
            "stream": self.stream,
            "sequence": self.sequence,
            "previous": self.previous,
            "kind": self.kind,
            "schema_version": self.schema_version,
            "attempt": self.attempt,
            "ordinal": self.ordinal,
            "payload": dict(self.payload),
            "actor": {"type": self.actor.type, "name": self.actor.name},
            "origin": {
                "dag_id": self.origin.dag_id,
                "dag_run_id": self.origin.dag_run_id,
                "task_id": self.origin.task_id,
                "map_index": self.origin.map_index,
                "try_number": self.origin.try_number,
            },
            "recorded_at": self.recorded_at,
            "edges": [edge.to_dict() for edge in self.edges],
            "unique": self.unique,
        }

    @classmethod
    def from_body(cls, body: Mapping[str, Any], *, position: int, stored: bytes, leaf: str) -> Self:
        """Read a stored body; raises ``KeyError`` or ``ValueError`` where it is not one."""
        if body["format"] != FORMAT:
            raise ValueError(f"unknown record format {body['format']!r}, expected {FORMAT!r}")
        return cls(
            position=position,
            stored=stored,
            leaf=leaf,
            actor=Actor(**body["actor"]),
            origin=Origin(**body["origin"]),
            edges=tuple(Edge.from_dict(edge) for edge in body["edges"]),
            **{
                name: body[name]
                for name in (
                    "record_id",
                    "stream",
                    "sequence",
                    "previous",
                    "kind",
                    "schema_version",
                    "attempt",
                    "ordinal",
                    "payload",
                    "recorded_at",
                    "unique",
                )
            },
        )
