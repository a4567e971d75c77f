"""Putting a gate's question: in its turn, to somebody who may answer, about a dossier that is recorded first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.exploration import scope_of
from pretrain_archive.domain.gates import changed_parts, recorded_policy
from pretrain_archive.domain.kinds import GateDossier
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Actor, Draft, Origin, Record
from pretrain_archive.domain.reviews import cause_of
from pretrain_archive.domain.run_view import GATES, RunView
from pretrain_archive.gates.form import GateForm, build_form
from pretrain_archive.gates.service import GateView, gate_view, load_run, signed_in_its_time
from pretrain_archive.ledger.port import Ledger


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A question that was put: the form, who may answer (name, id) and how long."""

    form: GateForm
    people: tuple[tuple[str, str], ...]
    deadline_seconds: float
    record: Record
    digest: str


def require_order(view: GateView, run_state: str, signed: Mapping[str, bool]) -> None:
    """Refuse a gate that is asked before its turn, or of a closed run."""
    if run_state == "closed":
        raise RefusedError(f"run {view.run_uid} is closed", hint="Trigger a new run.")
    for gate in gates_before(view.gate):
        if not signed.get(gate):
            raise RefusedError(
                f"the {view.gate} gate comes after the {gate} gate, which is not signed for what stands now",
                hint=f"Answer the {gate} gate first.",
            )


def gates_before(gate: str) -> tuple[str, ...]:
    """The gates that must be signed before ``gate`` is asked; none before a review, which may find one stale."""
    return GATES[: GATES.index(gate)] if gate in GATES else ()


def require_due(view: GateView, run: RunView) -> None:
    """Refuse a review of an attempt that goes on, completed or never was."""
    if view.gate == "review" and cause_of(run) is None:
        raise RefusedError(
            f"nothing of run {view.run_uid} is to be reviewed: no attempt ended without completing",
            hint="A review is asked after an attempt that was stopped or failed for good.",
        )


def require_people(view: GateView) -> None:
    """Refuse a gate that nobody may answer: an error at once, never an endless wait."""
    if not view.eligible and not view.submitter:
        raise RefusedError(
            f"nobody may answer the {view.gate} gate: who submitted the run is unknown, so nobody can be told apart",
            hint="Trigger the run as a logged-in person, or turn separation_of_duties off in the project's policy.",
        )
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


def dossier_draft(view: GateView, actor: Actor, origin: Origin, attempt: int, ordinal: int) -> Draft:
    """The record of what a gate shows."""
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
    explores = scope_of(run.opened) == "exploration"  # launched under a ceiling, without a prepare decision
    earlier = {
        g: (explores and g == "prepare") or signed_in_its_time(ledger, run, g) for g in gates_before(gate)
    }
    require_order(view, run.state, earlier)
    require_due(view, run)
    require_people(view)
    ordinal = sum(1 for record in run.records if record.kind == "gate.dossier" and record.origin == origin)
    [record] = ledger.append([dossier_draft(view, actor, origin, run.attempts, ordinal)])
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
