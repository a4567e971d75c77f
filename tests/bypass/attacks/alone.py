"""The launch's task is run by itself, in a DAG run that never asked, or for another run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.bypass.ground import Ground, Try
from tests.support.main_line import Line


def _as(words: str, **call: Any) -> Callable[[Ground], object]:
    """``airflow tasks test`` and ``dags test`` run the operator under names of their own."""
    return lambda ground: ground.refused(words, **call)


def _own_run(stage_of_own: str, **call: Any) -> Callable[[Ground], object]:
    """The whole DAG is tested: its own run is opened, and its gate answers nothing."""

    def act(ground: Ground) -> None:
        line = Line(
            folder=ground.line.folder, policy=ground.line.policy, dag_run_id="__airflow_temporary_run__"
        )
        template = ground.line.view().opened
        assert template is not None
        names = ("train_command", "evaluate_command", "configuration", "source")
        line.open(**{name: template.conf[name] for name in names})
        if stage_of_own != "open":
            line.prepare_data()
        if stage_of_own == "asked":
            line.ask("prepare")
        ground.refused("launch", run_uid=line.run_uid, dag_run_id=line.dag_run_id, **call)
        line.ledger.close()

    return act


ELSEWHERE = "belongs to DAG run"
TRIES = [
    Try("a temporary run of tasks test", "signed", _as(ELSEWHERE, dag_run_id="__airflow_temporary_run__")),
    Try("a temporary run with a moment", "signed",
        _as(ELSEWHERE, dag_run_id="__airflow_temporary_run_2026-11-30T00:00:00+00:00__")),
    Try("dags test", "signed", _as(ELSEWHERE, dag_run_id="manual__2026-11-30T00:00:00+00:00")),
    Try("a scheduled run", "signed", _as(ELSEWHERE, dag_run_id="scheduled__2026-11-30T00:00:00+00:00")),
    Try("a backfill", "signed", _as(ELSEWHERE, dag_run_id="backfill__2026-11-30")),
    Try("upper case", "signed", _as(ELSEWHERE, dag_run_id="MANUAL__LINE")),
    Try("a blank behind", "signed", _as(ELSEWHERE, dag_run_id="manual__line ")),
    Try("a blank before", "signed", _as(ELSEWHERE, dag_run_id=" manual__line")),
    Try("a line break behind", "signed", _as(ELSEWHERE, dag_run_id="manual__line\n")),
    Try("a NUL behind", "signed", _as(ELSEWHERE, dag_run_id="manual__line\0")),
    Try("a letter that looks alike", "signed", _as(ELSEWHERE, dag_run_id="manual__lіne")),
    Try("an empty id", "signed", _as(ELSEWHERE, dag_run_id="")),
    Try("a pattern", "signed", _as(ELSEWHERE, dag_run_id="manual__%")),
    Try("the signed neighbour's run id", "signed", _as(ELSEWHERE, dag_run_id="manual__other")),
    Try("another DAG", "signed", _as(ELSEWHERE, dag_id="copy_of_line")),
    Try("another DAG in upper case", "signed", _as(ELSEWHERE, dag_id="LINE")),
    Try("another DAG and task", "signed", _as(ELSEWHERE, dag_id="debug", task_id="x")),
    Try("an unknown run", "signed", _as("not in the ledger", run_uid="run_019a0000-0000-7000-8000-000000000099")),
    Try("a stream that is no run", "signed", _as("not in the ledger", run_uid="ledger")),
    Try("a path for a uid", "signed", _as("not in the ledger", run_uid="../run")),
    Try("task run alone before the gate", "data", _as("no decision")),
    Try("task run alone while the gate waits", "asked", _as("no decision")),
    Try("a DAG run of its own, only opened", "signed", _own_run("open")),
    Try("a DAG run of its own, with data", "signed", _own_run("data")),
    Try("a DAG run of its own, gate asked", "signed", _own_run("asked")),
]  # fmt: skip
