"""A folder is read in the state in which it was listed, and a path never leads out of it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.support.artifact_files import write_checkpoint

from pretrain_archive.artifacts import readers
from pretrain_archive.artifacts.formats import inspect
from pretrain_archive.artifacts.readers import FileEntry, FolderReader
from pretrain_archive.domain.errors import CheckpointError


def entry_of(folder: Path, name: str) -> FileEntry:
    """A file as a listing gives it."""
    return next(file for file in FolderReader(folder).listing().files if file.path == name)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda p: p.write_bytes(p.read_bytes()), id="written again"),
        pytest.param(lambda p: (p.rename(p.with_suffix(".old")), p.write_bytes(b"x")), id="replaced"),
        pytest.param(lambda p: (p.unlink(), p.symlink_to("model.safetensors")), id="a link in its place"),
        pytest.param(lambda p: (p.unlink(), os.mkfifo(p)), id="a pipe in its place"),
        pytest.param(lambda p: (p.unlink(), p.mkdir()), id="a folder in its place"),
        pytest.param(lambda p: p.unlink(), id="gone"),
    ],
)
def test_only_the_listed_state_of_a_file_is_opened(tmp_path, change):
    """Anything else is an error with the file's name, and nothing waits for a writer."""
    folder = write_checkpoint(tmp_path, 100)
    entry = entry_of(folder, "state.json")
    readers.wait_granule([entry])
    change(folder / "state.json")

    with pytest.raises(CheckpointError, match=r"^state\.json"):
        FolderReader(folder).open(entry)


def test_a_folder_swapped_for_a_link_gives_other_files_away(tmp_path):
    """The file behind the link is another inode than the listed one."""
    folder, other = tmp_path / "c", tmp_path / "other"
    for place in (folder / "below", other):
        place.mkdir(parents=True)
        (place / "a.bin").write_bytes(b"x")
    entry = entry_of(folder, "below/a.bin")
    (folder / "below").rename(tmp_path / "away")
    (folder / "below").symlink_to(other)

    with pytest.raises(CheckpointError, match="changed while it was read"):
        FolderReader(folder).open(entry)


def test_reading_waits_until_a_write_would_show(tmp_path):
    """A file written this moment is not hashed before the clock that stamps it has moved on."""
    folder = write_checkpoint(tmp_path, 100)
    files = FolderReader(folder).listing().files

    readers.wait_granule(files)

    newest = max(int(file.mark[4]) for file in files)
    assert time.time_ns() - newest >= readers.GRANULE_SECONDS * 1e9


def test_old_files_wait_for_nothing(tmp_path, monkeypatch):
    """Nothing is waited for when nothing was written just now."""
    folder = write_checkpoint(tmp_path, 100)
    files = FolderReader(folder).listing().files
    time.sleep(2 * readers.GRANULE_SECONDS)
    monkeypatch.setattr(readers.time, "sleep", lambda _: pytest.fail("waited"))

    readers.wait_granule(files)


def test_links_and_devices_are_faults(tmp_path):
    """They are named, and neither followed nor opened."""
    folder = write_checkpoint(tmp_path, 100)
    (folder / "link.safetensors").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")

    problems = inspect(folder).problems

    assert {
        "link.safetensors is a link or device, not a file",
        "pipe is a link or device, not a file",
    } == set(problems)


def test_a_range_is_never_larger_than_the_file(tmp_path):
    """What is asked for beyond its end is not allocated."""
    folder = write_checkpoint(tmp_path, 100)
    entry = entry_of(folder, "state.json")

    assert entry.size == len(FolderReader(folder).read(entry, 0, 1 << 50))
    assert b"" == FolderReader(folder).read(entry, entry.size + 5, 1 << 50)


def test_a_folder_of_too_many_files_is_no_checkpoint(tmp_path, monkeypatch):
    """Its listing must not fill the memory."""
    monkeypatch.setattr(readers, "MOST_FILES", 3)

    assert "more than 3 files" in inspect(write_checkpoint(tmp_path, 100)).problems[0]


def test_names_that_are_not_text_survive(tmp_path):
    """A name is bytes: it is listed, read and found again."""
    folder = write_checkpoint(tmp_path, 100)
    (folder / os.fsdecode(b"odd \xff\n%41")).write_bytes(b"content")

    entry = entry_of(folder, "odd %FF%0A%2541")

    assert b"content" == FolderReader(folder).read(entry, 0, 100)
