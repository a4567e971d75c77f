"""Unchanged files are not hashed twice, and no changed one passes for unchanged."""

from __future__ import annotations

import hashlib
import json
import os
import time

import pytest
from tests.support.artifact_files import write_checkpoint
from tests.unit.artifacts.test_registration import claim

from pretrain_archive import config
from pretrain_archive.artifacts import hash_stamps, readers
from pretrain_archive.artifacts.formats import inspect
from pretrain_archive.artifacts.hash_stamps import HashStamps
from pretrain_archive.artifacts.hashing import hash_checkpoint
from pretrain_archive.artifacts.readers import FileEntry, FolderReader
from pretrain_archive.artifacts.registration import Reading, register_checkpoint
from pretrain_archive.artifacts.verification import CHECK, CHECK_STAMPED, verify_checkpoint
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Verdict
from pretrain_archive.services.checkpoints import stamps_of


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """The files that were opened, in order."""
    names: list[str] = []
    true_open = FolderReader.open

    def counted(self, file):
        names.append(file.path)
        return true_open(self, file)

    monkeypatch.setattr(FolderReader, "open", counted)
    return names


@pytest.fixture
def aged(monkeypatch):
    """Make files old enough at once: a change time cannot be set back, so the age that is asked for is none."""
    monkeypatch.setattr(hash_stamps, "AGE_NS", -1_000_000_000)


@pytest.mark.usefixtures("aged")
def test_unchanged_files_are_not_opened_again(tmp_path, opened):
    """The second time only the listing is looked at, and the digests are the same."""
    folder = write_checkpoint(tmp_path / "run", 100)
    files = inspect(folder).files

    first = hash_checkpoint(folder, files, stamps=HashStamps(tmp_path))
    opened.clear()
    second = hash_checkpoint(folder, files, stamps=HashStamps(tmp_path))

    assert [] == opened
    assert (first.files, 4, 0) == (second.files, second.known, second.read)
    assert "every byte of 4 files read" in first.told()
    assert "4 not written since" in second.told()


def test_a_file_that_was_just_written_is_hashed_anew(tmp_path, opened):
    """A write in the same tick of the clock would leave the same stamp: its digest is not kept."""
    folder = write_checkpoint(tmp_path / "run", 100)
    files = inspect(folder).files

    hash_checkpoint(folder, files, stamps=HashStamps(tmp_path))
    opened.clear()

    assert 4 == hash_checkpoint(folder, files, stamps=HashStamps(tmp_path)).read
    assert 4 == len(opened)


@pytest.mark.usefixtures("aged")
def test_an_edit_that_restores_size_and_time_is_read(tmp_path):
    """The change time cannot be set back."""
    folder = write_checkpoint(tmp_path / "run", 100)
    path = folder / "model.safetensors"
    first = hash_checkpoint(folder, inspect(folder).files, stamps=HashStamps(tmp_path))
    before = path.stat()
    time.sleep(readers.GRANULE_SECONDS)

    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = hash_checkpoint(folder, inspect(folder).files, stamps=HashStamps(tmp_path))

    assert (3, 1) == (second.known, second.read)
    digests = {file.path: file.sha256 for file in second.files}
    assert hashlib.sha256(raw).hexdigest() == digests["model.safetensors"]
    assert first.files != second.files


@pytest.mark.usefixtures("aged")
def test_a_file_in_place_of_another_is_read(tmp_path):
    """Another inode of the same size and time is another file."""
    folder = write_checkpoint(tmp_path / "run", 100)
    path = folder / "model.safetensors"
    hash_checkpoint(folder, inspect(folder).files, stamps=HashStamps(tmp_path))
    before = path.stat()
    other = folder.parent / "other"
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)

    assert 1 == hash_checkpoint(folder, inspect(folder).files, stamps=HashStamps(tmp_path)).read


@pytest.mark.usefixtures("aged")
def test_times_of_network_file_systems_are_not_trusted(tmp_path, monkeypatch):
    """There every byte is read, every time."""
    monkeypatch.setattr(hash_stamps, "trusted_devices", set)
    folder = write_checkpoint(tmp_path / "run", 100)

    for _ in range(2):
        assert 4 == hash_checkpoint(folder, inspect(folder).files, stamps=HashStamps(tmp_path)).read


def signed(stamps: object) -> str:
    """A document of stamps that is whole, whatever it holds."""
    body = json.dumps(stamps)
    digest = hashlib.sha256(body.encode()).hexdigest()
    return json.dumps(
        {"format": hash_stamps.FORMAT, **hash_stamps.this_boot(), "digest": digest, "stamps": body}
    )


@pytest.mark.usefixtures("aged")
@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda p: p.write_text("{"), id="cut"),
        pytest.param(lambda p: p.write_text("[" * 100_000), id="nested"),
        pytest.param(lambda p: p.write_text(p.read_text().replace("a", "b")), id="digits changed"),
        pytest.param(lambda p: p.write_text("[]"), id="another kind"),
        pytest.param(
            lambda p: p.write_text(json.dumps(json.loads(p.read_text()) | {"boot": "x"})),
            id="of another boot",
        ),
        pytest.param(lambda p: p.chmod(0o666), id="others may write it"),
        pytest.param(lambda p: (p.rename(p.with_name("x")), p.symlink_to(p.with_name("x"))), id="a link"),
        pytest.param(lambda p: p.write_text(signed({"k": 5})), id="no digest"),
        pytest.param(lambda p: p.write_text(signed(5)), id="no map of stamps"),
    ],
)
def test_stamps_that_are_not_whole_count_as_none(tmp_path, spoil):
    """A cache that cannot be read costs a reading."""
    folder = write_checkpoint(tmp_path / "run", 100)
    hash_checkpoint(folder, inspect(folder).files, stamps=HashStamps(tmp_path))
    spoil(tmp_path / hash_stamps.NAME)

    assert 4 == hash_checkpoint(folder, inspect(folder).files, stamps=HashStamps(tmp_path)).read


@pytest.mark.usefixtures("aged")
def test_a_run_cannot_vouch_for_its_own_files(tmp_path, monkeypatch):
    """Stamps that its program plants in the run's folder are not those that count: these lie beside the ledger."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "home"))
    run = tmp_path / "home" / "pretrain_archive" / "work" / "runs" / "run_1"
    folder = write_checkpoint(run / "checkpoints", 100)
    files = inspect(folder).files
    hash_checkpoint(folder, files, stamps=HashStamps(run))  # what a program could write as well

    ours = stamps_of(RunView.of("run_1", []))
    assert 4 == hash_checkpoint(folder, files, stamps=ours).read

    assert 4 == hash_checkpoint(folder, files, stamps=stamps_of(RunView.of("run_1", []))).known
    assert 0 == hash_checkpoint(folder, files, stamps=stamps_of(RunView.of("run_2", []))).known
    (kept,) = (tmp_path / "home").rglob("run_1.*")
    assert (config.work_folder() not in kept.parents, 0o700) == (True, kept.parent.stat().st_mode & 0o777)


@pytest.mark.usefixtures("aged")
def test_stamps_of_an_earlier_boot_are_removed(tmp_path):
    """They count no more, and their run may be over; those of this boot stay, and so does everything else."""
    folder = write_checkpoint(tmp_path / "run", 100)
    for name in (f"run_1.{hash_stamps.NAME}", f"run_2.{hash_stamps.NAME}", "other.json"):
        (tmp_path / name).write_text("{}")
        if "2" not in name:
            os.utime(tmp_path / name, (1, 1))

    hash_checkpoint(folder, inspect(folder).files, stamps=HashStamps(tmp_path, of="run_3"))

    left = sorted(path.name.partition(".")[0] for path in tmp_path.glob("*.json"))
    assert ["other", "run_2", "run_3"] == left


@pytest.mark.usefixtures("aged")
def test_the_store_is_bounded_and_drops_what_was_used_least(tmp_path, monkeypatch):
    """The newest stay."""
    monkeypatch.setattr(hash_stamps, "MOST", 3)
    stamps = HashStamps(tmp_path)
    device = next(iter(hash_stamps.trusted_devices()))
    entries = [FileEntry(path=str(n), size=n, mark=(device, n, n, 1, 1)) for n in range(5)]
    for entry in entries:
        stamps.note("file:///x", entry, f"{entry.size:064x}", began_ns=time.time_ns())
    assert stamps.known("file:///x", entries[2]) == f"{2:064x}"
    stamps.keep()

    again = HashStamps(tmp_path)
    assert [False, False, True, True, True] == [bool(again.known("file:///x", entry)) for entry in entries]


@pytest.mark.parametrize(("version", "kept"), [("v1", True), ("null", False), (None, False)])
def test_of_an_object_only_a_version_id_is_proof(tmp_path, version, kept):
    """Where versioning is suspended, or was never on, an object is written over in place."""
    entry = FileEntry(path="a", size=1, version=version, mark=('"etag"', "now", 1, version or ""))
    stamps = HashStamps(tmp_path)
    stamps.note("s3://b/c", entry, "0" * 64, began_ns=time.time_ns())

    assert kept == (stamps.known("s3://b/c", entry) is not None)
    assert stamps.known("s3://b/other", entry) is None


@pytest.mark.usefixtures("aged")
@pytest.mark.requirement("R101")
def test_registration_says_how_files_were_checked_and_verification_may_ignore_stamps(
    tmp_path, ledger, actor, origin, opened
):
    """By default every byte is read again; with stamps nothing is opened, and the item says so."""
    folder = write_checkpoint(tmp_path / "run", 100)
    reading = Reading(stamps=HashStamps(tmp_path))
    fact = register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin, reading=reading)
    assert "every byte of 4 files read" in fact.check

    opened.clear()
    stamped = verify_checkpoint(fact, stamps=HashStamps(tmp_path))
    assert ([], {Verdict.VERIFIED}, {CHECK_STAMPED}) == (
        opened, {item.verdict for item in stamped}, {item.check for item in stamped},
    )  # fmt: skip
    read = verify_checkpoint(fact)
    assert (4, {CHECK}) == (len(opened), {item.check for item in read})


@pytest.mark.usefixtures("aged")
def test_a_registered_checkpoint_that_was_not_written_since_is_found_without_opening_a_file(
    tmp_path, ledger, actor, origin, opened
):
    """The second registration is a listing; with one file changed everything is looked at again."""
    folder = write_checkpoint(tmp_path / "run", 100)

    def register(attempt: int = 1):
        reading = Reading(stamps=HashStamps(tmp_path))
        return register_checkpoint(
            ledger, folder, claim(attempt=attempt), actor=actor, origin=origin, reading=reading
        )

    first = register()
    opened.clear()
    assert (first, []) == (register(), opened)

    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:-1] + b"\x00")
    second = register(attempt=2)
    assert first.digest != second.digest
    assert "1 files read and hashed with SHA-256; 3 not written since" in second.check


def test_progress_tells_files_and_bytes(tmp_path):
    """The total is announced, and the last call has all of it."""
    folder = write_checkpoint(tmp_path / "run", 100)
    calls: list[tuple[int, int]] = []

    class Told:
        def expect(self, files: int, size: int) -> None:
            calls.append((files, size))

        def __call__(self, files: int, size: int) -> None:
            calls.append((files, size))

    hash_checkpoint(folder, inspect(folder).files, progress=Told())

    total = sum(path.stat().st_size for path in folder.iterdir())
    assert [(4, total), (4, total)] == [calls[0], calls[-1]]
