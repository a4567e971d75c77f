"""Holds and late classes: what a person says of things that are already registered.

A hold forbids deletion until it is released, whatever the rules say. A class or a purpose may be given at any time;
the newest one counts from the next plan on, and a deletion that is under way asks again before each removal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.domain.identity import Ref, new_id
from pretrain_archive.domain.kinds import (
    CheckpointClassified,
    HoldPlaced,
    HoldReleased,
    Payload,
    read_payload,
)
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Relation
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.liveness import Liveness

STREAM = "ledger"
PLACED, RELEASED, CLASSIFIED = "hold.placed", "hold.released", "checkpoint.classified"
HINT = "Name checkpoint:ID, snapshot:NAME@VERSION, run:UID or project:NAME."
Policies = Mapping[str, LoadedPolicy]


def holds(ledger: Ledger) -> list[HoldPlaced]:
    """Every hold that stands, in the order in which they were placed."""
    found: dict[str, HoldPlaced] = {}
    for record in ledger.records(kinds=[PLACED, RELEASED]):
        if record.kind == PLACED:
            fact = read_payload(record, HoldPlaced)
            found[fact.hold_id] = fact
        else:
            found.pop(read_payload(record, HoldReleased).hold_id, None)
    return list(found.values())


def place_hold(
    ledger: Ledger, policies: Policies, target: str, *, person: str, reason: str, actor: Actor, origin: Origin
) -> HoldPlaced:
    """Forbid the deletion of ``target``; :class:`InputError` for what the ledger does not know."""
    _require_said(person, reason)
    _require_known(ledger, policies, target)
    fact = HoldPlaced(hold_id=new_id("hold"), target=target, reason=reason.strip(), placed_by=person)
    _append(ledger, STREAM, PLACED, fact, person, actor=actor, origin=origin)
    return fact


def release_hold(
    ledger: Ledger,
    policies: Policies,
    hold_id: str,
    *,
    person: str,
    reason: str,
    actor: Actor,
    origin: Origin,
) -> HoldReleased:
    """Lift one hold: by whoever placed it, or by an approver of retention in the project concerned."""
    _require_said(person, reason)
    hold = next((entry for entry in holds(ledger) if entry.hold_id == hold_id), None)
    if hold is None:
        raise InputError(
            "HOLD",
            hold_id,
            "is not a hold that stands",
            hint="List them with: pretrain-archive retention hold",
        )
    allowed = {hold.placed_by, *_approvers(ledger, policies, hold.target)}
    if person not in allowed:
        raise RefusedError(
            f"{person!r} may not release {hold_id} (may: {', '.join(sorted(allowed))})",
            hint="Ask one of them.",
        )
    fact = HoldReleased(hold_id=hold_id, reason=reason.strip(), released_by=person)
    _append(ledger, STREAM, RELEASED, fact, person, actor=actor, origin=origin)
    return fact


def classify(
    ledger: Ledger,
    checkpoint_id: str,
    *,
    artifact_class: Literal["recovery", "evaluation", "candidate"] | None,
    purpose: str | None,
    person: str,
    reason: str,
    actor: Actor,
    origin: Origin,
) -> CheckpointClassified:
    """Give a checkpoint another class or purpose (None leaves it as it is); the newest word counts.

    :class:`InputError` for an unknown checkpoint, :class:`RefusedError` for one that is deleted.
    """
    _require_said(person, reason)
    facts = Liveness.read(ledger).facts
    ref = f"checkpoint:{checkpoint_id.removeprefix('checkpoint:')}"
    known = facts.checkpoints.get(ref)
    if known is None:
        raise InputError("CHECKPOINT", checkpoint_id, "is not a registered checkpoint")
    if ref in facts.tombstones:
        raise RefusedError(f"{ref} was deleted: its class stays what it was")
    if artifact_class is None and purpose is None:
        raise InputError("class", None, "or a purpose must be given")
    fact = CheckpointClassified(
        checkpoint_id=ref.partition(":")[2], artifact_class=artifact_class or _own(known.artifact_class),
        purpose=known.purpose if purpose is None else purpose, reason=reason.strip(), by=person,
        previous_class=known.artifact_class, previous_purpose=known.purpose,
    )  # fmt: skip
    _append(ledger, known.run_uid, CLASSIFIED, fact, person, actor=actor, origin=origin, ref=ref)
    return fact


def _own(name: str) -> Literal["recovery", "evaluation", "candidate"]:
    if name == "evaluation":
        return "evaluation"
    return "candidate" if name == "candidate" else "recovery"


def _require_said(person: str, reason: str) -> None:
    if not person.strip():
        raise InputError("person", person, "a named person says this")
    if not reason.strip():
        raise InputError("reason", reason, "a reason is required")


def _require_known(ledger: Ledger, policies: Policies, target: str) -> None:
    kind, _, name = target.partition(":")
    if kind == "project":
        known = name in policies
    elif kind == "run":
        known = any(ledger.records(streams=[name], kinds=["run.opened"], limit=1))
    elif kind == "snapshot":
        known = any(object_ == target for _, object_, _ in ledger.links("snapshot", subject_type="run"))
    elif kind == "checkpoint":
        known = target in Liveness.read(ledger).facts.checkpoints
    else:
        raise InputError("TARGET", target, "is nothing that can be held", hint=HINT)
    if not known:
        raise InputError("TARGET", target, "is not on record", hint=HINT)


def _approvers(ledger: Ledger, policies: Policies, target: str) -> list[str]:
    kind, _, name = target.partition(":")
    if kind == "project":
        project = name
    else:
        facts = Liveness.read(ledger).facts
        uid = (
            name
            if kind == "run"
            else facts.checkpoints[target].run_uid
            if target in facts.checkpoints
            else ""
        )
        project = facts.run(uid).project
    return policies[project].policy.approvers_of("retention") if project in policies else []


def _append(
    ledger: Ledger, stream: str, kind: str, payload: Payload, person: str, *, actor: Actor, origin: Origin,
    ref: str = "",
) -> None:  # fmt: skip
    ordinal = sum(record.origin == origin for record in ledger.records(streams=[stream], kinds=[kind]))
    who = Ref(type="person", id=person)
    edges = (Edge(subject=Ref.parse(ref), relation=Relation.WAS_ATTRIBUTED_TO, object=who),) if ref else ()
    ledger.append([
        Draft(stream=stream, kind=kind, payload=payload.to_json(), actor=actor, origin=origin, ordinal=ordinal,
              edges=edges)
    ])  # fmt: skip
