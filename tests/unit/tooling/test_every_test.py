"""Every test runs in parts side by side; none can fail, vanish or be empty without the whole failing."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import every_test
import pytest

ROOT = Path(__file__).parents[3]


def script(text: str) -> list[str]:
    """A part that prints and ends."""
    return [sys.executable, "-c", text]


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        pytest.param("print('2 passed')", 0, "one: passed after", id="all pass"),
        pytest.param("raise SystemExit(1)", 1, "one: failed (exit 1) after", id="a test fails"),
        pytest.param("raise SystemExit(5)", 1, "one: found no tests after", id="nothing to run"),
        pytest.param("import os; os.abort()", 1, "one: failed (exit -6) after", id="the process dies"),
    ],
)
def test_the_end_of_a_part_decides(text: str, code: int, told: str) -> None:
    """The whole passes only where each part passes."""
    out = io.StringIO()
    found = every_test.run([{"one": ["x"], "other": ["y"]}, {"last": []}],
                           lambda paths: script(text if paths == ["x"] else "print('fine')"), out)  # fmt: skip
    assert (code, True) == (found, told in out.getvalue())
    assert "last | fine" in out.getvalue()


def test_what_failed_is_told_at_the_end() -> None:
    """The summary of a part comes once more below everything else."""
    out = io.StringIO()
    text = "print('dots'); print('== short test summary info =='); print('FAILED a::b'); raise SystemExit(1)"
    every_test.run(
        [{"one": ["x"]}, {"two": ["y"]}], lambda paths: script(text if paths == ["x"] else "print(1)"), out
    )
    assert out.getvalue().index("  FAILED a::b") > out.getvalue().index("two | 1")


def test_no_folder_of_tests_is_left_out() -> None:
    """Every folder with tests stands in exactly one part."""
    named = [path for stage in every_test.STAGES for paths in stage.values() for path in paths]
    there = {
        f"tests/{path.relative_to(ROOT / 'tests').parts[0]}" for path in ROOT.glob("tests/*/**/test_*.py")
    }
    assert sorted(there) == sorted(named)
