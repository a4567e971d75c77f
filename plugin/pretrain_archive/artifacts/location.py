"""A folder's address in a record: ``file://`` and the percent-encoded absolute path, for any bytes."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote_from_bytes, unquote_to_bytes

SCHEME = "file://"


def to_location(folder: Path) -> str:
    """The address of ``folder`` (made absolute, links resolved)."""
    return SCHEME + quote_from_bytes(os.fsencode(folder.resolve()))


def to_path(location: str) -> Path | None:
    """The folder behind an address, or None where it is not on a file system."""
    if location.startswith(SCHEME + "/"):
        return Path(os.fsdecode(unquote_to_bytes(location[len(SCHEME) :])))
    return None
