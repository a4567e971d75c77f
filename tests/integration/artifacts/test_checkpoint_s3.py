"""Checkpoints in a bucket: the same parsers, the same records, over a real S3 server."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tests.fakes.memory_ledger import MemoryLedger
from tests.support.artifact_files import write_checkpoint, write_folder, write_sharded
from tests.support.s3 import S3Server, s3, s3_endpoint  # noqa: F401 - fixtures

from pretrain_archive.artifacts import readers
from pretrain_archive.artifacts.formats import inspect
from pretrain_archive.artifacts.hash_stamps import HashStamps
from pretrain_archive.artifacts.hashing import hash_files
from pretrain_archive.artifacts.location import address_of, below, to_bucket
from pretrain_archive.artifacts.pointers import list_checkpoints, resolve_latest
from pretrain_archive.artifacts.readers import BucketReader, open_reader
from pretrain_archive.artifacts.registration import Claim, Reading, register_checkpoint, registered
from pretrain_archive.artifacts.roots import open_root
from pretrain_archive.artifacts.scanning import scan
from pretrain_archive.artifacts.verification import newest_verified_anywhere, verify_checkpoint
from pretrain_archive.domain.errors import CheckpointError, InputError, StorageError
from pretrain_archive.domain.kinds import CheckpointRefused
from pretrain_archive.domain.records import Actor, Origin
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Verdict
from pretrain_archive.storage.factory import open_bucket

RUN = "run_019a0000-0000-7000-8000-000000000001"
ACTOR = Actor(type="task", name="register_checkpoints")
ORIGIN = Origin(dag_id="pretraining_reference", dag_run_id="manual__1", task_id="register_checkpoints")


def claim(step: int = 100, **changes: object) -> Claim:
    """What the run says about the checkpoint of ``step``."""
    known = Claim(
        run_uid=RUN, attempt=1, step=step, tokens=None, snapshot="stdlib@1",
        configuration_digest="sha256:" + "c" * 64, responsible="alice",
    )  # fmt: skip
    return dataclasses.replace(known, **changes)


@pytest.fixture
def ledger() -> MemoryLedger:
    """An empty ledger."""
    return MemoryLedger()


class Bucket:
    """A bucket and one client for it: making a client takes longer than all of its requests here."""

    def __init__(self, server: S3Server, *, versions: bool) -> None:
        self.bucket = server.bucket
        self.options = server.options
        self.client = server.client()
        self.versions = versions
        self._source = open_bucket(server.bucket, s3_options=server.options)
        if versions:
            on = {"Status": "Enabled"}
            self.client.put_bucket_versioning(Bucket=server.bucket, VersioningConfiguration=on)

    def upload(self, folder: Path, prefix: str) -> str:
        """Put every file of ``folder`` below ``prefix``; the address of it."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{prefix}/{path.relative_to(folder)}", path.read_bytes())
        return f"s3://{self.bucket}/{prefix}"

    def put(self, key: str, content: bytes) -> None:
        """Put one object."""
        self.client.put_object(Bucket=self.bucket, Key=key, Body=content)

    def open(self, address: str) -> BucketReader:
        """The reader of an address here."""
        found = to_bucket(address)
        assert found is not None
        assert self.bucket == found[0]
        return BucketReader(self._source, found[1])


@pytest.fixture(params=["versions", "no versions"])
def either(s3: S3Server, request: pytest.FixtureRequest) -> Bucket:  # noqa: F811
    """An empty bucket, with and without versions."""
    return Bucket(s3, versions=request.param == "versions")


@pytest.fixture
def bucket(s3: S3Server) -> Bucket:  # noqa: F811
    """An empty bucket with versions."""
    return Bucket(s3, versions=True)


@pytest.mark.requirement("R101", "R102", "R193")
def test_a_checkpoint_in_a_bucket_registers_and_verifies(either, tmp_path, ledger):
    """The same digest and the same facts as from a folder; version ids where the bucket keeps them."""
    folder = write_checkpoint(tmp_path, 100)
    reader = either.open(either.upload(folder, "runs/a b/step_100"))

    fact = register_checkpoint(ledger, reader, claim(), actor=ACTOR, origin=ORIGIN)

    local = inspect(folder)
    assert hash_files(folder, local.files) == [
        file.model_copy(update={"version": None}) for file in fact.files
    ]
    assert (local.format, local.components, local.data_position) == (
        fact.format,
        fact.components,
        fact.data_position,
    )
    assert f"s3://{either.bucket}/runs/a%20b/step_100" == fact.location
    assert {either.versions} == {file.version is not None for file in fact.files}
    items = verify_checkpoint(fact, opened=either.open)
    assert {Verdict.VERIFIED} == {item.verdict for item in items}
    assert (fact, ()) == newest_verified_anywhere(RunView.of(RUN, ledger.records()), opened=either.open)


def test_a_copy_in_a_bucket_of_a_registered_folder_is_the_first(bucket, tmp_path, ledger):
    """The id follows from the bytes and not from where they lie."""
    folder = write_checkpoint(tmp_path, 100)
    first = register_checkpoint(ledger, folder, claim(), actor=ACTOR, origin=ORIGIN)

    reader = bucket.open(bucket.upload(folder, "copy/step_100"))

    assert first == register_checkpoint(ledger, reader, claim(attempt=2), actor=ACTOR, origin=ORIGIN)
    assert 1 == len(ledger.log)


@pytest.mark.parametrize(
    ("spoil", "path", "found"),
    [
        pytest.param(lambda c, b, k: c.put_object(Bucket=b, Key=f"{k}/state.json", Body=b"{}"), "state.json",
                     "2 bytes", id="written over"),
        pytest.param(lambda c, b, k: c.delete_object(Bucket=b, Key=f"{k}/state.json"), "state.json", "missing",
                     id="deleted"),
        pytest.param(lambda c, b, k: c.put_object(Bucket=b, Key=f"{k}/extra", Body=b"x"), "extra", "1 bytes",
                     id="added"),
    ],
)  # fmt: skip
def test_what_changed_in_the_bucket_is_named(bucket, tmp_path, ledger, spoil, path, found):
    """The newest version counts, since that is what would be loaded."""
    reader = bucket.open(bucket.upload(write_checkpoint(tmp_path, 100), "c/step_100"))
    fact = register_checkpoint(ledger, reader, claim(), actor=ACTOR, origin=ORIGIN)
    spoil(bucket.client, bucket.bucket, "c/step_100")

    faults = [i for i in verify_checkpoint(fact, opened=bucket.open) if i.verdict is not Verdict.VERIFIED]

    assert [f"checkpoint:{fact.checkpoint_id}#{path}"] == [item.id for item in faults]
    assert found in faults[0].found
    newest, unfit = newest_verified_anywhere(RunView.of(RUN, ledger.records()), opened=bucket.open)
    assert (None, [fact]) == (newest, [each.checkpoint for each in unfit])


@pytest.mark.case("C01")
def test_an_index_in_a_bucket_is_checked_too(bucket, tmp_path, ledger):
    """A shard that is missing is named, and the refusal holds the address."""
    folder = write_sharded(tmp_path / "model")
    (folder / "model-00002-of-00002.safetensors").unlink()
    address = bucket.upload(folder, "model")

    with pytest.raises(CheckpointError, match=r"model-00002-of-00002\.safetensors, which is missing"):
        register_checkpoint(ledger, bucket.open(address), claim(), actor=ACTOR, origin=ORIGIN)

    (refused,) = [fact for _, fact in RunView.of(RUN, ledger.records()).all(CheckpointRefused)]
    assert address == refused.location


@pytest.mark.case("C05")
def test_a_tracker_in_a_bucket_names_a_step(bucket, tmp_path):
    """It is resolved; to an incomplete one it is refused, and the newest complete one is named."""
    for step, complete in ((100, True), (200, False)):
        bucket.upload(write_folder(tmp_path, step, complete=complete), f"run/step_{step}")
    bucket.put("run/latest", b"200\n")
    bucket.put("run/good", b" 100 \n")
    root = open_root(f"s3://{bucket.bucket}/run", s3_options=bucket.options)

    assert [(100, True), (200, False)] == [(each.step, each.complete) for each in list_checkpoints(root)]
    with pytest.raises(CheckpointError, match="names step 200, which is not complete") as caught:
        resolve_latest(root)
    assert "step 100 (step_100)" in caught.value.hint
    found = resolve_latest(root, "good")
    assert f"s3://{bucket.bucket}/run/step_100" == found.reader.location
    with pytest.raises(CheckpointError, match="no such object"):
        resolve_latest(root, "nowhere")


def test_a_root_of_many_checkpoints_is_looked_at_by_its_folders(either, tmp_path, monkeypatch):
    """All objects of a run together may be more than one checkpoint holds; only the one that is named is listed."""
    for step in (100, 200, 300):
        either.upload(write_checkpoint(tmp_path, step), f"run/step_{step}")
    either.put("run/latest", b"200")
    either.put("run/latest_of_all/x", b"1")
    monkeypatch.setattr(readers, "MOST_FILES", 4)
    listed: list[str] = []
    true_listing = BucketReader.listing
    monkeypatch.setattr(BucketReader, "listing", lambda self: listed.append(self.name) or true_listing(self))
    root = open_root(f"s3://{either.bucket}/run", s3_options=either.options)

    assert ["latest_of_all", "step_100", "step_200", "step_300"] == root.children()
    assert 200 == resolve_latest(root).step
    assert ["step_200"] == listed
    with pytest.raises(CheckpointError, match="nothing lies below"):
        open_root(f"s3://{either.bucket}/nowhere", s3_options=either.options).children()


def test_an_object_written_while_it_is_read_is_refused(either, tmp_path, ledger, monkeypatch):
    """It is read as it was listed, or not at all."""
    reader = either.open(either.upload(write_checkpoint(tmp_path, 100), "c/step_100"))
    true_listing = reader.listing
    listings = []

    def then_written():
        found = true_listing()
        listings.append(found)
        if len(listings) == 2:
            either.put("c/step_100/model.safetensors", b"other")
        return found

    monkeypatch.setattr(reader, "listing", then_written)

    with pytest.raises(CheckpointError, match=r"changed (while|after) it was read"):
        register_checkpoint(ledger, reader, claim(), actor=ACTOR, origin=ORIGIN)
    assert [] == registered(ledger, RUN)


def test_unchanged_versions_are_not_read_again(bucket, tmp_path, ledger, monkeypatch):
    """Only a version id is proof; the second registration opens nothing but headers and state."""
    address = bucket.upload(write_checkpoint(tmp_path / "c", 100), "c/step_100")
    opened: list[str] = []
    true_open = BucketReader.open
    monkeypatch.setattr(
        BucketReader, "open", lambda self, file: opened.append(file.path) or true_open(self, file)
    )

    counts = []
    for _ in range(2):
        opened.clear()
        reading = Reading(stamps=HashStamps(tmp_path))
        register_checkpoint(
            ledger, bucket.open(address), claim(), actor=ACTOR, origin=ORIGIN, reading=reading
        )
        counts.append(len(opened))

    assert [4, 0] == counts


def test_values_in_a_bucket_are_looked_at(bucket, tmp_path):
    """The scan reads the same streams."""
    reader = bucket.open(bucket.upload(write_checkpoint(tmp_path, 100, content=b"\0\0\xc0\x7f" * 4), "c"))

    found = scan(reader, reader.listing().files)

    assert [("model.safetensors", 4, 0)] == [
        (each.file, each.nan, each.infinite) for each in found.not_finite
    ][:1]


def test_a_bucket_that_is_not_there_records_nothing(s3, ledger):  # noqa: F811
    """The checkpoint is not refused: a later try may find it whole."""
    reader = open_reader(f"s3://{s3.bucket}-other/step_100", s3_options=s3.options)

    with pytest.raises(StorageError):
        register_checkpoint(ledger, reader, claim(), actor=ACTOR, origin=ORIGIN)

    assert [] == ledger.log


def test_a_prefix_with_nothing_below_is_refused(s3, ledger):  # noqa: F811
    """The bucket answers, and there is nothing."""
    reader = open_reader(f"s3://{s3.bucket}/step_100", s3_options=s3.options)

    with pytest.raises(CheckpointError, match="nothing lies below"):
        register_checkpoint(ledger, reader, claim(), actor=ACTOR, origin=ORIGIN)


def test_keys_that_no_folder_could_hold_are_refused(bucket):
    """``..`` in a key is a name like others in a bucket, and a way out in a folder."""
    for key in ("c/a/../b.safetensors", "c//x", "c/./y"):
        bucket.put(key, b"x")

    seen = inspect(bucket.open(f"s3://{bucket.bucket}/c"))

    assert 3 == sum("no folder could hold" in problem for problem in seen.problems)


@pytest.mark.parametrize(
    "text",
    [
        "s3://",
        "s3://bucket",
        "s3://key:secret@bucket/a",
        "s3://b!/x",
        "gs://b/c",
        "s3://bucket/%FF",
        "s3://bucket//x",
    ],
)
def test_odd_addresses_are_refused_without_repeating_secrets(text):
    """With the field and what would be right."""
    with pytest.raises(InputError) as caught:
        address_of(text)

    assert "secret" not in str(caught.value)


def test_addresses_hold_any_name(tmp_path):
    """Bytes that are not UTF-8 in a folder, and signs that mean something in a URL."""
    odd = tmp_path / "50%#?+\udcff"
    odd.mkdir()

    assert odd.resolve() == open_reader(address_of(str(odd))).folder
    assert ("bucket", b"a b/c%d") == to_bucket("s3://bucket/a%20b/c%25d/")
    assert "s3://bucket/a/x%25y" == below("s3://bucket/a/", "x%y")
