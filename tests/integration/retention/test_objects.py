"""Artifacts in an S3 bucket (a real HTTP server) are planned, deleted and buried like folders."""

from __future__ import annotations

from tests.support.artifact_files import write_checkpoint
from tests.support.artifact_run import ACTOR, CONFIGURATION, Run, policies
from tests.support.s3 import s3, s3_endpoint  # noqa: F401 - fixtures

from pretrain_archive.artifacts.formats import inspect
from pretrain_archive.artifacts.hashing import files_digest, hash_files
from pretrain_archive.artifacts.registration import checkpoint_id
from pretrain_archive.domain import kinds
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.retention import service
from pretrain_archive.retention.folders import FolderFiles
from pretrain_archive.retention.objects import StoreFiles
from pretrain_archive.retention.reconcile import reconcile
from pretrain_archive.storage.factory import open_store
from pretrain_archive.storage.port import ObjectStore


def put(run: Run, store: ObjectStore, step: int) -> None:
    """Copy a checkpoint into the bucket and record it there."""
    folder = write_checkpoint(run.folder, step)
    files = hash_files(folder, inspect(folder).files)
    key = f"runs/{run.uid} +é/step_{step}"
    for file in files:
        with (folder / file.path).open("rb") as data:
            store.put_if_absent(f"{key}/{file.path}", data)
    digest = files_digest(files)
    fact = kinds.CheckpointRegistered(
        checkpoint_id=checkpoint_id(run.uid, step, digest),
        step=step,
        tokens=None,
        attempt=1,
        location=store.location(key),
        format="safetensors",
        digest=digest,
        files=files,
        components={},
        tensors=None,
        tensors_digest=None,
        snapshot="stdlib@1",
        configuration_digest=CONFIGURATION,
        data_position=None,
        responsible="alice",
        artifact_class="recovery",
        purpose="recovery",
    )
    run.append(fact, attempt=1)


def test_objects_of_expired_checkpoints_go(ledger, run, tmp_path, s3):  # noqa: F811 - the fixture
    """The last one stays, the others are absent, counted and buried; without the store nothing is judged."""
    store = open_store(f"s3://{s3.bucket}/archive", s3_options=s3.options)
    remote = Run(ledger, store, tmp_path / "remote").open()
    for step in (100, 200):
        put(remote, store, step)
    remote.close()
    places = (FolderFiles(), StoreFiles(store))

    blind = service.make_plan(ledger, policies())
    assert {"blocked"} == {item["action"] for item in blind.items if item["run"] == remote.uid}

    who = {"actor": ACTOR, "origin": run.origin()}
    planned = service.plan(ledger, policies(), places=places, **who)
    approval = service.approve(ledger, planned, policies(), person="bob", reason="expired", **who)
    applied = service.apply(ledger, planned, approval, policies(), places=places, **who)

    assert applied.complete
    left = {info.key.split("/")[2] for info in store.list("")}
    assert {"step_200"} == left
    stones = RunView.of(remote.uid, ledger.records(streams=[remote.uid])).all(kinds.TombstoneWritten)
    assert [(True, False)] == [(s.bytes_released == s.size > 0, s.already_missing) for _, s in stones]
    assert all(item.verdict == "verified" for item in reconcile(ledger, places=places).items if item.blocking)
