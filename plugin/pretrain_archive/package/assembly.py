"""The folder of a package: assembled beside its place, flushed, checked by its own verifier, then renamed.

Every writer has a folder of its own. Who is second to give it its name finds the first one's package there,
which must be the same.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pretrain_archive.domain.errors import PackageError
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.verdicts import Verdict
from pretrain_archive.ledger.port import Ledger, SignedCheckpoint
from pretrain_archive.package import verify
from pretrain_archive.package.content import Content, record_path
from pretrain_archive.package.proofs import multi_proof
from pretrain_archive.package.workfolder import own_folder

SEAL_PATIENCE = 90.0
"""Seconds: the signer seals at least once a minute."""


def same_package(folder: Path, content: Content) -> None:
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


def _faults(report: dict[str, Any], content: Content) -> list[dict[str, Any]]:
    """Changed items of a report, without those that the package itself reports as changed."""
    own = {f"reference/{r.id}" for r in content.references.references if r.verdict is Verdict.CHANGED}
    return [i for i in report["items"] if i["verdict"] == verify.CHANGED and i["id"] not in own]


def assemble(
    ledger: Ledger, folder: Path, content: Content, records: Sequence[Record], *, verifier_key: str
) -> None:
    """Make ``folder``: ``content`` with the records that close it, their proofs and the signed checkpoint."""
    checkpoint = _sealed(ledger, records[-1].position)
    proofs = multi_proof(ledger, records, checkpoint)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with own_folder(folder) as temporary:
        for part in content.parts:
            _write(temporary / part.path, part.data)
        _write(temporary / "manifest.json", content.manifest)
        for record in records[content.records :]:
            _write(temporary / record_path(record), record.stored)
        _write(temporary / "proofs.json", json.dumps(proofs, separators=(",", ":"), sort_keys=True).encode())
        _write(temporary / "checkpoint.txt", checkpoint.text.encode())
        _check(temporary, content, verifier_key)
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


def _place(temporary: Path, folder: Path, content: Content) -> None:
    """Give the finished folder its name; another close that was faster must have made the same package."""
    try:
        temporary.rename(folder)
    except OSError as error:
        if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:
            raise
        same_package(folder, content)
        shutil.rmtree(temporary, ignore_errors=True)
    _flush(folder.parent)


def _check(temporary: Path, content: Content, verifier_key: str) -> None:
    """The finished folder must verify, except for what it reports itself."""
    key = verify.parse_key(verifier_key.encode()) if verifier_key else None
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
