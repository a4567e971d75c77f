"""Open a run from the trigger form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive_operators.base import ArchiveTask, small_json
from pretrain_archive_operators.links import DossierLink

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context


class OpenRunOperator(ArchiveTask, BaseOperator):
    """Check the form against the project's policy and record the run, its configuration and environment.

    The same DAG run with the same inputs goes on with the run it opened before; other inputs, or a closed
    run, give a new run that is derived from it. Wrong input ends the task here, with a failed run that
    names field, value and remedy.

    :param request: the values of the form; by default the DAG run's params.
    """

    template_fields = ("request",)
    operator_extra_links = (DossierLink(),)

    def __init__(self, *, request: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.request = request

    def execute(self, context: Context) -> dict[str, Any]:
        """Return ``run_uid, project, policy_digest, conf_digest, derived_from``."""
        from pretrain_archive.services.opening import open_run  # noqa: PLC0415 (heavy)
        from pretrain_archive.services.wiring import host  # noqa: PLC0415 (heavy)

        ti = context["ti"]
        bundle = getattr(ti, "bundle_instance", None)
        place = host(
            code_version=str(getattr(ti, "dag_version_id", "") or "") or None,
            bundle=f"{bundle.name}@{bundle.version or 'unversioned'}" if bundle is not None else None,
        )
        values = dict(self.request if self.request is not None else context["params"])
        try:
            opened = open_run(self.ledger, self.caller(context), values, place)
        except ArchiveError as error:
            raise self.end_failed(context, error, None) from error
        self.anchor()
        return small_json(
            {
                "run_uid": opened.run_uid,
                "project": opened.project,
                "policy_digest": opened.policy_digest,
                "conf_digest": opened.conf_digest,
                "derived_from": opened.derived_from,
                "scope": opened.conf.get("scope") or "full",
            }
        )
