"""Who calls a use case, and how it is told of progress."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable
from dataclasses import dataclass

from pretrain_archive.domain.records import Actor, Origin


def _silent(_line: str) -> None:
    """Progress that nobody reads."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The task try (or command) behind a call.

    ``submitter`` is the authenticated person who triggered the DAG run, None for scheduled runs; ``say`` takes
    lines of progress for the task log.
    """

    origin: Origin
    actor: Actor
    submitter: str | None = None
    say: Callable[[str], None] = _silent


def local_identity() -> str:
    """Who this process is on this machine: user and host."""
    return f"{getpass.getuser()}@{socket.gethostname()}"
