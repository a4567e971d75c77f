"""Waiting for a condition, and the errors of a wait or a request that failed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

T = TypeVar("T")


class AirflowFailedError(RuntimeError):
    """The private Airflow did not start or a wait ran out; the message ends with the end of its log."""


class ApiError(RuntimeError):
    """The REST API answered with an error; ``status`` and ``body`` are its answer."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        super().__init__(f"{method} {path}: HTTP {status}: {body[:2000]}")
        self.status = status
        self.body = body


def tail(path: Path, lines: int = 40) -> str:
    """The last ``lines`` lines of a text file; empty if it is not there."""
    try:
        with path.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - 400 * lines))
            return "\n".join(stream.read().decode("utf-8", "replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


def wait_for(what: str, check: Callable[[], T | None], *, timeout: float, every: float = 0.5) -> T:
    """Call ``check`` until it returns something true; an error after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AirflowFailedError(f"waited {timeout:.0f} s for {what}, which did not come")
        time.sleep(every)


def part(text: str) -> str:
    """A path segment of a URL, quoted."""
    return quote(text, safe="")


def log_lines(entry: Any) -> list[str]:
    """An entry of a task's log as lines, with the end of its traceback."""
    if not isinstance(entry, dict):
        return str(entry).splitlines()
    lines = [f"{entry.get('level') or ''} {entry.get('event') or ''}".strip()]
    for error in entry.get("error_detail") or []:
        frames = [
            f'  File "{f["filename"]}", line {f["lineno"]}, in {f["name"]}' for f in error.get("frames", [])
        ]
        lines += [*frames[-6:], f"{error.get('exc_type')}: {error.get('exc_value')}"]
    return [part for line in lines for part in line.splitlines()]
