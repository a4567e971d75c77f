"""A small network of its own for a recovery drill: one namespace per node, all on one switch, links that can be cut.

Linux and root only (ip(8), nsenter(1)). Every address and device is inside namespaces that this module makes: nothing
of the machine's own network is touched. A namespace carries the process id of its maker and the number of its network
in its name, so that drills at the same time do not meet, and what a killed one left is removed by the next.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self

from pretrain_archive.domain.errors import ArchiveError

PREFIX = "padrill"
PLACES = Path("/var/run/netns")
INTERFACE = "node"
SECONDS = 10.0
_NAME = re.compile(rf"{PREFIX}-(?P<pid>[0-9]+)-[0-9]+-(?:[0-9]+|switch|try)")
_NUMBERS = itertools.count()


class NoNamespacesError(ArchiveError):
    """Network namespaces cannot be made here."""

    code = "no_namespaces"


class Network:
    """As a context: ``nodes`` namespaces with an interface ``node`` each, joined by a bridge in another one."""

    def __init__(self, nodes: int) -> None:
        base = f"{PREFIX}-{os.getpid()}-{next(_NUMBERS)}"
        self.names = tuple(f"{base}-{number}" for number in range(nodes))
        self.switch = f"{base}-switch"

    @staticmethod
    def address(node: int) -> str:
        """The address of a node; it is reachable inside the drill's namespaces only."""
        return f"10.77.0.{node + 1}"

    def __enter__(self) -> Self:
        if reason := unavailable():
            raise NoNamespacesError(reason)
        remove_stale()
        try:
            self._make()
        except BaseException:  # also a task that is asked to end meanwhile
            self.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _make(self) -> None:
        for name in (self.switch, *self.names):
            _ip("netns", "add", name)
        _ip("-n", self.switch, "link", "add", "name", "bridge", "type", "bridge")
        _ip("-n", self.switch, "link", "set", "bridge", "up")
        for number, name in enumerate(self.names):
            port, switch = f"port{number}", ("-n", self.switch, "link")
            _ip(*switch, "add", "name", port, "type", "veth", "peer", "name", INTERFACE, "netns", name)
            _ip(*switch, "set", port, "master", "bridge")
            _ip(*switch, "set", port, "up")
            _ip("-n", name, "addr", "add", f"{self.address(number)}/24", "dev", INTERFACE)
            _ip("-n", name, "link", "set", INTERFACE, "up")
            _ip("-n", name, "link", "set", "lo", "up")

    def cut(self, node: int) -> None:
        """Take a node's link down at the switch: nobody is told, packets just do not arrive any more."""
        _ip("-n", self.switch, "link", "set", f"port{node}", "down")

    def mend(self, node: int) -> None:
        """Bring the link up again."""
        _ip("-n", self.switch, "link", "set", f"port{node}", "up")

    def close(self) -> None:
        """Remove the namespaces, and with them every device and address."""
        for name in (*self.names, self.switch):
            _remove(name)


def unavailable() -> str:
    """Why no network namespace can be made here; empty if it can."""
    if not sys.platform.startswith("linux"):
        return "no network namespaces here: this is not Linux"
    if os.geteuid() != 0:
        return "no network namespaces here: only root may make them"
    if missing := [tool for tool in ("ip", "nsenter") if shutil.which(tool) is None]:
        return f"no network namespaces here: {', '.join(missing)} is not installed"
    probe = f"{PREFIX}-{os.getpid()}-{next(_NUMBERS)}-try"
    try:
        _ip("netns", "add", probe)
        _ip("-n", probe, "link", "add", "name", "a", "type", "veth", "peer", "name", "b")
    except ArchiveError as error:
        return f"no network namespaces here: {error.message}"
    finally:
        _remove(probe)
    return ""


def remove_stale() -> list[str]:
    """Remove namespaces of drills whose process is gone; returns their names."""
    found = [path.name for path in PLACES.iterdir()] if PLACES.is_dir() else []
    stale = [n for n in found if (m := _NAME.fullmatch(n)) and not Path(f"/proc/{m['pid']}").exists()]
    for name in stale:
        _remove(name)
    return stale


def _remove(name: str) -> None:
    if (PLACES / name).exists():
        with suppress(ArchiveError):
            _ip("netns", "del", name)


def _ip(*words: str) -> None:
    command = ["ip", *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise NoNamespacesError(f"{' '.join(command)}: {error}") from error
    if done.returncode:
        raise NoNamespacesError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
