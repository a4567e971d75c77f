"""Run every test, in parts that share the machine where they may.

Unit and integration tests run side by side, since most of them wait for one core only; what starts a whole Airflow
runs by itself, and so does what measures. Every line is shown as it comes, with the name of its part; what failed is
told once more at the end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).parents[2]
STAGES: Sequence[Mapping[str, Sequence[str]]] = (
    {"unit": ["tests/unit", "tests/fuzz"], "integration": ["tests/integration", "tests/bypass"]},
    {"e2e": ["tests/e2e"]},
    {"bench": ["tests/bench"]},
)
"""Parts of one stage run side by side, stages one after the other."""

SUMMARY = "short test summary info"
NO_TESTS = 5
"""What pytest answers when it found nothing to run."""


@dataclass
class Part:
    """One pytest process: its last lines, and how it ended."""

    name: str
    process: subprocess.Popen[str]
    began: float
    told: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def follow(self, out: TextIO, lock: threading.Lock) -> None:
        """Show each line as it comes; keep what stands below the summary's head."""
        if self.process.stdout is None:
            raise RuntimeError("a part without an output")
        below = False
        for line in self.process.stdout:
            below = below or SUMMARY in line
            if below:
                self.told.append(line.rstrip("\n"))
            else:
                self.told = [line.rstrip("\n")]  # the last line alone, should there be no summary
            with lock:
                out.write(f"{self.name} | {line}")
                out.flush()
        self.process.wait()
        self.seconds = time.monotonic() - self.began


def start(name: str, command: Sequence[str]) -> Part:
    """Start a part in a session of its own, where an interrupt means what it means to pytest."""
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - nothing else runs yet
    )  # fmt: skip
    return Part(name=name, process=process, began=time.monotonic())


def run(
    stages: Sequence[Mapping[str, Sequence[str]]],
    command: Callable[[Sequence[str]], Sequence[str]],
    out: TextIO,
) -> int:
    """Run all stages, also after one failed; 0 only if every part found tests and all passed."""
    lock, done = threading.Lock(), list[Part]()
    for stage in stages:
        parts = [start(name, command(paths)) for name, paths in stage.items()]
        threads = [threading.Thread(target=part.follow, args=(out, lock)) for part in parts]
        done += parts
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException:
            for part in parts:
                part.process.send_signal(signal.SIGINT)
            raise
    for part in done:
        code = part.process.returncode
        state = "passed" if code == 0 else "found no tests" if code == NO_TESTS else f"failed (exit {code})"
        out.write(f"\n{part.name}: {state} after {part.seconds / 60:.1f} min\n")
        out.writelines(f"  {line}\n" for line in part.told)
    return int(any(part.process.returncode for part in done))


def pytest_of(paths: Sequence[str]) -> list[str]:
    """The command of a part."""
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *paths]


if __name__ == "__main__":
    os.environ["PYTHONUNBUFFERED"] = "1"
    sys.exit(run(STAGES, pytest_of, sys.stdout))
