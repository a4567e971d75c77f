"""Taking a gate's answer: judged, then recorded as a decision or a refusal, whatever path it took.

A rejection and the close that follows from it are one transaction; so are an expiry and its close, and a review that
stops the run and its close: there is no moment in which a rejected run is still open.
"""

from __future__ import annotations

from dataclasses import dataclass

from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.gates import recorded_policy
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import GateDecision, GateDossier, GateExpired, GateRefused, RunClosed
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Record, Relation
from pretrain_archive.domain.reviews import CLOSING
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.asking import dossier_draft
from pretrain_archive.gates.judging import Answer, Fault, fault_of, reason_of
from pretrain_archive.gates.service import GateView, gate_view, load_run
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.ledger.proving import sealed_faults
from pretrain_archive.ledger.rows import VERIFY_HINT


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The answer counted (``decision``) or was refused (``refusal``)."""

    decision: GateDecision | None = None
    refusal: GateRefused | None = None
    record: Record | None = None


@dataclass(frozen=True, kw_only=True)
class _Desk:
    """Where an answer is taken: the run as it was read, the gate, and who writes."""

    ledger: Ledger
    run: RunView
    view: GateView
    actor: Actor
    origin: Origin

    def draft(self, kind: str, payload: dict[str, object], **more: object) -> Draft:
        """A draft of this run."""
        made = {"actor": self.actor, "origin": self.origin} | more
        return Draft(
            stream=self.run.run_uid, kind=kind, payload=payload, attempt=self.run.attempts, **made,  # type: ignore[arg-type]  # actor, ordinal, edges, …
        )  # fmt: skip

    def ordinal(self, *kinds: str) -> int:
        """How many records of ``kinds`` this task try wrote before."""
        return sum(1 for r in self.run.records if r.origin == self.origin and r.kind in kinds)

    def close(self, outcome: str, reason: str, figures: dict[str, str] | None = None) -> Draft:
        """The close that a rejection, an expiry or a review's choice brings."""
        closed = RunClosed.model_validate({"outcome": outcome, "reason": reason, "figures": figures or {}})
        return self.draft("run.closed", closed.to_json(), unique=f"close/{self.run.run_uid}")


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

    The same answer taken again, because its acknowledgement was lost, is the same decision. Raises
    ``StreamMovedError`` if the run got a record while the answer was judged: then it is judged again; and
    ``RefusedError`` if a record of the run is not what was sealed.
    """
    run = load_run(ledger, run_uid)
    _, changed = sealed_faults(ledger, run.records)
    if changed:
        raise RefusedError("no answer is taken on a changed log", reasons=tuple(changed), hint=VERIFY_HINT)
    view = gate_view(ledger, run, gate, policy)
    desk = _Desk(ledger=ledger, run=run, view=view, actor=actor, origin=origin)
    if (known := _known(run, gate, answer)) is not None:
        return known
    fault: Fault | None = None
    if view.policy_changed:
        fault = ("stale", f"the policy {policy.name} changed since the run was opened")
    elif run.state == "closed":
        fault = ("invalid", "the run is closed")
    fault = fault or fault_of(view, run, answer)
    return _refuse(desk, answer, fault) if fault is not None else _decide(desk, answer)


def _known(run: RunView, gate: str, answer: Answer) -> Outcome | None:
    """The decision that this very answer made: it was written, and its acknowledgement lost."""
    option = {"Approve": "approve", "Reject": "reject"}.get(answer.option)
    mine = (
        gate,
        option,
        answer.person_name,
        answer.responded_at,
        answer.values.get("dossier_digest"),
        reason_of(answer),
    )
    for record, d in run.all(GateDecision):
        if mine == (d.gate, d.decision, d.person_name, d.responded_at, d.dossier_digest, d.reason):
            return Outcome(decision=d, record=record)
    return None


def _refuse(desk: _Desk, answer: Answer, fault: Fault) -> Outcome:
    shown = answer.values.get("dossier_digest")
    refusal = GateRefused.model_validate({
        "gate": desk.view.gate, "person_id": answer.person_id, "person_name": answer.person_name,
        "cause": fault[0], "detail": fault[1], "current_digest": desk.view.digest,
        "shown_digest": shown[:80] if isinstance(shown, str) and shown.isascii() else None,
    })  # fmt: skip
    for known, before in desk.run.all(GateRefused):
        if before == refusal and known.origin == desk.origin:  # the same answer, taken again by the same try
            return Outcome(refusal=before, record=known)
    ordinal = desk.ordinal("gate.refused")
    [record] = desk.ledger.append([desk.draft("gate.refused", refusal.to_json(), ordinal=ordinal)])
    return Outcome(refusal=refusal, record=record)


def _shown(desk: _Desk) -> Record:
    """The record of the dossier that is signed: what was read in the gate view is recorded before it is signed."""
    view = desk.view
    shown = [r for r, d in desk.run.all(GateDossier) if d.gate == view.gate and d.digest == view.digest]
    if shown:
        return shown[-1]
    draft = dossier_draft(view, desk.actor, desk.origin, desk.run.attempts, desk.ordinal("gate.dossier"))
    return desk.ledger.append([draft])[0]


def _decide(desk: _Desk, answer: Answer) -> Outcome:
    shown = _shown(desk)
    decision = _decision(desk.view, answer, shown.record_id)
    subject = Ref(type="decision", id=f"{desk.run.run_uid}/{desk.view.gate}", version=desk.view.digest[7:])
    person = Ref(type="person", id=decision.person_name)
    run = Ref(type="run", id=desk.run.run_uid)
    draft = desk.draft(
        "gate.decision", decision.to_json(), follows=max(desk.run.newest, shown.sequence),
        actor=Actor(type="person", name=decision.person_name), ordinal=desk.ordinal("gate.decision"),
        edges=(Edge(subject=subject, relation=Relation.WAS_ATTRIBUTED_TO, object=person),
               Edge(subject=subject, relation=Relation.USED, object=run)),
    )  # fmt: skip
    drafts = [draft]
    if decision.decision == "reject":
        reason = f"{desk.view.gate} gate rejected by {decision.person_name}: {decision.reason}"
        drafts.append(desk.close("rejected", reason))
    elif (closes := CLOSING.get(decision.outcome or "")) is not None:
        reason = f"review by {decision.person_name}: {decision.reason}"
        drafts.append(desk.close(closes, reason, dict(desk.view.dossier.consequences)))
    return Outcome(decision=decision, record=desk.ledger.append(drafts)[0])


def _decision(view: GateView, answer: Answer, dossier_record: str) -> GateDecision:
    approve = answer.option == "Approve"
    return GateDecision.model_validate({
        "gate": view.gate,
        "decision": "approve" if approve else "reject",
        "person_id": answer.person_id,
        "person_name": answer.person_name,
        "reason": reason_of(answer),
        "dossier_digest": view.digest,
        "dossier_record": dossier_record,
        "responded_at": answer.responded_at,
        "acknowledged": [item.id for item in view.dossier.advisory()] if approve else [],
        "items": {item.id: item.verdict.value for item in view.dossier.items},
        "self_signed": answer.person_name == view.submitter,
        "outcome": answer.values.get("outcome") if approve and view.dossier.outcomes() else None,
        "authentication": answer.authentication,
    })  # fmt: skip


def expire(ledger: Ledger, *, run_uid: str, gate: str, actor: Actor, origin: Origin) -> Record:
    """Record that the deadline passed, and close the run as expired: not approved."""
    run = load_run(ledger, run_uid)
    shown = run.dossier(gate)
    desk = _Desk(ledger=ledger, run=run, view=gate_view(ledger, run, gate), actor=actor, origin=origin)
    expired = GateExpired.model_validate({
        "gate": gate, "deadline_seconds": recorded_policy(run).gates.deadline_hours * 3600,
        "asked_at": shown[0].recorded_at if shown else None,
    })  # fmt: skip
    draft = desk.draft("gate.expired", expired.to_json())
    return ledger.append([draft, desk.close("expired", f"the {gate} gate was not answered in time")])[0]
