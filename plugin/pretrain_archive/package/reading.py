"""Reads a run back from a package alone, after the package was verified."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrain_archive.domain.errors import PackageError
from pretrain_archive.domain.identity import path_to_text
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.package import verify


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadPackage:
    """A run as its package tells it. ``report`` is the verifier's; ``view`` holds records that hold.

    Records whose file is changed are left out of ``view`` and named in ``left_out``.
    """

    view: RunView
    report: dict[str, Any]
    left_out: tuple[str, ...] = ()


def read_package(folder: Path, *, key: Path | None = None) -> ReadPackage:
    """Verify ``folder`` and read its records; :class:`PackageError` where it is no package."""
    if not folder.is_dir() or not (folder / verify.MANIFEST).is_file():
        name = path_to_text(bytes(folder))
        raise PackageError(f"{name}: not a package.", hint="Name the folder that holds manifest.json.")
    try:
        outside = verify.parse_key(key.read_bytes()) if key else None
        verifier = verify.Verifier(str(folder), outside)
        verifier.keep_all = True
        verifier.run()
    except (verify.BadInput, OSError) as error:
        raise PackageError(
            f"{path_to_text(bytes(folder))}: {error}.", hint="Check folder and key."
        ) from error
    records, left_out = [], []
    for found in verifier.records:
        if found.item.verdict == verify.CHANGED:
            left_out.append(found.path)
            continue
        try:
            body = found.body
            records.append(Record.from_body(body, position=body["sequence"], stored=b"", leaf=""))
        except (KeyError, TypeError, ValueError):
            left_out.append(found.path)
    uid = str(verifier.manifest.get("run_uid") or (records[0].stream if records else "unrecorded"))
    return ReadPackage(view=RunView.of(uid, records), report=verifier.result(), left_out=tuple(left_out))
