"""The same step with other bytes: every generation keeps its record, and an overwritten source is said."""

from __future__ import annotations

import dataclasses
import shutil
import threading
from pathlib import Path

import pytest
from tests.support.artifact_files import write_checkpoint
from tests.unit.artifacts.conftest import RUN
from tests.unit.artifacts.test_registration import claim, refusals

from pretrain_archive.artifacts import hashing, readers
from pretrain_archive.artifacts.generations import History, overwritten
from pretrain_archive.artifacts.readers import FolderReader
from pretrain_archive.artifacts.registration import Reading, current, register_checkpoint, registered
from pretrain_archive.artifacts.verification import search_verified
from pretrain_archive.domain.errors import CheckpointError
from pretrain_archive.domain.run_view import RunView

FIRST, SECOND = b"AAAA" * 4, b"BBBB" * 4


def view(ledger) -> RunView:
    """The run as it is recorded now."""
    return RunView.of(RUN, ledger.records())


def rewrite(folder: Path, content: bytes) -> None:
    """A rewound attempt writes the step again, into the same folder."""
    shutil.rmtree(folder)
    write_checkpoint(folder.parent, 100, content=content)


@pytest.mark.case("C09")
def test_the_same_path_with_other_bytes_is_a_second_generation(tmp_path, ledger, actor, origin):
    """Both are on record with their attempts; the first is marked as overwritten, and its fact is as it was."""
    folder = write_checkpoint(tmp_path, 100, content=FIRST)
    first = register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin)
    stored = ledger.log[0].payload

    rewrite(folder, SECOND)
    retry = dataclasses.replace(origin, try_number=2)
    second = register_checkpoint(ledger, folder, claim(attempt=2), actor=actor, origin=retry)

    assert [(1, first.digest), (2, second.digest)] == [
        (fact.attempt, fact.digest) for fact in current(view(ledger)).values()
    ]
    assert first.digest != second.digest
    mark = overwritten(view(ledger))[first.checkpoint_id]
    assert (second.checkpoint_id, second.digest, 2, first.location) == (
        mark.replaced_by, mark.found_digest, mark.found_attempt, mark.location,
    )  # fmt: skip
    assert {first.checkpoint_id} == set(overwritten(view(ledger)))
    assert stored == ledger.log[0].payload
    assert [1, 2] == [record.origin.try_number for record, _ in registered(ledger, RUN)]


@pytest.mark.case("C09")
def test_the_first_bytes_from_another_path_are_the_first_checkpoint(tmp_path, ledger, actor, origin):
    """A third call adds nothing and gives the first id."""
    folder = write_checkpoint(tmp_path / "a", 100, content=FIRST)
    first = register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin)
    rewrite(folder, SECOND)
    register_checkpoint(
        ledger, folder, claim(attempt=2), actor=actor, origin=dataclasses.replace(origin, try_number=2)
    )
    before = len(ledger.log)

    copy = write_checkpoint(tmp_path / "b", 100, content=FIRST)
    third = register_checkpoint(
        ledger, copy, claim(attempt=2), actor=actor, origin=dataclasses.replace(origin, try_number=3)
    )

    assert (first.checkpoint_id, before) == (third.checkpoint_id, len(ledger.log))


@pytest.mark.case("C09")
def test_other_bytes_within_the_attempt_are_refused_and_the_first_is_marked(tmp_path, ledger, actor, origin):
    """Nothing takes its place, but that its files are gone is on record, once."""
    folder = write_checkpoint(tmp_path, 100, content=FIRST)
    first = register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin)
    rewrite(folder, SECOND)

    for _ in range(2):
        with pytest.raises(CheckpointError, match="other content"):
            register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin)

    mark = overwritten(view(ledger))[first.checkpoint_id]
    assert mark.replaced_by is None
    assert ["checkpoint.registered", "checkpoint.overwritten", "checkpoint.refused"] == [
        record.kind for record in ledger.log
    ]


def test_another_path_leaves_the_first_valid(tmp_path, ledger, actor, origin):
    """Nothing was overwritten."""
    register_checkpoint(
        ledger, write_checkpoint(tmp_path / "a", 100, content=FIRST), claim(), actor=actor, origin=origin
    )
    register_checkpoint(
        ledger, write_checkpoint(tmp_path / "b", 100, content=SECOND), claim(attempt=2), actor=actor,
        origin=dataclasses.replace(origin, try_number=2),
    )  # fmt: skip

    assert {} == overwritten(view(ledger))


def test_an_overwritten_checkpoint_is_passed_over_with_its_cause(tmp_path, ledger, actor, origin):
    """Whoever resumes reads why the first one is not taken."""
    folder = write_checkpoint(tmp_path, 100, content=FIRST)
    register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin)
    rewrite(folder, SECOND)
    second = register_checkpoint(
        ledger, folder, claim(attempt=2), actor=actor, origin=dataclasses.replace(origin, try_number=2)
    )
    (folder / "model.safetensors").unlink()

    looked = search_verified(view(ledger))

    assert looked.found is None
    assert f"its source was overwritten in attempt 2 by {second.checkpoint_id}" == looked.unfit[1].problems[0]


@pytest.mark.parametrize(
    "meanwhile",
    [
        pytest.param(lambda d: _append(d / "optimizer.safetensors"), id="a file grows"),
        pytest.param(lambda d: _touch(d / "model.safetensors"), id="a file is written again"),
        pytest.param(lambda d: (d / "late.bin").write_bytes(b"x"), id="a file comes"),
        pytest.param(lambda d: (d / ".complete").unlink(), id="the marker goes"),
    ],
)
def test_a_checkpoint_that_moves_while_it_is_hashed_is_refused(
    tmp_path, ledger, actor, origin, monkeypatch, meanwhile
):
    """Between the first and the last look nothing may have been written, also where every size is the same."""
    folder = write_checkpoint(tmp_path, 100)
    true_hash = hashing.hash_checkpoint

    def slowly(*args, **kwargs):
        found = true_hash(*args, **kwargs)
        meanwhile(folder)
        return found

    monkeypatch.setattr(hashing, "hash_checkpoint", slowly)

    with pytest.raises(CheckpointError, match=r"after (it was|the others were) read"):
        register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin)
    assert [] == registered(ledger, RUN)


def _append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def _touch(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content)


def test_a_writer_that_goes_on_is_noticed(tmp_path, ledger, actor, origin):
    """A file that another thread keeps writing, size unchanged, is not registered, whenever it is looked at."""
    folder = write_checkpoint(tmp_path, 100)
    path, stop = folder / "model.safetensors", threading.Event()
    size = path.stat().st_size

    def write() -> None:
        with path.open("r+b", buffering=0) as file:
            while not stop.is_set():
                file.seek(size - 4)
                file.write(b"\x09\x08\x07\x06")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with pytest.raises(CheckpointError, match=r"while it is read|while it was read|after it was read"):
            register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin)
    finally:
        stop.set()
        writer.join()
    assert 1 == len(refusals(ledger))


def test_a_write_in_the_tick_of_the_listing_moves_the_mark(tmp_path):
    """After the wait, whatever is written differs in its mark, though size and content are the same."""
    folder = write_checkpoint(tmp_path, 100)
    for _ in range(20):
        _touch(folder / "model.safetensors")
        before = FolderReader(folder).listing().files
        readers.wait_granule(before)
        _touch(folder / "model.safetensors")
        assert ["model.safetensors changed after it was read: it was written again"] == hashing.changed_since(
            folder, before
        )


def test_bytes_are_on_the_disk_before_the_record(tmp_path, ledger, actor, origin, monkeypatch):
    """Every file is synced before anything is appended."""
    folder, order = write_checkpoint(tmp_path, 100), []
    true_sync, true_append = readers.os.fsync, ledger.append
    monkeypatch.setattr(readers.os, "fsync", lambda handle: order.append("sync") or true_sync(handle))
    monkeypatch.setattr(ledger, "append", lambda drafts: order.append("append") or true_append(drafts))

    register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin)

    assert [*["sync"] * 4, "append"] == order


def test_many_registrations_read_the_records_once(tmp_path, ledger, actor, origin, monkeypatch):
    """With one history for all, each record of the run is read once; what another writer adds is seen."""
    read = []
    true_records = ledger.records

    def counted(**kwargs):
        for record in true_records(**kwargs):
            read.append(record.position)
            yield record

    monkeypatch.setattr(ledger, "records", counted)
    reading = Reading(history=History(ledger, RUN))
    for step in range(1, 21):
        content = step.to_bytes(16, "little")
        folder = write_checkpoint(tmp_path, step, content=content)
        register_checkpoint(ledger, folder, claim(step), actor=actor, origin=origin, reading=reading)

    assert sorted(set(read)) == sorted(read)
    other = write_checkpoint(tmp_path / "other", 21, content=b"1" * 16)
    first = register_checkpoint(ledger, other, claim(21), actor=actor, origin=origin)
    assert first == register_checkpoint(ledger, other, claim(21), actor=actor, origin=origin, reading=reading)
