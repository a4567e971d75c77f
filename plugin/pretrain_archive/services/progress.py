"""Progress of long work as lines of a task log: not more than one every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 5.0


def every(say: Callable[[str], None], verb: str, *, seconds: float = SECONDS) -> Callable[[int, int], None]:
    """A callback ``(files, bytes)`` that says a line at most every ``seconds``."""
    last = time.monotonic()

    def report(files: int, size: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= seconds:
            last = now
            say(f"{verb} {files:,} files, {size / 1e6:,.1f} MB")

    return report
