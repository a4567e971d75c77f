"""What a package holds, made from records and store alone: the same run gives the same bytes.

A secret in it stops everything before anything is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item, Verdict
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.package.attachments import refuse_clashes
from pretrain_archive.package.crate import crate_metadata
from pretrain_archive.package.data_parts import about_data
from pretrain_archive.package.evidence import Evidence, Part, collect, pretty
from pretrain_archive.package.html import render_index
from pretrain_archive.package.items import evidence_items, worst
from pretrain_archive.package.readme import readme_text
from pretrain_archive.package.reasons import why
from pretrain_archive.package.release_parts import release_parts
from pretrain_archive.package.secrets import scan_all
from pretrain_archive.storage.port import ObjectStore

FORMAT = "pretrain-archive/package/1"
REFERENCES_FORMAT = "pretrain-archive/references/1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """Everything that the signed statement covers."""

    parts: tuple[Part, ...]
    records: int
    manifest: bytes
    references: Evidence
    verdict: Verdict

    @property
    def digest(self) -> str:
        """Of the manifest: what the record ``package.written`` names."""
        return "sha256:" + hashlib.sha256(self.manifest).hexdigest()


def record_path(record: Record) -> str:
    """Where a record's bytes lie in the package."""
    return f"records/{record.sequence:06d}-{record.kind}.json"


def make_content(store: ObjectStore, view: RunView, *, verifier_key: str, extra: tuple[Part, ...]) -> Content:
    """The content of the package of ``view``; ``RefusedError`` where it would hold a secret."""
    evidence = collect(store, view)
    items = evidence_items(view)
    verdict = worst([*(item.verdict for item in items), *(r.verdict for r in evidence.references)])
    parts = [Part(path=record_path(record), data=record.stored) for record in view.records]
    parts += [*evidence.parts, *about_data(store, view), *release_parts(view), *extra]
    parts.append(
        Part(path="evidence/items.json", data=pretty({"items": [_told(view, item) for item in items]}))
    )
    listing = {"format": REFERENCES_FORMAT, "references": [r.to_dict() for r in evidence.references]}
    parts.append(Part(path="references.json", data=pretty(listing)))
    parts.append(Part(path="verify.py", data=files(__package__).joinpath("verify.py").read_bytes()))
    parts.append(Part(path="README.txt", data=readme_text(view).encode()))
    parts.append(
        Part(path="index.html", data=render_index(view, items, evidence.references, total=len(parts) + 1))
    )
    parts.append(Part(path="ro-crate-metadata.json", data=crate_metadata(view, parts)))
    refuse_clashes(parts)
    _refuse_secrets(parts)
    return Content(
        parts=tuple(parts),
        records=len(view.records),
        manifest=_manifest(view, parts, verifier_key),
        references=evidence,
        verdict=verdict,
    )


def _told(view: RunView, item: Item) -> dict[str, Any]:
    """An item as plain JSON; if it is unrecorded, with the reason."""
    reason = why(view, item)
    return item.to_dict() | ({"reason": reason.to_dict()} if reason else {})


def _refuse_secrets(parts: Iterable[Part]) -> None:
    texts = ((part.path, part.data) for part in parts if part.path != "verify.py")
    found = sorted({str(secret) for secret in scan_all(texts)})
    if found:
        raise RefusedError(
            "the package would hold what looks like a secret",
            reasons=tuple(found),
            hint="Revoke it first: it was written down. Nothing was packaged. If it is none, change the text that "
            "looks like one where it comes from (configuration, log, report or form) and record the run anew; a "
            "record is never changed.",
        )


def _manifest(view: RunView, parts: Iterable[Part], verifier_key: str) -> bytes:
    listed = []
    for part in sorted(parts, key=lambda part: part.path):
        entry = {"path": part.path, "size": len(part.data), "sha256": hashlib.sha256(part.data).hexdigest()}
        if part.record:
            entry |= {"record": part.record, "field": part.field}
        listed.append(entry)
    return canonical_bytes(
        {
            "format": FORMAT,
            "run_uid": view.run_uid,
            "records": len(view.records),
            "verifier_key": verifier_key,
            "files": listed,
        }
    )
