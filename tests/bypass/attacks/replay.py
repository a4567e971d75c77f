"""A launch token is used twice, or for another run or attempt; an intent that was used starts something again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.bypass.ground import Ground, Try

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.domain.records import Record
from pretrain_archive.gates.permit import LaunchPermit, consume_permit, derive_permit
from pretrain_archive.gates.service import load_run


def derived(ground: Ground, *, other: bool = False) -> LaunchPermit:
    """The token of the run's next attempt, or of the signed neighbour's."""
    uid = ground.other if other else ground.line.run_uid
    view = load_run(ground.line.ledger, uid)
    config, env = view.latest(kinds.ConfigurationDeclared), view.latest(kinds.EnvironmentDeclared)
    assert config is not None
    assert env is not None
    assert view.opened is not None
    return derive_permit(
        ground.line.ledger, view, dag_run_id=view.opened.dag_run_id, policy=ground.line.policy,
        observed=ground.observed(str(config.code_digest), env.environment_digest), now=datetime.now(UTC),
    )  # fmt: skip


def used(ground: Ground, permit: LaunchPermit, **origin: Any) -> Record:
    """Consume a token as the launch's task does."""
    caller = ground.caller(**origin)
    return consume_permit(
        ground.line.ledger, permit, target=ground.target, actor=caller.actor, origin=caller.origin
    )


def _refused(ground: Ground, act: Callable[[], object]) -> None:
    before = [r.record_id for r in ground.line.ledger.records(kinds=["launch.intended"])]
    try:
        act()
    except ArchiveError:
        assert before == [r.record_id for r in ground.line.ledger.records(kinds=["launch.intended"])]
    else:
        raise AssertionError("the token was used")


def _again(
    change: Callable[[LaunchPermit], LaunchPermit] = lambda p: p, **origin: Any
) -> Callable[[Ground], object]:
    """The token was used; it, or what was made from it, is used again."""

    def act(ground: Ground) -> None:
        permit = derived(ground)
        used(ground, permit)
        _refused(ground, lambda: used(ground, change(permit), **origin))

    return act


def _edited(change: Callable[[LaunchPermit], LaunchPermit]) -> Callable[[Ground], object]:
    """A fresh token is edited before it is used."""
    return lambda ground: _refused(ground, lambda: used(ground, change(derived(ground))))


def _kept(age: timedelta, *, clock: timedelta = timedelta()) -> Callable[[Ground], object]:
    """A token is kept for a while."""

    def act(ground: Ground) -> None:
        permit = replace(derived(ground), derived_at=datetime.now(UTC) - age)
        caller = ground.caller()
        _refused(ground, lambda: consume_permit(
            ground.line.ledger, permit, target="local", actor=caller.actor, origin=caller.origin,
            now=datetime.now(UTC) + clock,
        ))  # fmt: skip

    return act


def _other_run(ground: Ground) -> None:
    """The neighbour's token with this run's name on it."""
    permit = derived(ground, other=True)
    _refused(ground, lambda: used(ground, replace(permit, run_uid=ground.line.run_uid)))


def _moved(step: Callable[[Ground], object]) -> Callable[[Ground], object]:
    """Something is recorded between deriving and using."""

    def act(ground: Ground) -> None:
        permit = derived(ground)
        step(ground)
        _refused(ground, lambda: used(ground, permit))

    return act


def _intent(change: Callable[[Record], Record], *, attempt: int = 1) -> Callable[[Ground], object]:
    """The last door is handed an intent that is not the one in the ledger."""

    def act(ground: Ground) -> None:
        intent = used(ground, derived(ground))
        ground.door(change(intent), attempt=attempt)

    return act


def _never(ground: Ground) -> None:
    """The last door is handed the intent of another record altogether."""
    ground.door(ground.line.view().records[0], attempt=1)


def _reject(ground: Ground) -> None:
    ground.line.answer("prepare", ground.line.ask("prepare", try_number=9), option="Reject")


def _token(**changes: Any) -> Callable[[LaunchPermit], LaunchPermit]:
    return lambda permit: replace(permit, token=permit.token | changes)


TRIES = [
    Try("by the same try", "signed", _again()),
    Try("by the next try", "signed", _again(try_number=2)),
    Try("by another task", "signed", _again(task_id="gpu_launch_2")),
    Try("by another DAG run", "signed", _again(dag_run_id="manual__later")),
    Try("by another DAG", "signed", _again(dag_id="copy")),
    Try("by a mapped task", "signed", _again(map_index=3)),
    Try("with another nonce", "signed", _again(_token(nonce="nonce_x"))),
    Try("as the next attempt", "signed", _again(lambda p: replace(p, attempt=2))),
    Try("as the next attempt, token too", "signed",
        _again(lambda p: replace(p, attempt=2, token=p.token | {"attempt": 2}))),
    Try("of another run", "signed", _other_run),
    Try("of another attempt in its text", "signed", _edited(_token(attempt=3))),
    Try("expired in its text", "signed", _edited(_token(expires="2026-01-01T00:00:00.000000Z"))),
    Try("kept for twenty minutes", "signed", _kept(timedelta(minutes=20))),
    Try("kept for a day", "signed", _kept(timedelta(days=1))),
    Try("kept, and the clock went on", "signed", _kept(timedelta(), clock=timedelta(hours=25))),
    Try("from the future", "signed", _kept(timedelta(hours=-2))),
    Try("after a rejection", "signed", _moved(_reject)),
    Try("after the gate was asked again", "signed", _moved(lambda g: g.line.ask("prepare", try_number=9))),
    Try("after a note", "signed", _moved(lambda g: g.note(g.line.run_uid))),
    Try("intent of another attempt", "signed", _intent(lambda r: replace(r, attempt=2))),
    Try("intent for a later attempt", "signed", _intent(lambda r: r, attempt=2)),
    Try("intent of another run", "signed", _intent(lambda r: replace(r, stream="run_other"))),
    Try("intent of another kind", "signed", _intent(lambda r: replace(r, kind="note.added"))),
    Try("intent with another id", "signed", _intent(lambda r: replace(r, record_id="rec_other"))),
    Try("a record that is no intent", "signed", _never),
]  # fmt: skip
