"""Find and end processes of one attempt, and of nothing else.

A process belongs to an attempt only if its own environment (``/proc/PID/environ``) carries the attempt's run id
and number: process ids are reused, so a recorded number alone proves nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from pretrain_archive.compute.wrapper import send, stat_of


def processes_of(run_uid: str, attempt: int) -> dict[int, int]:
    """Living processes of the attempt with their start time; empty without /proc. This process never counts."""
    if not sys.platform.startswith("linux"):
        return {}
    wanted = {f"PRETRAIN_ARCHIVE_RUN_UID={run_uid}".encode(), f"PRETRAIN_ARCHIVE_ATTEMPT={attempt}".encode()}
    found: dict[int, int] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:  # noqa: PTH123 (a hot loop over /proc)
                marked = wanted <= set(file.read().split(b"\0"))
        except OSError:
            continue
        stat = stat_of(int(entry)) if marked else None
        if stat and stat[0] not in "ZX":
            found[int(entry)] = stat[2]
    return found


def end_leftovers(run_uid: str, attempt: int, *, grace: float = 2.5, limit: float = 5.0) -> list[int]:
    """End what is left of the attempt: SIGTERM, then SIGKILL after ``grace`` seconds. Returns the process ids.

    What cannot be ended within ``limit`` seconds (a process stuck in the kernel) stays; the caller sees it with
    :func:`processes_of`.
    """
    begin = time.monotonic()
    ended: set[int] = set()
    asked = False
    while (alive := processes_of(run_uid, attempt)) and time.monotonic() - begin < limit:
        ended |= set(alive)
        hard = time.monotonic() - begin >= grace
        if hard or not asked:
            for pid, start in alive.items():
                send(pid, start, signal.SIGKILL if hard else signal.SIGTERM)
            asked = True
        time.sleep(0.05)
    return sorted(ended)
