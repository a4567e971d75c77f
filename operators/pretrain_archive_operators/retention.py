"""Plan a clean-up, have it approved, carry it out."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive_operators.base import ArchiveTask, small_json
from pretrain_archive_operators.forms import form_params
from pretrain_archive_operators.gate_approval import authentication

if TYPE_CHECKING:
    from airflow.sdk import Context

    from pretrain_archive.domain.kinds import RetentionApproved, RetentionRefused

MOST_NAMED = 5


class RetentionPlanOperator(ArchiveTask, BaseOperator):
    """Work out by policy what may be deleted now, and record it as a plan."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Return ``plan_digest, delete, keep, total_bytes, needs_approval``."""
        from pretrain_archive.services.cleanup import going_count, make_plan  # noqa: PLC0415 (heavy)
        from pretrain_archive.services.wiring import cleanup_room  # noqa: PLC0415

        try:
            made = make_plan(self.ledger, self.caller(context), cleanup_room())
        except ArchiveError as error:
            raise self.end_failed(context, error, None) from error
        deleted = going_count(made)
        count = made.item_count if made.item_count is not None else len(made.items)
        return small_json(
            {
                "plan_digest": made.plan_digest,
                "delete": deleted,
                "keep": count - deleted,
                "total_bytes": made.total_bytes,
                "needs_approval": made.needs_approval,
            }
        )


class RetentionApprovalOperator(ArchiveTask, ApprovalOperator):
    """Approve exactly one plan: by policy below its limit, else by an entitled person.

    Timeouts never approve. Rejection deletes nothing and ends the DAG run.

    :param plan_digest: the plan, usually from the task before; :param hours: how long a person has.
    """

    template_fields = ("plan_digest",)

    def __init__(self, *, plan_digest: str, hours: float = 72, language: str = "en", **kwargs: Any) -> None:
        super().__init__(subject="clean-up", **kwargs)
        self.plan_digest = plan_digest
        self.hours = hours
        self.language = language

    def execute(self, context: Context) -> Any:
        """Approve by policy, or ask and wait without holding a worker."""
        from pretrain_archive.services.cleanup import approval_form, approve, approvers, plan_of  # noqa: PLC0415
        from pretrain_archive.services.wiring import cleanup_room  # noqa: PLC0415

        room = cleanup_room()
        try:
            planned = plan_of(self.ledger, self.plan_digest)
            if not planned.needs_approval:
                reason = "below the limit above which the policy asks a person"
                done = approve(self.ledger, self.caller(context), room, planned, person=None, reason=reason)
                return {"plan_digest": done.plan_digest, "approved_by": done.approved_by}
            people, form = approvers(planned, room), approval_form(planned, self.language)
        except ArchiveError as error:
            raise self.end_failed(context, error, None) from error
        self.subject, self.body, self.options = form.subject, form.body, list(form.options)
        self.params = form_params(form.fields)
        self.assigned_users = [{"id": name, "name": name} for name in people]
        self.response_timeout = timedelta(hours=self.hours)
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Record what was answered: an approval goes on, a rejection ends; ask again if it does not count."""
        from pretrain_archive.domain.kinds import RetentionApproved  # noqa: PLC0415 (heavy)

        try:
            taken = self._take(context, event)
        except ArchiveError as error:
            raise self.end_failed(context, error, None) from error
        if isinstance(taken, RetentionApproved):
            return {"plan_digest": taken.plan_digest, "approved_by": taken.approved_by}
        if taken.cause == "expired":
            raise AirflowFailException("the clean-up was not answered in time: nothing is deleted")
        if taken.cause == "rejected":
            raise AirflowFailException(f"clean-up rejected by {taken.person_name}: {taken.detail}")
        self.log.warning("the answer does not count (%s): %s", taken.cause, taken.detail)
        return self.execute(context)

    def _take(self, context: Context, event: dict[str, Any]) -> RetentionApproved | RetentionRefused:
        """Judge and record what came back; what Airflow lost or garbled is an answer that does not count."""
        from pretrain_archive.gates.judging import read_answer  # noqa: PLC0415 (heavy)
        from pretrain_archive.services.cleanup import let_expire, plan_of, take_answer  # noqa: PLC0415
        from pretrain_archive.services.wiring import cleanup_room  # noqa: PLC0415

        planned, caller = plan_of(self.ledger, self.plan_digest), self.caller(context)
        if event.get("timedout") or event.get("error_type") == "timeout":
            return let_expire(self.ledger, caller, planned, self.hours)
        if "error" in event:
            self.log.warning("Airflow could not take the answer: %s", event["error"])
        name, anonymous = authentication()
        answer = read_answer(event, authentication=name, anonymous=anonymous)
        return take_answer(self.ledger, caller, cleanup_room(), planned, answer)


class RetentionApplyOperator(ArchiveTask, BaseOperator):
    """Delete what the approved plan says, verify absence, write tombstones.

    What became live since the plan is kept. What fails is named, and the task is tried again for it alone; or, where
    the policies say ``when_incomplete = "warn"``, it is told and the task goes on.

    :param plan_digest: the approved plan.
    """

    template_fields = ("plan_digest",)

    def __init__(self, *, plan_digest: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan_digest = plan_digest

    def execute(self, context: Context) -> dict[str, Any]:
        """Return ``plan_digest, bytes_released, outcomes, state``; raise while something failed."""
        from pretrain_archive.services.cleanup import carry_out, left_of  # noqa: PLC0415 (heavy)
        from pretrain_archive.services.cleanup_report import report  # noqa: PLC0415
        from pretrain_archive.services.wiring import cleanup_room  # noqa: PLC0415

        room = cleanup_room()
        try:
            done = carry_out(self.ledger, self.caller(context), room, self.plan_digest)
            warn = not done.complete and report(self.ledger, room.policies, self.plan_digest).only_warn
        except ArchiveError as error:
            raise self.end_failed(context, error, None) from error
        if not done.complete:
            named = "; ".join(f"{result.id}: {result.outcome}" for result in left_of(done)[:MOST_NAMED])
            text = f"not everything could be deleted ({done.state}): {named}"
            if not warn:
                raise AirflowException(text)
            self.log.warning("%s", text)
        return small_json({
            "plan_digest": done.plan_digest, "bytes_released": done.bytes_released, "outcomes": done.outcomes(),
            "state": done.state,
        })  # fmt: skip


class RetentionReportOperator(ArchiveTask, BaseOperator):
    """Tell what the clean-up did beside what was planned, and how records and storage differ now.

    Runs whatever became of the tasks before it: a rejected or an unanswered plan is told, too. Fails while something of
    the plan is left, unless the policies only warn. A difference between records and storage fails nothing: each comes
    with a proposal.

    :param plan_digest: the plan; empty if there is none.
    """

    template_fields = ("plan_digest",)

    def __init__(self, *, plan_digest: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan_digest = plan_digest

    def execute(self, context: Context) -> dict[str, Any]:
        """Return ``plan_digest, planned, bytes_planned, approved_by, outcomes, bytes_released, complete, differences``.

        ``differences`` counts the findings of the comparison by their kind.
        """
        from pretrain_archive.services.cleanup_report import report  # noqa: PLC0415 (heavy)
        from pretrain_archive.services.reconciling import counts, reconcile  # noqa: PLC0415
        from pretrain_archive.services.wiring import cleanup_room  # noqa: PLC0415

        room = cleanup_room()
        try:
            compared = reconcile(self.ledger, room, caller=self.caller(context))
            found = report(self.ledger, room.policies, self.plan_digest)
        except ArchiveError as error:
            raise self.end_failed(context, error, None) from error
        for line in found.lines:
            self.log.info("%s", line)
        if not found.complete:
            text = f"the clean-up is not complete: {found.lines[1]}"
            if not found.only_warn:
                raise AirflowFailException(text)
            self.log.warning("%s", text)
        return small_json({**found.to_dict(), "differences": counts(compared)})
