"""Every parser of foreign files under a fuzzer: any bytes end in a result or in a clear refusal, and nothing happens.

A short time here; ``make fuzz`` takes five minutes for each.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.fuzz.targets import ALL, TARGETS

ROOT = Path(__file__).parents[2]
SECONDS = int(os.environ.get("FUZZ_SECONDS") or 20)
SEED = int(os.environ.get("FUZZ_SEED") or 1)
"""The same inputs whenever all tests run; ``make fuzz`` draws others each time."""

AT_ONCE = 2

pytestmark = pytest.mark.timeout(AT_ONCE * SECONDS + 300)
Done = subprocess.CompletedProcess[str]


def fuzz(name: str, found: Path) -> Done:
    """Run one target in a process of its own."""
    command = [sys.executable, "-m", "tests.fuzz.run", name, "--seconds", str(SECONDS), "--found", str(found)]
    command += ["--seed", str(SEED)]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS + 250
    )


@pytest.fixture(scope="module")
def fuzzed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Done]]]:
    """All chosen targets, a few at a time; each test waits for its own."""
    chosen = {item.callspec.params["name"] for item in request.session.items if hasattr(item, "callspec")
              and item.path == request.path}  # fmt: skip
    with ThreadPoolExecutor(AT_ONCE) as pool:
        folder = tmp_path_factory.mktemp("found")
        yield {
            name: pool.submit(fuzz, name, folder / str(number))
            for number, name in enumerate(ALL)
            if name in chosen
        }


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_are_read_or_refused(name: str, fuzzed: dict[str, Future[Done]]) -> None:
    """Nothing but the parser's own errors, nothing started, nothing written outside, memory bounded."""
    done = fuzzed[name].result()
    assert 0 == done.returncode, f"{done.stdout[-1500:]}\n{done.stderr[-3000:]}"


@pytest.mark.parametrize(
    ("name", "word"),
    [
        pytest.param("its own: raises", "ZeroDivisionError", id="an error that is none of its own"),
        pytest.param("its own: starts", "EscapedError", id="a process"),
        pytest.param("its own: unpickles", "EscapedError", id="unpickling"),
        pytest.param("its own: writes", "EscapedError", id="a write outside"),
    ],
)
def test_what_must_not_happen_is_found(name: str, word: str, fuzzed: dict[str, Future[Done]]) -> None:
    """Four parsers that are wrong on purpose: each is found, and its input kept."""
    done = fuzzed[name].result()
    assert done.returncode != 0
    assert word in done.stdout + done.stderr
    kept = Path(done.stdout.partition("FOUND ")[2].partition(" (")[0])
    assert kept.is_file()
