"""Write requirements.lock: every dependency of running, training and developing, at one version each.

The lock serves Python 3.11 to 3.13 on Linux and macOS. Pins that still fit are kept; ``--upgrade`` lets all of
them move. Libraries for NVIDIA devices are left out: they come with torch where its default build needs them,
and that build pins them itself.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements.lock"
IMAGE_LOCK = ROOT / "docker" / "requirements.lock"
WITH_TORCH = re.compile(r"^(nvidia-|cuda-|triton)")
HEADER = """\
# Written by `make lock`; do not edit. Every dependency for Python 3.11 to 3.13 on Linux and macOS.
# torch is installed apart (docker/local/install.py): from the CPU builds where they can be had.
"""


def resolve(preferred: str, *, upgrade: bool, groups: tuple[str, ...], extras: tuple[str, ...]) -> list[str]:
    """The requirement lines that fit pyproject.toml, near the ``preferred`` ones."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "requirements.txt"
        output.write_text(preferred, encoding="utf-8")
        command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--quiet", "--universal"]
        command += ["--python-version", "3.11", "--no-header"]
        command += [part for extra in extras for part in ("--extra", extra)]
        command += [part for group in groups for part in ("--group", group)]
        command += ["--no-annotate", "--no-emit-index-url", "--output-file", str(output)]
        subprocess.run([*command, *(["--upgrade"] if upgrade else [])], cwd=ROOT, check=True)
        return output.read_text(encoding="utf-8").splitlines()


def locked(lines: list[str]) -> list[str]:
    """The lines that belong into the lock: pins only, no device libraries, no local version suffix."""
    pins = [line.strip() for line in lines if "==" in line and not line.startswith(("#", "-"))]
    return sorted(re.sub(r"(==[^+ ;]+)\+[^ ;]+", r"\1", pin) for pin in pins if not WITH_TORCH.match(pin))


def main() -> None:
    """Resolve and write the lock."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--upgrade", action="store_true", help="let every pin move to its newest version")
    options.add_argument("--prefer", type=Path, default=LOCK, help="pins to keep where they fit")
    chosen = options.parse_args()
    preferred = chosen.prefer.read_text(encoding="utf-8") if chosen.prefer.exists() else ""
    pins = locked(
        resolve(preferred, upgrade=chosen.upgrade, groups=("build", "dev"), extras=("train", "spark", "sign"))
    )
    LOCK.write_text(HEADER + "\n".join(pins) + "\n", encoding="utf-8")
    # The image gets the same versions without the tools of developers.
    image = locked(
        resolve(LOCK.read_text(encoding="utf-8"), upgrade=False, groups=("build",), extras=("train", "sign"))
    )
    IMAGE_LOCK.write_text(HEADER + "\n".join(image) + "\n", encoding="utf-8")
    print(f"{LOCK.name}: {len(pins)} pins; docker/{IMAGE_LOCK.name}: {len(image)}")


if __name__ == "__main__":
    main()
