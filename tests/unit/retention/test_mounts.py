"""What is not found on a disk that is not mounted is not gone; what may not be looked at is not gone either."""

from __future__ import annotations

import os

import pytest
from tests.support.artifact_files import write_checkpoint

from pretrain_archive.artifacts.formats import inspect
from pretrain_archive.artifacts.hashing import hash_files
from pretrain_archive.artifacts.location import to_location
from pretrain_archive.retention import folders
from pretrain_archive.retention.files import Target
from pretrain_archive.retention.folders import FolderFiles
from pretrain_archive.retention.mounts import is_there, unmounted


@pytest.mark.case("R09")
def test_an_empty_mount_point_is_no_deletion(tmp_path, monkeypatch):
    """The system's table names it and nothing is mounted: unreachable, also right above the checkpoint."""
    point = tmp_path / "a volume"
    folder = write_checkpoint(point, 100)
    target = Target(
        ref="checkpoint:x",
        location=to_location(folder),
        files=tuple(hash_files(folder, inspect(folder).files)),
    )
    table = tmp_path / "fstab"
    table.write_text(
        "# a comment\n/dev/sdb1 " + str(point).replace(" ", "\\040") + " ext4 defaults 0 2\nbroken\n"
    )
    monkeypatch.setattr(folders, "unmounted", lambda path: unmounted(path, fstab=table))
    assert "present" == FolderFiles().look(target).presence
    folder.rename(tmp_path / "away")

    look = FolderFiles().look(target)

    assert "unreachable" == look.presence
    assert "nothing is mounted there" in look.detail
    assert point == unmounted(folder, fstab=table)
    assert unmounted(tmp_path / "beside", fstab=table) is None
    assert unmounted(folder, fstab=tmp_path / "none") is None


def test_what_is_mounted_is_no_gap(tmp_path):
    """The root is always mounted."""
    table = tmp_path / "fstab"
    table.write_text("/dev/sda1 / ext4 defaults 0 1\n")

    assert unmounted(tmp_path, fstab=table) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user than the folder's owner")
@pytest.mark.case("R09")
def test_a_folder_that_may_not_be_searched_says_nothing_about_what_is_in_it(tmp_path):
    """No right to look is an error and never an absence."""
    folder = write_checkpoint(tmp_path / "closed", 100)
    files = tuple(hash_files(folder, inspect(folder).files))
    target = Target(ref="checkpoint:x", location=to_location(folder), files=files)
    for path in (tmp_path, *tmp_path.parents[:2]):
        path.chmod(0o755)
    folder.parent.chmod(0o700)
    child = os.fork()
    if child == 0:
        os.setgid(65534)
        os.setuid(65534)
        try:
            is_there(folder)
            told = False
        except PermissionError:
            told = True
        os._exit(0 if told and FolderFiles().look(target).presence == "unreachable" else 1)
    _, status = os.waitpid(child, 0)

    assert 0 == os.waitstatus_to_exitcode(status)
