"""The peak memory of this process."""

from __future__ import annotations

import resource
import sys
from pathlib import Path


def peak_bytes() -> int:
    """The most memory that this program had resident, in bytes.

    ``ru_maxrss`` survives ``exec``: a small child of a large process reports the parent's peak there. Linux
    counts the high-water mark of the program itself in ``VmHWM``.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
