"""Lists that begin with a header which is known only at the end."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable
from itertools import chain
from typing import BinaryIO, cast


def with_header(header: bytes, lines: Iterable[bytes]) -> tuple[BinaryIO, str]:
    """Write ``header`` and ``lines`` to an unnamed file; return it at its start, and its digest."""
    out = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - handed to the caller, who closes it
    digest = hashlib.sha256()
    for block in chain((header,), lines):
        out.write(block)
        digest.update(block)
    out.seek(0)
    return out, "sha256:" + digest.hexdigest()
