"""Very many bodies of one kind, read and checked by processes beside this one, each with connections of its own.

The log is cut into windows of positions, dealt out in turn; each process reads, hashes and parses its windows and
hands over plain values. A window that a process does not hand over (it could not start, it was ended, a row in it is
not what was appended) is read here, as without help: that is where errors are told. New processes are started and
none is forked, since whoever calls may have threads. Frames are ``marshal``: both ends are the same interpreter.
"""

from __future__ import annotations

import gc
import json
import marshal
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from pretrain_archive.ledger.engine import Database

Body = Mapping[str, Any]
Window = tuple[int, int]
"""Positions: behind the first, up to the second."""
Read = Callable[[Database, str, Window, Sequence[str]], list[tuple[int, Body]]]

FROM = 100_000
"""Positions from which on help is worth the half second in which it starts."""
WINDOW = 2000
MOST = 2
"""Processes; this one merges what they read, and has a processor for that."""
LARGEST = 256 << 20
"""Bytes of a window that are taken from a process; a larger one is read here."""
_LENGTH = 8
_PROGRAM = """
import json, sys
asked = json.load(sys.stdin)
sys.path[:] = asked["path"]
from pretrain_archive.ledger import beside, projecting
beside.serve(asked, projecting.read_window)
"""


def helpers() -> int:
    """How many processes may help: none on a single processor."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MOST, count) if count > 1 else 0


def read_beside(
    database: Database, kind: str, span: Window, fields: Sequence[str], read: Read
) -> Iterator[tuple[int, Body]]:
    """Position and body of the records of ``kind`` within ``span``, oldest first; ``read`` reads a window here."""
    windows = [(start, min(start + WINDOW, span[1])) for start in range(*span, WINDOW)]
    shares = [windows[number :: helpers()] for number in range(helpers())]
    started = [_start(database, kind, share, fields) for share in shares]
    try:
        for number, window in enumerate(windows):
            turn = number % len(started) if started else 0
            found = _frame(started[turn]) if started else None
            if found is None and started:
                _end(started[turn])
                started[turn] = None
            yield from read(database, kind, window, fields) if found is None else found
    finally:
        for process in started:
            _end(process)


def _start(
    database: Database, kind: str, windows: Sequence[Window], fields: Sequence[str]
) -> subprocess.Popen[bytes] | None:
    """A process that reads ``windows``; what it needs to know goes through its input, where nobody lists it."""
    url = database.engine.url.render_as_string(hide_password=False)
    asked = {"url": url, "kind": kind, "windows": windows, "fields": fields, "path": sys.path}
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
    with suppress(OSError), _input(process) as file:
        file.write(json.dumps(asked).encode())
    return process


def _input(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin is not None
    return process.stdin


def _frame(process: subprocess.Popen[bytes] | None) -> list[tuple[int, Body]] | None:
    """The next window of a process; None where it has none to give, now and from then on."""
    if process is None or process.stdout is None:
        return None
    head = process.stdout.read(_LENGTH)
    length = int.from_bytes(head, "big") if len(head) == _LENGTH else 0
    data = process.stdout.read(length) if length <= LARGEST else b""
    if not data or len(data) < length:
        return None
    found: list[tuple[int, Body]] = marshal.loads(data)  # noqa: S302 - written by our own process, see serve
    return found


def _end(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None:
        process.kill()
        if process.stdout is not None:
            process.stdout.close()
        process.wait()


def serve(asked: Mapping[str, Any], read: Read) -> None:
    """Read the windows that were asked for and write a frame for each; whatever fails ends the process."""
    gc.disable()  # windows have no cycles, and the collector would walk each of them many times
    database = Database(asked["url"], create=False)
    with os.fdopen(os.dup(1), "wb") as out:
        for start, end in asked["windows"]:
            data = marshal.dumps(read(database, asked["kind"], (start, end), asked["fields"]))
            out.write(len(data).to_bytes(_LENGTH, "big") + data)
            out.flush()
