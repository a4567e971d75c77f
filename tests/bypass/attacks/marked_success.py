"""The gate's task is marked success, skipped or removed; the launch runs as if it had been answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.bypass.ground import Ground, Try

from pretrain_archive.services import data, gating

NO_DECISION = "the prepare gate has no decision in the ledger"


def _launch(*words: str, times: int = 1, **call: Any) -> Callable[[Ground], object]:
    """Airflow starts the launch's task, whatever it shows of the gate."""

    def act(ground: Ground) -> None:
        for number in range(times):
            ground.refused(*words, **({"try_number": number + 1} | call))

    return act


def _after(
    *steps: Callable[[Ground], object], words: tuple[str, ...] = (NO_DECISION,)
) -> Callable[[Ground], object]:
    """Some tasks ran, others were marked; then the launch is started."""

    def act(ground: Ground) -> None:
        for step in steps:
            step(ground)
        ground.refused(*words)

    return act


def _ask(ground: Ground) -> None:
    ground.line.ask("prepare", try_number=len(list(ground.line.view().records)))


def _quality(ground: Ground) -> None:
    line = ground.line
    data.quality(line.ledger, line.store, line.caller("quality_check", try_number=5), line.run_uid)


def _refused_answer(**values: Any) -> Callable[[Ground], object]:
    """Somebody answered without right, and then marked the gate success."""

    def act(ground: Ground) -> None:
        asked = ground.line.ask("prepare", try_number=8)
        outcome = ground.line.answer("prepare", asked, **values)
        assert outcome.decision is None

    return act


def _reject(ground: Ground) -> None:
    ground.line.answer("prepare", ground.line.ask("prepare", try_number=3), option="Reject")


def _expire(ground: Ground) -> None:
    gating.let_expire(ground.line.ledger, ground.line.caller("prepare_gate"), ground.line.run_uid, "prepare")


TRIES = [
    Try("gate marked before it was asked", "data", _launch(NO_DECISION)),
    Try("gate marked while it waits", "asked", _launch(NO_DECISION)),
    Try("gate marked, launch retried five times", "asked", _launch(NO_DECISION, times=5)),
    Try("late try", "asked", _launch(NO_DECISION, try_number=2**31 - 1)),
    Try("mapped launch", "asked", _launch(NO_DECISION, map_index=0)),
    Try("launch marked and cleared", "data", _launch(NO_DECISION, try_number=2)),
    Try("gate asked twice, marked", "asked", _after(_ask)),
    Try("gate asked three times, marked", "asked", _after(_ask, _ask)),
    Try("quality run again, gate marked", "asked", _after(_quality)),
    Try("quality run again before the gate", "data", _after(_quality)),
    Try("quality and gate run again", "data", _after(_quality, _ask)),
    Try("answered by the submitter, marked", "asked", _after(_refused_answer(person="alice"))),
    Try("answered by a stranger, marked", "asked", _after(_refused_answer(person="carol"))),
    Try("answered by an admin, marked", "asked", _after(_refused_answer(person="admin"))),
    Try("answered without a reason, marked", "asked", _after(_refused_answer(reason=""))),
    Try(
        "answered about other evidence, marked",
        "asked",
        _after(_refused_answer(dossier_digest="sha256:" + "1" * 64)),
    ),
    Try("answered without acknowledging, marked", "asked", _after(_refused_answer(acknowledge=False))),
    Try("answered with another option, marked", "asked", _after(_refused_answer(option="approve"))),
    Try("rejected, marked", "asked", _after(_reject, words=("closed",))),
    Try(
        "rejected, marked, launch in a later try",
        "asked",
        _after(_reject, lambda g: g.refused("closed", try_number=7), words=("closed",)),
    ),
    Try("expired, marked", "asked", _after(_expire, words=("closed",))),
    Try("launch of a run that does not exist", "asked", _launch("not in the ledger", run_uid="run_none")),
    Try("launch with the uid of nothing", "asked", _launch("not in the ledger", run_uid=" ")),
]
