"""What lies outside of a run's records and is pinned by them: each location beside a digest, with a plain name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pretrain_archive.domain.kinds import track_of
from pretrain_archive.domain.records import Record, Track
from pretrain_archive.domain.run_view import RunView

QUIET = {"metrics.recorded"}
"""Kinds that are evidence but no event of their own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Bytes that a record names: where they are, under which digest, and the name of the copy."""

    record: Record
    field: str
    digest: str
    uri: str
    name: str
    access: str


NAMES = {
    ("snapshot.created", "manifest"): "snapshot-manifest.json",
    ("split.created", "split"): "split.json",
    ("processing.applied", "dropped"): "dropped-documents.jsonl",
    ("quality.reported", "report"): "quality-report.json",
    ("quality.reported", "html"): "quality-report.html",
    ("quality.reported", "validation"): "quality-validation.json",
    ("evaluation.reported", "report"): "evaluation-report.json",
    ("evaluation.reported", "page"): "evaluation-report.html",
    ("evaluation.failed", "log"): "evaluation-try.log",
    ("release.signed", "bundle"): "model-signature.json",
    ("attempt.ended", "log"): "attempt-{attempt}.log",
}
"""What a copy is called; bytes of any other kind are called after their kind and field."""

PLAIN_SUFFIX = re.compile(r"\.[a-z0-9]{1,8}")


def pinned_by(view: RunView) -> Iterator[Source]:
    """Everything outside that a record pins: each field with a location beside a field with a digest."""
    owner = (view.opened.people if view.opened else {}).get("data_owner") or "the data owner"
    for record in view.records:
        if record.kind in QUIET:
            continue
        for name, value in record.payload.items():
            stem, digest = name.removesuffix("_uri"), record.payload.get(f"{name[:-4]}_digest")
            if stem == name or not value or not isinstance(value, str) or not isinstance(digest, str):
                continue
            called = NAMES.get((record.kind, stem), _called(record.kind, stem, value))
            yield Source(
                record=record, field=f"{stem}_digest", digest=digest, uri=value,
                name=f"{record.sequence:06d}-{called.format(attempt=record.payload.get('attempt'))}",
                access=_access(record.kind, stem, owner),
            )  # fmt: skip


def _called(kind: str, stem: str, uri: str) -> str:
    """A plain name for bytes that have none in :data:`NAMES`."""
    suffix = PLAIN_SUFFIX.fullmatch(Path(urlsplit(uri).path).suffix)
    return f"{kind.replace('.', '-').replace('_', '-')}-{stem.replace('_', '-')}{suffix[0] if suffix else ''}"


def _access(kind: str, stem: str, owner: str) -> str:
    if stem == "log":
        return "operators of the platform; may hold paths and host names"
    if track_of(kind) is Track.DATA:
        return f"readers of the object store; ask {owner}"
    return "readers of the object store"
