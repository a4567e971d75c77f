"""A launch without a sign-off: only inside the ceiling, and never beyond what run and day have left."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.unit.gates.asked_run import CONF, AskedRun, policy_with

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError, RefusedError, StreamMovedError
from pretrain_archive.domain.exploration import check_exploration, is_exploration, scope_of
from pretrain_archive.domain.identity import format_time
from pretrain_archive.domain.policy import LoadedPolicy, parse_policy
from pretrain_archive.domain.request import read_request
from pretrain_archive.gates.exploration import day_of, day_stream
from pretrain_archive.gates.permit import LaunchPermit, Observed, consume_permit, derive_permit

OPEN = {**CONF, "scope": "exploration", "budget_minutes": 2}
OTHER = "sha256:" + "0" * 64


def ceiling(**lines: str) -> LoadedPolicy:
    """The demo's policy with lines of its ceiling replaced."""
    return policy_with(**lines)


def no_section() -> LoadedPolicy:
    """The demo's policy without the section."""
    from tests.unit.gates.asked_run import POLICY_FILE, without_steps

    text = without_steps(POLICY_FILE.read_text()).partition("[exploration]")[0]
    return parse_policy(text.encode(), name="demo.toml")


def exploring(
    make_run: Any, number: int = 1, *, policy: LoadedPolicy | None = None, **budget: Any
) -> AskedRun:
    """A run of scope exploration with data, without any answer at a gate."""
    run: AskedRun = make_run(number, conf=dict(OPEN), policy=policy or policy_with())
    run.until("declare")
    return with_budget(run, **{"minutes": 2.0} | budget)


def with_budget(run: AskedRun, **changes: Any) -> AskedRun:
    """Give the run another budget."""
    config = run.view().latest(kinds.ConfigurationDeclared)
    assert config is not None
    run.replace("open_run", kinds.ConfigurationDeclared, budget=config.budget.model_copy(update=changes))
    return run


def consume(run: AskedRun, permit: LaunchPermit) -> Any:
    """Use a token."""
    caller = run.caller("gpu_launch", try_number=permit.attempt)
    return consume_permit(run.ledger, permit, target="local", actor=caller.actor, origin=caller.origin)


def permit(run: AskedRun, **changes: Any) -> LaunchPermit:
    """Derive now."""
    return run.permit(**{"now": datetime.now(UTC)} | changes)


def refusal(run: AskedRun, **changes: Any) -> str:
    """Why no token is derived."""
    with pytest.raises(RefusedError, match="no launch") as raised:
        permit(run, **changes)
    return "; ".join(raised.value.reasons)


@pytest.mark.requirement("R132")
def test_small_exploration_needs_no_decision(make_run: Any) -> None:
    """A key input is missing and nobody signed: the exploration may start, with its deadline, and is marked."""
    run = exploring(make_run)
    record = consume(run, permit(run))

    token = record.payload["token"]
    assert ("exploration", "exploration", 120.0, 1) == (
        record.payload["scope"], token["scope"], token["deadline_seconds"], token["units"],
    )  # fmt: skip
    assert "prepare_decision" not in token
    assert is_exploration(run.view())


@pytest.mark.requirement("R132")
def test_the_large_run_is_refused(make_run: Any) -> None:
    """The same run as a full one has no launch without a decision."""
    run = make_run(1)
    run.until("declare")
    assert "the prepare gate has no decision in the ledger" in refusal(run)


def test_policy_without_the_section(make_run: Any) -> None:
    """No section, no exploration."""
    assert "the policy has no [exploration] section" in refusal(exploring(make_run, policy=no_section()))


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        pytest.param({"accelerators": 1}, "may hold 0 accelerators, 1 are asked for", id="accelerators"),
        pytest.param({"nodes": 2}, "may hold 1 machines, 2 are asked for", id="machines"),
        pytest.param({"minutes": 3.01}, "may take 3 accelerator minutes, 3.01 are asked for", id="minutes"),
        pytest.param(
            {"minutes": 2.0, "nodes": 2}, "may take 3 accelerator minutes, 4 are asked for", id="product"
        ),
    ],
)
def test_more_than_the_ceiling(make_run: Any, budget: dict[str, Any], words: str) -> None:
    """What was asked for must fit the ceiling as a whole."""
    assert words in refusal(exploring(make_run, **budget))


def test_policy_changed_since(make_run: Any) -> None:
    """A ceiling that was raised after the run was opened is another policy."""
    run = exploring(make_run)
    assert "the policy demo.toml changed" in refusal(run, policy=ceiling(accelerator_minutes="300"))


def test_unrecorded_data(make_run: Any) -> None:
    """Without a snapshot there is nothing to launch on."""
    run = make_run(1, conf=dict(OPEN)).until("open")
    with pytest.raises(RefusedError, match="no launch") as raised:
        derive_permit(run.ledger, run.view(), dag_run_id=run.dag_run_id, policy=run.policy, now=datetime.now(UTC),
                      observed=Observed(code_digest=OTHER, environment_digest=OTHER))  # fmt: skip
    assert "snapshot, split, configuration or environment is unrecorded" in "; ".join(raised.value.reasons)


def test_changed_code(make_run: Any) -> None:
    """The code that was declared is what runs, signed or not."""
    assert "the training code changed" in refusal(exploring(make_run), code_digest=OTHER)


def test_attempts_of_a_run_share_its_ceiling(make_run: Any) -> None:
    """What earlier attempts took is not there again; one whose time nobody recorded took its whole deadline."""
    run = exploring(make_run, policy=ceiling(accelerator_minutes="2"))
    consume(run, permit(run))
    run.ended(seconds=90.0)
    assert 30.0 == permit(run).token["deadline_seconds"]
    consume(run, permit(run))
    run.ended(2, seconds=None)
    assert "the run's ceiling of an exploration is used up" in refusal(run)


def test_deadline_is_rounded_down(make_run: Any) -> None:
    """Not a millisecond more than what is left."""
    run = exploring(make_run)
    consume(run, permit(run))
    run.ended(seconds=10.0006)
    assert 109.999 == permit(run).token["deadline_seconds"]


def test_runs_of_a_day_share_its_ceiling(make_run: Any) -> None:
    """What other runs of the project took or hold today is not there again; ended ones give back the rest."""
    policy = ceiling(accelerator_minutes_per_day="3")
    first, second = exploring(make_run, 1, policy=policy), exploring(make_run, 2, policy=policy)
    consume(first, permit(first))
    assert 60.0 == permit(second).token["deadline_seconds"]
    first.ended(seconds=30.0)
    assert 120.0 == permit(second).token["deadline_seconds"]


def test_full_runs_take_nothing_of_the_day(make_run: Any) -> None:
    """Only explorations are counted."""
    policy = ceiling(accelerator_minutes_per_day="2")
    full = make_run(2, policy=policy)
    full.until("prepare")
    caller = full.caller("gpu_launch")
    consume_permit(full.ledger, permit(full), target="local", actor=caller.actor, origin=caller.origin)
    assert 120.0 == permit(exploring(make_run, 1, policy=policy)).token["deadline_seconds"]


def test_tokens_derived_side_by_side(make_run: Any) -> None:
    """Two launches that both saw two minutes left: the second one is refused when it takes them."""
    policy = ceiling(accelerator_minutes_per_day="2")
    first, second = exploring(make_run, 1, policy=policy), exploring(make_run, 2, policy=policy)
    one, two = permit(first), permit(second)
    consume(first, one)
    with pytest.raises(RefusedError) as raised:
        consume(second, two)
    assert "took 2 of 2 accelerator minutes, this one needs 2" in "; ".join(raised.value.reasons)
    assert 0 == second.view().attempts


def test_side_by_side_with_enough_left(make_run: Any) -> None:
    """A share that another launch took meanwhile hinders nothing while enough is left."""
    first, second = exploring(make_run, 1), exploring(make_run, 2)
    one, two = permit(first), permit(second)
    consume(first, one)
    consume(second, two)
    day = day_of(first.ledger, "demo", format_time(datetime.now(UTC))[:10])
    assert (4.0, 2) == (day.minutes, len(day.records))


def test_run_that_moved_is_not_launched(make_run: Any) -> None:
    """The other streams are asked as for a full launch."""
    run = exploring(make_run)
    token = permit(run)
    with_budget(run, minutes=1.0)
    with pytest.raises(StreamMovedError):
        consume(run, token)


def test_reservation_and_intent_are_one_write(make_run: Any) -> None:
    """A launch that is refused leaves no share behind, and a share stands only beside its intent."""
    run = exploring(make_run)
    token = permit(run)
    with_budget(run, minutes=1.0)
    with pytest.raises(StreamMovedError):
        consume(run, token)
    stream = day_stream("demo", format_time(datetime.now(UTC))[:10])
    assert [] == list(run.ledger.records(streams=[stream]))


@pytest.mark.parametrize("asked", ["full", "exploration"])
def test_the_scope_is_the_runs_own(make_run: Any, asked: Any) -> None:
    """A full launch of an exploration is refused, and the other way round."""
    run = exploring(make_run) if asked == "full" else make_run(2).until("prepare")
    with pytest.raises(RefusedError, match="no launch") as raised:
        derive_permit(run.ledger, run.view(), dag_run_id=run.dag_run_id, policy=run.policy, observed=run.observed(),
                      now=datetime.now(UTC), scope=asked)  # fmt: skip
    assert f"a launch of scope {asked} is asked for" in "; ".join(raised.value.reasons)


def test_signed_exploration_keeps_its_ceiling(make_run: Any) -> None:
    """An approval at the prepare gate makes no full run of it."""
    run = exploring(make_run)
    run.pass_gate("prepare")
    assert "exploration" == permit(run).token["scope"]


def test_clock_of_another_day(make_run: Any) -> None:
    """A clock that went back does not open yesterday's share: the ledger's time counts."""
    policy = ceiling(accelerator_minutes_per_day="2")
    run, other = exploring(make_run, 1, policy=policy), exploring(make_run, 2, policy=policy)
    consume(run, permit(run))
    assert "is used up" in refusal(other, now=datetime.now(UTC) - timedelta(days=1))


def test_unreadable_scope_is_the_narrow_one(make_run: Any) -> None:
    """What is neither unsaid nor full never widens a right."""
    run = make_run(1, conf={**CONF, "scope": "FULL"}).until("open")
    assert "exploration" == scope_of(run.view().opened)
    assert "full" == scope_of(make_run(2, conf=dict(CONF)).until("open").view().opened)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"accelerators": 1}, "accelerators", id="accelerators"),
        pytest.param({"nodes": 2}, "nodes", id="machines"),
        pytest.param({"budget_minutes": 4}, "budget_minutes", id="minutes"),
    ],
)
def test_refused_when_it_is_opened(changes: dict[str, Any], field: str) -> None:
    """The earliest place says which field is too large."""
    with pytest.raises(InputError, match=f"{field}.*above the ceiling of an exploration"):
        check_exploration(read_request({**OPEN, **changes}), policy_with().policy)


def test_opened_without_a_section() -> None:
    """A project that allows none says so at once."""
    with pytest.raises(InputError, match="no \\[exploration\\] section"):
        check_exploration(read_request(OPEN), no_section().policy)
    check_exploration(read_request({**OPEN, "scope": "full"}), no_section().policy)
