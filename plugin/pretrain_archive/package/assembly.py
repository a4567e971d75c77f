"""The folder of a package: assembled beside its place, flushed, checked by its own verifier, then renamed.

Every writer has a folder of its own. Who is second to give it its name finds the first one's package there,
which must be the same.
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pretrain_archive.domain.errors import PackageError
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.verdicts import Verdict
from pretrain_archive.ledger.port import Ledger, SignedCheckpoint
from pretrain_archive.package import verify
from pretrain_archive.package.content import Content, record_path
from pretrain_archive.package.flushing import flush_files, flush_folder
from pretrain_archive.package.proofs import multi_proof
from pretrain_archive.package.workfolder import own_folder

SEAL_PATIENCE = 90.0
"""Seconds: the signer seals at least once a minute."""
SAY_EVERY = 5.0
"""Seconds between two lines of progress."""


def _silent(_line: str) -> None:
    """Progress that nobody reads."""


def same_package(folder: Path, content: Content) -> None:
    """Refuse a folder that holds anything else than this package, whole and unchanged."""
    try:
        same = (folder / "manifest.json").read_bytes() == content.manifest
    except OSError:
        same = False
    if not same or _faults(verify.verify(str(folder)), content):
        raise _in_the_way(folder)


def standing_package(folder: Path, digest: str) -> bool:
    """Whether ``folder`` holds the package whose manifest has ``digest``, whole and unchanged.

    Asked before anything is made anew: another release of this program makes other bytes of the same records, and
    what was signed stays what it is. Raises :class:`PackageError` where that manifest stands over other files.
    """
    try:
        manifest = (folder / "manifest.json").read_bytes()
    except OSError:
        return False
    if "sha256:" + hashlib.sha256(manifest).hexdigest() != digest:
        return False
    report = verify.verify(str(folder))
    changed = {item["id"] for item in report["items"] if item["verdict"] == verify.CHANGED}
    if changed:
        listed = json.loads((folder / "references.json").read_bytes())["references"]
        changed -= {f"reference/{entry['id']}" for entry in listed if entry["verdict"] == verify.CHANGED}
    if changed:
        raise _in_the_way(folder)
    return True


def _in_the_way(folder: Path) -> PackageError:
    return PackageError(
        f"{folder}: something else is in the place of the package.",
        hint="Move it away; nothing was overwritten.",
    )


def _faults(report: dict[str, Any], content: Content) -> list[dict[str, Any]]:
    """Changed items of a report, without those that the package itself reports as changed."""
    own = {f"reference/{r.id}" for r in content.references.references if r.verdict is Verdict.CHANGED}
    return [i for i in report["items"] if i["verdict"] == verify.CHANGED and i["id"] not in own]


def assemble(
    ledger: Ledger,
    folder: Path,
    content: Content,
    records: Sequence[Record],
    *,
    verifier_key: str,
    say: Callable[[str], None] = _silent,
) -> None:
    """Make ``folder``: ``content`` with the records that close it, their proofs and the signed checkpoint.

    ``say`` is told every few seconds how far it is.
    """
    checkpoint = _sealed(ledger, records[-1].position)
    proofs = multi_proof(ledger, records, checkpoint)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with own_folder(folder) as temporary:
        files = [*((part.path, part.data) for part in content.parts), ("manifest.json", content.manifest)]
        files += [(record_path(record), record.stored) for record in records[content.records :]]
        files += [("proofs.json", json.dumps(proofs, separators=(",", ":"), sort_keys=True).encode())]
        files += [("checkpoint.txt", checkpoint.text.encode())]
        _write_all(temporary, files, say)
        flush_files(temporary, [path for path, _ in files])
        say(f"{len(files)} files are on the disk; checking them with the verifier of the package")
        _check(temporary, content, verifier_key)
        for path in sorted(temporary / name for name in _folders(path for path, _ in files)):
            flush_folder(path)
        flush_folder(temporary)
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
    flush_folder(folder.parent)


def _check(temporary: Path, content: Content, verifier_key: str) -> None:
    """The finished folder must verify, except for what it reports itself."""
    key = verify.parse_key(verifier_key.encode()) if verifier_key else None
    faults = _faults(verify.verify(str(temporary), key=key), content)
    if faults:
        texts = "; ".join(f"{i['id']}: expected {i['expected']}, found {i['found']}" for i in faults[:5])
        raise PackageError(f"the written package does not verify: {texts}.", hint="Run ledger verify.")


def _write_all(folder: Path, files: Sequence[tuple[str, bytes]], say: Callable[[str], None]) -> None:
    for name in sorted(_folders(path for path, _ in files)):
        (folder / name).mkdir()
    told, place = time.monotonic(), str(folder)
    for number, (path, data) in enumerate(files):
        with open(f"{place}/{path}", "xb", buffering=0) as handle:  # noqa: PTH123 - a hundred thousand paths
            left = memoryview(data)
            while left:
                left = left[handle.write(left) :]
        if time.monotonic() - told > SAY_EVERY:
            told = time.monotonic()
            say(f"{number + 1} of {len(files)} files of the package written")


def _folders(paths: Iterable[str]) -> set[str]:
    """Every folder above one of ``paths``."""
    found: set[str] = set()
    for path in paths:
        above = path.rpartition("/")[0]
        while above and above not in found:
            found.add(above)
            above = above.rpartition("/")[0]
    return found
