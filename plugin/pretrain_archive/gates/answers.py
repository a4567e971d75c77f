"""Asking a gate and taking its answer: what counts is decided here, whatever path the answer took.

Rules, in this order: a person answered; the person is entitled; the answer is about exactly the dossier that
stands now; a reason is given; approval needs every blocking item verified, every advisory gap acknowledged
and, at the close gate, an outcome that the evidence allows. Anything else is recorded as refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.gates import OUTCOMES, changed_parts, recorded_policy
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import GateDecision, GateDossier, GateExpired, GateRefused
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Record, Relation
from pretrain_archive.domain.run_view import GATES, RunView
from pretrain_archive.gates.form import GateForm, build_form
from pretrain_archive.gates.service import GateView, gate_view, load_run
from pretrain_archive.ledger.port import Ledger

Cause = Literal["not_entitled", "stale", "submitter", "unsigned", "invalid", "timed_out"]


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A question that was put: the form, who may answer (name, id) and how long."""

    form: GateForm
    people: tuple[tuple[str, str], ...]
    deadline_seconds: float
    record: Record
    digest: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back. ``values`` are the form's fields as Airflow passed them; nothing in it is trusted."""

    person_id: str | None
    person_name: str | None
    option: str
    values: Mapping[str, Any]
    responded_at: str
    authentication: str


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The answer counted (``decision``) or was refused (``refusal``)."""

    decision: GateDecision | None = None
    refusal: GateRefused | None = None
    record: Record | None = None


def require_order(view: GateView, run_state: str, signed: Mapping[str, bool]) -> None:
    """Refuse a gate that is asked before its turn, or of a closed run."""
    if run_state == "closed":
        raise RefusedError(f"run {view.run_uid} is closed", hint="Trigger a new run.")
    for gate in GATES[: GATES.index(view.gate)]:
        if not signed.get(gate):
            raise RefusedError(
                f"the {view.gate} gate comes after the {gate} gate, which is not signed for what stands now",
                hint=f"Answer the {gate} gate first.",
            )


def require_people(view: GateView) -> None:
    """Refuse a gate that nobody may answer: an error at once, never an endless wait."""
    if not view.eligible:
        raise RefusedError(
            f"nobody may answer the {view.gate} gate: its approvers are only the submitter {view.submitter!r}",
            hint="Name another approver in the project's policy, then trigger a new run.",
        )


def require_policy(view: GateView, policy: LoadedPolicy) -> None:
    """Refuse a gate whose project policy is no longer the one that the run was opened under."""
    if view.policy_changed:
        raise RefusedError(
            f"the policy {policy.name} changed since run {view.run_uid} was opened",
            hint="Trigger a new run, so that its gates show the policy in force.",
        )


def _dossier_draft(view: GateView, actor: Actor, origin: Origin, attempt: int, ordinal: int) -> Draft:
    return Draft(
        stream=view.run_uid,
        kind="gate.dossier",
        payload=GateDossier(
            gate=view.gate,
            digest=view.digest,
            document=view.dossier.document(),
            eligible=list(view.eligible),
        ).to_json(),
        actor=actor,
        origin=origin,
        attempt=attempt,
        ordinal=ordinal,
    )


def ask(
    ledger: Ledger, *, run_uid: str, gate: str, policy: LoadedPolicy, link: str, actor: Actor, origin: Origin
) -> Ask:
    """Compute the dossier, record what is shown, and return the question.

    Raises :class:`RefusedError` if the gate is out of turn, nobody may answer or the policy changed.
    """
    run = load_run(ledger, run_uid)
    view = gate_view(ledger, run, gate, policy)
    require_policy(view, policy)
    earlier = {g: gate_view(ledger, run, g).approved for g in GATES[: GATES.index(gate)]}
    require_order(view, run.state, earlier)
    require_people(view)
    ordinal = sum(1 for record in run.records if record.kind == "gate.dossier" and record.origin == origin)
    [record] = ledger.append([_dossier_draft(view, actor, origin, run.attempts, ordinal)])
    previous = view.decision or (view.refusals[-1] if view.refusals else None)
    since_last: tuple[str, ...] | None = None
    if previous is not None and view.shown is not None:
        since_last = (
            changed_parts(view.shown[1].document, view.dossier.document())
            if view.shown[1].document != view.dossier.document()
            else ()
        )
    rules = recorded_policy(run)
    return Ask(
        form=build_form(
            view.dossier, digest=view.digest, link=link, since_last=since_last, language=rules.language
        ),
        people=tuple((name, rules.gates.user_ids.get(name, name)) for name in view.eligible),
        deadline_seconds=rules.gates.deadline_hours * 3600,
        record=record,
        digest=view.digest,
    )


def _fault(view: GateView, answer: Answer) -> tuple[Cause, str] | None:
    """Why ``answer`` does not count, or None; the rules in the order of the module's docstring."""
    shown = str(answer.values.get("dossier_digest") or "")
    if not answer.person_name or not answer.person_id:
        return "unsigned", "no authenticated person answered"
    if answer.person_name not in view.eligible:
        cause: Cause = "submitter" if answer.person_name == view.submitter else "not_entitled"
        return cause, f"{answer.person_name} may not answer; {', '.join(view.eligible)} may"
    if shown != view.digest:
        changed = (
            "the question shown was for other evidence"
            if shown
            else "the answer does not say which dossier was read"
        )
        return "stale", f"{changed}; answer again from the gate view"
    if not str(answer.values.get("reason") or "").strip():
        return "invalid", "a reason is required"
    if answer.option not in {"Approve", "Reject"}:
        return "invalid", f"the answer must be Approve or Reject, got {answer.option!r}"
    return _approval_fault(view, answer) if answer.option == "Approve" else None


def _approval_fault(view: GateView, answer: Answer) -> tuple[Cause, str] | None:
    dossier = view.dossier
    if blocked := dossier.blocked_by():
        return "invalid", f"blocking items are not verified: {', '.join(item.id for item in blocked)}"
    if dossier.advisory() and answer.values.get("acknowledge") is not True:
        return "invalid", f"not acknowledged: {', '.join(item.id for item in dossier.advisory())}"
    if view.gate == "close":
        outcome = answer.values.get("outcome")
        if outcome not in OUTCOMES:
            return "invalid", f"an outcome is required ({', '.join(OUTCOMES)}), got {outcome!r}"
        if outcome == "register" and (gaps := dossier.release_gaps()):
            return "invalid", f"register needs {', '.join(item.id for item in gaps)}"
    return None


def _refused(view: GateView, answer: Answer, cause: Cause, detail: str) -> GateRefused:
    return GateRefused(
        gate=view.gate,
        person_id=answer.person_id,
        person_name=answer.person_name,
        cause=cause,
        detail=f"{detail} ({answer.authentication})" if "all admins" in answer.authentication else detail,
        shown_digest=str(answer.values.get("dossier_digest") or "") or None,
        current_digest=view.digest,
    )


def _decision(view: GateView, answer: Answer, dossier_record: str) -> GateDecision:
    approve = answer.option == "Approve"
    return GateDecision(
        gate=view.gate,
        decision="approve" if approve else "reject",
        person_id=str(answer.person_id),
        person_name=str(answer.person_name),
        reason=str(answer.values["reason"]).strip(),
        dossier_digest=view.digest,
        dossier_record=dossier_record,
        responded_at=answer.responded_at,
        acknowledged=[item.id for item in view.dossier.advisory()] if approve else [],
        items={item.id: item.verdict.value for item in view.dossier.items},
        self_signed=answer.person_name == view.submitter,
        outcome=answer.values.get("outcome") if approve and view.gate == "close" else None,
        authentication=answer.authentication,
    )


def _known(run: RunView, gate: str, answer: Answer) -> Outcome | None:
    """The decision that this very answer made: it was written, and its acknowledgement lost."""
    for record, decision in run.all(GateDecision):
        same = (decision.gate, decision.person_name, decision.responded_at)
        if same == (gate, answer.person_name, answer.responded_at):
            return Outcome(decision=decision, record=record)
    return None


def take_answer(
    ledger: Ledger,
    *,
    run_uid: str,
    gate: str,
    answer: Answer,
    policy: LoadedPolicy,
    actor: Actor,
    origin: Origin,
) -> Outcome:
    """Judge an answer against the dossier as it stands now and record the decision or the refusal.

    The same answer (person and moment) taken again, because its acknowledgement was lost, is the same decision.
    """
    run = load_run(ledger, run_uid)
    if (known := _known(run, gate, answer)) is not None:
        return known
    view = gate_view(ledger, run, gate, policy)
    fault: tuple[Cause, str] | None = None
    if view.policy_changed:
        fault = ("stale", f"the policy {policy.name} changed since the run was opened")
    elif run.state == "closed":
        fault = ("invalid", "the run is closed")
    found = fault or _fault(view, answer)
    if found is not None:
        refusal = _refused(view, answer, found[0], found[1])
        record = _keep(ledger, run, "gate.refused", refusal.to_json(), actor=actor, origin=origin)
        return Outcome(refusal=refusal, record=record)
    shown = next(
        (r for r, d in reversed(list(run.all(GateDossier))) if d.gate == gate and d.digest == view.digest),
        None,
    )
    if (
        shown is None
    ):  # read and signed in the gate view after facts changed: what was shown is recorded first
        asked = sum(1 for r in run.records if r.kind == "gate.dossier" and r.origin == origin)
        [shown] = ledger.append([_dossier_draft(view, actor, origin, run.attempts, asked)])
    decision = _decision(view, answer, shown.record_id)
    subject = Ref(type="decision", id=f"{run_uid}/{gate}", version=view.digest.removeprefix("sha256:"))
    edges = (
        Edge(
            subject=subject,
            relation=Relation.WAS_ATTRIBUTED_TO,
            object=Ref(type="person", id=decision.person_name),
        ),
        Edge(subject=subject, relation=Relation.USED, object=Ref(type="run", id=run_uid)),
    )
    person = Actor(type="person", name=decision.person_name)
    record = _keep(ledger, run, "gate.decision", decision.to_json(), actor=person, origin=origin, edges=edges)
    return Outcome(decision=decision, record=record)


def _keep(
    ledger: Ledger,
    run: RunView,
    kind: str,
    payload: dict[str, Any],
    *,
    actor: Actor,
    origin: Origin,
    edges: tuple[Edge, ...] = (),
) -> Record:
    """Record a judged answer; the same answer taken again by the same task try is found again."""
    earlier = [r for r in run.records if r.origin == origin and r.kind in {"gate.decision", "gate.refused"}]
    if earlier and earlier[-1].kind == kind and dict(earlier[-1].payload) == payload:
        return earlier[-1]
    [record] = ledger.append([
        Draft(stream=run.run_uid, kind=kind, payload=payload, actor=actor, origin=origin, edges=edges,
              attempt=run.attempts, ordinal=len(earlier))
    ])  # fmt: skip
    return record


def expire(ledger: Ledger, *, run_uid: str, gate: str, actor: Actor, origin: Origin) -> Record:
    """Record that the deadline passed: not approved."""
    run = load_run(ledger, run_uid)
    shown = run.dossier(gate)
    rules = recorded_policy(run)
    [record] = ledger.append([
        Draft(stream=run_uid, kind="gate.expired", actor=actor, origin=origin, attempt=run.attempts,
              payload=GateExpired(gate=gate, deadline_seconds=rules.gates.deadline_hours * 3600,
                                  asked_at=shown[0].recorded_at if shown else None).to_json())
    ])  # fmt: skip
    return record
