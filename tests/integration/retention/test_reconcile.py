"""Records and storage compared both ways, on folders and a bucket: every difference is found, with what to do."""

from __future__ import annotations

import io
import json
import shutil

import pytest
from tests.support.artifact_files import write_checkpoint
from tests.support.artifact_run import ACTOR, CONFIGURATION, POLICY, Run, policies
from tests.support.deleting import carry_out, plan_over, rule, ruled
from tests.support.s3 import s3, s3_endpoint  # noqa: F401 - fixtures
from typer.testing import CliRunner

from pretrain_archive.cli import app
from pretrain_archive.data.snapshots import create_snapshot
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.retention.folders import FolderFiles
from pretrain_archive.retention.objects import StoreFiles
from pretrain_archive.retention.reconcile import reconcile
from pretrain_archive.retention.subjects_strays import Strays
from pretrain_archive.storage.factory import open_store
from pretrain_archive.storage.files import FileStore

LEFTOVERS = ruled(
    POLICY.format(keep_last=9, age=0, limit=10**9, hold="[]"),
    rule("rest", ["leftover"], more="younger_than_days = 0"),
)


def by_kind(found) -> dict[str, list[str]]:
    """The last part of each finding's reference, by kind."""
    told: dict[str, list[str]] = {}
    for finding in found.findings:
        assert finding.proposal.command.startswith("pretrain-archive ")
        told.setdefault(finding.kind, []).append(finding.location.rpartition("/")[2])
    return told


@pytest.mark.requirement("R150", "R152")
def test_every_difference_of_folders_has_its_name_and_its_proposal(ledger, run, tmp_path):
    """Missing, half gone, other content, back after its tombstone, without a record, out of reach."""
    more = Run(ledger, run.store, tmp_path / "more").open()
    for step in (1, 2, 3, 4):
        more.checkpoint(step)
    away = Run(ledger, run.store, tmp_path / "volume" / "c").open()
    away.checkpoint(5)
    more.close()
    planned = [item for item in plan_over(ledger, policies(), []) if item["run"] == run.uid]
    carry_out(ledger, policies(), planned, [])
    write_checkpoint(run.folder, 100)
    shutil.rmtree(more.folder / "step_00000001")
    (more.folder / "step_00000002" / "model.safetensors").unlink()
    (more.folder / "step_00000003" / "extra").write_text("mine")
    write_checkpoint(more.folder, 9)
    (tmp_path / "volume").rename(tmp_path / "elsewhere")

    found = reconcile(ledger, places=(FolderFiles(),), store=run.store)

    assert {
        "missing": ["step_00000001"], "half_deleted": ["step_00000002"], "changed": ["step_00000003"],
        "unregistered": ["step_00000009"], "unreachable": ["step_00000005"], "came_back": ["step_00000100"],
    } == by_kind(found)  # fmt: skip
    acts = {finding.kind: finding.proposal.act for finding in found.findings}
    assert ("restore", "register", "mount", "verify") == tuple(
        acts[kind] for kind in ("missing", "unregistered", "unreachable", "changed")
    )
    assert not found.clean
    assert 8 == found.checked["checkpoints"]
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    reconcile(ledger, store=run.store)
    assert before == sorted(str(path) for path in tmp_path.rglob("*"))


@pytest.mark.requirement("R152")
def test_what_it_proposes_a_plan_carries_out(ledger, run):
    """A folder without a record and one that came back are let go by a rule about leftovers; then all is well."""
    planned = plan_over(ledger, policies(), [])
    carry_out(ledger, policies(), planned, [])
    write_checkpoint(run.folder, 100)
    write_checkpoint(run.folder, 900)
    finder = Strays(store=run.store)

    items = [item for item in plan_over(ledger, LEFTOVERS, [finder]) if item["kind"] == "leftover"]
    assert {"unregistered checkpoint": "delete", "came back after its deletion": "delete"} == {
        item["class"]: item["action"] for item in items
    }
    assert {"demo"} == {item["project"] for item in items}
    done = carry_out(ledger, LEFTOVERS, items, [finder])

    assert {"deleted": 2} == done.outcomes()
    assert sum(item["bytes"] for item in items) == done.bytes_released
    assert reconcile(ledger, store=run.store).clean


@pytest.mark.requirement("R154")
@pytest.mark.usefixtures("run")
def test_a_cut_removal_is_found_and_finished(ledger):
    """The journal says that it was ours; the plan that it names completes it."""
    items = [item for item in plan_over(ledger, policies(), []) if item["action"] == "delete"]

    class CutError(Exception):
        """The process ends here."""

    def cut(step: str) -> None:
        if step == "unlink model.safetensors":
            raise CutError

    with pytest.raises(CutError):
        carry_out(ledger, policies(), items, [], places=(FolderFiles(on_step=cut),))

    (finding,) = reconcile(ledger).findings
    assert ("half_deleted", "finish") == (finding.kind, finding.proposal.act)
    carry_out(ledger, policies(), items, [])
    assert reconcile(ledger).clean


@pytest.mark.requirement("R150", "R155")
def test_a_bucket_is_compared_with_hidden_versions_snapshots_and_content(ledger, s3, tmp_path):  # noqa: F811
    """A tombstone over hidden versions, a prefix without a record, a lost version, content that nothing names."""
    client = s3.client()
    client.put_bucket_versioning(Bucket=s3.bucket, VersioningConfiguration={"Status": "Enabled"})
    store = open_store(f"s3://{s3.bucket}/archive", s3_options=s3.options)
    run = Run(ledger, store, tmp_path / "c").open()
    for step in (1, 2):
        fact = kinds.CheckpointRegistered(
            checkpoint_id=f"ckpt_{step}", step=step, tokens=None, attempt=1,
            location=store.location(f"runs/r/step_{step}"), format="folder", digest="sha256:" + "a" * 64,
            files=[kinds.FileDigest(path="x", size=5, sha256="0" * 64)], components={}, tensors=None,
            tensors_digest=None, snapshot="s@1", configuration_digest=CONFIGURATION, data_position=None,
            responsible="alice", artifact_class="recovery", purpose="recovery",
        )  # fmt: skip
        run.append(fact, attempt=1)
        store.put_if_absent(f"runs/r/step_{step}/x", io.BytesIO(b"12345"))
    run.append(
        kinds.TombstoneWritten(
            ref="checkpoint:ckpt_1", digest="sha256:" + "a" * 64, size=5, artifact_class="recovery", reason="old",
            policy_digest=None, approved_by="bob", bytes_released=5, verified_absent=True,
        )
    )  # fmt: skip
    store.delete("runs/r/step_1/x")  # hides it behind a marker: the bytes are still there
    store.put_if_absent("runs/r/step_77/x", io.BytesIO(b"nobody's"))
    source = tmp_path / "source"
    source.mkdir()
    for number in (1, 2):
        (source / "a").write_bytes(bytes([number]) * 100)
        create_snapshot(
            store, ledger, name="n", source_root=source, mode="copy", actor=ACTOR, origin=Run.origin()
        )
    client.delete_object(Bucket=s3.bucket, Key="archive/snapshots/n/1.json")

    found = reconcile(ledger, places=(StoreFiles(store),), store=store)

    told = by_kind(found)
    assert (["step_1"], ["step_77"], ["1.json"]) == (told["came_back"], told["unregistered"], told["missing"])
    orphan = next(finding for finding in found.findings if finding.kind == "orphan")
    assert 100 < orphan.size
    assert "2 objects" in orphan.detail
    open_items = [
        i for i in plan_over(ledger, LEFTOVERS, [Strays(store=store, owner="demo")]) if "content" in i["id"]
    ]
    assert ["keep"] == [item["action"] for item in open_items]
    run.close()
    finder = Strays(store=store, owner="demo")
    items = [item for item in plan_over(ledger, LEFTOVERS, [finder]) if "content" in item["id"]]
    done = carry_out(ledger, LEFTOVERS, items, [finder])
    assert {"deleted": 1} == done.outcomes()
    assert "orphan" not in by_kind(reconcile(ledger, places=(StoreFiles(store),), store=store))


def test_the_command_tells_the_same_as_text_and_json(ledger_url, run, tmp_path, monkeypatch):
    """Exit 1 with findings, 0 without; one JSON document."""
    policies_folder = tmp_path / "policies"
    policies_folder.mkdir()
    (policies_folder / "demo.toml").write_text(POLICY.format(keep_last=9, age=0, limit=0, hold="[]"))
    for name, value in {
        "DATABASE_URL": ledger_url, "STORE_URL": str(tmp_path / "store"), "POLICIES_FOLDER": str(policies_folder),
        "WORK_FOLDER": str(tmp_path / "work"), "SIGNING_KEY": str(tmp_path / "key"),
    }.items():  # fmt: skip
        monkeypatch.setenv(f"AIRFLOW__PRETRAIN_ARCHIVE__{name}", value)

    clean = CliRunner().invoke(app, ["retention", "reconcile", "--json"])
    shutil.rmtree(run.folder / "step_00000200")
    write_checkpoint(tmp_path / "other", 7)
    told = CliRunner().invoke(app, ["retention", "reconcile", "--json", "--root", str(tmp_path / "other")])
    text = CliRunner().invoke(app, ["retention", "reconcile"])

    assert (0, True) == (clean.exit_code, json.loads(clean.stdout)["clean"]), clean.output
    found = {finding["kind"]: finding for finding in json.loads(told.stdout)["findings"]}
    assert (1, {"missing", "unregistered"}) == (told.exit_code, set(found))
    assert {"act", "command", "text"} == set(found["missing"]["proposal"])
    assert 1 == text.exit_code
    assert "Restore it from a copy" in text.stdout


def test_what_it_proposes_to_register_names_the_run(ledger, run, tmp_path):
    """The run of the checkpoints beside it; elsewhere, or beside those of two runs, the word that stands for one."""
    beside = write_checkpoint(run.folder, 900)
    alone = write_checkpoint(tmp_path / "my models", 7)
    shared = Run(ledger, run.store, tmp_path / "shared").open()
    shared.checkpoint(1)
    other = Run(ledger, run.store, tmp_path / "shared").open()
    other.checkpoint(2)
    between = write_checkpoint(shared.folder, 3)

    found = reconcile(ledger, roots=[tmp_path / "my models"])

    start = "pretrain-archive checkpoint register"
    assert {f"{start} {run.uid} {beside}", f"{start} RUN '{alone}'", f"{start} RUN {between}"} == {
        finding.proposal.command for finding in found.findings
    }


def test_a_root_that_is_not_there_is_told(ledger, tmp_path):
    """A mistyped folder is no folder without differences."""
    with pytest.raises(InputError, match=r"--root: cannot be looked into: No such file.*nowhere"):
        reconcile(ledger, roots=[tmp_path / "nowhere"])


def test_a_snapshot_that_no_record_names_is_made_again(ledger, tmp_path):
    """It is no checkpoint: made again, it finds itself and is recorded, as the proposal says."""
    store, source = FileStore(tmp_path / "store"), tmp_path / "source"
    source.mkdir()
    (source / "a").write_bytes(b"x" * 100)
    url = f"sqlite:///{tmp_path / 'lost.db'}"
    open_ledger(url, signing_key=None, anchors=(), create=True)

    def make(into) -> None:
        create_snapshot(
            store, into, name="n", source_root=source, mode="copy", actor=ACTOR, origin=Run.origin()
        )

    make(open_ledger(url, signing_key=None, anchors=()))
    (finding,) = reconcile(ledger, store=store).findings

    assert ("unregistered", "pretrain-archive snapshot create SRC --name n") == (
        finding.kind, finding.proposal.command,
    )  # fmt: skip
    make(ledger)
    assert reconcile(ledger, store=store).clean
