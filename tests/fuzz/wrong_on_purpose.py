"""Parsers that do what none may do, so that a test sees the fuzzer find it."""

from __future__ import annotations

import contextlib
import pickle
import subprocess
from pathlib import Path

from tests.fuzz.target import Target


def raises(raw: bytes) -> float:
    """Divide by zero at one byte."""
    return 1 / (raw[:1] != b"\x80")


def starts(raw: bytes) -> None:
    """Start a program at one byte, and swallow every exception."""
    with contextlib.suppress(Exception):
        if raw[:1] == b"\x80":
            subprocess.run(["true"], check=True)


def unpickles(raw: bytes) -> None:
    """Trust a pickle."""
    with contextlib.suppress(Exception):
        pickle.loads(raw)


def writes(raw: bytes, folder: Path) -> None:
    """Write where a name inside the file says."""
    if raw[:1] == b"\x80":
        (folder / "../outside").write_bytes(raw)


def seeds() -> list[bytes]:
    """An input one bit away from harm, and a pickle that calls something."""
    return [b"\x81", b"\x80", pickle.dumps(print)]


WRONG = [
    Target(name=f"its own: {call.__name__}", call=call, seeds=seeds, modules=(), scratch=call is writes)
    for call in (raises, starts, unpickles, writes)
]
