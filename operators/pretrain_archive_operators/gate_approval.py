"""A gate that a person answers in Airflow."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from pretrain_archive.domain.errors import ArchiveError, InputError
from pretrain_archive.domain.run_view import ALL_GATES
from pretrain_archive_operators.base import ArchiveTask, small_json
from pretrain_archive_operators.forms import form_params
from pretrain_archive_operators.links import DossierLink, GateLink, dag_page, gate_page

if TYPE_CHECKING:
    from airflow.sdk import Context

    from pretrain_archive.domain.kinds import GateDecision
    from pretrain_archive.domain.policy import LoadedPolicy
    from pretrain_archive.gates.answers import Outcome
    from pretrain_archive.gates.asking import Ask
    from pretrain_archive.ledger.port import Ledger

RESUME = "resume"
LAST = (
    "No launch follows this review: **resume is not offered**. · 此复审之后不再有启动：**不提供“恢复”选项**。"
)


def known_users() -> frozenset[str] | None:
    """The users of Airflow's simple auth manager, None where another one keeps them out of reach."""
    from airflow.configuration import conf  # noqa: PLC0415 (not at parse time)

    if not conf.get("core", "auth_manager", fallback="").endswith("SimpleAuthManager"):
        return None
    listed = conf.get("core", "simple_auth_manager_users", fallback="")
    return frozenset(entry.partition(":")[0].strip() for entry in listed.split(",") if entry.strip())


def authentication() -> tuple[str, bool]:
    """How Airflow knows who answered, and whether it lets everybody in as an administrator."""
    from airflow.configuration import conf  # noqa: PLC0415 (not at parse time)

    name = conf.get("core", "auth_manager", fallback="").rpartition(".")[2]
    everybody = conf.getboolean("core", "simple_auth_manager_all_admins", fallback=False)
    return (f"{name} (all admins: nobody is authenticated)" if everybody else name), everybody


class GateApprovalOperator(ArchiveTask, ApprovalOperator):
    """Ask a gate of the run and record the answer of an entitled person.

    The dossier is computed from the ledger when the task runs; its digest travels through the form as a hidden
    constant. Who may answer comes from the policy, without the submitter under separation of duties; nobody
    left is an error at once. An answer that does not count is recorded and the question is put again. Timeouts
    never approve. Rejection and expiry close the run. Use ``retries`` for answers that Airflow loses: the gate
    is then asked again.

    The gate ``review`` stands behind a launch, with the trigger rule ``one_failed``: it is skipped where no attempt
    ended without completing. Only the outcome *resume* lets the tasks behind it run; the other two close the run,
    write its package and skip them. An exploration has no prepare decision: that gate asks nobody.

    :param run_uid: the run; :param gate: ``prepare``, ``review``, ``run`` or ``close``.
    :param last: a review that no launch follows: it does not offer, and does not take, *resume*.
    """

    template_fields = ("run_uid",)
    operator_extra_links = (GateLink(), DossierLink())

    def __init__(self, *, run_uid: str, gate: str, last: bool = False, **kwargs: Any) -> None:
        if gate not in ALL_GATES:
            raise ValueError(f"gate must be one of {', '.join(ALL_GATES)}, got {gate!r}")
        super().__init__(subject=f"{gate} gate", **kwargs)
        self.run_uid = run_uid
        self.gate = gate
        self.last = last

    @cached_property
    def ledger(self) -> Ledger:
        """As every operator's, reading the run once: a gate looks at a long run from several sides."""
        from pretrain_archive.services.known_run import knowing_runs  # noqa: PLC0415 (not at parse time)

        return knowing_runs(super().ledger)

    def execute(self, context: Context) -> Any:
        """Put the question and wait without holding a worker."""
        try:
            if (settled := self._settled(context)) is not None:
                return settled
            asked = self._ask(context)
        except ArchiveError as error:
            raise self.end_failed(context, error, self.run_uid) from error
        self.anchor()
        self._show(asked)
        self.log.info("%s gate of run %s asks %s about dossier %s", self.gate, self.run_uid,
                      ", ".join(name for name, _ in asked.people), asked.digest)  # fmt: skip
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Judge the answer; return ``gate, decision, person, dossier_digest, outcome`` or ask again."""
        try:
            if event.get("timedout") or event.get("error_type") == "timeout":
                self._expire(context)
            outcome = self._take(context, event)
        except ArchiveError as error:
            raise self.end_failed(context, error, self.run_uid) from error
        if outcome.decision is None:
            refusal = outcome.refusal
            self.log.warning("the answer does not count (%s): %s", refusal.cause, refusal.detail)  # type: ignore[union-attr]
            return self.execute(context)
        decision = outcome.decision
        if decision.decision == "reject":
            raise AirflowFailException(
                f"{self.gate} gate rejected by {decision.person_name}: {decision.reason}"
            )
        if self.gate == "review" and decision.outcome != "resume":
            self._end_run(context, decision)
        return self._told(decision)

    def _told(self, decision: GateDecision) -> dict[str, Any]:
        return small_json(
            {
                "gate": self.gate,
                "decision": decision.decision,
                "person": decision.person_name,
                "dossier_digest": decision.dossier_digest,
                "outcome": decision.outcome,
            }
        )

    def _settled(self, context: Context) -> dict[str, Any] | None:
        """What a gate returns that asks nobody; None where it asks. A review without a cause is skipped."""
        from pretrain_archive.services.gating import answered_by_scope, closed_by_review, review_due  # noqa: PLC0415

        run_uid = str(self.run_uid or "")
        if self.gate == "review":
            if not run_uid:
                raise AirflowSkipException("no run was opened: there is nothing to review")
            caller = self.caller(context)
            if (decision := closed_by_review(self.ledger, caller, run_uid)) is not None:
                self._end_run(
                    context, decision
                )  # an earlier try recorded the answer and did not come to the end
                return self._told(decision)
            if not review_due(self.ledger, caller, run_uid):
                raise AirflowSkipException("no attempt ended without completing: there is nothing to review")
        elif self.gate == "prepare" and answered_by_scope(
            self.ledger, self.caller(context), run_uid, self.gate
        ):
            self.log.info("run %s is an exploration: no prepare decision, only the policy's ceiling", run_uid)
            return small_json({"gate": self.gate, "decision": "not_asked", "scope": "exploration"})
        return None

    def _end_run(self, context: Context, decision: GateDecision) -> None:
        """Write the package of the run that a review closed, say how to go on, and skip what comes after."""
        from pretrain_archive.services.closing import archive_stopped  # noqa: PLC0415 (heavy)
        from pretrain_archive.services.wiring import shelf  # noqa: PLC0415

        caller, run_uid = self.caller(context), str(self.run_uid)
        archive_stopped(self.ledger, self.store, caller, run_uid, shelf())
        if decision.outcome == "resume_changed":
            self.log.info("trigger the new run at %s with derived_from = %s and what you change",
                          dag_page(caller.origin.dag_id), run_uid)  # fmt: skip
        later = [t for t in context["task"].get_direct_relatives(upstream=False) if not t.is_teardown]
        self.skip(ti=context["ti"], tasks=later)

    def _policy(self) -> LoadedPolicy:
        """The policy file of the run's project as it stands now."""
        from pretrain_archive.gates.service import load_run  # noqa: PLC0415 (heavy)
        from pretrain_archive.services.runs import opened_of  # noqa: PLC0415
        from pretrain_archive.services.wiring import policy  # noqa: PLC0415

        return policy(opened_of(load_run(self.ledger, str(self.run_uid))).project)

    def _ask(self, context: Context) -> Ask:
        from pretrain_archive.services.gating import put_question  # noqa: PLC0415 (heavy)

        link = gate_page(str(self.run_uid), self.gate)
        asked = put_question(
            self.ledger, self.caller(context), str(self.run_uid), self.gate, policy=self._policy(), link=link
        )
        users = known_users()
        if users is not None and not users & {name for name, _ in asked.people}:
            raise InputError(
                f"approvers of the {self.gate} gate", [name for name, _ in asked.people],
                "none of them is a user of this Airflow", hint="Correct the approvers in the project's policy.",
            )  # fmt: skip
        return asked

    def _show(self, asked: Ask) -> None:
        """Set what ``ApprovalOperator.execute`` sends to Airflow."""
        fields, body = asked.form.fields, asked.form.body
        if self.last and "outcome" in fields:
            fields, body = self._without_resume(fields), f"{body}\n\n{LAST}"
        self.subject, self.body = asked.form.subject, body
        self.options = list(asked.form.options)
        self.params = form_params(fields)
        self.assigned_users = [{"id": user_id, "name": name} for name, user_id in asked.people]
        self.response_timeout = timedelta(seconds=asked.deadline_seconds)

    def _without_resume(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The form of a review that no launch follows."""
        choice = fields["outcome"]
        names = [name for name in choice["enum"] if name != RESUME]
        shown = {name: text for name, text in choice["values_display"].items() if name != RESUME}
        return fields | {"outcome": choice | {"enum": names, "values_display": shown}}

    def _take(self, context: Context, event: dict[str, Any]) -> Outcome:
        """Judge what came back; what Airflow lost or garbled is an answer that does not count."""
        from pretrain_archive.gates.judging import read_answer  # noqa: PLC0415 (heavy)
        from pretrain_archive.services.gating import take  # noqa: PLC0415

        if "error" in event:
            self.log.warning("Airflow could not take the answer: %s", event["error"])
        name, anonymous = authentication()
        answer = read_answer(event, authentication=name, anonymous=anonymous)
        if self.last and answer.values.get("outcome") == RESUME:  # never offered: as if none had been chosen
            answer = replace(answer, values={**answer.values, "outcome": None})
        return take(
            self.ledger,
            self.caller(context),
            str(self.run_uid),
            self.gate,
            policy=self._policy(),
            answer=answer,
        )

    def _expire(self, context: Context) -> None:
        from pretrain_archive.services.gating import let_expire  # noqa: PLC0415 (heavy)

        let_expire(self.ledger, self.caller(context), str(self.run_uid), self.gate)
        raise AirflowFailException(f"the {self.gate} gate was not answered in time: not approved")
