"""A sample of labels that persons review in Airflow: draw it, ask page by page, sum up.

A DAG that wants the review puts these between the snapshot and the prepare gate::

    sample = LabelSampleOperator(task_id="label_sample", run_uid=uid)
    pages = LabelReviewOperator.partial(task_id="label_review", run_uid=uid, retries=3).expand(
        page=sample.output
    )
    pages >> LabelSummaryOperator(task_id="label_summary", run_uid=uid)

Each page is a task of its own: Airflow keeps the question of a task as it was first asked. With two reviewers
there is a second expanded task with ``reviewer=2``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from pretrain_archive.domain.errors import ArchiveError, InputError
from pretrain_archive_operators.base import ArchiveOperator, ArchiveTask, small_json
from pretrain_archive_operators.forms import form_params
from pretrain_archive_operators.gate_approval import authentication, known_users

if TYPE_CHECKING:
    from airflow.sdk import Context

    from pretrain_archive.domain.kinds import LabelAnswerRefused, LabelPageAnswered
    from pretrain_archive.services.caller import Caller
    from pretrain_archive.services.reviewing import PageAsk


class LabelSampleOperator(ArchiveOperator):
    """Draw the seeded sample that the policy asks for, and record it.

    Returns the numbers of its pages, since tasks are only expanded over what a task returns; digest and counts
    are in the XCom ``sample``.
    """

    def execute(self, context: Context) -> list[int]:  # type: ignore[override]  # see the class
        """Return ``[1, 2, …]``, one for each page; push ``sample_digest, items, pages`` as ``sample``."""
        done = super().execute(context)
        context["ti"].xcom_push(key="sample", value=done)
        return list(range(1, done["pages"] + 1))

    def work(self, caller: Caller, run_uid: str) -> dict[str, Any]:
        """Draw and record."""
        from pretrain_archive.services.review_form import pages_of  # noqa: PLC0415 (heavy)
        from pretrain_archive.services.reviewing import draw_sample  # noqa: PLC0415

        sampled = draw_sample(self.ledger, self.store, caller, run_uid)
        return {
            "sample_digest": sampled.sample_digest,
            "items": len(sampled.items),
            "pages": pages_of(sampled),
        }


class LabelReviewOperator(ArchiveTask, HITLOperator):
    """Put one page of the sample to a reviewer and record the answers.

    Who may answer comes from the policy (``approvers.label_reviewers``), without who triggered the run under
    separation of duties; the pages of one reviewer are answered by one person. An answer that does not count is
    recorded and the page is asked again; one to another sample fails the try, so that ``retries`` ask anew. A
    page that was answered for this very sample is not asked again. Timeouts never count as agreement.

    :param run_uid: the run; :param page: page of the sample, from 1; :param reviewer: 1, or 2 for the second one.
    """

    template_fields: Sequence[str] = ("run_uid", "page")

    def __init__(self, *, run_uid: str, page: int = 1, reviewer: int = 1, **kwargs: Any) -> None:
        super().__init__(subject="label review", options=["Submit"], **kwargs)
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
        """Judge the answer; return ``page, reviewer, person, answers`` or ask again."""
        from pretrain_archive.domain.kinds import LabelPageAnswered  # noqa: PLC0415 (heavy)

        try:
            taken = self._take(context, event)
        except ArchiveError as error:
            raise self.end_failed(context, error, self.run_uid) from error
        if isinstance(taken, LabelPageAnswered):
            return self._value(taken)
        if taken.cause == "timed_out":
            raise AirflowFailException(f"page {self.page} of the label review: {taken.detail}")
        self.log.warning("the answer does not count (%s): %s", taken.cause, taken.detail)
        if taken.cause == "stale":
            # The question of this try cannot be changed any more: only another try shows the sample as it is now.
            raise AirflowException(f"page {self.page} of the label review: {taken.detail}")
        return self.execute(context)

    def _ask(self, context: Context) -> PageAsk:
        from pretrain_archive.services.reviewing import ask_page  # noqa: PLC0415 (heavy)

        asked = ask_page(
            self.ledger, self.store, self.caller(context), str(self.run_uid), page=int(self.page),
            reviewer=self.reviewer,
        )  # fmt: skip
        users, names = known_users(), [name for name, _ in asked.people]
        if users is not None and not users & set(names):
            raise InputError(
                "label_reviewers", names, "none of them is a user of this Airflow",
                hint="Correct approvers.label_reviewers in the project's policy.",
            )  # fmt: skip
        return asked

    def _take(self, context: Context, event: dict[str, Any]) -> LabelPageAnswered | LabelAnswerRefused:
        """Judge and record what came back; what Airflow lost or garbled is an answer that does not count."""
        from pretrain_archive.gates.judging import read_answer  # noqa: PLC0415 (heavy)
        from pretrain_archive.services.reviewing import let_page_expire, take_page  # noqa: PLC0415

        caller, where = self.caller(context), {"page": int(self.page), "reviewer": self.reviewer}
        if event.get("timedout") or event.get("error_type") == "timeout":
            return let_page_expire(self.ledger, caller, str(self.run_uid), **where)
        if "error" in event:
            self.log.warning("Airflow could not take the answer: %s", event["error"])
        name, anonymous = authentication()
        answer = read_answer(event, authentication=name, anonymous=anonymous)
        return take_page(self.ledger, caller, str(self.run_uid), answer=answer, **where)

    def _value(self, taken: LabelPageAnswered) -> dict[str, Any]:
        """Counts and who answered; notes and places stay in the ledger."""
        counts = {"agree": 0, "wrong": 0, "problem": 0}
        for one in taken.answers:
            counts[one.answer] += 1
        return small_json(
            {"page": taken.page, "reviewer": taken.reviewer, "person": taken.person_name, "answers": counts}
        )


class LabelSummaryOperator(ArchiveOperator):
    """Sum the review up: agreement, Cohen's kappa of two reviewers, objections.

    Too little agreement is evidence, not an error: the task succeeds, and the prepare gate shows a blocking item.
    """

    def work(self, caller: Caller, run_uid: str) -> dict[str, Any]:
        """Return ``passed, agreement, kappa, answers, wrong, problems, sample_digest``."""
        from pretrain_archive.services.reviewing import sum_up  # noqa: PLC0415 (heavy)

        made = sum_up(self.ledger, caller, run_uid)
        return {
            "passed": made.passed,
            "agreement": made.agreement,
            "kappa": made.kappa,
            "answers": made.answers,
            "wrong": made.wrong,
            "problems": made.problems,
            "sample_digest": made.sample_digest,
        }
