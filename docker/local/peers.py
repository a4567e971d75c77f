"""Make .venv-peers: the tools that benchmarks compare with, apart from ours since their dependencies would clash.

Runs on a bare Python 3.11: standard library only. Does nothing when the environment is up to date.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv-peers"
PINS = ROOT / "tests" / "bench" / "peers.txt"
STAMP = VENV / ".installed"


def main() -> None:
    """Install what tests/bench/peers.txt lists."""
    wanted = hashlib.sha256(PINS.read_bytes() + f"{sys.version} {ROOT}".encode()).hexdigest()
    if STAMP.exists() and STAMP.read_text() == wanted:
        return
    print("Installing the tools that benchmarks compare with into .venv-peers …", file=sys.stderr, flush=True)
    if VENV.exists():
        shutil.rmtree(VENV)
    subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "-qq"]
    subprocess.run([*pip, "--requirement", str(PINS)], check=True)
    STAMP.write_text(wanted)


if __name__ == "__main__":
    main()
