"""Every answer to a clean-up is on record, the newest word of an entitled person counts, no approval lasts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk.exceptions import AirflowFailException
from tests.support.artifact_run import ACTOR, Run
from tests.unit.operators.conftest import context
from tests.unit.operators.test_retention import (
    apply,
    approval,
    closed,
    event,
    on_disk,
    parked,
    plan,
    small_limit,
)

from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.kinds import RetentionApproved, RetentionRefused, read_payload
from pretrain_archive.retention import approval as decisions
from pretrain_archive.services import cleanup, wiring
from pretrain_archive.services.caller import Caller

__all__ = ["closed", "small_limit"]
pytestmark = pytest.mark.usefixtures("small_limit")


def refusals(run: Run) -> list[RetentionRefused]:
    """What was answered and allows nothing."""
    return [read_payload(r, RetentionRefused) for r in run.ledger.records(kinds=["retention.refused"])]


def asked(digest: str):
    """The approval task, waiting."""
    operator, ctx = approval(digest, hours=5), context("approve", user=None)
    parked(operator.execute, ctx)
    return operator, ctx


@pytest.mark.parametrize(
    ("answer", "cause", "person"),
    [
        pytest.param(lambda d: event(d, person=None), "unsigned", None, id="nobody"),
        pytest.param(lambda d: event(d, person="alice"), "not_entitled", "alice", id="approves unentitled"),
        pytest.param(lambda d: event(d, person="alice", option="Reject"), "not_entitled", "alice", id="rejects"),
        pytest.param(lambda d: event(d, reason=" "), "invalid", "bob", id="no reason"),
        pytest.param(lambda d: event(d, option="Perhaps"), "invalid", "bob", id="neither"),
        pytest.param(lambda _: event("sha256:" + "0" * 64), "stale", "bob", id="another plan"),
        pytest.param(lambda _: {"error": "lost", "error_type": "unknown"}, "unsigned", None, id="lost by Airflow"),
    ],
)  # fmt: skip
def test_what_does_not_count_is_recorded(closed, answer, cause, person):
    """An answer that does not count is kept with its cause and its person, and the question is put again."""
    digest = plan()["plan_digest"]
    operator, ctx = asked(digest)

    parked(operator.execute_complete, ctx, answer(digest))

    [kept] = refusals(closed)
    assert (digest, cause, person) == (kept.plan_digest, kept.cause, kept.person_name)
    assert kept.detail
    assert kept.authentication


def test_expiry_is_recorded(closed):
    """A deadline that passes is on record."""
    digest = plan()["plan_digest"]
    operator, ctx = asked(digest)

    with pytest.raises(AirflowFailException):
        operator.execute_complete(ctx, {"error": "late", "error_type": "timeout"})

    [kept] = refusals(closed)
    assert ("expired", None, "not answered within 5 hours") == (kept.cause, kept.person_name, kept.detail)


def test_same_answer_is_recorded_once(closed):
    """A resumed task that is resumed again writes the rejection once."""
    digest = plan()["plan_digest"]
    operator, ctx = asked(digest)

    for _ in range(2):
        with pytest.raises(AirflowFailException, match="clean-up rejected by bob: seen"):
            operator.execute_complete(ctx, event(digest, option="Reject"))

    [kept] = refusals(closed)
    assert ("rejected", "bob", "seen") == (kept.cause, kept.person_name, kept.detail)


def test_rejection_withdraws_the_approval(closed):
    """The newest word counts: a later rejection stops the deletion, a later approval allows it again."""
    digest = plan()["plan_digest"]
    operator, ctx = asked(digest)
    operator.execute_complete(ctx, event(digest))
    with pytest.raises(AirflowFailException):
        operator.execute_complete(ctx, event(digest, option="Reject", reason="keep them"))

    with pytest.raises(AirflowFailException, match="bob rejected it: keep them"):
        apply(digest)
    assert on_disk(closed) == 3
    operator.execute_complete(ctx, event(digest, reason="after all"))
    apply(digest)

    assert on_disk(closed) == 1
    assert 2 == len(list(closed.ledger.records(kinds=["retention.approved"])))


def test_unentitled_rejection_changes_nothing(closed):
    """Somebody who may not answer cannot withdraw an approval."""
    digest = plan()["plan_digest"]
    operator, ctx = asked(digest)
    operator.execute_complete(ctx, event(digest))
    parked(operator.execute_complete, ctx, event(digest, person="alice", option="Reject"))

    apply(digest)

    assert on_disk(closed) == 1


def test_policy_does_not_overrule_a_rejection(closed):
    """What a person rejected is not approved by policy, whatever its limit is by then."""
    planned = cleanup.plan_of(closed.ledger, plan()["plan_digest"])
    operator, ctx = asked(planned.plan_digest)
    with pytest.raises(AirflowFailException):
        operator.execute_complete(ctx, event(planned.plan_digest, option="Reject"))
    file = wiring.config.policies_folder() / "demo.toml"
    file.write_text(file.read_text().replace("approval_above_bytes = 10", "approval_above_bytes = 1_000_000"))
    caller = Caller(origin=closed.origin(), actor=ACTOR)

    with pytest.raises(RefusedError, match="only a person"):
        cleanup.approve(closed.ledger, caller, wiring.cleanup_room(), planned, person=None, reason="below")


def test_approval_ends(closed):
    """After the time for which the policy lets a decision stand, the plan needs a new approval."""
    planned = cleanup.plan_of(closed.ledger, plan()["plan_digest"])
    operator, ctx = asked(planned.plan_digest)
    operator.execute_complete(ctx, event(planned.plan_digest))
    policies = wiring.cleanup_room().policies
    hours = policies["demo"].policy.gates.decision_valid_hours
    known = decisions.find_approval(closed.ledger, planned.plan_digest)
    soon, late = (datetime.now(UTC) + timedelta(hours=hours * part) for part in (0.9, 1.1))

    assert known == decisions.require_valid(closed.ledger, planned, known, policies, now=soon)
    with pytest.raises(RefusedError, match=r"of plan .* by bob expired at") as raised:
        decisions.require_valid(closed.ledger, planned, known, policies, now=late)
    assert raised.value.hint
    again = decisions.approve(
        closed.ledger,
        planned,
        policies,
        person="bob",
        reason="still",
        actor=ACTOR,
        origin=closed.origin(),
        now=late,
    )
    assert "still" == again.reason
    assert [known, again] == [
        read_payload(r, RetentionApproved) for r in decisions.decisions(closed.ledger, planned.plan_digest)
    ]
