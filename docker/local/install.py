"""Create .venv and put into it what requirements.lock says; nothing to do if it is there already.

Runs on a bare Python 3.11 to 3.13: standard library only. Packages are fetched by pip, with whatever indexes
and proxies the user has configured for it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
STAMP = VENV / ".installed"
LOCK = ROOT / "requirements.lock"
CPU_BUILDS = "https://download.pytorch.org/whl/cpu"
OLDEST, NEWEST = (3, 11), (3, 13)


def fingerprint() -> str:
    """What the environment depends on: lock, project file, interpreter, place of the checkout."""
    seen = hashlib.sha256()
    for part in (LOCK.read_bytes(), (ROOT / "pyproject.toml").read_bytes(), Path(__file__).read_bytes()):
        seen.update(hashlib.sha256(part).digest())
    seen.update(f"{sys.version} {ROOT} {platform.machine()}".encode())
    return seen.hexdigest()


def python() -> str:
    """The interpreter of the environment."""
    return str(VENV / "bin" / "python")


def pip(*arguments: str, capture: bool = False) -> str:
    """Run pip in the environment; its standard output if ``capture``."""
    command = [python(), "-m", "pip", "--disable-pip-version-check", *arguments]
    environment = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYTHONHOME"}}
    done = subprocess.run(
        command, check=True, env=environment, text=True, stdout=subprocess.PIPE if capture else None
    )
    return done.stdout if capture else ""


def usable() -> bool:
    """Whether there is an environment of this interpreter in this place (a moved one does not work)."""
    ask = "import sys; print(sys.version, sys.prefix)"
    try:
        answer = subprocess.run([python(), "-c", ask], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return False
    return answer.strip() == f"{sys.version} {VENV}"


def create() -> None:
    """A fresh environment instead of one that cannot be used."""
    if VENV.exists():
        shutil.rmtree(VENV)
    subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)


def pins(*, torch: bool) -> list[str]:
    """The lock's requirements: torch's, or all others."""
    lines = [line.strip() for line in LOCK.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if "==" in line and line.startswith("torch==") == torch]


def reachable(url: str, *, seconds: float = 4.0) -> bool:
    """Whether the host of ``url`` accepts a connection soon."""
    try:
        with socket.create_connection((url.split("/")[2], 443), timeout=seconds):
            return True
    except OSError:
        return False


def install_torch() -> None:
    """Torch without device libraries where such a build can be had, else the default one.

    First what pip is configured to find, then the project's index of CPU builds, then the default build.
    """
    requirement = pins(torch=True)[0].split(";")[0].strip()
    report = json.loads(pip("install", "--dry-run", "--no-deps", "--ignore-installed", "--quiet", "--report", "-",
                            requirement, capture=True))  # fmt: skip
    version = report["install"][0]["metadata"]["version"]
    if sys.platform == "darwin" or "+cpu" in version:
        pip("install", "-qq", "--no-compile", "--no-deps", requirement)
    elif reachable(CPU_BUILDS):
        pip("install", "-qq", "--no-compile", "--no-deps", "--index-url", CPU_BUILDS, requirement)
    else:
        pip("install", "-qq", "--no-compile", requirement)


def install() -> None:
    """Every locked package, torch, and this project itself in editable form; then compile once."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requirements.txt"
        file.write_text("\n".join(pins(torch=False)) + "\n", encoding="utf-8")
        pip("install", "-qq", "--no-deps", "--no-compile", "--requirement", str(file))
    install_torch()
    pip("install", "-qq", "--no-deps", "--no-build-isolation", "--no-compile", "--editable", str(ROOT))
    # Airflow starts five processes that each import hundreds of modules: compiled once, they start in half the
    # time. A few packages ship templates that are no Python; they do not matter here.
    libraries = sorted(VENV.glob("lib/python3*/site-packages"))
    subprocess.run([python(), "-m", "compileall", "-qq", "-j", "0", *map(str, libraries)], check=False)


def check_interpreter() -> None:
    """Stop with a clear message on an unsupported Python."""
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        found = platform.python_version()
        sys.exit(
            f"Python 3.11, 3.12 or 3.13 is needed, this is {found}. Name another one: make PYTHON=python3.12 …"
        )


def main() -> None:
    """Install what is missing, quietly if nothing is."""
    options = argparse.ArgumentParser(description="Create .venv from requirements.lock.")
    options.add_argument("--force", action="store_true", help="start from an empty .venv")
    chosen = options.parse_args()
    check_interpreter()
    wanted = fingerprint()
    if not chosen.force and STAMP.exists() and STAMP.read_text() == wanted and Path(python()).exists():
        return
    began = time.monotonic()
    print(f"Installing {len(pins(torch=False))} locked packages into {VENV} …", file=sys.stderr, flush=True)
    if chosen.force or not usable():
        create()
    try:
        install()
    except subprocess.CalledProcessError as error:
        sys.exit(f"The installation failed ({' '.join(map(str, error.cmd[:6]))} …: exit {error.returncode}). "
                 "See pip's message above; after mending, run the same command again.")  # fmt: skip
    STAMP.write_text(wanted)
    print(f"Installed in {time.monotonic() - began:.0f} s.", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
