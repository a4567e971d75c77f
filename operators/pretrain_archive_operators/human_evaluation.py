"""Outputs of the candidate that persons read and score in Airflow: draw a sample, ask page by page, sum up.

A DAG puts the tasks of :func:`human_tasks` between the run gate and the close gate, which then starts with the
trigger rule ``none_failed_min_one_success``::

    sample, report = human_tasks(uid)
    run_gate >> sample
    [run_gate, report] >> close_gate

Each page is a task of its own: Airflow keeps the question of a task as it was first asked. The second reviewer has
expanded tasks of the same kind. Where the policy asks for no human evaluation, all of them are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from pretrain_archive.domain.errors import ArchiveError, InputError
from pretrain_archive_operators.base import ArchiveOperator, ArchiveTask, small_json
from pretrain_archive_operators.forms import form_params
from pretrain_archive_operators.gate_approval import authentication, known_users

if TYPE_CHECKING:
    from airflow.sdk import Context

    from pretrain_archive.domain.kinds import HumanAnswerRefused, HumanPageAnswered
    from pretrain_archive.services.caller import Caller
    from pretrain_archive.services.human_evaluating import OutputAsk

NOT_ASKED = "the project's policy asks for no human evaluation"


class HumanSampleOperator(ArchiveOperator):
    """Draw the seeded sample of the candidate's outputs that the policy asks for, and record it.

    Returns the numbers of its pages, since tasks are only expanded over what a task returns; digest and counts
    are in the XCom ``sample``. Skipped where the policy asks for no human evaluation.
    """

    def execute(self, context: Context) -> list[int]:  # type: ignore[override]  # see the class
        """Return ``[1, 2, …]``, one for each page; push ``sample_digest, items, pages`` as ``sample``."""
        from pretrain_archive.services.human_evaluating import asked_for  # noqa: PLC0415 (heavy)

        try:
            rules = asked_for(self.ledger, self.caller(context), str(self.run_uid))
        except ArchiveError as error:
            raise self.end_failed(context, error, self.run_uid) from error
        if rules is None:
            raise AirflowSkipException(NOT_ASKED)
        done = super().execute(context)
        context["ti"].xcom_push(key="sample", value=done)
        return list(range(1, done["pages"] + 1))

    def work(self, caller: Caller, run_uid: str) -> dict[str, Any]:
        """Draw and record."""
        from pretrain_archive.services.human_evaluating import draw_outputs  # noqa: PLC0415 (heavy)
        from pretrain_archive.services.human_form import pages_of  # noqa: PLC0415

        sampled = draw_outputs(self.ledger, self.store, caller, run_uid)
        return {
            "sample_digest": sampled.sample_digest,
            "items": len(sampled.items),
            "pages": pages_of(sampled),
            "checkpoint_id": sampled.checkpoint_id,
        }


class HumanReviewOperator(ArchiveTask, HITLOperator):
    """Put one page of outputs to a reviewer and record the scores.

    Who may answer stands in the policy (``human_evaluation.reviewers``), without who triggered the run under
    separation of duties; the pages of one reviewer are answered by one person. An answer that does not count is
    recorded and the page is asked again; one to another sample fails the try, so that ``retries`` ask anew. A page
    that was answered for this very sample is not asked again. Timeouts never count as a score. The second reviewer's
    tasks are skipped where the policy wants one.

    :param run_uid: the run; :param page: page of the sample, from 1; :param reviewer: 1, or 2 for the second one.
    """

    template_fields: Sequence[str] = ("run_uid", "page")

    def __init__(self, *, run_uid: str, page: int = 1, reviewer: int = 1, **kwargs: Any) -> None:
        super().__init__(subject="human evaluation", options=["Submit"], **kwargs)
        self.run_uid = run_uid
        self.page = page
        self.reviewer = reviewer

    def execute(self, context: Context) -> Any:
        """Put the question and wait without holding a worker."""
        try:
            asked = self._ask(context)
        except ArchiveError as error:
            raise self.end_failed(context, error, self.run_uid) from error
        if asked.answered is not None:
            self.log.info("page %s was answered by %s", self.page, asked.answered.person_name)
            return self._value(asked.answered)
        self.anchor()
        self.subject, self.body, self.options = asked.form.subject, asked.form.body, list(asked.form.options)
        self.params = form_params(asked.form.fields)
        self.assigned_users = [{"id": user_id, "name": name} for name, user_id in asked.people]
        self.response_timeout = timedelta(seconds=asked.deadline_seconds)
        self.log.info("page %s asks %s", self.page, ", ".join(name for name, _ in asked.people))
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Judge the answer; return ``page, reviewer, person, scored, skipped, problems`` or ask again."""
        from pretrain_archive.domain.kinds import HumanPageAnswered  # noqa: PLC0415 (heavy)

        try:
            taken = self._take(context, event)
        except ArchiveError as error:
            raise self.end_failed(context, error, self.run_uid) from error
        if isinstance(taken, HumanPageAnswered):
            return self._value(taken)
        if taken.cause == "timed_out":
            raise AirflowFailException(f"page {self.page} of the human evaluation: {taken.detail}")
        self.log.warning("the answer does not count (%s): %s", taken.cause, taken.detail)
        if taken.cause == "stale":
            # The question of this try cannot be changed any more: only another try shows the sample as it is now.
            raise AirflowException(f"page {self.page} of the human evaluation: {taken.detail}")
        return self.execute(context)

    def _ask(self, context: Context) -> OutputAsk:
        from pretrain_archive.services.human_evaluating import ask_outputs, asked_for  # noqa: PLC0415 (heavy)

        caller, run_uid = self.caller(context), str(self.run_uid)
        rules = asked_for(self.ledger, caller, run_uid)
        if rules is None or self.reviewer > rules.wanted:
            raise AirflowSkipException(NOT_ASKED if rules is None else "the policy wants one reviewer")
        asked = ask_outputs(
            self.ledger, self.store, caller, run_uid, page=int(self.page), reviewer=self.reviewer
        )
        users, names = known_users(), [name for name, _ in asked.people]
        if users is not None and not users & set(names):
            raise InputError(
                "human_evaluation.reviewers", names, "none of them is a user of this Airflow",
                hint="Correct human_evaluation.reviewers in the project's policy.",
            )  # fmt: skip
        return asked

    def _take(self, context: Context, event: dict[str, Any]) -> HumanPageAnswered | HumanAnswerRefused:
        """Judge and record what came back; what Airflow lost or garbled is an answer that does not count."""
        from pretrain_archive.gates.judging import read_answer  # noqa: PLC0415 (heavy)
        from pretrain_archive.services.human_evaluating import let_outputs_expire, take_outputs  # noqa: PLC0415

        caller, where = self.caller(context), {"page": int(self.page), "reviewer": self.reviewer}
        if event.get("timedout") or event.get("error_type") == "timeout":
            return let_outputs_expire(self.ledger, caller, str(self.run_uid), **where)
        if "error" in event:
            self.log.warning("Airflow could not take the answer: %s", event["error"])
        name, anonymous = authentication()
        answer = read_answer(event, authentication=name, anonymous=anonymous)
        return take_outputs(self.ledger, caller, str(self.run_uid), answer=answer, **where)

    def _value(self, taken: HumanPageAnswered) -> dict[str, Any]:
        """Counts and who answered; scores and notes stay in the ledger."""
        skipped = sum(one.label is None for one in taken.answers)
        return small_json({
            "page": taken.page, "reviewer": taken.reviewer, "person": taken.person_name,
            "scored": len(taken.answers) - skipped, "skipped": skipped,
            "problems": sum(one.problem is not None for one in taken.answers),
        })  # fmt: skip


class HumanReportOperator(ArchiveOperator):
    """Sum the human evaluation up: counts, mean or win rate with interval, agreement, problems, flags.

    What speaks against the numbers is evidence, not an error: the task succeeds, and the close gate shows it.
    """

    def work(self, caller: Caller, run_uid: str) -> dict[str, Any]:
        """Return ``passed, scored, mean, win_rate, agreement, kappa, problems, flags, sample_digest``."""
        from pretrain_archive.services.human_evaluating import report_outputs  # noqa: PLC0415 (heavy)

        made = report_outputs(self.ledger, caller, run_uid)
        return {
            "passed": made.passed,
            "scored": made.scored,
            "mean": made.mean,
            "win_rate": made.win_rate,
            "agreement": made.agreement,
            "kappa": made.kappa,
            "problems": len(made.problems),
            "flags": made.flags,
            "sample_digest": made.sample_digest,
        }


def human_tasks(
    run_uid: str, *, prefix: str = "human", retries: int = 2
) -> tuple[HumanSampleOperator, HumanReportOperator]:
    """The tasks of a human evaluation for one or two reviewers, named by ``prefix``; its first and its last task."""
    sample = HumanSampleOperator(task_id=f"{prefix}_sample", run_uid=run_uid, retries=retries)
    report = HumanReportOperator(
        task_id=f"{prefix}_report",
        run_uid=run_uid,
        retries=retries,
        trigger_rule="none_failed_min_one_success",
    )
    for reviewer in (1, 2):
        pages = HumanReviewOperator.partial(
            task_id=f"{prefix}_review_{reviewer}", run_uid=run_uid, reviewer=reviewer, retries=3
        ).expand(page=sample.output)
        pages >> report
    return sample, report
