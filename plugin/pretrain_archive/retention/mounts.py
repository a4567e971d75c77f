"""Whether a place is really there: what is not found on a disk that is not mounted is not gone."""

from __future__ import annotations

import os
import re
from pathlib import Path

FSTAB = Path("/etc/fstab")
_OCTAL = re.compile(rb"\\([0-7]{3})")


def is_there(path: Path) -> bool:
    """Whether anything has this name, a broken link too; ``OSError`` where that cannot be told (no right to look)."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def unmounted(path: Path, *, fstab: Path = FSTAB) -> Path | None:
    """The mount point above ``path`` that the system's table names and where nothing is mounted now, or None.

    An empty mount point looks like a folder from which everything was deleted.
    """
    try:
        lines = fstab.read_bytes().splitlines()
    except OSError:
        return None
    for line in lines:
        fields = line.split()
        if len(fields) < 3 or fields[0].startswith(b"#") or not fields[1].startswith(b"/"):
            continue
        point = Path(os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), fields[1])))
        if point in {path, *path.parents} and not os.path.ismount(point):
            return point
    return None
