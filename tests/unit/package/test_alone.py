"""A package is assembled by one writer at a time, and what a killed one left is cleared."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from pretrain_archive.package.alone import alone_in

HOLD = """
import sys
from pathlib import Path
from pretrain_archive.package.alone import alone_in
with alone_in(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("written")
    sys.stdout.write("holding\\n")
    sys.stdout.flush()
    sys.stdin.readline()
"""


def fail_in(folder):
    """Write something and fail."""
    with alone_in(folder):
        (folder / "a").write_text("b")
        raise ZeroDivisionError


def test_removed_at_the_end(tmp_path):
    """A folder that was not given its name is removed, also after an error."""
    with pytest.raises(ZeroDivisionError):
        fail_in(tmp_path / "x")

    assert list(tmp_path.iterdir()) == []


def test_renamed_away(tmp_path):
    """A folder that was given its name stays."""
    with alone_in(tmp_path / "x") as folder:
        (folder / "a").write_text("b")
        folder.rename(tmp_path / "y")

    assert [tmp_path / "y"] == list(tmp_path.iterdir())
    assert "b" == (tmp_path / "y" / "a").read_text()


@pytest.mark.parametrize("end", ["killed", "finished"])
def test_second_writer_waits(tmp_path, end):
    """While one process holds the folder another waits; then it gets it empty."""
    place = tmp_path / "x"
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert first.stdout.readline() == "holding\n"
    found: list[list[str]] = []
    entered = threading.Event()

    def second() -> None:
        with alone_in(place) as folder:
            found.append([path.name for path in folder.iterdir()])
            entered.set()

    waiting = threading.Thread(target=second)
    waiting.start()
    assert not entered.wait(0.3)
    assert (place / "half").exists()
    if end == "killed":
        first.kill()
    first.communicate("go\n" if end == "finished" else None, timeout=60)
    waiting.join(60)

    assert [[]] == found
    assert not place.exists()


def test_link_in_the_place(tmp_path):
    """A link where the folder should be is not followed."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine").write_text("keep")
    (tmp_path / "x").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError, match="x"), alone_in(tmp_path / "x"):
        pass
    assert "keep" == (tmp_path / "elsewhere" / "mine").read_text()
