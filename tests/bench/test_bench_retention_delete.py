# ruff: noqa: T201 - the table is the result
"""Deletion in batches of a thousand: bytes claimed against bytes released, and the work against the least durable one.

Bytes on disk are counted here by what the file system says holds data (SEEK_DATA), once for each inode; in the bucket
by a listing of all versions before and after.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
import uuid
from pathlib import Path

import boto3
import pytest
from tests.support.artifact_run import ACTOR, CONFIGURATION, Run
from tests.support.deleting import PLAN, Free
from tests.support.faulty_s3 import faulty_s3, fill

from pretrain_archive.artifacts.location import to_location
from pretrain_archive.domain import kinds
from pretrain_archive.domain.records import Draft
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.retention.deletion import Applied, Deletion
from pretrain_archive.retention.folders import FolderFiles
from pretrain_archive.retention.objects import StoreFiles
from pretrain_archive.storage.factory import open_store
from pretrain_archive.storage.files import FileStore

pytestmark = pytest.mark.bench

CHECKPOINTS = 1_050
WEIGHTS = 96 * 1024
OBJECTS = 1_500
LIMIT = 15.0
"""Times the peer, that makes each removal durable but proves, records and remembers nothing."""
DIGEST = "sha256:" + "a" * 64


def fact(name: str, step: int, location: str, files: list[kinds.FileDigest]) -> kinds.CheckpointRegistered:
    """A registration."""
    return kinds.CheckpointRegistered(
        checkpoint_id=name, step=step, tokens=None, attempt=1, location=location, format="folder", digest=DIGEST,
        files=files, components={}, tensors=None, tensors_digest=None, snapshot="s@1",
        configuration_digest=CONFIGURATION, data_position=None, responsible="alice", artifact_class="recovery",
        purpose="recovery",
    )  # fmt: skip


def write(folder: Path, step: int, shared: Path | None, *, sparse: bool) -> list[kinds.FileDigest]:
    """Weights (own, shared by a link, or mostly a hole), a state file and the marker."""
    folder.mkdir(parents=True)
    weights = folder / "w.bin"
    if shared is not None:
        os.link(shared, weights)
    elif sparse:
        with weights.open("wb") as file:
            file.write(step.to_bytes(8, "little") * 512)
            file.truncate(WEIGHTS * 10)
    else:
        weights.write_bytes(step.to_bytes(8, "little") * (WEIGHTS // 8))
    (folder / "meta.json").write_text(f'{{"step": {step}}}')
    (folder / ".complete").touch()
    return [
        kinds.FileDigest(
            path=path.name, size=path.stat().st_size, sha256=hashlib.sha256(path.read_bytes()).hexdigest()
        )
        for path in sorted(folder.iterdir())
    ]


def held(root: Path) -> int:
    """Bytes of data below ``root``, by the file system's own account of holes."""
    total, seen = 0, set()
    for base, _, names in os.walk(root):
        for name in names:
            path = Path(base) / name
            info = path.stat()
            if info.st_ino in seen:
                continue
            seen.add(info.st_ino)
            with path.open("rb") as file:
                at = 0
                while at < info.st_size:
                    try:
                        at = os.lseek(file.fileno(), at, os.SEEK_DATA)
                    except OSError:
                        break
                    end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
                    total, at = total + min(end, info.st_size) - at, end
    return total


def delete(ledger, places, facts: list[kinds.CheckpointRegistered], run: Run) -> tuple[Applied, float]:
    """One pass over everything, and how long it took."""
    items = [
        {
            "id": f"checkpoint:{each.checkpoint_id}", "kind": "checkpoint", "class": "recovery", "action": "delete",
            "reason": "old", "bytes": 1, "run": run.uid, "digest": DIGEST, "location": each.location,
            "policy_digest": None,
        }
        for each in facts
    ]  # fmt: skip
    approval = kinds.RetentionApproved(plan_digest=PLAN, approved_by="bob", person=True, reason="old")
    batches: list[int] = []
    deletion = Deletion(
        ledger=ledger, judge=Free(), places=places, approval=approval, actor=ACTOR, origin=Run.origin(),
        progress=lambda done, *_: batches.append(done),
    )  # fmt: skip
    began = time.perf_counter()
    applied = deletion.run(items)
    seconds = time.perf_counter() - began
    assert len(facts) == batches[-1]
    assert all(later - earlier <= 1000 for earlier, later in zip([0, *batches], batches, strict=False))
    return applied, seconds


def durably(root: Path) -> float:
    """The peer: unlink by list, make each folder durable."""
    began = time.perf_counter()
    for folder in sorted(root.iterdir()):
        for path in folder.iterdir():
            path.unlink()
        for each in (folder, root):
            if each == root:
                folder.rmdir()
            handle = os.open(each, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)
    return time.perf_counter() - began


@pytest.fixture
def ledger(tmp_path):
    """A ledger on SQLite."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    return open_ledger(url, signing_key=None, anchors=(), create=True)


def register(run: Run, facts: list[kinds.CheckpointRegistered]) -> None:
    """All in one transaction."""
    origin = Run.origin()
    run.ledger.append([
        Draft(
            stream=run.uid, kind="checkpoint.registered", payload=each.to_json(), actor=ACTOR, origin=origin,
            attempt=1, ordinal=number,
        )
        for number, each in enumerate(facts)
    ])  # fmt: skip


@pytest.mark.requirement("R149")
def test_folders_release_what_is_claimed(ledger, tmp_path):
    """Links and holes among them: within 0.1 %, in two batches, at a bounded price."""
    root = tmp_path / "checkpoints"
    run = Run(ledger, FileStore(tmp_path / "store"), root).open()
    facts, first = [], None
    for number in range(CHECKPOINTS):
        folder = root / f"step_{number}"
        shared = first if number % 5 == 1 else None
        files = write(folder, number, shared, sparse=number % 5 == 2)
        first = folder / "w.bin"
        facts.append(fact(f"ckpt_{number}", number, to_location(folder), files))
    kept = write(root / "step_kept", CHECKPOINTS, root / "step_3" / "w.bin", sparse=False)
    assert kept
    register(run, facts)
    run.close()
    for number in range(CHECKPOINTS // 3):
        write(tmp_path / "peer" / f"step_{number}", number, None, sparse=False)
    peer = durably(tmp_path / "peer") * 3
    before = held(root)

    applied, seconds = delete(ledger, (FolderFiles(),), facts, run)

    released = before - held(root)
    stones = [r.payload["bytes_released"] for r in ledger.records(kinds=["tombstone.written"])]
    print(f"\n{'':24}{'claimed':>14}{'released':>14}{'seconds':>9}{'peer':>9}{'ratio':>7}")
    print(
        f"{CHECKPOINTS:>16} folders{sum(stones):>14,}{released:>14,}{seconds:>9.2f}{peer:>9.2f}{seconds / peer:>7.1f}"
    )
    assert applied.complete
    assert sum(stones) == applied.bytes_released
    assert abs(sum(stones) - released) <= released / 1000
    assert seconds < LIMIT * peer


@pytest.mark.requirement("R149")
def test_a_versioned_bucket_releases_what_is_claimed(ledger, tmp_path):
    """3,000 versions of 1,500 objects, a thousand in a request."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with faulty_s3() as server:
        client = boto3.session.Session().client("s3", **server.options)
        bucket = f"b-{uuid.uuid4().hex}"
        client.create_bucket(Bucket=bucket)
        client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        names = [f"{number:05d}" for number in range(OBJECTS)]
        for body in (b"old" * 100, b"newer" * 200):
            fill(bucket, [f"ck/{name}" for name in names], body=body)
        store = open_store(f"s3://{bucket}", s3_options=server.options)
        run = Run(ledger, FileStore(tmp_path / "store"), tmp_path).open()
        files = [kinds.FileDigest(path=name, size=1000, sha256="0" * 64) for name in names]
        one = fact("ckpt_big", 1, store.location("ck"), files)
        register(run, [one])
        run.close()
        before = sum(entry.size for entry in store.versions(""))

        applied, seconds = delete(ledger, (StoreFiles(store),), [one], run)

        left = list(store.versions(""))
        released = before - sum(entry.size for entry in left)
        requests = [len(keys) for keys in server.requests if keys[0].startswith("ck/")]
    print(f"\n{'':24}{'claimed':>14}{'released':>14}{'seconds':>9}{'requests':>10}")
    print(
        f"{2 * OBJECTS:>15} versions{applied.bytes_released:>14,}{released:>14,}{seconds:>9.2f}{len(requests):>10}"
    )
    assert [] == left
    assert abs(applied.bytes_released - released) <= released / 1000
    assert [1000] * 3 == requests
