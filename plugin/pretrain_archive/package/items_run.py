"""Items of the run itself: its purpose, its people, its sign-offs."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.policy import ROLES
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.package.findings import changed, missing, verified


def summary(view: RunView) -> Item:
    """The purpose, as the form sent it."""
    found = view.last(kinds.RunOpened)
    check = "what the form sent hashes to the digest recorded with it"
    if found is None or found[1].purpose is None:
        return missing(
            "run.summary", "gates", view, role="model_owner", hint="Trigger the run with its purpose."
        )
    record, opened = found
    computed = digest_of(record.payload["conf"])
    if computed != opened.conf_digest:
        return changed("run.summary", "gates", check, [record], opened.conf_digest, computed)
    return verified("run.summary", "gates", check, [record], found[1].purpose.objective)


def people(view: RunView) -> Item:
    """Who is responsible."""
    found = view.last(kinds.RunOpened)
    gaps = [role for role in ROLES if not (found and found[1].people.get(role))]
    if found is None or gaps or not found[1].submitter:
        gap = ", ".join(gaps) or "submitter"
        return missing("run.people", "gates", view, role="platform_owner", hint=f"Name in the policy: {gap}.")
    check = "each of the six roles and the submitter is a named person"
    text = ", ".join(f"{role}: {found[1].people[role]}" for role in ROLES)
    return verified("run.people", "gates", check, [found[0]], text)


def gate(view: RunView, gate: str) -> Item:  # noqa: PLR0911 - one way out per finding
    """The sign-off of a gate: over the dossier that was shown, by an entitled person, over the newest evidence."""
    name, check = (
        f"gate.{gate}",
        "the decision names the digest of the dossier that was shown, by an entitled person",
    )
    found = view.decision(gate)
    if found is None:
        return missing(name, "gates", view, role="acceptance", hint=f"Answer the {gate} gate.")
    record, decision = found
    shown = next((f for f in view.all(kinds.GateDossier) if f[0].record_id == decision.dossier_record), None)
    if shown is None:
        return changed(name, "gates", check, [record], decision.dossier_record, "no such dossier in the run")
    computed = digest_of(shown[0].payload["document"])
    records = [shown[0], record]
    if {computed, shown[1].digest} != {decision.dossier_digest}:
        return changed(name, "gates", check, records, decision.dossier_digest, computed)
    if not {decision.person_id, decision.person_name} & set(shown[1].eligible):
        return changed(name, "gates", check, records, ", ".join(shown[1].eligible), decision.person_id)
    newest = view.dossier(gate)
    if newest and newest[0].sequence > record.sequence:
        return missing(
            name, "gates", view, role="acceptance", hint="Signed for older evidence: answer the new question."
        )
    if decision.decision != "approve":
        return missing(
            name,
            "gates",
            view,
            role="acceptance",
            hint=f"Rejected by {decision.person_name}: {decision.reason}",
        )
    by = decision.person_name + (" (self-signed)" if decision.self_signed else "")
    return verified(name, "gates", check, records, f"approved by {by}")
