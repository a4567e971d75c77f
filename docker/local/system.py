"""The programs that tests need from the system: install them where that is allowed, else say what is missing.

Runs on a bare Python 3.11: standard library only. Never fails: a test whose program is missing says so itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program, the Debian package that brings it, and the tests that need it."""

    name: str
    package: str
    needed_by: str
    present: Callable[[], bool]


def _on_path(*names: str) -> Callable[[], bool]:
    return lambda: any(shutil.which(name) for name in names)


def _postgres() -> bool:
    return bool(shutil.which("initdb") or any(Path("/usr/lib/postgresql").glob("*/bin/initdb")))


def _cjk_font() -> bool:
    if not shutil.which("fc-list"):
        return False
    return bool(subprocess.run(["fc-list", ":lang=zh"], capture_output=True, check=False).stdout.strip())


PROGRAMS = (
    Program(name="PostgreSQL server", package="postgresql", present=_postgres,
            needed_by="the ledger on PostgreSQL, the deployment's topology"),
    Program(name="Chromium", package="chromium", present=_on_path("chromium", "chromium-browser", "google-chrome"),
            needed_by="the browser tests"),
    Program(name="a Chinese font", package="fonts-noto-cjk", present=_cjk_font, needed_by="the browser tests"),
    Program(name="fc-list", package="fontconfig", present=_on_path("fc-list"), needed_by="the browser tests"),
    Program(name="Java", package="default-jre-headless", present=_on_path("java"),
            needed_by="the quality checks on Spark"),
    Program(name="strace", package="strace", present=_on_path("strace"), needed_by="the crash tests"),
)  # fmt: skip


def missing() -> list[Program]:
    """What is not on this machine."""
    return [program for program in PROGRAMS if not program.present()]


def _apt() -> list[str] | None:
    if not sys.platform.startswith("linux") or not shutil.which("apt-get"):
        return None
    if os.geteuid() == 0:
        return ["apt-get"]
    asked = (
        subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False)
        if shutil.which("sudo")
        else None
    )
    return ["sudo", "-n", "apt-get"] if asked is not None and asked.returncode == 0 else None


def main() -> None:
    """Install what is missing and name what still is."""
    wanted = missing()
    apt = _apt()
    if wanted and apt is not None:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        packages = [program.package for program in wanted]
        print(f"Installing system packages: {', '.join(packages)} …", file=sys.stderr, flush=True)
        options = ["-o", "Dpkg::Use-Pty=0", "-o", "Acquire::Retries=3", "-qq"]
        for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
            subprocess.run([*apt, *options, *command], env=environment, stdout=sys.stderr, check=False)
        wanted = missing()
    for program in wanted:
        print(f"Missing: {program.name} (Debian package {program.package}): without it {program.needed_by} "
              "cannot run and are reported as skipped.", file=sys.stderr)  # fmt: skip


if __name__ == "__main__":
    main()
