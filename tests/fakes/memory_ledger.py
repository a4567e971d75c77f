"""A ledger in memory: the port's promises without a database, with real proofs and a real signature."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pretrain_archive.domain import merkle
from pretrain_archive.domain.errors import AlreadyRecordedError, IdempotencyConflictError, StreamMovedError
from pretrain_archive.domain.identity import Ref, new_id, utc_now
from pretrain_archive.domain.records import FORMAT, Draft, Edge, Record
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.ledger.port import Attested, Direction, RunQuery, RunRow, SignedCheckpoint, Trace


class MemoryLedger:
    """Keeps records in a list; ``clock`` and ``ids`` can be replaced for equal bytes in two runs."""

    origin = "pretrain-archive.test/ledger"

    def __init__(
        self,
        *,
        seed: bytes = b"\x07" * 32,
        clock: Callable[[], str] = utc_now,
        ids: Callable[[str], str] = new_id,
    ) -> None:
        self.log: list[Record] = []
        self._keys: dict[str, Record] = {}
        self._unique: dict[str, Record] = {}
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self._clock = clock
        self._ids = ids

    @property
    def public_key(self) -> bytes:
        """The raw 32 bytes of the verification key."""
        return self._key.public_key().public_bytes_raw()

    def verifier_key(self) -> str:
        """The key as signed notes print it: name, key hash, algorithm byte and key."""
        body = base64.b64encode(bytes([1]) + self.public_key).decode()
        return f"{self.origin}+{self._key_hash().hex()}+{body}"

    def append(self, drafts: Sequence[Draft]) -> list[Record]:
        """Append in order; a known idempotency key gives the known record."""
        for draft in drafts:
            taken = self._unique.get(draft.unique) if draft.unique else None
            if taken is not None and draft.idempotency_key() not in self._keys:
                raise AlreadyRecordedError(f"{draft.unique} is taken", record_id=taken.record_id)
        return [self._append_one(draft) for draft in drafts]

    def _append_one(self, draft: Draft) -> Record:
        known = self._keys.get(draft.idempotency_key())
        if known is not None:
            if canonical_bytes(dict(known.payload)) != canonical_bytes(dict(draft.payload)):
                raise IdempotencyConflictError("other content under the same key")
            return known
        stream = [record for record in self.log if record.stream == draft.stream]
        if draft.follows is not None and draft.follows != len(stream) - 1:
            raise StreamMovedError(f"{draft.stream} moved on")
        body = {
            "format": FORMAT,
            "record_id": self._ids("rec"),
            "stream": draft.stream,
            "sequence": len(stream),
            "previous": stream[-1].leaf if stream else "",
            "kind": draft.kind,
            "schema_version": draft.schema_version,
            "attempt": draft.attempt,
            "ordinal": draft.ordinal,
            "payload": json.loads(canonical_bytes(dict(draft.payload))),
            "actor": {"type": draft.actor.type, "name": draft.actor.name},
            "origin": {
                "dag_id": draft.origin.dag_id,
                "dag_run_id": draft.origin.dag_run_id,
                "task_id": draft.origin.task_id,
                "map_index": draft.origin.map_index,
                "try_number": draft.origin.try_number,
            },
            "recorded_at": self._clock(),
            "edges": [edge.to_dict() for edge in draft.edges],
            "unique": draft.unique,
        }
        stored = canonical_bytes(body)
        record = Record.from_body(
            body, position=len(self.log), stored=stored, leaf=merkle.leaf_hash(stored).hex()
        )
        self.log.append(record)
        self._keys[draft.idempotency_key()] = record
        if draft.unique:
            self._unique[draft.unique] = record
        return record

    def records(
        self,
        *,
        streams: Collection[str] | None = None,
        kinds: Collection[str] = (),
        after: int = -1,
        limit: int | None = None,
    ) -> Iterator[Record]:
        """Yield records by position, oldest first."""
        found = (
            record
            for record in list(self.log)
            if record.position > after
            and (streams is None or record.stream in streams)
            and (not kinds or record.kind in kinds)
        )
        for number, record in enumerate(found):
            if limit is not None and number >= limit:
                return
            yield record

    def bodies(
        self, *, kinds: Collection[str], after: int = -1, fields: Mapping[str, Sequence[str]] | None = None
    ) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Position and whole body of records, oldest first."""
        del fields
        for record in self.records(kinds=kinds, after=after):
            yield record.position, record.body()

    def links(
        self, object_type: str, *, subject_type: str = "", after: int = -1
    ) -> Iterator[tuple[str, str, str]]:
        """The edges to things of a type."""
        for record in self.records(after=after):
            for edge in record.edges:
                if edge.object.type == object_type and subject_type in {"", edge.subject.type}:
                    yield str(edge.subject), str(edge.object), record.stream

    def runs(self, query: RunQuery) -> list[RunRow]:
        """Every run, newest first; the query is not applied here."""
        return [
            RunRow(
                run_uid=record.stream,
                position=record.position,
                project=str(record.payload["project"]),
                dag_id=str(record.payload["dag_id"]),
                dag_run_id=str(record.payload["dag_run_id"]),
                submitter=str(record.payload["submitter"]),
                objective=str(record.payload["purpose"]["objective"]),
                opened_at=record.recorded_at,
            )
            for record in reversed(self.log)
            if record.kind == "run.opened"
        ][: query.limit]

    def trace(
        self, start: Ref, *, direction: Direction, as_of: str | None = None, max_nodes: int = 5000
    ) -> Trace:
        """Not needed by the package's tests: always empty."""
        del as_of, max_nodes
        return Trace(start=start, direction=direction)

    def seal(self) -> SignedCheckpoint:
        """Sign the tree as it is now."""
        return self.sign_root(
            len(self.log), merkle.root_of(bytes.fromhex(record.leaf) for record in self.log)
        )

    def sign_root(self, size: int, root: bytes) -> SignedCheckpoint:
        """Sign any root: for trees that are too large to be kept here."""
        text = f"{self.origin}\n{size}\n{base64.b64encode(root).decode()}\n"
        signature = self._key_hash() + self._key.sign(text.encode())
        note = f"{text}\n— {self.origin} {base64.b64encode(signature).decode()}\n"
        return SignedCheckpoint(
            origin=self.origin,
            size=size,
            root=root.hex(),
            signer=self.origin,
            key_id=self._key_hash().hex(),
            text=note,
        )

    def proofs(self, positions: Sequence[int], *, size: int) -> dict[int, list[str]]:
        """The inclusion proof of each position."""
        read = merkle.subtree_reader([bytes.fromhex(record.leaf) for record in self.log[:size]])
        return {
            position: [node.hex() for node in merkle.inclusion_proof(read, position, size)]
            for position in positions
        }

    def lineage(self, starts: Sequence[Ref], *, max_nodes: int) -> tuple[tuple[Edge, ...], bool]:
        """Not needed by the package's tests: always empty."""
        del starts, max_nodes
        return (), True

    def newest_time(self, *, after: int) -> str | None:
        """The latest time behind a position."""
        return max((record.recorded_at for record in self.log[after + 1 :]), default=None)

    def attest(self) -> Attested:
        """It has no anchors."""
        return Attested()

    def _key_hash(self) -> bytes:
        return hashlib.sha256(self.origin.encode() + b"\n" + bytes([1]) + self.public_key).digest()[:4]
