"""Bringing files to the disk: one by one, all at once, and saying so where it fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pretrain_archive.package import flushing
from pretrain_archive.package.flushing import flush_files, flush_folder


@pytest.fixture
def written(tmp_path: Path) -> list[str]:
    """Enough files to be flushed at once."""
    names = [f"f{number}" for number in range(flushing.MANY)]
    for name in names:
        (tmp_path / name).write_text(name)
    return names


def test_many_and_few_files_are_flushed(tmp_path: Path, written: list[str]) -> None:
    """Both ways end without an error on a file system that works."""
    flush_files(tmp_path, written)
    flush_files(tmp_path, written[:3])
    flush_folder(tmp_path)


def test_a_failed_flush_is_an_error(
    tmp_path: Path, written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that does not take what it was given ends the close."""
    import ctypes

    def fails(_handle: int) -> int:
        ctypes.set_errno(errno.EIO)
        return -1

    monkeypatch.setattr(flushing, "_syncfs", lambda: fails)
    with pytest.raises(OSError, match="Input/output") as caught:
        flush_files(tmp_path, written)
    assert errno.EIO == caught.value.errno


def test_without_the_system_call_every_file_is_flushed(
    tmp_path: Path, written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old kernel or another system: one fsync for each file."""
    flushed: list[int] = []
    monkeypatch.setattr(flushing, "_syncfs", lambda: None)
    monkeypatch.setattr(os, "fsync", flushed.append)
    flush_files(tmp_path, written)

    assert len(written) == len(flushed)


@pytest.mark.parametrize(
    ("system", "release", "there"),
    [
        pytest.param("Linux", "6.1.0-generic", True, id="tells of failures"),
        pytest.param("Linux", "5.7.19", False, id="keeps failures to itself"),
        pytest.param("Linux", "5.8", True, id="the first that tells"),
        pytest.param("Darwin", "23.1.0", False, id="another system"),
    ],
)
def test_the_call_is_used_where_it_tells_of_failures(
    monkeypatch: pytest.MonkeyPatch, system: str, release: str, there: bool
) -> None:
    """Before Linux 5.8 a failed write was not reported by it."""
    monkeypatch.setattr(flushing.platform, "system", lambda: system)
    monkeypatch.setattr(flushing.platform, "release", lambda: release)

    assert there == (flushing._syncfs.__wrapped__() is not None)
