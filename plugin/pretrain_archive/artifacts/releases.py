"""A release: made once per run, only on an approved close decision with the outcome "register".

The ledger's unique key ``release/NAME@VERSION`` gives a name and version to one run. Within the run the record is
written only if nothing was recorded since its decision, candidate and earlier releases were read: of retries and
parallel closes one writes, and everyone else is handed that release.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pretrain_archive.artifacts.release_account import release_account, release_policy
from pretrain_archive.domain.candidates import named_candidates
from pretrain_archive.domain.errors import AlreadyRecordedError, RefusedError, StreamMovedError
from pretrain_archive.domain.exploration import REASON, is_exploration
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import (
    CandidateNamed,
    CheckpointRegistered,
    EvaluationReported,
    GateDecision,
    ReleaseMade,
    read_payload,
)
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Record, Relation
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.serving import serving_of
from pretrain_archive.gates.releases import release_holder, release_key
from pretrain_archive.ledger.port import Ledger

KIND = "release.made"
UNRECORDED = "unrecorded"
MOST_TRIES = 5
"""How often a release is checked afresh because the run was written to meanwhile."""

DEMANDED = {
    "name": "",
    "version": "release.version",
    "applicable": "release.applicable",
    "not_applicable": "release.not_applicable",
    "rollback": "release.rollback",
    "take_down": "release.rollback",
    "usage_scope": "",
}
"""What a release must say, and the advisory item of the close gate whose acknowledgement lets it stay unsaid."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What a release says of itself (R104, R105, R113); see :data:`DEMANDED`. None is unrecorded."""

    name: str
    version: str | None
    applicable: list[str]
    not_applicable: list[str]
    known_limits: list[str]
    rollback: str | None
    take_down: str | None
    usage_scope: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Released:
    """The run's one release; ``created`` is False when it stood already."""

    release: ReleaseMade
    record: Record
    created: bool


def make_release(
    ledger: Ledger,
    *,
    run_uid: str,
    decision: Record,
    candidate: CandidateNamed,
    terms: Terms,
    actor: Actor,
    origin: Origin,
    ordinal: int = 0,
    beside: Mapping[str, int] | None = None,
) -> Released:
    """Record the release that ``decision`` allows, or return the one that stands.

    The caller has proven that ``decision`` is fresh; here it must be the run's newest close decision, approve,
    and say "register". Raises :class:`RefusedError` listing everything that is missing, naming both releases
    if another one of this run stands, or the run that holds this name and version; ``StreamMovedError`` if one of
    the streams ``beside`` (those of the run's sources) has a newer record than the one that the caller looked at.
    """
    for _ in range(MOST_TRIES):
        try:
            return _make(
                ledger, run_uid=run_uid, decision=decision, candidate=candidate, terms=terms, actor=actor,
                origin=origin, ordinal=ordinal, beside=beside or {},
            )  # fmt: skip
        except StreamMovedError as error:
            moved = error
    raise moved


def _make(
    ledger: Ledger, *, run_uid: str, decision: Record, candidate: CandidateNamed, terms: Terms, actor: Actor,
    origin: Origin, ordinal: int, beside: Mapping[str, int],
) -> Released:  # fmt: skip
    view = RunView.of(run_uid, ledger.records(streams=[run_uid]))
    problems = [*_decision_problems(view, decision), *_candidate_problems(view, candidate)]
    if not problems:
        problems = [*_gaps(terms, decision), *_serving_gaps(view, decision)]
    if problems:
        raise RefusedError(f"run {run_uid} is not released", reasons=tuple(problems))
    payload = _payload(view, candidate, terms)
    standing = view.last(ReleaseMade)
    if standing is not None:
        return _known(payload, standing[0])
    _require_free(ledger, run_uid, terms)
    draft = _draft(
        view, payload, candidate, decision, terms=terms, actor=actor, origin=origin, ordinal=ordinal
    )
    try:
        record = ledger.append([replace(draft, beside=beside)])[0]
    except AlreadyRecordedError:
        standing = RunView.of(run_uid, ledger.records(streams=[run_uid], kinds=[KIND])).last(ReleaseMade)
        if standing is None:
            _require_free(ledger, run_uid, terms)
            raise
        return _known(payload, standing[0])
    return Released(release=read_payload(record, ReleaseMade), record=record, created=True)


def _require_free(ledger: Ledger, run_uid: str, terms: Terms) -> None:
    """Refuse a name and version that another run's release holds."""
    holder = release_holder(ledger, run_uid, terms.name, terms.version)
    if holder is not None:
        raise RefusedError(
            f"release {terms.name}@{terms.version} is taken: run {holder.stream} made it "
            f"({holder.payload['checkpoint_digest']})",
            hint="Give the release another version: open a new run, or continue with this one unreleased.",
        )


def _known(payload: ReleaseMade, record: Record) -> Released:
    release = read_payload(record, ReleaseMade)
    if not _same(release, payload):
        raise RefusedError(
            f"this run released {release.name} {release.version} ({release.checkpoint_digest}); "
            f"{payload.name} {payload.version} ({payload.checkpoint_digest}) is another one.",
            hint="A run is released once; open a new run for another release.",
        )
    return Released(release=release, record=record, created=False)


def _same(release: ReleaseMade, other: ReleaseMade) -> bool:
    """Whether both say the same; the account is of the moment in which the standing one was made."""
    return release.model_copy(update={"account": None}) == other.model_copy(update={"account": None})


def _payload(view: RunView, candidate: CandidateNamed, terms: Terms) -> ReleaseMade:
    name = f"{view.run_uid}\n{candidate.candidate_id}".encode()
    return ReleaseMade(
        release_id="rel_" + hashlib.sha256(name).hexdigest()[:32],
        name=terms.name,
        version=terms.version or UNRECORDED,
        candidate_id=candidate.candidate_id,
        checkpoint_digest=candidate.checkpoint_digest,
        applicable=terms.applicable,
        not_applicable=terms.not_applicable,
        known_limits=terms.known_limits,
        rollback=terms.rollback or UNRECORDED,
        take_down=terms.take_down or UNRECORDED,
        usage_scope=terms.usage_scope,
        account=release_account(view, candidate),
    )


def _draft(
    view: RunView,
    payload: ReleaseMade,
    candidate: CandidateNamed,
    decision: Record,
    *,
    terms: Terms,
    actor: Actor,
    origin: Origin,
    ordinal: int,
) -> Draft:
    this = Ref(type="release", id=payload.release_id, version=payload.version.replace("@", "%40"))
    person = Ref(type="person", id=read_payload(decision, GateDecision).person_id)
    source = Ref(type="candidate", id=candidate.candidate_id)
    signed = Ref(type="decision", id=decision.record_id)
    return Draft(
        stream=view.run_uid,
        kind=KIND,
        payload=payload.to_json(),
        actor=actor,
        origin=origin,
        attempt=decision.attempt,
        ordinal=ordinal,
        unique=release_key(terms.name, terms.version) if terms.version else f"release/{view.run_uid}",
        follows=view.newest,
        edges=(
            Edge(subject=this, relation=Relation.WAS_DERIVED_FROM, object=source),
            Edge(subject=this, relation=Relation.USED, object=signed),
            Edge(subject=this, relation=Relation.WAS_ATTRIBUTED_TO, object=person),
        ),
    )


def _decision_problems(view: RunView, decision: Record) -> list[str]:
    if decision.kind != "gate.decision" or decision.stream != view.run_uid:
        return ["the close decision of this run is missing"]
    newest = view.decision("close")
    if newest is None or newest[0].record_id != decision.record_id:
        return ["the decision is not the newest one of this run's close gate"]
    fact = newest[1]
    problems = [] if fact.decision == "approve" else ["the close gate was not approved"]
    if fact.outcome != "register":
        problems.append(f"the close gate decided {fact.outcome or 'no outcome'!r}, not 'register'")
    return problems


def _candidate_problems(view: RunView, candidate: CandidateNamed) -> list[str]:
    if is_exploration(view):
        return [REASON]
    if candidate not in [fact for _, fact in named_candidates(view)]:
        return ["the candidate is not recorded like this in this run"]
    problems = [] if candidate.kept else ["the candidate was dropped"]
    digests = {fact.digest for _, fact in view.all(CheckpointRegistered)}
    if candidate.checkpoint_digest not in digests:
        problems.append("the candidate's checkpoint is not registered")
    measured = [e for _, e in view.all(EvaluationReported) if e.evaluation_id == candidate.evaluation_id]
    if not any(entry.passed for entry in measured):
        problems.append("the candidate's evaluation is not recorded as passed")
    return problems


def _gaps(terms: Terms, decision: Record) -> list[str]:
    """What is unsaid and was not knowingly left unsaid: the approver acknowledged those items by id."""
    accepted = set(decision.payload.get("acknowledged", []))
    return [
        f"{name.replace('_', ' ')} is missing"
        for name, item in DEMANDED.items()
        if not getattr(terms, name) and item not in accepted
    ]


def _serving_gaps(view: RunView, decision: Record) -> list[str]:
    """What a model that is to serve does not show (R114), unless the approver knowingly left it open."""
    if "release.serving" in set(decision.payload.get("acknowledged", [])):
        return []
    gaps = serving_of(view, release_policy(view)).gaps
    return [f"serving, {aspect.replace('_', ' ')}: {reason}" for aspect, reason in gaps.items()]
