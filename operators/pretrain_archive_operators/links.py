"""Links from a task in Airflow's grid to the pages of this plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

PREFIX = "/pretrain-archive"


def base_url() -> str:
    """The path prefix under which Airflow is served, without a trailing slash."""
    from airflow.configuration import conf  # noqa: PLC0415 (not at parse time)

    return str(conf.get("api", "base_url", fallback="")).rstrip("/")


def run_page(dag_id: str, dag_run_id: str) -> str:
    """The address of the page of a DAG run's run; it is found by DAG run, so that it needs no XCom."""
    return f"{base_url()}{PREFIX}/at?dag_id={quote(dag_id, safe='')}&dag_run_id={quote(dag_run_id, safe='')}"


def gate_page(run_uid: str, gate: str) -> str:
    """The address of a gate view."""
    return f"{base_url()}{PREFIX}/runs/{quote(run_uid, safe='')}/gates/{gate}"


def dag_page(dag_id: str) -> str:
    """Airflow's page of a DAG, where a new run is triggered."""
    return f"{base_url()}/dags/{quote(dag_id, safe='')}"


class DossierLink(BaseOperatorLink):
    """The run's page."""

    name = "Dossier"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 (Airflow's name)
        """The address of the run's page."""
        return run_page(ti_key.dag_id, ti_key.run_id)


class GateLink(BaseOperatorLink):
    """The gate view of the run's page."""

    name = "Gate"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address of the gate view, found by DAG run."""
        return f"{run_page(ti_key.dag_id, ti_key.run_id)}&gate={quote(str(getattr(operator, 'gate', '')), safe='')}"


class QualityLink(BaseOperatorLink):
    """The quality report of the run."""

    name = "Quality report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 (Airflow's name)
        """The address of the report's page, found by DAG run."""
        return f"{run_page(ti_key.dag_id, ti_key.run_id)}&report=quality"
