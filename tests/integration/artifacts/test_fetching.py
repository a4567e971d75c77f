"""Laying a checkpoint out that lies in a bucket: what was registered, every byte checked, or nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.fakes.memory_ledger import MemoryLedger
from tests.integration.artifacts.test_checkpoint_s3 import ACTOR, ORIGIN, Bucket, claim
from tests.support.artifact_files import write_checkpoint
from tests.support.s3 import S3Server, s3, s3_endpoint  # noqa: F401 - fixtures

from pretrain_archive.artifacts import evaluation
from pretrain_archive.artifacts.fetching import fetch, require_listed
from pretrain_archive.artifacts.readers import BucketReader
from pretrain_archive.artifacts.registration import register_checkpoint
from pretrain_archive.domain.errors import CheckpointError, RefusedError
from pretrain_archive.domain.kinds import CheckpointRegistered, FileDigest


class Kept:
    """A registered checkpoint in a bucket."""

    def __init__(self, server: S3Server, folder: Path) -> None:
        self.bucket = Bucket(server, versions=False)
        self.folder = write_checkpoint(folder, 100)
        self.reader: BucketReader = self.bucket.open(self.bucket.upload(self.folder, "runs/step_100"))
        fact = register_checkpoint(MemoryLedger(), self.reader, claim(), actor=ACTOR, origin=ORIGIN)
        assert isinstance(fact, CheckpointRegistered)
        self.fact = fact
        self.largest = max(fact.files, key=lambda file: file.size)

    def put(self, content: bytes) -> None:
        """Write the largest file anew."""
        self.bucket.put(f"runs/step_100/{self.largest.path}", content)


@pytest.fixture
def kept(s3: S3Server, tmp_path: Path) -> Kept:  # noqa: F811
    """One checkpoint."""
    return Kept(s3, tmp_path)


@pytest.mark.requirement("R101")
def test_what_was_registered_is_laid_out(kept: Kept, tmp_path: Path) -> None:
    """The same bytes under the same names, and the way is told; what lies beside them is left where it is."""
    kept.bucket.put("runs/step_100/beside.txt", b"not registered")
    told: list[tuple[int, int]] = []

    made = fetch(kept.fact, tmp_path / "copy", reader=kept.reader, progress=lambda *done: told.append(done))

    assert {file.path: (kept.folder / file.path).read_bytes() for file in kept.fact.files} == {
        str(path.relative_to(made)): path.read_bytes() for path in made.rglob("*") if path.is_file()
    }
    assert (len(kept.fact.files), sum(file.size for file in kept.fact.files)) == told[-1]
    require_listed(kept.fact, reader=kept.reader)


def test_other_bytes_are_not_laid_out(kept: Kept, tmp_path: Path) -> None:
    """Same size, another content: refused by digest, and no folder has the name of the checkpoint."""
    kept.put(b"\0" * kept.largest.size)

    with pytest.raises(CheckpointError, match=r"is sha256:\w+, sha256:\w+ was registered"):
        fetch(kept.fact, tmp_path / "copy", reader=kept.reader)

    assert not (tmp_path / "copy").exists()


def test_what_was_written_again_or_removed_is_told(kept: Kept, tmp_path: Path) -> None:
    """Before copying and after a program ended alike."""
    kept.put(b"short")
    with pytest.raises(CheckpointError, match="is 5 bytes long"):
        fetch(kept.fact, tmp_path / "copy", reader=kept.reader)
    with pytest.raises(CheckpointError, match="was written again"):
        require_listed(kept.fact, reader=kept.reader)

    kept.bucket.client.delete_object(Bucket=kept.bucket.bucket, Key=f"runs/step_100/{kept.largest.path}")

    with pytest.raises(CheckpointError, match="was removed"):
        fetch(kept.fact, tmp_path / "copy", reader=kept.reader)
    with pytest.raises(CheckpointError, match="was removed"):
        require_listed(kept.fact, reader=kept.reader)


def test_a_copy_that_was_changed_is_not_what_was_measured(
    kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program could write into it: every byte is read again."""
    monkeypatch.setattr(evaluation, "require_listed", lambda fact: require_listed(fact, reader=kept.reader))
    made = fetch(kept.fact, tmp_path / "copy", reader=kept.reader)
    evaluation.require_present(kept.fact, made)
    (made / kept.largest.path).write_bytes(b"\0" * kept.largest.size)

    with pytest.raises(CheckpointError, match="does not hold"):
        evaluation.require_present(kept.fact, made)


def test_a_full_disk_is_told_before_a_byte_is_copied(
    kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What must stay free stays free."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))

    with pytest.raises(RefusedError, match="1000 are free"):
        fetch(kept.fact, tmp_path / "copy", reader=kept.reader)

    assert [] == list(tmp_path.glob("copy*"))


def test_a_name_that_leads_out_is_not_written(kept: Kept, tmp_path: Path) -> None:
    """Whatever a record says: nothing is written beside the folder."""
    (tmp_path / "a").mkdir()
    forged = FileDigest(path="../out", size=3, sha256=kept.largest.sha256)
    listing = kept.reader.listing()
    entry = listing.files[0]

    class Lying:
        """A listing with a name that leads out."""

        def listing(self) -> SimpleNamespace:
            return SimpleNamespace(files=[SimpleNamespace(path="../out", size=3, mark=entry.mark)])

    with pytest.raises(CheckpointError, match="a name that no folder could hold"):
        fetch(kept.fact.model_copy(update={"files": [forged]}), tmp_path / "a" / "copy", reader=Lying())  # type: ignore[arg-type]

    assert not (tmp_path / "a" / "out").exists()
