"""What a fuzz target is, and the ground it stands on.

A target takes any bytes and gives them to one parser of foreign files. The parser may refuse them with the errors
that the target names, and nothing else: every other exception, a start of a process, an import or unpickling that
the bytes caused, a network call, or a write outside the scratch folder ends the run with the input that did it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrain_archive.domain.errors import ArchiveError

FORBIDDEN = (
    "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "subprocess.Popen", "socket.connect",
    "socket.bind", "socket.getaddrinfo", "pickle.find_class", "urllib.Request", "ctypes.dlopen",
)  # fmt: skip
"""Audit events that no parser of foreign bytes may cause."""

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class EscapedError(BaseException):
    """Foreign bytes made the program do something; no ``except Exception`` of a parser swallows it."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """One parser: how it is called, what it may raise, and inputs to begin with.

    ``call`` gets the bytes and an empty scratch folder if ``scratch``; ``modules`` are watched for coverage.
    """

    name: str
    call: Callable[..., Any]
    seeds: Callable[[], Sequence[bytes]]
    modules: tuple[str, ...]
    refuses: tuple[type[Exception], ...] = (ArchiveError,)
    scratch: bool = False
    longest: int = 4096


class Watch:
    """An audit hook that is armed while a parser works, and allows writing below one folder only."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = os.fsencode(scratch) + b"/"
        self.armed = False
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.armed:
            return
        if event in FORBIDDEN:
            raise EscapedError(f"{event} {arguments!r:.200}")
        if event == "open" and self._writes(*arguments):
            raise EscapedError(f"opened for writing: {arguments!r:.200}")

    def _writes(self, path: Any, _mode: Any, flags: Any) -> bool:
        if not isinstance(path, str | bytes | os.PathLike) or not (
            isinstance(flags, int) and flags & WRITING
        ):
            return False
        return not os.path.realpath(os.fsencode(path)).startswith(self._scratch)


def attempt(target: Target, raw: bytes, folder: Path, watch: Watch) -> None:
    """Give ``raw`` to the parser; what it raises beyond its own errors goes on."""
    arguments: tuple[Any, ...] = (raw, folder) if target.scratch else (raw,)
    watch.armed = True
    try:
        target.call(*arguments)
    except target.refuses:
        pass
    finally:
        watch.armed = False
