"""Data copies, caches, leftovers, logs and snapshots are found, judged, removed and buried like checkpoints."""

from __future__ import annotations

import fcntl
import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.artifact_files import write_checkpoint
from tests.support.artifact_run import ACTOR, POLICY, Run
from tests.support.deleting import Free, Stepping, carry_out, plan_over, rule, ruled, stones

from pretrain_archive.data.snapshots import create_snapshot, versions
from pretrain_archive.domain import kinds
from pretrain_archive.domain.identity import Ref
from pretrain_archive.package.secrets import scan
from pretrain_archive.retention.deletion import Deletion
from pretrain_archive.retention.references import references
from pretrain_archive.retention.subjects_folders import WorkFolders
from pretrain_archive.retention.subjects_logs import Logs
from pretrain_archive.retention.subjects_snapshots import Snapshots
from pretrain_archive.retention.subjects_strays import Strays
from pretrain_archive.retention.trees import TreeFiles
from pretrain_archive.storage.files import FileStore

TEXT = POLICY.format(keep_last=1, age=0, limit=10**9, hold="[]")
EVERYTHING = ruled(
    TEXT,
    rule("rest", ["temporary", "cache", "leftover", "log", "snapshot"], more="younger_than_days = 0"),
)


@pytest.fixture
def work(ledger, tmp_path):
    """A closed run with everything that runs leave, and what lies beside it."""
    root = tmp_path / "work"
    run = Run(ledger, FileStore(tmp_path / "store"), root / "runs" / "x" / "checkpoints")
    run.folder = root / "runs" / run.uid / "checkpoints"
    run.open()
    run.checkpoint(100)
    home = root / "runs" / run.uid
    for name in ("data/train", "quality", "evaluation-abc"):
        (home / name).mkdir(parents=True)
        (home / name / "blob").write_bytes(b"x" * 5000)
    (home / "data" / "link").symlink_to(tmp_path)
    write_checkpoint(run.folder, 300, name="step_300.tmp")
    write_checkpoint(run.folder, 200, complete=False)
    run.append(
        kinds.CheckpointRefused(
            location=str(run.folder / "step_00000200"), step=200, attempt=1, problems=["cut"]
        )
    )
    for name in ("stamps", "overlap-1", "mine"):
        (root / name).mkdir()
        (root / name / "blob").write_bytes(b"y" * 7000)
    (root / "packages" / f".{run.uid}.1.part").mkdir(parents=True)
    (root / "packages" / run.uid).mkdir()
    return root, run


def folders(root: Path, *, owner: str = "demo") -> WorkFolders:
    """The finder of what lies there."""
    return WorkFolders(work=root, runs=root / "runs", packages=root / "packages", owner=owner)


@pytest.mark.requirement("R116", "R154")
def test_what_runs_leave_goes_with_a_record_each_and_nothing_else(ledger, work):
    """Copies, scratch, half-written and refused checkpoints, caches: what is none of these stays."""
    root, run = work
    run.close()
    finders = (folders(root), Strays(store=run.store, owner="demo"))
    items = [item for item in plan_over(ledger, EVERYTHING, finders) if item["kind"] != "checkpoint"]
    assert {"delete"} == {item["action"] for item in items}, items
    assert {
        "data copy", "quality scratch", "evaluation scratch", "half-written checkpoint", "failed registration",
        "stamps of read files", "scratch of a task", "half-written package",
    } == {item["class"] for item in items}  # fmt: skip

    applied = carry_out(ledger, EVERYTHING, items, finders)

    assert {"deleted": len(items)} == applied.outcomes()
    assert sum(item["bytes"] for item in items) == applied.bytes_released
    assert ["mine", "packages", "runs"] == sorted(path.name for path in root.iterdir())
    assert [run.uid] == [path.name for path in (root / "packages").iterdir()]
    assert ["checkpoints"] == [path.name for path in (root / "runs" / run.uid).iterdir()]
    assert ["step_00000100"] == [path.name for path in run.folder.iterdir()]
    assert {item["id"] for item in items} == set(stones(ledger))
    again = [item for item in plan_over(ledger, EVERYTHING, finders) if item["kind"] != "checkpoint"]
    assert [] == again
    assert {"already_deleted": len(items)} == carry_out(ledger, EVERYTHING, items, finders).outcomes()


@pytest.mark.requirement("R151")
def test_what_is_in_use_or_owned_by_nobody_stays(ledger, work):
    """An open run, a writer with a lock, no project that answers, a run that no record names."""
    root, run = work
    handle = os.open(root / "packages" / f".{run.uid}.1.part", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    (root / "runs" / "run_nobody" / "data").mkdir(parents=True)

    found = {item["class"]: item for item in plan_over(ledger, EVERYTHING, [folders(root, owner="")])}
    of_nobody = [i for i in plan_over(ledger, EVERYTHING, [folders(root)]) if "run_nobody" in i["location"]]
    run.close()
    closed = {item["class"]: item for item in plan_over(ledger, EVERYTHING, [folders(root)])}
    os.close(handle)

    assert ("keep", True) == (
        found["quality scratch"]["action"],
        "not closed" in found["quality scratch"]["reason"],
    )
    assert "blocked" == found["stamps of read files"]["action"]
    assert ["blocked"] == [item["action"] for item in of_nobody]
    assert "no record names the run" in of_nobody[0]["reason"]
    assert "a writer holds it" in closed["half-written package"]["reason"]


def test_what_changed_after_the_plan_stays(ledger, work):
    """Somebody wrote there: it is another thing now, and the old plan does not name it."""
    root, run = work
    run.close()
    finder = folders(root)
    items = [item for item in plan_over(ledger, EVERYTHING, [finder]) if item["class"] == "data copy"]
    (root / "runs" / run.uid / "data" / "new").write_text("new")

    applied = carry_out(ledger, EVERYTHING, items, [finder])

    assert ["kept_for_later"] == [result.outcome for result in applied.results]
    assert (root / "runs" / run.uid / "data" / "new").exists()


@pytest.mark.requirement("R155")
def test_sensitive_logs_go_by_their_own_rule_and_leave_their_digest(ledger, work):
    """The log with a token goes, the harmless one stays; one that changed is not judged."""
    root, run = work
    texts = {1: b"step 1\n", 2: b"token hf_" + b"A" * 34 + b"\n", 3: b"changed\n"}
    for attempt, text in texts.items():
        log = root / "runs" / run.uid / f"attempt-{attempt}" / "log.txt"
        log.parent.mkdir()
        log.write_bytes(text if attempt < 3 else b"other\n")
        run.append(
            kinds.AttemptEnded(
                attempt=attempt, state="completed", exit_code=0, reason="end", log_uri=log.as_uri(),
                log_digest="sha256:" + hashlib.sha256(text).hexdigest(),
            ),
            attempt=attempt,
        )  # fmt: skip
    run.close()
    finder = Logs(sensitive=lambda path: bool(list(scan("log", path.read_bytes()))))
    policies = ruled(TEXT, rule("s", ["log"], classes=["sensitive log"], more="younger_than_days = 0"))

    items = [item for item in plan_over(ledger, policies, [finder]) if item["kind"] == "log"]
    assert {"log:1": "keep", "log:2": "delete", "log:3": "blocked"} == {
        f"log:{item['purpose'][-1]}": item["action"] for item in items
    }
    carry_out(ledger, policies, items, [finder])

    assert [False, True] == [(root / "runs" / run.uid / f"attempt-{n}" / "log.txt").exists() for n in (2, 1)]
    stone = next(iter(stones(ledger).values()))
    assert "sha256:" + hashlib.sha256(texts[2]).hexdigest() == stone.digest
    assert ("sensitive log", "content") == (stone.artifact_class, stone.digest_of)


@pytest.fixture
def data(ledger, tmp_path):
    """A store with three versions of a name that share files, each in a closed run of its own."""
    store = FileStore(tmp_path / "store")
    source = tmp_path / "source"
    source.mkdir()
    (source / "shared").write_bytes(b"s" * 9000)
    for number in (1, 2, 3):
        (source / "own").write_bytes(bytes([number]) * 10_000)
        run = Run(ledger, store, tmp_path / "c").open()
        create_snapshot(
            store, ledger, name="corpus", source_root=source, mode="copy", actor=ACTOR, origin=Run.origin(),
            stream=run.uid,
        )  # fmt: skip
        run.close()
    return store


def blobs(store) -> list[int]:
    """Sizes of what is stored."""
    return sorted(info.size for info in store.list("blobs/"))


@pytest.mark.requirement("R150", "R155")
def test_an_expired_snapshot_goes_and_shared_content_stays(ledger, data):
    """The newest stays always; only what no other version names goes; lineage still resolves."""
    finder = Snapshots(store=data)
    items = {item["id"]: item for item in plan_over(ledger, EVERYTHING, [finder])}
    assert "keep" == items["snapshot:corpus@3"]["action"]
    assert "the newest of its name" in items["snapshot:corpus@3"]["reason"]
    going = [
        {**items[f"snapshot:corpus@{n}"], "action": "delete"} for n in (1, 2)
    ]  # whatever the rules about descent say
    sizes = [item["bytes"] for item in going]

    approval = kinds.RetentionApproved(
        plan_digest="sha256:" + "e" * 64, approved_by="bob", person=True, reason="old"
    )
    before = sum(info.size for info in data.list(""))
    applied = Deletion(
        ledger=ledger, judge=Free(), places=(), approval=approval, actor=ACTOR, origin=Run.origin(),
        undertakers=[finder],
    ).run(going)  # fmt: skip

    assert {"deleted": 2} == applied.outcomes(), applied
    assert [9000, 10_000] == blobs(data)
    assert [3] == versions(data, "corpus")
    assert before - sum(info.size for info in data.list("")) == applied.bytes_released == sum(sizes)
    assert {"manifest"} == {stone.digest_of for stone in stones(ledger).values()}
    trace = ledger.trace(Ref.parse("snapshot:corpus@1"), direction="backward")
    assert "tombstone" in {node.type for node in trace.nodes}
    with references(data) as counted:
        assert ["corpus@3"] == list(counted.versions)


@pytest.mark.requirement("R155")
def test_content_that_a_version_names_meanwhile_is_spared(ledger, data, tmp_path, monkeypatch):
    """A snapshot is made of the same content while the version that held it goes: the content stays, uncounted."""
    again = tmp_path / "again"
    again.mkdir()
    (again / "own").write_bytes(bytes([1]) * 10_000)
    monkeypatch.setattr("pretrain_archive.data.condemned.GRACE", 0)  # the removal goes on after the snapshot

    def meanwhile(step: str) -> None:
        if step == "delete many done" and not versions(data, "other"):
            create_snapshot(
                data, ledger, name="other", source_root=again, mode="copy", actor=ACTOR, origin=Run.origin()
            )

    finder = Snapshots(store=Stepping(data, meanwhile))
    item = next(i for i in plan_over(ledger, EVERYTHING, [finder]) if i["id"] == "snapshot:corpus@1")
    approval = kinds.RetentionApproved(
        plan_digest="sha256:" + "e" * 64, approved_by="bob", person=True, reason="old"
    )

    applied = Deletion(
        ledger=ledger, judge=Free(), places=(), approval=approval, actor=ACTOR, origin=Run.origin(),
        undertakers=[finder],
    ).run([{**item, "action": "delete"}])  # fmt: skip

    assert {"deleted": 1} == applied.outcomes(), applied
    assert [9000, 10_000, 10_000, 10_000] == blobs(data)
    assert item["bytes"] - 10_000 == applied.bytes_released
    assert not any(entry.key.startswith("retention/") for entry in data.list(""))


@pytest.mark.requirement("R154")
def test_a_cut_removal_of_a_tree_is_finished_by_the_same_plan(ledger, work):
    """Half gone it is not what was planned any more; the journal says that this was us."""
    root, run = work
    run.close()

    class CutError(Exception):
        """The process ends here."""

    def cut(step: str) -> None:
        if step.startswith("rmdir train"):
            raise CutError

    items = [i for i in plan_over(ledger, EVERYTHING, [folders(root)]) if i["class"] == "data copy"]
    with pytest.raises(CutError):
        carry_out(ledger, EVERYTHING, items, [replace(folders(root), files=TreeFiles(on_step=cut))])
    assert not (root / "runs" / run.uid / "data" / "train" / "blob").exists()

    done = carry_out(ledger, EVERYTHING, items, [folders(root)])

    assert ("complete", items[0]["bytes"]) == (done.state, done.bytes_released), done
    assert not (root / "runs" / run.uid / "data").exists()


def test_the_same_content_made_again_is_another_thing(ledger, work):
    """A cache that was deleted and filled anew with the same may go again."""
    root, run = work
    run.close()
    for _ in range(2):
        items = [i for i in plan_over(ledger, EVERYTHING, [folders(root)]) if i["kind"] == "cache"]
        assert {"deleted": 1} == carry_out(ledger, EVERYTHING, items, [folders(root)]).outcomes()
        (root / "stamps").mkdir()
        (root / "stamps" / "blob").write_bytes(b"y" * 7000)
    assert 2 == len(stones(ledger))
