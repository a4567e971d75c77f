"""Airflow's SimpleAuthManager with permissions per Dag, which it lacks by itself: read by the API server under test."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

OTHERS = {"dave": {"other_dag"}}
"""Who may touch only these Dags; everybody else may touch all that the role allows."""


class PerDagAuthManager(SimpleAuthManager):
    """Real login, tokens and roles; ``dave`` is a user of another Dag only."""

    def is_authorized_dag(self, *, details: DagDetails | None = None, user: Any, **more: Any) -> bool:
        """As the role says, and only for the person's own Dags."""
        own = OTHERS.get(user.get_name())
        if own is not None and (details is None or details.id not in own):
            return False
        return super().is_authorized_dag(details=details, user=user, **more)
