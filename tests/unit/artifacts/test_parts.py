"""A checkpoint of which a part was deleted: the rest verifies, nothing resumes from it, and it says so."""

from __future__ import annotations

import pytest
from tests.fakes.memory_ledger import MemoryLedger
from tests.fakes.storage import MemoryStore
from tests.support.artifact_run import Run

from pretrain_archive.artifacts.parts import gone_parts, not_resumable, whole_stones
from pretrain_archive.artifacts.verification import find_newest_verified, search_verified, verify_checkpoint
from pretrain_archive.domain import kinds
from pretrain_archive.domain.run_view import RunView


@pytest.fixture
def run(tmp_path):
    """Two checkpoints; the optimizer of the newer one is deleted and buried."""
    made = Run(MemoryLedger(), MemoryStore(), tmp_path).open()
    made.checkpoint(100)
    newer = made.checkpoint(200)
    (tmp_path / "step_00000200" / "optimizer.safetensors").unlink()
    made.append(
        kinds.TombstoneWritten(
            ref=f"checkpoint:{newer.checkpoint_id}", digest=newer.digest, size=88, artifact_class="recovery",
            reason="old", policy_digest=None, approved_by="bob", bytes_released=88, verified_absent=True,
            parts=["optimizer"],
        )
    )  # fmt: skip
    return made


def view(run: Run) -> RunView:
    """What the records say."""
    return RunView.of(run.uid, run.ledger.records(streams=[run.uid]))


@pytest.mark.requirement("R149", "R150")
def test_the_rest_still_verifies(run):
    """Every file has a verdict; the deleted one is verified to be absent."""
    fact = [c for _, c in view(run).all(kinds.CheckpointRegistered)][-1]
    gone = gone_parts(view(run))[fact.checkpoint_id]

    items = {item.id.rpartition("#")[2]: item for item in verify_checkpoint(fact, gone=gone)}

    assert {"verified"} == {item.verdict for item in items.values()}
    assert "deleted, by its tombstone" == items["optimizer.safetensors"].expected
    assert len(fact.files) == len(items)
    assert "changed" in {item.verdict for item in verify_checkpoint(fact)}


def test_a_part_that_came_back_is_told(run):
    """A tombstone stands and the file is there: that is no evidence of anything."""
    fact = [c for _, c in view(run).all(kinds.CheckpointRegistered)][-1]
    (run.folder / "step_00000200" / "optimizer.safetensors").write_bytes(b"again")

    found = {i.id.rpartition("#")[2]: i.verdict for i in verify_checkpoint(fact, gone={"optimizer"})}

    assert "changed" == found["optimizer.safetensors"]


@pytest.mark.requirement("R151")
def test_nothing_is_resumed_from_it(run):
    """The older whole one is taken, and why the newer one is not is said."""
    assert 100 == find_newest_verified(view(run)).checkpoint.step
    assert "its optimizer was deleted by policy" in search_verified(view(run)).unfit[0].text()
    assert frozenset() == whole_stones(view(run))
    assert "" == not_resumable(["other"])
