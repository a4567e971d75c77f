"""The account and the timeline of attempts that really ran on the fake cluster."""

from __future__ import annotations

import pytest
from tests.integration.kubernetes.playground import Run

from pretrain_archive.domain.cost import account
from pretrain_archive.domain.cost_bins import MICRO
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.timeline import timeline

pytestmark = pytest.mark.usefixtures("cluster")


def view_of(run: Run) -> RunView:
    """The run as its records tell it."""
    return RunView.of(run.spec().run_uid, run.ledger.records(streams=[run.spec().run_uid]))


@pytest.mark.requirement("R225")
def test_members_of_a_job_are_accounted(run: Run) -> None:
    """What the pod held is in the bins, as accelerators, and agrees with what the budget was charged."""
    spec = run.spec(
        config={"steps": 40, "step_seconds": 0.05},
        budget={"accelerators": 2, "accelerator": "nvidia.com/gpu"},
    )
    ended = run.launch(spec).run()
    assert "completed" == ended.state, ended
    found = account(view_of(run))
    held = found.allocated_us("accelerator")

    assert held == sum(found.bins("accelerator").values()) > 0
    assert ended.accelerator_seconds is not None
    assert held / MICRO == pytest.approx(ended.accelerator_seconds, abs=4), (
        "the API's times have whole seconds"
    )
    assert found.bins("accelerator")["productive"] > 0
    assert 0 == found.unevidenced_us("accelerator")


@pytest.mark.requirement("R087")
def test_the_cluster_is_on_the_timeline(run: Run) -> None:
    """Job, member, node and end of a real launch stand in one order."""
    run.launch().run()
    entries = timeline(view_of(run))

    assert {"attempts", "members", "nodes", "checkpoints", "environment"} <= {entry.lane for entry in entries}
    kinds = [entry.kind for entry in entries]
    assert kinds.index("job.created") < kinds.index("member.observed") < kinds.index("attempt.ended")
    assert "worker 0 on node node-0" in {entry.what for entry in entries}
