"""Temporary folders that tell whose they are, so that what a killed process left is found and nobody else's is taken.

A folder that machines share may hold those of several: a process id says nothing on another machine, or in another
container, so the name tells host and process.
"""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import socket
from pathlib import Path


def owned(prefix: str) -> str:
    """The beginning of the name of a folder of this process: ``PREFIX`` + host + ``-`` + process id + ``-``."""
    return f"{prefix}{_host()}-{os.getpid()}-"


def sweep(parent: Path, prefix: str) -> None:
    """Remove the folders below ``parent`` that processes of this host made under ``prefix`` and left when they died."""
    mine = f"{prefix}{_host()}-"
    for path in parent.glob(f"{glob.escape(mine)}*"):
        pid = path.name.removeprefix(mine).partition("-")[0]
        if pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(path, ignore_errors=True)


def _host() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
