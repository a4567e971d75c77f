"""What a gate's view shows: the dossier that is to be signed, as it stands now, and what to know about it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.domain.gates import Difference, Dossier, changed_parts
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.reviews import choice_words
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item, Verdict, counts, worst_first
from pretrain_archive.gates.service import GateView, gate_view
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.web.gate_cards import GateCard, gate_card
from pretrain_archive.web.render import label, size
from pretrain_archive.web.sources import Sources
from pretrain_archive.web.texts import Text, say


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """The open question in Airflow: where it stands, and whether it shows what this page shows."""

    dag_id: str
    dag_run_id: str
    task_id: str
    map_index: int
    try_number: int
    at: str
    digest: str
    fresh: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Signer:
    """Whether the person who looks may sign, and if not, why; ``names`` are those who may."""

    may: bool
    why: Text
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class GatePage:
    """Everything of one gate's view."""

    run_uid: str
    gate: str
    opened: kinds.RunOpened
    card: GateCard
    digest: str
    counts: dict[str, int]
    open: tuple[Item, ...]
    verified: tuple[Item, ...]
    blocked: tuple[Item, ...]
    advisory: tuple[Item, ...]
    facts: tuple[tuple[str, str], ...]
    compared_with: str
    differences: tuple[Difference, ...]
    last_answer: tuple[Record, kinds.GateDecision] | None
    since_answer: tuple[str, ...]
    approve: tuple[Text, ...]
    reject: Text
    outcomes: tuple[str, ...]
    gaps: dict[str, tuple[Item, ...]]
    asked: Asked | None
    signer: Signer
    policy_name: str
    policy_digest: str
    policy_now: Text | None
    decision: tuple[Record, kinds.GateDecision] | None
    stale: tuple[str, ...]
    refusals: tuple[tuple[Record, kinds.GateRefused], ...]
    next_conf: str = ""


def gate_page(
    sources: Sources, ledger: Ledger, view: RunView, gate: str, *, user: str, role_may: bool
) -> GatePage:
    """Read a gate for the person named ``user``; ``role_may`` is what Airflow says of that person's role.

    Raises ``RefusedError`` where the run has no recorded policy, so no dossier can be computed.
    """
    opened = view.opened
    if opened is None:
        raise ValueError(f"run {view.run_uid} was never opened")
    loaded, policy_now = _policy_now(sources, opened)
    seen = gate_view(ledger, view, gate, loaded)
    ordered = worst_first(seen.dossier.items)
    return GatePage(
        run_uid=view.run_uid,
        gate=gate,
        opened=opened,
        card=gate_card(seen),
        digest=seen.digest,
        counts=counts(ordered),
        open=tuple(item for item in ordered if item.verdict is not Verdict.VERIFIED),
        verified=tuple(item for item in ordered if item.verdict is Verdict.VERIFIED),
        blocked=seen.dossier.blocked_by(),
        advisory=seen.dossier.advisory(),
        facts=seen.dossier.facts,
        compared_with=seen.dossier.compared_with,
        differences=seen.dossier.differences,
        last_answer=seen.decision,
        since_answer=_since(view, seen),
        approve=choices(seen.dossier) or consequences(gate, seen.dossier.consequences),
        reject=say(f"gate.reject.{gate}"),
        outcomes=seen.dossier.outcomes(),
        gaps={outcome: seen.dossier.gaps(outcome) for outcome in seen.dossier.outcomes()},
        asked=_asked(seen),
        signer=signer(seen, user=user, role_may=role_may),
        policy_name=opened.policy_name,
        policy_digest=opened.policy_digest or "",
        policy_now=policy_now,
        decision=seen.decision,
        stale=() if seen.used else seen.stale,
        refusals=tuple(reversed(seen.refusals)),
        next_conf=next_conf(view) if gate == "review" else "",
    )


def _policy_now(sources: Sources, opened: kinds.RunOpened) -> tuple[LoadedPolicy | None, Text | None]:
    """The policy as its file says now, and a warning where it is not the recorded one."""
    try:
        loaded = sources.policy(opened.project)
    except ArchiveError as error:
        return None, say("gate.policy.none", why=str(error))
    if loaded.digest != opened.policy_digest:
        return loaded, say("gate.policy.changed")
    return loaded, None


def _asked(seen: GateView) -> Asked | None:
    if not seen.waiting or seen.shown is None:
        return None
    record, shown = seen.shown
    return Asked(
        dag_id=record.origin.dag_id,
        dag_run_id=record.origin.dag_run_id,
        task_id=record.origin.task_id,
        map_index=record.origin.map_index,
        try_number=record.origin.try_number,
        at=record.recorded_at,
        digest=shown.digest,
        fresh=shown.digest == seen.digest,
    )


def signer(seen: GateView, *, user: str, role_may: bool) -> Signer:
    """Whether ``user`` may sign this gate now, in words that name who can."""
    names = ", ".join(seen.eligible) or say("none")
    if user in seen.eligible:
        if role_may:
            return Signer(may=True, why=say("gate.you.can"), names=seen.eligible)
        return Signer(may=False, why=say("gate.you.role", names=names), names=seen.eligible)
    key = "gate.you.submitter" if user == seen.submitter else "gate.you.cannot"
    return Signer(may=False, why=say(key, names=names), names=seen.eligible)


def _since(view: RunView, seen: GateView) -> tuple[str, ...]:
    """What changed since the last answer: by name, from the dossier that was answered then."""
    if seen.decision is None:
        return ()
    answered = seen.decision[1].dossier_record
    signed = next(
        (shown for record, shown in view.all(kinds.GateDossier) if record.record_id == answered), None
    )
    return changed_parts(signed.document, seen.dossier.document()) if signed else seen.stale


def choices(dossier: Dossier) -> tuple[Text, ...]:
    """What each choice of a review does, in words and numbers, or why it cannot be made; empty for other gates."""
    if dossier.gate != "review":
        return ()
    numbers, said = dict(dossier.consequences), [say("gate.approve.review")]
    for outcome in dossier.outcomes():
        title = label("outcome", outcome)
        if gaps := dossier.gaps(outcome):
            names = [label("item", gap.id) for gap in gaps]
            listed = Text(", ".join(name.en for name in names), "、".join(name.zh for name in names))
            said.append(say("gate.choice.not", title=title, names=listed))
        else:
            said.append(say("gate.choice", title=title, words=Text(*choice_words(outcome, numbers))))
    return tuple(said)


def next_conf(view: RunView) -> str:
    """The request of a run that a new one replaces, as JSON with its origin filled in; empty for every other run."""
    closed = view.latest(kinds.RunClosed)
    if view.opened is None or closed is None or closed.outcome != "superseded":
        return ""
    return json.dumps(
        view.opened.conf | {"derived_from": view.run_uid}, ensure_ascii=False, indent=1, sort_keys=True
    )


def consequences(gate: str, numbers: Iterable[tuple[str, str]]) -> tuple[Text, ...]:
    """What approving does, with the numbers of the dossier in words."""
    said = [say(f"gate.approve.{gate}")]
    for key, value in numbers:
        shown: object = size(int(value)) if key.endswith("_bytes") and value.isdigit() else value
        title = label("fact", key)
        said.append(say("gate.number", title=title, value=shown))
    return tuple(said)
