"""A real sweep while an evaluation reads: what is read stays, and goes once nobody reads it any more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.integration.retention.test_service import approve, carry_out, folders, outcomes, plan

from pretrain_archive.artifacts.evaluation import require_present
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import CheckpointError
from pretrain_archive.domain.identity import format_time
from pretrain_archive.domain.run_view import RunView


def started(run, *, minutes: float) -> kinds.EvaluationStarted:
    """A recorded try that reads the first checkpoint for so long from now."""
    fact = next(f for _, f in RunView.of(run.uid, run.ledger.records()).all(kinds.CheckpointRegistered))
    payload = kinds.EvaluationStarted(
        try_id="try_1", checkpoint_id=fact.checkpoint_id, checkpoint_digest=fact.digest,
        lease_until=format_time(datetime.now(UTC) + timedelta(minutes=minutes)),
    )  # fmt: skip
    run.append(payload, attempt=1)
    return payload


@pytest.mark.case("E07")
@pytest.mark.requirement("R151")
def test_what_an_evaluation_reads_since_the_plan_is_kept_until_it_ends(run):
    """Approved for deletion, and read before the sweep came: it stays, whole; after the end it goes."""
    planned = plan(run)
    approval = approve(run, planned)
    before = folders(run)
    read = started(run, minutes=5)
    fact = next(f for _, f in RunView.of(run.uid, run.ledger.records()).all(kinds.CheckpointRegistered))

    applied = carry_out(run, planned, approval)

    assert ["kept", "deleted"] == outcomes(applied)
    assert "an evaluation reads it until" in applied.results[0].reason
    require_present(fact)

    end = kinds.EvaluationFinished(
        try_id=read.try_id, checkpoint_id=read.checkpoint_id, evaluations=["eval_1"]
    )
    run.append(end, attempt=1)
    planned = plan(run)
    assert ["deleted"] == outcomes(carry_out(run, planned, approve(run, planned)))
    assert 2 == len(before) - len(folders(run))


@pytest.mark.case("E07")
def test_a_worker_that_was_lost_holds_a_checkpoint_no_longer_than_its_lease(run):
    """Nobody wrote an end, and its time is over: the sweep goes on, and a late worker stores no number."""
    started(run, minutes=-1)
    fact = next(f for _, f in RunView.of(run.uid, run.ledger.records()).all(kinds.CheckpointRegistered))
    planned = plan(run)

    assert ["deleted", "deleted"] == outcomes(carry_out(run, planned, approve(run, planned)))

    with pytest.raises(CheckpointError, match="was removed"):
        require_present(fact)
