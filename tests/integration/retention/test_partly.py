"""Checkpoints that go only in part: what stays is recorded with key and code, and the next pass tries only that."""

from __future__ import annotations

import fcntl
import os
import struct
import uuid

import boto3
import pytest
from tests.support.artifact_files import safetensors, tensor
from tests.support.artifact_run import ACTOR, CONFIGURATION, POLICY, Run, policies
from tests.support.deleting import PLAN, Free, carry_out, plan_over, rule, ruled, stones
from tests.support.faulty_s3 import Fault, faulty_s3, fill

from pretrain_archive.artifacts.parts import gone_parts
from pretrain_archive.artifacts.registration import Claim, register_checkpoint
from pretrain_archive.artifacts.verification import verify_checkpoint
from pretrain_archive.domain import kinds
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.retention.deletion import Deletion
from pretrain_archive.retention.files import Removed
from pretrain_archive.retention.folders import FolderFiles
from pretrain_archive.retention.objects import StoreFiles
from pretrain_archive.storage.bulk import versions_of
from pretrain_archive.storage.factory import open_store
from pretrain_archive.storage.files import FileStore

DIGEST = "sha256:" + "a" * 64
TEXT = POLICY.format(keep_last=1, age=0, limit=10**9, hold="[]")


@pytest.fixture(scope="module")
def server():
    """A server with faults."""
    with faulty_s3() as faulty:
        yield faulty


@pytest.fixture
def remote(server, ledger, tmp_path, request):
    """A closed run with a checkpoint of 1,003 objects in a bucket, and the item of a plan that deletes it."""
    count = getattr(request, "param", 1003)
    server.faults.clear()
    server.requests.clear()
    client = boto3.session.Session().client("s3", **server.options)
    bucket = f"b-{uuid.uuid4().hex}"
    client.create_bucket(Bucket=bucket)
    names = [f"{number:04d}" for number in range(count)]
    fill(bucket, [f"ck/{name}" for name in names], body=b"12345")
    store = open_store(f"s3://{bucket}", s3_options=server.options)
    run = Run(ledger, FileStore(tmp_path / "store"), tmp_path / "c").open()
    fact = kinds.CheckpointRegistered(
        checkpoint_id="ckpt_big", step=1, tokens=None, attempt=1, location=store.location("ck"), format="folder",
        digest=DIGEST, files=[kinds.FileDigest(path=name, size=5, sha256="0" * 64) for name in names], components={},
        tensors=None, tensors_digest=None, snapshot="s@1", configuration_digest=CONFIGURATION, data_position=None,
        responsible="alice", artifact_class="recovery", purpose="recovery",
    )  # fmt: skip
    run.append(fact, attempt=1)
    run.close()
    item = {
        "id": "checkpoint:ckpt_big", "kind": "checkpoint", "class": "recovery", "action": "delete", "reason": "old",
        "bytes": 5015, "run": run.uid, "digest": DIGEST, "location": fact.location, "policy_digest": None,
    }  # fmt: skip
    return store, run, item


def delete(ledger, store, item):
    """One pass, from a task try of its own."""
    approval = kinds.RetentionApproved(plan_digest=PLAN, approved_by="bob", person=True, reason="old")
    deletion = Deletion(
        ledger=ledger, judge=Free(), places=(StoreFiles(store),), approval=approval, actor=ACTOR,
        origin=Run.origin(),
    )  # fmt: skip
    return deletion.run([item])


def partials(ledger) -> list[kinds.DeletionPartial]:
    """What was recorded as partly deleted."""
    return [kinds.read_payload(r, kinds.DeletionPartial) for r in ledger.records(kinds=["deletion.partial"])]


@pytest.mark.case("R05")
@pytest.mark.requirement("R149")
def test_errors_in_a_good_answer_leave_it_partly_deleted(ledger, server, remote):
    """1001 of 1003 go, two stay with key and code and no tombstone; the next pass tries only the two."""
    store, _, item = remote
    server.faults.update(
        {
            "/0002": Fault(code="AccessDenied", message="Access Denied"),
            "/0700": Fault(code="InternalError", times=1),
            "/1002": Fault(code="AccessDenied", message="object lock"),
        }
    )

    first = delete(ledger, store, item)

    assert ("partly deleted", False, 0) == (first.state, first.complete, first.bytes_released)
    assert {"ck/0002", "ck/1002"} == {entry.key for entry in versions_of(store, "ck/")}
    (said,) = partials(ledger)
    assert (1001, 2, 5005) == (said.gone, said.left, said.bytes_released)
    assert [("ck/0002", "AccessDenied", "Access Denied"), ("ck/1002", "AccessDenied", "object lock")] == [
        (fault.key, fault.code, fault.message) for fault in said.faults
    ]
    assert {} == stones(ledger)

    delete(ledger, store, item)
    assert 1 == len(partials(ledger))

    server.faults.clear()
    server.requests.clear()
    last = delete(ledger, store, item)

    assert [["ck/0002", "ck/1002"]] == [
        request for request in server.requests if request[0].startswith("ck/")
    ]
    assert ("complete", 5015) == (last.state, last.bytes_released)
    assert [5015] == [stone.bytes_released for stone in stones(ledger).values()]
    assert [] == list(versions_of(store, ""))


@pytest.mark.case("R05")
@pytest.mark.parametrize("remote", [20], indirect=True)
def test_a_success_that_did_not_happen_is_found_out(ledger, server, remote):
    """The answer has no error and the object is still listed: no tombstone."""
    store, _, item = remote
    server.faults["/0005"] = Fault(code="", silent=True)

    found = delete(ledger, store, item)

    assert "partly deleted" == found.state
    assert [("ck/0005", "StillThere")] == [(fault.key, fault.code) for fault in partials(ledger)[0].faults]
    assert {} == stones(ledger)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs an attribute that only root may set")
@pytest.mark.case("R09")
def test_a_file_that_cannot_go_is_named_and_the_others_of_its_folder_go(ledger, tmp_path):
    """An immutable file stays with its code; freed, the next pass finishes from the record."""
    run = Run(ledger, FileStore(tmp_path / "store"), tmp_path / "c").open()
    fact = run.checkpoint(100)
    run.checkpoint(200)
    run.close()
    items = [item for item in plan_over(ledger, policies(), []) if item["action"] == "delete"]
    stuck = run.folder / "step_00000100" / "optimizer.safetensors"

    def immutable(*, on: bool) -> None:
        handle = os.open(stuck, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, 0x40086602, struct.pack("i", 0x10 if on else 0))
        finally:
            os.close(handle)

    try:
        immutable(on=True)
    except OSError:
        pytest.skip("the file system knows no immutable files")
    try:
        first = carry_out(ledger, policies(), items, [])
    finally:
        immutable(on=False)

    assert ["partly_deleted"] == [result.outcome for result in first.results]
    assert [("optimizer.safetensors", "EPERM")] == [(f.key, f.code) for f in partials(ledger)[0].faults]
    assert ["optimizer.safetensors"] == [path.name for path in (run.folder / "step_00000100").iterdir()]
    last = carry_out(ledger, policies(), items, [])
    size = sum(file.size for file in fact.files)
    assert ("complete", size) == (last.state, last.bytes_released)


@pytest.mark.requirement("R149", "R150")
def test_only_the_optimizer_goes_and_the_rest_still_verifies(ledger, tmp_path):
    """By a rule about parts; the tombstone names them, and the whole may still go later."""
    run = Run(ledger, FileStore(tmp_path / "store"), tmp_path / "c").open()
    fact = run.checkpoint(100, artifact_class="evaluation")
    run.close()
    parts = rule(
        "o", ["checkpoint"], classes=["evaluation"], action="delete_parts",
        more='parts = ["optimizer"]\nyounger_than_days = 0',
    )  # fmt: skip
    policy = ruled(TEXT, parts)
    items = plan_over(ledger, policy, [])
    assert ["delete_parts"] == [item["action"] for item in items]

    applied = carry_out(ledger, policy, items, [])

    view = RunView.of(run.uid, ledger.records(streams=[run.uid]))
    (stone,) = (s for _, s in view.all(kinds.TombstoneWritten))
    assert (["optimizer"], f"checkpoint:{fact.checkpoint_id}") == (stone.parts, stone.ref)
    assert items[0]["bytes"] == applied.bytes_released == stone.size == stone.bytes_released
    gone = gone_parts(view)[fact.checkpoint_id]
    assert {"verified"} == {item.verdict for item in verify_checkpoint(fact, gone=gone)}
    assert [] == [item for item in plan_over(ledger, policy, []) if item["action"].startswith("delete")]
    assert ["already_deleted"] == [r.outcome for r in carry_out(ledger, policy, items, []).results]

    everything = ruled(TEXT, rule("all", ["checkpoint"], more="younger_than_days = 0"))
    carry_out(ledger, everything, plan_over(ledger, everything, []), [])
    assert not (run.folder / "step_00000100").exists()
    sizes = [r.payload["size"] for r in ledger.records(kinds=["tombstone.written"])]
    assert sum(file.size for file in fact.files) == sum(sizes)
    assert [["optimizer"], []] == [
        list(r.payload["parts"]) for r in ledger.records(kinds=["tombstone.written"])
    ]


@pytest.mark.case("R09")
def test_hard_links_and_holes_are_counted_by_what_they_release(ledger, tmp_path):
    """Two checkpoints share a file: the first releases nothing of it, the second all; holes never took anything."""
    run = Run(ledger, FileStore(tmp_path / "store"), tmp_path / "c").open()
    run.checkpoint(100, content=b"\x01" * 40_000)
    second = run.folder / "step_00000200"
    first = run.folder / "step_00000100"
    second.mkdir()
    for path in first.iterdir():
        os.link(path, second / path.name)
    (second / "state.json").unlink()
    (second / "state.json").write_text((first / "state.json").read_text().replace("100", "200"))
    sparse = run.folder / "step_00000300"
    sparse.mkdir()

    with (sparse / "model.safetensors").open("wb") as file:
        file.write(safetensors({"w": tensor(0, 4_000_000)}))
        file.truncate(file.tell() + 4_000_000)
    claim = {"run_uid": run.uid, "attempt": 1, "tokens": None, "snapshot": "s@1", "responsible": "alice",
             "configuration_digest": CONFIGURATION, "artifact_class": "recovery"}  # fmt: skip

    for step, folder in ((200, second), (300, sparse)):
        register_checkpoint(ledger, folder, Claim(step=step, **claim), actor=ACTOR, origin=Run.origin())
    run.checkpoint(400)
    run.close()
    held = sum(p.stat().st_blocks * 512 for p in {*second.iterdir(), *sparse.iterdir(), first / "state.json"})
    items = [item for item in plan_over(ledger, policies(), []) if item["action"] == "delete"]

    carry_out(ledger, policies(), items, [])

    released = {stone.ref: stone.bytes_released for stone in stones(ledger).values()}
    by_step = {item["step"]: released[item["id"]] for item in items}
    assert by_step[100] < 1000
    assert 80_000 < by_step[200]
    assert by_step[300] <= 4096
    assert abs(held - sum(released.values())) < 5 * 4096
    assert FolderFiles().handles(items[0]["location"])


@pytest.mark.requirement("R149")
def test_a_place_that_only_says_that_it_removed_gets_no_tombstone(ledger, tmp_path):
    """Absence is looked at again by whoever writes the tombstone."""

    class Liar(FolderFiles):
        """Removes nothing."""

        def remove(self, target, *, plan_digest):  # noqa: ARG002 - the port's form
            return Removed(bytes_released=1, already_missing=False)

    run = Run(ledger, FileStore(tmp_path / "store"), tmp_path / "c").open()
    for step in (100, 200):
        run.checkpoint(step)
    run.close()
    items = [item for item in plan_over(ledger, policies(), []) if item["action"] == "delete"]

    applied = carry_out(ledger, policies(), items, [], places=(Liar(),))

    assert [("failed", "absence not verified: present")] == [(r.outcome, r.reason) for r in applied.results]
    assert {} == stones(ledger)
