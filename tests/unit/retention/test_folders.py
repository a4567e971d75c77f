"""Bytes of checkpoint folders and of objects: removed from the recorded list, counted, verified."""

from __future__ import annotations

import io
import json
import shutil

import pytest
from tests.support.artifact_files import write_checkpoint

from pretrain_archive.artifacts.formats import inspect
from pretrain_archive.artifacts.hashing import hash_files
from pretrain_archive.artifacts.location import to_location, to_path
from pretrain_archive.domain.errors import StorageError
from pretrain_archive.retention.files import Target, choose
from pretrain_archive.retention.folders import FolderFiles
from pretrain_archive.retention.objects import StoreFiles
from pretrain_archive.storage.files import FileStore

PLAN = "sha256:" + "e" * 64


@pytest.fixture
def folder(tmp_path):
    """A checkpoint in a folder whose name needs escaping."""
    return write_checkpoint(tmp_path / "50% new\nline é", 100)


@pytest.fixture
def target(folder):
    """What the ledger knows of it."""
    files = hash_files(folder, inspect(folder).files)
    return Target(ref="checkpoint:ckpt_x", location=to_location(folder), files=tuple(files))


@pytest.mark.case("R09")
def test_a_whole_folder_goes_and_is_counted(folder, target):
    """Nothing stays but the journal, and after the tombstone not even that."""
    size = sum(file.size for file in target.files)
    place = FolderFiles()

    removed = place.remove(target, plan_digest=PLAN)
    assert (size, False) == (removed.bytes_released, removed.already_missing)
    assert [".step_00000100.retention.json"] == [path.name for path in folder.parent.iterdir()]
    assert place.look(target).begun

    place.finish(target)
    assert [] == list(folder.parent.iterdir())


@pytest.mark.case("R09")
def test_what_somebody_removed_was_already_missing(folder, target):
    """It is told apart from our own removal."""
    shutil.rmtree(folder)

    removed = FolderFiles().remove(target, plan_digest=PLAN)

    assert (0, True) == (removed.bytes_released, removed.already_missing)


@pytest.mark.case("R09")
def test_what_is_half_gone_is_finished_from_the_record(folder, target):
    """The list is the ledger's, not the folder's."""
    (folder / "state.json").unlink()
    left = sum(path.stat().st_size for path in folder.iterdir())

    removed = FolderFiles().remove(target, plan_digest=PLAN)

    assert (left, False) == (removed.bytes_released, removed.already_missing)
    assert not folder.exists()


@pytest.mark.case("R09")
def test_a_missing_parent_is_not_taken_for_gone(folder, target):
    """A disk that is not mounted loses nothing."""
    folder.parent.rename(folder.parent.with_name("away"))
    place = FolderFiles()

    assert "unreachable" == place.look(target).presence
    with pytest.raises(StorageError, match="is its disk mounted"):
        place.remove(target, plan_digest=PLAN)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda d: (d / "notes.txt").write_text("mine"), id="another file"),
        pytest.param(
            lambda d: (d / "sub").mkdir() or (d / "sub" / "x").write_text("mine"), id="file in a folder"
        ),
        pytest.param(lambda d: (d / "model.safetensors").write_bytes(b"other"), id="another size"),
        pytest.param(lambda d: (d / "link").symlink_to("/etc"), id="link to a folder"),
        pytest.param(lambda d: shutil.rmtree(d) or d.symlink_to("/tmp"), id="the folder is a link"),
        pytest.param(lambda d: shutil.rmtree(d) or d.write_text("x"), id="the folder is a file"),
    ],
)
def test_what_was_not_recorded_is_never_removed(folder, target, spoil):
    """One strange thing, and nothing goes."""
    spoil(folder)
    before = sorted(str(path) for path in folder.parent.rglob("*"))

    with pytest.raises(StorageError):
        FolderFiles().remove(target, plan_digest=PLAN)

    assert before == sorted(str(path) for path in folder.parent.rglob("*"))


def test_the_marker_goes_first(target):
    """A half-removed checkpoint is never taken for a whole one."""
    steps = []

    FolderFiles(on_step=steps.append).remove(target, plan_digest=PLAN)

    assert ["journal", "unlink .complete"] == steps[:2]


def test_the_count_survives_a_cut_removal(folder, target):
    """Bytes that went in the first try are in the sum of the second."""
    size = sum(file.size for file in target.files)

    def cut(step: str) -> None:
        if step == "unlink optimizer.safetensors":
            raise OSError(5, "cut")

    with pytest.raises(StorageError, match="cut"):
        FolderFiles(on_step=cut).remove(target, plan_digest=PLAN)
    assert not (folder / "model.safetensors").exists()

    assert size == FolderFiles().remove(target, plan_digest=PLAN).bytes_released


def test_a_removal_that_took_nothing_leaves_no_journal(target):
    """It can be tried again as if for the first time."""

    def deny(step: str) -> None:
        if step.startswith("unlink"):
            raise PermissionError(13, "denied")

    with pytest.raises(StorageError, match="denied"):
        FolderFiles(on_step=deny).remove(target, plan_digest=PLAN)

    assert not FolderFiles().look(target).begun
    assert "present" == FolderFiles().look(target).presence


def test_an_address_leads_back_to_its_folder(folder):
    """Any byte of a name survives."""
    assert folder == to_path(to_location(folder))
    assert to_path("s3://bucket/key") is None
    assert to_path("file://host/path") is None


@pytest.fixture
def objects(tmp_path):
    """A checkpoint as objects of a store, and a neighbour that must stay."""
    store = FileStore(tmp_path / "store")
    folder = write_checkpoint(tmp_path, 100)
    files = hash_files(folder, inspect(folder).files)
    for file in files:
        store.put_if_absent(f"runs/r 1/step_100/{file.path}", io.BytesIO((folder / file.path).read_bytes()))
    store.put_if_absent("runs/r 1/step_1000/x", io.BytesIO(b"neighbour"))
    target = Target(ref="checkpoint:ckpt_x", location=store.location("runs/r 1/step_100"), files=tuple(files))
    return store, target


def test_objects_go_and_their_neighbours_stay(objects):
    """Prefixes end at a slash; the journal is an object, too."""
    store, target = objects
    place = StoreFiles(store)
    assert place is choose([place, FolderFiles()], target.location)

    removed = place.remove(target, plan_digest=PLAN)
    assert sum(file.size for file in target.files) == removed.bytes_released
    assert ("missing", True) == (place.look(target).presence, place.look(target).begun)
    place.finish(target)

    assert ["runs/r 1/step_1000/x"] == [info.key for info in store.list("")]


def test_objects_that_were_not_recorded_stop_the_removal(objects):
    """Nothing goes."""
    store, target = objects
    store.put_if_absent("runs/r 1/step_100/mine", io.BytesIO(b"mine"))

    with pytest.raises(StorageError, match="mine"):
        StoreFiles(store).remove(target, plan_digest=PLAN)
    assert "changed" == StoreFiles(store).look(target).presence


@pytest.mark.case("R05")
def test_an_object_that_cannot_go_is_named_and_the_others_go(objects, monkeypatch):
    """What is left is listed; the next pass takes only that and counts everything."""
    store, target = objects
    delete = store.delete

    def locked(key: str) -> None:
        if key.endswith("optimizer.safetensors"):
            raise StorageError("object lock")
        delete(key)

    monkeypatch.setattr(store, "delete", locked)
    with pytest.raises(
        StorageError,
        match=r"still there: runs/r 1/step_100/optimizer.safetensors \(StorageError: object lock",
    ):
        StoreFiles(store).remove(target, plan_digest=PLAN)
    monkeypatch.undo()

    removed = StoreFiles(store).remove(target, plan_digest=PLAN)
    assert sum(file.size for file in target.files) == removed.bytes_released


def test_the_journal_is_plain_json(folder, target):
    """A person can read what was under way."""
    FolderFiles().remove(target, plan_digest=PLAN)

    body = json.loads((folder.parent / ".step_00000100.retention.json").read_text())
    assert {"ref", "plan_digest", "bytes"} == set(body)
