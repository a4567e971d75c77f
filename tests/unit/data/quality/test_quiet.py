"""The validating library stays silent and sends nothing, whichever way it is imported first."""

from __future__ import annotations

import subprocess
import sys

import pytest

WORK = """
import logging, os
logging.basicConfig(level=logging.INFO, format="LOGGED %(name)s")
from pretrain_archive.data.quality.judging.expectations import Validator, expectation
from pretrain_archive.data.quality.suite_files import load_suite
for step in STEPS:
    step()
print("analytics", os.environ.get("GX_ANALYTICS_ENABLED"))
"""


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param("[lambda: expectation(load_suite().rules[0])]", id="a rule first"),
        pytest.param("[Validator]", id="the validator first"),
    ],
)
def test_the_library_tells_nothing_of_its_own_workings(steps: str) -> None:
    """No line of it reaches the log of a task, and its usage statistics are off before it is imported."""
    done = subprocess.run(
        [sys.executable, "-c", WORK.replace("STEPS", steps)],
        capture_output=True, text=True, timeout=120, check=True, env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip

    assert ["analytics false"] == done.stdout.splitlines()
    assert [] == [line for line in done.stderr.splitlines() if line.startswith("LOGGED great_expectations")]
