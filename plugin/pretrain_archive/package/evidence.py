"""What a package carries besides records: evidence files, and references to what is not copied.

Small reports are copied byte for byte and re-hashed against the digest that their record names. Data and
checkpoints stay where they are: a reference tells digest, size, location and who may look. Bytes that no
longer fit their digest are never copied: the reference says *changed*, with what was found.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

from pretrain_archive.artifacts.location import to_path
from pretrain_archive.domain import cost, kinds
from pretrain_archive.domain.errors import StorageError
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Verdict
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.package.holdings import INVENTORY_FORMAT, artifacts, inventory
from pretrain_archive.package.openlineage import lineage_lines
from pretrain_archive.package.pinned import QUIET, Source, pinned_by
from pretrain_archive.package.tries import attempts_of, tries_of
from pretrain_archive.storage.port import ObjectStore

COPY_LIMIT = 4 << 20
"""Bytes: a larger object is referenced, not copied."""
BLOCK = 1 << 20
ATTEMPTS_FORMAT = "pretrain-archive/attempts/1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A file of the package; ``record`` and ``field`` say which record names its digest, empty if none.

    ``source`` is where the bytes came from, for people.
    """

    path: str
    data: bytes
    record: str = ""
    field: str = ""
    source: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """Something that is not copied: digest, location and access boundary (R009, R221)."""

    id: str
    record: str
    field: str
    digest: str
    location: str
    size: int | None
    access: str
    verdict: Verdict
    check: str
    found: str = ""
    files: tuple[dict[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The reference as plain JSON."""
        return {
            "id": self.id,
            "record": self.record,
            "field": self.field,
            "digest": self.digest,
            "location": self.location,
            "size": self.size,
            "access": self.access,
            "verdict": self.verdict.value,
            "check": self.check,
            "found": self.found,
            "files": list(self.files),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What was gathered."""

    parts: tuple[Part, ...]
    references: tuple[Reference, ...]


@dataclass(kw_only=True, slots=True)
class _Collector:
    store: ObjectStore
    parts: list[Part] = field(default_factory=list)
    references: list[Reference] = field(default_factory=list)

    def take(self, source: Source) -> None:
        """Copy small bytes that fit their digest; refer to the rest."""
        size, found, data = _read(self.store, source.uri)
        where = f"evidence/{source.name}"
        if found == source.digest and data is not None:
            record = source.record.record_id
            self.parts.append(
                Part(path=where, data=data, record=record, field=source.field, source=source.uri)
            )
            return
        if found is None:
            verdict, check = Verdict.UNRECORDED, "the location could not be read when the package was written"
        elif found == source.digest:
            verdict, check = (
                Verdict.VERIFIED,
                "read and hashed when the package was written; too large to copy",
            )
        else:
            verdict, check = Verdict.CHANGED, "read and hashed when the package was written"
        self.references.append(
            Reference(
                id=source.name,
                record=source.record.record_id,
                field=source.field,
                digest=source.digest,
                location=source.uri,
                size=size,
                access=source.access,
                verdict=verdict,
                check=check,
                found=found or "",
            )
        )


def collect(store: ObjectStore, view: RunView) -> Evidence:
    """Gather evidence and references of a run; reads the store, writes nothing."""
    collector = _Collector(store=store)
    for source in pinned_by(view):
        collector.take(source)
    collector.references += _checkpoints(view)
    collector.parts += _derived(view)
    return Evidence(parts=tuple(collector.parts), references=tuple(collector.references))


def _checkpoints(view: RunView) -> Iterator[Reference]:
    gone = {p.ref.partition(":")[2] for _, p in view.all(kinds.TombstoneWritten) if not p.parts}
    for record, checkpoint in view.all(kinds.CheckpointRegistered):
        deleted = checkpoint.checkpoint_id in gone
        yield Reference(
            id=f"checkpoint-{checkpoint.checkpoint_id}",
            record=record.record_id,
            field="digest",
            digest=checkpoint.digest,
            location="" if deleted else checkpoint.location,
            size=sum(file.size for file in checkpoint.files),
            access=f"{checkpoint.artifact_class} class; ask {checkpoint.responsible}",
            verdict=Verdict.VERIFIED,
            check="deleted by policy, tombstone in the records"
            if deleted
            else "every file hashed at registration",
            files=tuple(
                file.model_dump(mode="json", include={"path", "size", "sha256"}) for file in checkpoint.files
            ),
        )


def _derived(view: RunView) -> Iterator[Part]:
    """Files made from records: for people and tools, each with the same content as the records."""
    declared, environment = view.last(kinds.ConfigurationDeclared), view.last(kinds.EnvironmentDeclared)
    if declared:
        yield Part(
            path="evidence/configuration.json", data=canonical_bytes(declared[0].payload["configuration"])
        )
    if environment:
        yield Part(
            path="evidence/environment.json", data=canonical_bytes(environment[0].payload["environment"])
        )
    yield Part(path="evidence/timeline.json", data=pretty({"events": timeline(view)}))
    yield Part(path="evidence/cost.json", data=pretty(cost.document(cost.account(view))))
    yield Part(path="evidence/metrics.csv", data=metrics_csv(view))
    yield Part(
        path="evidence/inventory.json", data=pretty({"format": INVENTORY_FORMAT, "kinds": inventory(view)})
    )
    yield Part(path="evidence/artifacts.json", data=pretty(artifacts(view)))
    yield Part(path="evidence/lineage.jsonl", data=lineage_lines(view, closing=True))
    tried = {
        "attempts": [row.to_dict() for row in attempts_of(view)],
        "tries": [t.to_dict() for t in tries_of(view)],
    }
    yield Part(path="evidence/attempts.json", data=pretty({"format": ATTEMPTS_FORMAT, **tried}))


def pretty(value: Any) -> bytes:
    """JSON for people: indented, sorted, UTF-8, one newline at the end."""
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def timeline(view: RunView) -> list[dict[str, Any]]:
    """What happened, oldest first: time, kind, attempt, who, and the record behind it."""
    return [
        {
            "at": record.recorded_at,
            "kind": record.kind,
            "attempt": record.attempt or None,
            "who": record.actor.name,
            "actor": record.actor.type,
            "record": record.record_id,
            "sequence": record.sequence,
        }
        for record in view.records
        if record.kind not in QUIET
    ]


def metrics_csv(view: RunView) -> bytes:
    """Every metric point as the program reported it; an empty value is explained by ``not_finite``."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["attempt", "name", "step", "tokens", "value", "not_finite", "at"])
    for _, batch in view.all(kinds.MetricsRecorded):
        for p in batch.points:
            value = "" if p.value is None else repr(p.value)
            writer.writerow([batch.attempt, p.name, p.step, p.tokens, value, p.not_finite, p.at or ""])
    return out.getvalue().encode("utf-8", "backslashreplace")


def _read(store: ObjectStore, uri: str) -> tuple[int | None, str | None, bytes | None]:
    """(size, digest, bytes if small) of what a location holds; all None where it cannot be read."""
    try:
        with _open(store, uri) as handle:
            digest, size, kept = hashlib.sha256(), 0, bytearray()
            while block := handle.read(BLOCK):
                digest.update(block)
                size += len(block)
                if size <= COPY_LIMIT:
                    kept += block
    except (OSError, StorageError):
        return None, None, None
    return size, f"sha256:{digest.hexdigest()}", bytes(kept) if size <= COPY_LIMIT else None


def _open(store: ObjectStore, uri: str) -> BinaryIO:
    prefix = store.location("x")[:-1]
    if uri.startswith(prefix):
        return store.open(unquote(uri[len(prefix) :]))
    path = to_path(uri)
    if path is not None:
        return Path(path).open("rb")
    return store.open(uri)
