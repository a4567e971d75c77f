"""Progress of long work as lines of a task log: not more than one every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 5.0


def every(say: Callable[[str], None], verb: str, *, seconds: float = SECONDS) -> Callable[..., None]:
    """A callback ``(done, total, unit?)`` that says a line at most every ``seconds`` and at the end."""
    last = 0.0

    def report(done: int, total: int | None = None, *_rest: object) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= seconds or (total is not None and done >= total):
            last = now
            say(f"{verb} {done:,} of {total:,}" if total is not None else f"{verb} {done:,}")

    return report
