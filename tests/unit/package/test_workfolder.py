"""Each writer assembles its package in a folder of its own, and what a killed one left is swept."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys

import pytest

from pretrain_archive.package import workfolder
from pretrain_archive.package.workfolder import own_folder

HOLD = """
import sys
from pathlib import Path
from pretrain_archive.package.workfolder import own_folder
with own_folder(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("written")
    sys.stdout.write(folder.name + "\\n")
    sys.stdout.flush()
    sys.stdin.readline()
"""


def fail_in(place):
    """Write something and fail."""
    with own_folder(place) as folder:
        (folder / "a").write_text("b")
        raise ZeroDivisionError


def test_removed_at_the_end(tmp_path):
    """A folder that was not given its name is removed, also after an error."""
    with pytest.raises(ZeroDivisionError):
        fail_in(tmp_path / "x")

    assert list(tmp_path.iterdir()) == []


def test_renamed_away(tmp_path):
    """A folder that was given its name stays."""
    with own_folder(tmp_path / "x") as folder:
        (folder / "a").write_text("b")
        folder.rename(tmp_path / "x")

    assert [tmp_path / "x"] == list(tmp_path.iterdir())
    assert "b" == (tmp_path / "x" / "a").read_text()


def test_second_writer_has_its_own_and_the_killed_one_is_swept(tmp_path):
    """No writer waits for another or touches its folder; after a kill the next one sweeps."""
    place = tmp_path / "x"
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    name = first.stdout.readline().strip()

    with own_folder(place) as folder:
        assert folder.name != name
        assert [] == list(folder.iterdir())
        assert "written" == (tmp_path / name / "half").read_text()
    first.kill()
    first.communicate(timeout=60)
    assert [name] == [path.name for path in tmp_path.iterdir()]
    with own_folder(place) as folder:
        assert [folder] == list(tmp_path.iterdir())
        assert [] == list(folder.iterdir())

    assert [] == list(tmp_path.iterdir())


def test_folder_swept_before_it_is_locked(tmp_path, monkeypatch):
    """A sweep between making and locking takes the folder away: the writer makes another."""
    lock, times = fcntl.flock, []

    def late(handle: int, how: int) -> None:
        lock(handle, how)
        if not times:
            (tmp_path / ".x.1.part").rmdir()
        times.append(how)

    monkeypatch.setattr(workfolder.fcntl, "flock", late)
    with own_folder(tmp_path / "x") as folder:
        assert [folder] == list(tmp_path.iterdir())
    assert 2 == len(times)


@pytest.mark.parametrize(("age", "left"), [(0, [".x.1.part"]), (2 * 86_400, [])], ids=["new", "old"])
def test_file_system_without_locks(tmp_path, monkeypatch, age, left):
    """Where folders cannot be locked, only old ones count as left."""

    def refuse(*_: object) -> None:
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr(workfolder.fcntl, "flock", refuse)
    other = tmp_path / ".x.1.part"
    other.mkdir()
    os.utime(other, (other.stat().st_mtime - age,) * 2)
    with own_folder(tmp_path / "x") as folder:
        (folder / "a").write_text("b")

    assert left == [path.name for path in tmp_path.iterdir()]


def test_others_beside_it_are_left(tmp_path):
    """A link under the name, another package's folder and a file are not touched, and not followed."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine").write_text("keep")
    (tmp_path / ".x.1.part").symlink_to(tmp_path / "elsewhere")
    (tmp_path / ".x.2.part").write_text("a file")
    (tmp_path / ".xx.1.part").mkdir()
    before = sorted(tmp_path.rglob("*"))

    with own_folder(tmp_path / "x") as folder:
        assert ".x.3.part" == folder.name

    assert before == sorted(tmp_path.rglob("*"))
