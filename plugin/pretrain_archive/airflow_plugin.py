"""What Airflow's plugin manager loads: where the pages stand in Airflow's UI, and the pages themselves.

Importing this module imports neither FastAPI nor the services: schedulers, dag processors and workers load
every plugin too. The pages are built when the API server asks for :attr:`fastapi_apps`.
"""

from __future__ import annotations

import logging
from functools import cached_property
from typing import Any

from airflow.plugins_manager import AirflowPlugin

log = logging.getLogger(__name__)

MOUNT = "/pretrain-archive"
"""Where Airflow's API server mounts the pages, below its own base path."""

_ICONS = {
    "icon": "pretrain-archive/static/icon-light.svg",
    "icon_dark_mode": "pretrain-archive/static/icon-dark.svg",
}


def _at(destination: str, route: str, query: str) -> dict[str, Any]:
    # Relative on purpose: Airflow's page names its base path in <base>, so the link survives a sub-path.
    return {
        "name": "训练档案 · Archive",
        "href": f"pretrain-archive/at?{query}",
        "destination": destination,
        "url_route": route,
        **_ICONS,
    }


class PretrainArchivePlugin(AirflowPlugin):
    """The navigation entry with the list of runs, and a tab on each DAG run and task instance."""

    name = "pretrain_archive"
    external_views = [  # noqa: RUF012 - Airflow's contract: a list that the plugin manager may shorten
        {
            "name": "训练档案 · Pretrain archive",
            "href": "pretrain-archive/runs",
            "destination": "nav",
            "category": "browse",
            "url_route": "pretrain-archive",
            **_ICONS,
        },
        _at("dag_run", "pretrain-archive-run", "dag_id={DAG_ID}&dag_run_id={RUN_ID}"),
        _at(
            "task_instance",
            "pretrain-archive-task",
            "dag_id={DAG_ID}&dag_run_id={RUN_ID}&task_id={TASK_ID}",
        ),
    ]

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The pages; where Airflow's login cannot be imported, an app that answers 403 to everything."""
        app: Any
        try:
            from pretrain_archive.web.app import create_app  # noqa: PLC0415 - only the API server needs it

            app = create_app()
        except Exception:
            # Fail closed: a page without a login check is worse than no page.
            log.exception("The pages of the archive could not be built; every request is answered with 403.")
            from pretrain_archive.web.closed import closed_app as app  # noqa: PLC0415
        return [{"app": app, "url_prefix": MOUNT, "name": "Pretrain archive"}]
