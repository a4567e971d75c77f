"""The gate times out, or its answer comes from a default, and the launch is tried all the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.bypass.ground import Ground, Try

from pretrain_archive.gates.judging import read_answer
from pretrain_archive.services import gating

BOB = {"id": "bob", "name": "bob"}
VALUES = {"reason": "read", "acknowledge": True}


def _answered(**event: Any) -> Callable[[Ground], object]:
    """Airflow resumes the gate with this event; what its timeout and defaults produce."""

    def act(ground: Ground) -> None:
        line, made = ground.line, dict(event)
        anonymous = made.pop("anonymous", False)
        shown = line.view().dossier("prepare")
        assert shown is not None
        made["params_input"] = {"dossier_digest": shown[1].digest, **made.pop("values", VALUES)}
        made = {
            "chosen_options": ["Approve"],
            "responded_by_user": BOB,
            "responded_at": datetime.now(UTC),
        } | made
        answer = read_answer(made, authentication="test", anonymous=anonymous)
        taken = gating.take(
            line.ledger,
            line.caller("prepare_gate"),
            line.run_uid,
            "prepare",
            policy=line.policy,
            answer=answer,
        )
        assert taken.decision is None, taken.decision
        ground.refused("the prepare gate has no decision in the ledger")

    return act


def _expired(*, again: int = 0, seal: bool = True, try_number: int = 1) -> Callable[[Ground], object]:
    """The deadline passed; the launch's task is run ``again`` more times."""

    def act(ground: Ground) -> None:
        line = ground.line
        gating.let_expire(
            line.ledger, line.caller("prepare_gate", try_number=try_number), line.run_uid, "prepare"
        )
        if seal:
            line.ledger.seal()
        for number in range(again + 1):
            ground.refused("closed", try_number=try_number + number)

    return act


def _waits(**call: Any) -> Callable[[Ground], object]:
    """Nobody answered yet."""
    return lambda ground: ground.refused("the prepare gate has no decision in the ledger", **call)


TRIES = [
    Try("expired", "asked", _expired()),
    Try("expired, launch tried three times", "asked", _expired(again=2)),
    Try("expired in a later try of the gate", "asked", _expired(try_number=4)),
    Try("expired and not sealed", "asked", _expired(seal=False)),
    Try("still waiting", "asked", _waits()),
    Try("still waiting, later try of the launch", "asked", _waits(try_number=9)),
    Try("never asked", "data", _waits()),
    Try("nobody", "asked", _answered(responded_by_user=None)),
    Try("an empty person", "asked", _answered(responded_by_user={})),
    Try("a person without a name", "asked", _answered(responded_by_user={"id": "bob"})),
    Try("a person without an id", "asked", _answered(responded_by_user={"name": "bob"})),
    Try("a person with an empty name", "asked", _answered(responded_by_user={"id": "bob", "name": ""})),
    Try("a list for a person", "asked", _answered(responded_by_user=["bob"])),
    Try("airflow itself", "asked", _answered(responded_by_user={"id": "airflow", "name": "airflow"})),
    Try("everybody is an admin", "asked", _answered(anonymous=True)),
    Try("no moment", "asked", _answered(responded_at=None)),
    Try("a moment without a zone", "asked", _answered(responded_at=datetime(2026, 11, 29, 12))),  # noqa: DTZ001
    Try("a moment of tomorrow", "asked", _answered(responded_at=datetime.now(UTC) + timedelta(days=1))),
    Try("defaults without a reason", "asked", _answered(values={"acknowledge": True})),
    Try("a blank reason", "asked", _answered(values={"reason": " \n\t ", "acknowledge": True})),
    Try("nothing acknowledged", "asked", _answered(values={"reason": "read"})),
    Try("acknowledged as text", "asked", _answered(values={"reason": "read", "acknowledge": "true"})),
    Try("the default digest", "asked", _answered(values=VALUES | {"dossier_digest": ""})),
    Try(
        "the digest of nothing", "asked", _answered(values=VALUES | {"dossier_digest": "sha256:" + "0" * 64})
    ),
    Try("no option", "asked", _answered(chosen_options=[])),
    Try("a default option of another name", "asked", _answered(chosen_options=["OK"])),
    Try("an option as text", "asked", _answered(chosen_options="Approve")),
]
