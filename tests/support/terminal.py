"""Run a program on a terminal and read what it shows there."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Mapping, Sequence


def read_terminal(command: Sequence[str], *, env: Mapping[str, str] | None = None) -> str:
    """What ``command`` writes when its standard error is a terminal of 120 columns; it must end well."""
    end, terminal = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR"}}
    wanted = {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "24"} | dict(env or {})
    process = subprocess.Popen(
        command, stdin=terminal, stdout=subprocess.DEVNULL, stderr=terminal, env=clean | wanted
    )
    os.close(terminal)
    seen = bytearray()
    try:
        while block := _read(end):
            seen += block
    finally:
        os.close(end)
        assert process.wait(timeout=60) == 0
    return seen.decode()


def _read(end: int) -> bytes:
    try:
        return os.read(end, 65536)
    except OSError:  # the last writer closed the terminal
        return b""
