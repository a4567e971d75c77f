"""A model's life after its release: find a release, record what happens to it, tell all of it (R109, R111, R156).

Facts go to a stream of the release's own, so that nothing is added to the closed run and nothing is ever too late.
The ledger deletes no record, and no plan of the clean-up names a record or a package.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import AlreadyRecordedError, InputError
from pretrain_archive.domain.identity import Ref, format_time, new_id, parse_time, utc_now
from pretrain_archive.domain.kinds import ReleaseMade, read_payload
from pretrain_archive.domain.kinds.model_life import LifeFact
from pretrain_archive.domain.model_life import LIFE, Life, facts_of
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Record, Relation
from pretrain_archive.domain.releases import standing_release
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.releases import release_key
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.port import Ledger

UNRECORDED = "unrecorded"
MOST_TEXT = 4000
"""Characters of a text."""
DECIDES = ["release.made", "gate.decision", "run.closed"]
"""Kinds that say whether a release stands."""
HINT = "List releases with: pretrain-archive model list"


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a person says happened. ``kind`` is one of :data:`LIFE`, ``fields`` what that kind asks for beyond.

    ``at`` is when it happened, empty for now; ``authentication`` how the person is known.
    """

    kind: str
    text: str
    person: str
    authentication: str
    at: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)


def life_stream(release: ReleaseMade) -> str:
    """The stream of a release: ``release/NAME@VERSION``, or by id where no version was said."""
    if release.version == UNRECORDED:
        return f"release/{release.release_id}"
    return release_key(release.name, release.version)


def all_lives(ledger: Ledger) -> list[Life]:
    """Every release that its close gate left standing, with its life, in the order in which they were made."""
    made = [(record, read_payload(record, ReleaseMade)) for record in _standing(ledger)]
    facts: dict[str, list[Record]] = defaultdict(list)
    for record in ledger.records(kinds=list(LIFE)):
        facts[str(record.payload["release_id"])].append(record)
    return [
        Life(record=record, release=release, facts=facts_of(facts[release.release_id]))
        for record, release in made
    ]


def _standing(ledger: Ledger) -> list[Record]:
    """Records of releases that were not given up again: of their runs only what decides that is read."""
    made = list(ledger.records(kinds=["release.made"]))
    runs = sorted({record.stream for record in made})
    by_run: dict[str, list[Record]] = defaultdict(list)
    for record in ledger.records(streams=runs, kinds=DECIDES) if runs else ():
        by_run[record.stream].append(record)
    views = {uid: RunView.of(uid, records) for uid, records in by_run.items()}
    stand = {uid: standing_release(view) for uid, view in views.items()}
    return [r for r in made if (found := stand[r.stream]) and found[0].record_id == r.record_id]


def find_life(ledger: Ledger, name: str) -> Life:
    """The release ``NAME@VERSION``, the newest of ``NAME``, or the one with this id, and its life.

    Raises ``InputError`` for an unknown release, naming those that are near.
    """
    known = all_lives(ledger)
    exact = [life for life in known if name in {life.title, life.release.release_id}]
    named = exact or [life for life in known if life.release.name == name]
    if len(exact) > 1:
        ids = ", ".join(life.release.release_id for life in exact)
        raise InputError("MODEL", name, f"names {len(exact)} releases", hint=f"Give the id: {ids}.")
    if not named:
        short = name.rpartition("@")[0] or name
        near = [life.title for life in known if life.release.name == short]
        raise InputError("MODEL", name, "is no release", hint=f"Known: {', '.join(near)}." if near else HINT)
    found = named[-1]
    reports = ledger.records(streams=[found.run_uid], kinds=["human_evaluation.reported"])
    evaluated = RunView.of(found.run_uid, reports).last(kinds.HumanEvaluationReported)
    return replace(found, evaluated=evaluated)


def of_run(ledger: Ledger, run_uid: str) -> Life | None:
    """The life of the release that a run made; None if it made none."""
    found = load_run(ledger, run_uid).latest(ReleaseMade)
    return find_life(ledger, found.release_id) if found else None


def record_fact(ledger: Ledger, life: Life, told: Told, *, origin: Origin) -> LifeFact:
    """Append what a person says of a release, and return it.

    Raises ``InputError`` naming the field that cannot be recorded: a text or person that says nothing, a moment in
    the future or before the release, a run that is not in the ledger, a problem that is not open.
    """
    fact = _checked(ledger, life, told)
    draft = Draft(
        stream=life_stream(life.release), kind=told.kind, payload=fact.to_json(),
        actor=Actor(type="person", name=fact.by), origin=origin, edges=tuple(_edges(life, fact)),
        unique=f"retire/{life.release.release_id}" if told.kind == "model.retired" else "",
    )  # fmt: skip
    [record] = ledger.append([draft])
    return read_payload(record, LIFE[told.kind])


def retire(ledger: Ledger, life: Life, told: Told, *, origin: Origin) -> tuple[kinds.ModelRetired, bool]:
    """Retire a release, once; returns the retirement that stands, and whether this call made it."""
    if life.retired is not None:
        return life.retired[1], False
    try:
        made = record_fact(ledger, life, told, origin=origin)
    except AlreadyRecordedError:  # somebody else retired it meanwhile
        standing = find_life(ledger, life.release.release_id).retired
        if standing is None:
            raise
        return standing[1], False
    assert isinstance(made, kinds.ModelRetired)
    return made, True


def _checked(ledger: Ledger, life: Life, told: Told) -> LifeFact:
    """The payload; every text can be read and stored."""
    if told.kind not in LIFE:
        raise InputError("what", told.kind, f"is none of {', '.join(LIFE)}")
    texts = {"text": _text("text", told.text), "person": _text("person", told.person)}
    if missing := next((name for name, text in texts.items() if not text), ""):
        raise InputError(missing, getattr(told, missing), "says nothing", hint="Fill it in.")
    fields = {k: _text(k, v) if isinstance(v, str) else v for k, v in told.fields.items()}
    for name in {"to", "where"} & LIFE[told.kind].model_fields.keys():
        if LIFE[told.kind].model_fields[name].is_required() and not fields.get(name):
            raise InputError(name, fields.get(name), "says nothing", hint="Say to whom and where.")
    _require_known(ledger, life, fields)
    at = _moment(life, told.at)
    after = [state for state in ("taken_down", "retired") if life.until(at).state == state]
    return LIFE[told.kind].model_validate({
        **fields, "fact_id": new_id("life"), "release_id": life.release.release_id, "name": life.release.name,
        "version": life.release.version, "at": at, "by": texts["person"],
        "authentication": told.authentication, "text": texts["text"], "after": after,
    })  # fmt: skip


def _require_known(ledger: Ledger, life: Life, fields: Mapping[str, Any]) -> None:
    """What a fact names is there: a run that was opened, problems that are open, another release."""
    run = fields.get("run_uid")
    if run is not None and load_run(ledger, str(run)).opened is None:
        raise InputError("run", run, "is not in the ledger", hint="Trigger the new run first.")
    if run == life.run_uid:
        raise InputError("run", run, "is the run that made this release")
    still = {problem["id"] for problem in life.open_problems()}
    if gone := [one for one in fields.get("resolves") or () if one not in still]:
        raise InputError(
            "resolves", gone[0], "is no open problem of this release", hint="See: pretrain-archive model show"
        )
    if successor := fields.get("successor"):
        found = find_life(ledger, str(successor))
        if found.release.release_id == life.release.release_id:
            raise InputError("successor", successor, "is this release itself")


def _moment(life: Life, at: str) -> str:
    """When it happened: not ahead, and not before the release was made."""
    if not at.strip():
        return utc_now()
    try:
        moment = parse_time(at.strip())
    except ValueError as error:
        raise InputError("at", at, "is no moment", hint="Write 2026-11-29T10:00:00Z.") from error
    if moment > datetime.now(UTC):
        raise InputError("at", at, "lies in the future", hint="Record it when it has happened.")
    if moment < parse_time(life.record.recorded_at):
        raise InputError("at", at, f"lies before the release ({life.record.recorded_at})")
    return format_time(moment)


def _text(name: str, value: str) -> str:
    text = value.strip()
    if len(text) > MOST_TEXT or "\0" in text:
        raise InputError(name, f"{text[:40]}…", f"is longer than {MOST_TEXT} characters or holds a zero byte")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(name, ascii(text[:40]), "is no UTF-8 text") from error
    return text


def _edges(life: Life, fact: LifeFact) -> Iterable[Edge]:
    """What rests on the release, or takes its validity; a retraining also leads from the new run to the old one.

    That edge is one of runs, so that the new run is not held to rest on the old run's data.
    """
    release = release_ref(life.release)
    person = Ref(type="person", id=fact.by)
    match fact:
        case kinds.ModelRetired():
            this = Ref(type="retirement", id=life.release.release_id)
            yield Edge(subject=release, relation=Relation.WAS_INVALIDATED_BY, object=this)
        case kinds.ModelTakenDown():
            this = Ref(type="take_down", id=fact.fact_id)
            yield Edge(subject=release, relation=Relation.WAS_INVALIDATED_BY, object=this)
        case kinds.RetrainingBegun():
            this = Ref(type="retraining", id=fact.run_uid)
            yield Edge(subject=this, relation=Relation.WAS_DERIVED_FROM, object=release)
            new, old = Ref(type="run", id=fact.run_uid), Ref(type="run", id=life.run_uid)
            yield Edge(subject=new, relation=Relation.WAS_DERIVED_FROM, object=old)
        case _:
            this = Ref(type=_TYPES[type(fact)], id=fact.fact_id)
            yield Edge(subject=this, relation=Relation.USED, object=release)
    yield Edge(subject=this, relation=Relation.WAS_ASSOCIATED_WITH, object=person)


_TYPES: dict[type[LifeFact], str] = {
    kinds.FeedbackReceived: "feedback",
    kinds.AdjustmentMade: "adjustment",
    kinds.ModelDelivered: "delivery",
}


def release_ref(release: ReleaseMade) -> Ref:
    """The release as edges name it."""
    return Ref(type="release", id=release.release_id, version=release.version.replace("@", "%40"))
