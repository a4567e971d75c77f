"""Writes the package of a run: assembled beside its place, flushed, checked, then renamed into it.

Order, and why: the content is made from records and store alone, so that a retry makes the same bytes; a
secret in it stops everything before anything is written. Then the record ``package.written`` with the digest
of the content goes to the ledger, the log is signed, and proofs for every record are added. The finished
folder is checked by the very verifier that it carries. Only then it gets its name.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from pretrain_archive.domain.errors import PackageError, RefusedError
from pretrain_archive.domain.identity import Ref, path_to_text
from pretrain_archive.domain.kinds import PackageWritten
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Record, Relation
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Verdict
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.ledger.port import Ledger, SignedCheckpoint
from pretrain_archive.package import verify
from pretrain_archive.package.alone import alone_in
from pretrain_archive.package.crate import crate_metadata
from pretrain_archive.package.evidence import Evidence, Part, collect, pretty
from pretrain_archive.package.html import render_index
from pretrain_archive.package.items import evidence_items, worst
from pretrain_archive.package.proofs import multi_proof
from pretrain_archive.package.readme import readme_text
from pretrain_archive.package.secrets import scan
from pretrain_archive.storage.port import ObjectStore

FORMAT = "pretrain-archive/package/1"
REFERENCES_FORMAT = "pretrain-archive/references/1"

SEAL_PATIENCE = 90.0
"""Seconds: the signer seals at least once a minute."""

Closing = Callable[[PackageWritten], Sequence[Draft]]
"""Makes what is appended in the same transaction as ``package.written``: the close itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Writer:
    """Who writes: the task try behind the records, and the ledger's verification key as notes print it."""

    actor: Actor
    origin: Origin
    verifier_key: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Content:
    """Everything that the signed statement covers."""

    parts: tuple[Part, ...]
    records: int
    manifest: bytes
    references: Evidence
    verdict: Verdict

    @property
    def digest(self) -> str:
        return "sha256:" + hashlib.sha256(self.manifest).hexdigest()


def write_package(
    ledger: Ledger,
    store: ObjectStore,
    view: RunView,
    *,
    folder: Path,
    writer: Writer,
    closing: Closing | None = None,
    extra: Iterable[Part] = (),
    renew: bool = False,
) -> PackageWritten:
    """Write the package of ``view`` to ``folder`` and return what the ledger says of it.

    ``folder`` must not exist, or hold this very package (a retried close). ``extra`` are further evidence
    files. A retry finds its own record ``package.written`` and makes the same bytes again; what was recorded
    since is left out, unless ``renew`` asks for a further package that holds it. The recorded location is the
    absolute path as ``identity.path_to_text`` writes it. Raises ``RefusedError`` on a secret; ``PackageError``
    where another package is in the way, the run has no records, or the finished folder does not verify;
    ``AlreadyRecordedError`` where another try was faster: read the run again and repeat.
    """
    if not view.records:
        raise PackageError(f"run {view.run_uid} has no records.", hint="Name a run that the ledger knows.")
    known = None if renew else _known_statement(store, view, writer, tuple(extra))
    if known is None:
        content = _content(store, view, writer, tuple(extra))
        closed = _append_statement(ledger, view, content, folder=folder, writer=writer, closing=closing)
        records = [*view.records, *closed]
    else:
        content, records = known
    statement = next(r for r in records[::-1] if r.kind == "package.written")
    if folder.exists():
        _same_package(folder, content)
    else:
        _assemble(ledger, folder, content, records, writer)
    return PackageWritten.model_validate(statement.payload, extra="ignore")


# -- content -------------------------------------------------------------------------------------------


def record_path(record: Record) -> str:
    """Where a record's bytes lie in the package."""
    return f"records/{record.sequence:06d}-{record.kind}.json"


def _content(store: ObjectStore, view: RunView, writer: Writer, extra: tuple[Part, ...]) -> _Content:
    evidence = collect(store, view)
    items = evidence_items(view)
    verdict = worst([*(item.verdict for item in items), *(r.verdict for r in evidence.references)])
    parts = [Part(path=record_path(record), data=record.stored) for record in view.records]
    parts += [*evidence.parts, *extra]
    parts.append(Part(path="evidence/items.json", data=pretty({"items": [item.to_dict() for item in items]})))
    listing = {"format": REFERENCES_FORMAT, "references": [r.to_dict() for r in evidence.references]}
    parts.append(Part(path="references.json", data=pretty(listing)))
    parts.append(Part(path="verify.py", data=files(__package__).joinpath("verify.py").read_bytes()))
    parts.append(Part(path="README.txt", data=readme_text(view).encode()))
    parts.append(Part(path="index.html", data=render_index(view, items, evidence.references)))
    parts.append(Part(path="ro-crate-metadata.json", data=crate_metadata(view, parts)))
    _refuse_secrets(parts)
    return _Content(
        parts=tuple(parts),
        records=len(view.records),
        manifest=_manifest(view, parts, writer),
        references=evidence,
        verdict=verdict,
    )


def _refuse_secrets(parts: Iterable[Part]) -> None:
    found = sorted(
        {str(secret) for part in parts if part.path != "verify.py" for secret in scan(part.path, part.data)}
    )
    if found:
        raise RefusedError(
            "the package would hold what looks like a secret",
            reasons=tuple(found),
            hint="Revoke it, take it out of configuration or log, and record the run anew.",
        )


def _manifest(view: RunView, parts: Iterable[Part], writer: Writer) -> bytes:
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
            "verifier_key": writer.verifier_key,
            "files": listed,
        }
    )


# -- the signed statement ------------------------------------------------------------------------------


def _known_statement(
    store: ObjectStore, view: RunView, writer: Writer, extra: tuple[Part, ...]
) -> tuple[_Content, list[Record]] | None:
    """A statement that an earlier try appended, with the content that it is about, or None."""
    for at in range(len(view.records) - 1, -1, -1):
        record = view.records[at]
        if record.kind != "package.written":
            continue
        before = RunView.of(view.run_uid, view.records[:at])
        content = _content(store, before, writer, extra)
        if content.digest != record.payload["digest"]:
            return None
        after = view.records[at + 1 : at + 2]
        closed = [
            r for r in after if r.kind == "run.closed" and r.payload["package_digest"] == content.digest
        ]
        return content, [*before.records, record, *closed]
    return None


def _append_statement(
    ledger: Ledger, view: RunView, content: _Content, *, folder: Path, writer: Writer, closing: Closing | None
) -> list[Record]:
    payload = PackageWritten(
        location=path_to_text(os.fsencode(folder.resolve())),
        digest=content.digest,
        files=len(content.parts),
        total_bytes=sum(len(part.data) for part in content.parts),
        verdict=content.verdict.value,
    )
    statement = Draft(
        stream=view.run_uid,
        kind="package.written",
        payload=payload.to_json(),
        actor=writer.actor,
        origin=writer.origin,
        attempt=view.attempts,
        ordinal=sum(record.kind == "package.written" for record in view.records),
        unique=f"package:{view.run_uid}:{content.digest}",
        edges=(
            Edge(
                subject=Ref(type="package", id=view.run_uid, version=content.digest),
                relation=Relation.WAS_DERIVED_FROM,
                object=Ref(type="run", id=view.run_uid),
            ),
        ),
    )
    return ledger.append([statement, *(closing(payload) if closing else ())])


# -- the folder ----------------------------------------------------------------------------------------


def _same_package(folder: Path, content: _Content) -> None:
    """Refuse a folder that holds anything else than this package, whole and unchanged."""
    try:
        same = (folder / "manifest.json").read_bytes() == content.manifest
    except OSError:
        same = False
    if not same or _faults(verify.verify(str(folder)), content):
        raise PackageError(
            f"{folder}: something else is in the place of the package.",
            hint="Move it away; nothing was overwritten.",
        )


def _faults(report: dict[str, Any], content: _Content) -> list[dict[str, Any]]:
    """Changed items of a report, without those that the package itself reports as changed."""
    own = {f"reference/{r.id}" for r in content.references.references if r.verdict is Verdict.CHANGED}
    return [i for i in report["items"] if i["verdict"] == verify.CHANGED and i["id"] not in own]


def _assemble(
    ledger: Ledger, folder: Path, content: _Content, records: Sequence[Record], writer: Writer
) -> None:
    checkpoint = _sealed(ledger, records[-1].position)
    proofs = multi_proof(ledger, records, checkpoint)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with alone_in(folder.parent / f".{folder.name}.part") as temporary:
        if folder.exists():  # another try was faster while this one waited
            _same_package(folder, content)
            return
        for part in content.parts:
            _write(temporary / part.path, part.data)
        _write(temporary / "manifest.json", content.manifest)
        for record in records[content.records :]:
            _write(temporary / record_path(record), record.stored)
        _write(temporary / "proofs.json", json.dumps(proofs, separators=(",", ":"), sort_keys=True).encode())
        _write(temporary / "checkpoint.txt", checkpoint.text.encode())
        _check(temporary, content, writer)
        for path in sorted(p for p in temporary.rglob("*") if p.is_dir()):
            _flush(path)
        _flush(temporary)
        _place(temporary, folder, content)


def _sealed(ledger: Ledger, position: int) -> SignedCheckpoint:
    """A signed checkpoint that covers ``position``; where another process holds the key, wait for it."""
    deadline = time.monotonic() + SEAL_PATIENCE
    while (checkpoint := ledger.seal()).size <= position:
        if time.monotonic() > deadline:
            raise PackageError(
                f"the log is signed up to record {checkpoint.size}, expected more than {position}.",
                hint="Start the service that holds the signing key, then retry.",
            )
        time.sleep(1)
    return checkpoint


def _place(temporary: Path, folder: Path, content: _Content) -> None:
    """Give the finished folder its name; another try that was faster must have made the same package."""
    try:
        temporary.rename(folder)
    except OSError as error:
        if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:
            raise
        _same_package(folder, content)
        shutil.rmtree(temporary, ignore_errors=True)
    _flush(folder.parent)


def _check(temporary: Path, content: _Content, writer: Writer) -> None:
    """The finished folder must verify, except for what it reports itself."""
    key = verify.parse_key(writer.verifier_key.encode()) if writer.verifier_key else None
    faults = _faults(verify.verify(str(temporary), key=key), content)
    if faults:
        texts = "; ".join(f"{i['id']}: expected {i['expected']}, found {i['found']}" for i in faults[:5])
        raise PackageError(f"the written package does not verify: {texts}.", hint="Run ledger verify.")


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())


def _flush(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
