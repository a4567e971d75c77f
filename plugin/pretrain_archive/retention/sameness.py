"""Whether what lies at an address is still what was recorded there: names and sizes alone do not tell.

All checkpoints of one model have files of the same names and sizes. Whoever moves another folder there, or writes
into it again, changes a status time (ctime), which the kernel alone sets; what did so after the record is read and
compared with the record's digests. What nobody touched since costs nothing but a stat.
"""

from __future__ import annotations

import hashlib
import os
from datetime import timedelta
from pathlib import Path

from pretrain_archive.domain.identity import parse_time, text_to_path
from pretrain_archive.domain.kinds import FileDigest
from pretrain_archive.retention.files import Target
from pretrain_archive.retention.unlinking import walk_files
from pretrain_archive.storage.regular import open_regular

CLOCKS = timedelta(seconds=1)
"""File systems tell status times by their own clock, which may be that much behind; the record's comes later."""


def differs(folder: Path, target: Target, *, begun: bool = False) -> str:
    """The first recorded file below ``folder`` with another content than recorded; empty if there is none.

    While a removal of ours is under way (``begun``) the folder itself has changed, and only its files are asked.
    Raises ``OSError`` for what cannot be read.
    """
    if not target.recorded_at:
        return ""
    edge = (parse_time(target.recorded_at) - CLOCKS).timestamp()
    found = {path: info for path, info in walk_files(folder) if info is not None}
    moved = not begun and os.lstat(folder).st_ctime > edge
    for file in (*target.files, *target.keep):
        info = found.get(file.path)
        if info is not None and (moved or info.st_ctime > edge) and not _is(folder, file):
            return file.path
    return ""


def _is(folder: Path, file: FileDigest) -> bool:
    path = folder / os.fsdecode(text_to_path(file.path))
    with open_regular(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256
