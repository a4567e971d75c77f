"""Airflow's own login, and who may read which run.

Everything is imported at module level: FastAPI resolves the annotations of routes in this module's names, and
a name that it cannot resolve silently becomes a query parameter, which would mean no login at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import get_user
from airflow.configuration import conf
from airflow.models.dag import DagModel
from fastapi import Depends

UserDep = Annotated[BaseUser, Depends(get_user)]
"""The logged-in person: 401 without a valid token or cookie."""


def may_read(user: BaseUser, dag_id: str) -> bool:
    """Whether Airflow lets ``user`` read this DAG and its runs; works for a DAG that was deleted since.

    With several teams a deleted DAG's team is no longer known, so nobody but an administrator of all
    teams could be told apart: it is refused.
    """
    team: str | None = None
    if conf.getboolean("core", "multi_team", fallback=False):
        teams = DagModel.get_dag_id_to_team_name_mapping([dag_id])
        if dag_id not in teams and not _is_known(dag_id):
            return False
        team = teams.get(dag_id)
    manager = get_auth_manager()
    details = DagDetails(id=dag_id, team_name=team)
    return all(
        manager.is_authorized_dag(method="GET", access_entity=entity, details=details, user=user)
        for entity in (None, DagAccessEntity.RUN)
    )


def _is_known(dag_id: str) -> bool:
    return DagModel.get_current(dag_id) is not None


def readable(user: BaseUser, dag_ids: Iterable[str]) -> set[str]:
    """Those of ``dag_ids`` that ``user`` may read."""
    return {dag_id for dag_id in dag_ids if may_read(user, dag_id)}


def may_answer(user: BaseUser, dag_id: str) -> bool:
    """Whether Airflow lets ``user`` answer a question of this DAG at all."""
    manager = get_auth_manager()
    team = DagModel.get_team_name(dag_id)
    return manager.is_authorized_dag(
        method="PUT",
        access_entity=DagAccessEntity.HITL_DETAIL,
        details=DagDetails(id=dag_id, team_name=team),
        user=user,
    )


def may_edit(user: BaseUser, dag_id: str) -> bool:
    """Whether Airflow lets ``user`` edit runs of this DAG: who may, may record what was changed by hand."""
    manager = get_auth_manager()
    team = DagModel.get_team_name(dag_id)
    return manager.is_authorized_dag(
        method="PUT",
        access_entity=DagAccessEntity.RUN,
        details=DagDetails(id=dag_id, team_name=team),
        user=user,
    )


def login_url(next_url: str) -> str:
    """Where a person logs in to Airflow, coming back to ``next_url`` afterwards."""
    return get_auth_manager().get_url_login(next_url=next_url)
