"""``pretrain-archive model``: released models, and what is recorded of them for their whole life."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pretrain_archive.commands.output import FINDING, OK, Json, answer, command, plain, table

if TYPE_CHECKING:
    from pretrain_archive.domain.model_life import Life
    from pretrain_archive.domain.records import Origin
    from pretrain_archive.services.model_life import Told

app = typer.Typer(help="Released models, and what is recorded of them for their whole life.")

What = Literal["feedback", "adjustment", "retraining", "delivery", "take-down"]
KINDS = {
    "feedback": "model.feedback", "adjustment": "model.adjusted", "retraining": "model.retraining",
    "delivery": "model.delivered", "take-down": "model.taken_down",
}  # fmt: skip
TAKES = {
    "source": {"feedback"}, "severity": {"feedback"}, "resolves": {"adjustment", "retraining"},
    "run_uid": {"retraining"}, "to": {"delivery"}, "where": {"delivery", "take-down"},
}  # fmt: skip
"""Which facts take which field."""

Model = Annotated[
    str, typer.Argument(metavar="NAME[@VERSION]", help="A release; without a version the newest.")
]
Exact = Annotated[str, typer.Argument(metavar="NAME@VERSION", help="A release, or its id.")]
At = Annotated[str, typer.Option("--at", metavar="TIME", help="When it happened (RFC 3339); default: now.")]
Person = Annotated[str, typer.Option("--person", help="Who says so; default: the user of this machine.")]


@command(app, "list")
def list_models(as_json: Json = False) -> None:
    """List released models with their state and how long their records are kept at least."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.model_dossier import short  # noqa: PLC0415
    from pretrain_archive.services.model_life import all_lives  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    models = [short(life, _days(ledger, life)) for life in all_lives(ledger)]
    rows = [
        [plain(f"{m['name']}@{m['version']}"), m["state"].replace("_", " "), m["made_at"], m["run_uid"],
         plain(", ".join(m["places"])), m["records_kept_until"] or "without end"]
        for m in models
    ]  # fmt: skip
    head = ["model", "state", "released", "run", "delivered to", "records kept until"]
    answer({"models": models}, table(rows, head=head) if rows else ["no releases"], as_json=as_json)


@command(app)
def show(model: Model, as_json: Json = False) -> None:
    """The whole dossier of a model: release, data, evaluations, checkpoints, life and open problems."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.model_dossier import dossier  # noqa: PLC0415
    from pretrain_archive.services.model_life import find_life  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    life = find_life(ledger, model)
    document = dossier(ledger, life, _days(ledger, life))
    answer(document, _lines(document), as_json=as_json)


@command(app)
def note(  # noqa: PLR0917 - typer passes options by name
    model: Exact,
    what: Annotated[What, typer.Option("--what", help="What happened.")],
    text: Annotated[str, typer.Option("--text", help="What is to be known of it in a year.")],
    to: Annotated[str, typer.Option("--to", help="To whom it was delivered.")] = "",
    where: Annotated[
        str, typer.Option("--where", help="Where it lies or lay; take-down: default everywhere.")
    ] = "",
    run: Annotated[str, typer.Option("--run", metavar="RUN", help="The new run of a retraining.")] = "",
    source: Annotated[str, typer.Option("--source", help="Who or what the feedback comes from.")] = "",
    severity: Annotated[
        Literal["minor", "major", "critical"] | None, typer.Option(help="The feedback is a problem, so bad.")
    ] = None,
    resolves: Annotated[
        list[str] | None, typer.Option("--resolves", metavar="ID", help="An open problem; once per problem.")
    ] = None,
    at: At = "",
    person: Person = "",
    as_json: Json = False,
) -> None:
    """Record what happened to a released model: feedback, adjustment, retraining, delivery or take-down."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.commands.run import find_run  # noqa: PLC0415
    from pretrain_archive.services.model_life import find_life, record_fact  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    life = find_life(ledger, _exact(model))
    given = {
        "source": source or None, "severity": severity, "resolves": resolves or None, "to": to or None,
        "where": where or None, "run_uid": find_run(ledger, run).run_uid if run else None,
    }  # fmt: skip
    told, origin = _told(KINDS[what], text, person, at, _fields(what, given)), _origin("model_note")
    fact = record_fact(ledger, life, told, origin=origin)
    line = f"{fact.fact_id}  {what} of {plain(life.title)}, recorded by {plain(fact.by)}"
    late = what == "delivery" and bool(fact.after)
    more = [f"{plain(life.title)} was {fact.after[0].replace('_', ' ')} before"] if fact.after else []
    answer(
        {"kind": KINDS[what], **fact.to_json()}, [line, *more], as_json=as_json, code=FINDING if late else OK
    )


@command(app)
def retire(  # noqa: PLR0917 - typer passes options by name
    model: Exact,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why it is no longer to be used.")],
    successor: Annotated[str, typer.Option(metavar="NAME@VERSION", help="The release to use instead.")] = "",
    at: At = "",
    person: Person = "",
    as_json: Json = False,
) -> None:
    """Retire a model, once. Its records stay; from now on the policy's time to keep them runs."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services import model_life  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    life = model_life.find_life(ledger, _exact(model))
    days, digest = _policy_days(ledger, life)
    fields = {"successor": successor or None, "records_keep_days": days, "policy_digest": digest}
    fact, done = model_life.retire(
        ledger, life, _told("model.retired", reason, person, at, fields), origin=_origin("model_retire")
    )
    still = life.places
    document = {**fact.to_json(), "recorded_now": done, "still_delivered_to": list(still)}
    lines = [f"{plain(life.title)} retired at {fact.at} by {plain(fact.by)}: {plain(fact.text)}"]
    lines += [] if done else ["it was retired before; nothing was recorded"]
    lines += [f"still delivered to: {plain(', '.join(still))}"] if still else []
    answer(document, lines, as_json=as_json, code=FINDING if still else OK)


def _exact(model: str) -> str:
    """A name that leaves no choice: what happens to one version is not recorded of another."""
    from pretrain_archive.domain.errors import InputError  # noqa: PLC0415

    if "@" not in model and not model.startswith("rel_"):
        raise InputError("MODEL", model, "has no version", hint="Write NAME@VERSION.")
    return model


def _fields(what: str, given: dict[str, Any]) -> dict[str, Any]:
    """The fields that this kind of fact takes; one that it does not take is an error, not lost."""
    from pretrain_archive.domain.errors import InputError  # noqa: PLC0415

    said = {name: value for name, value in given.items() if value is not None}
    if stray := next((name for name in said if what not in TAKES[name]), ""):
        raise InputError(stray.removesuffix("_uid"), said[stray], f"is not asked for a {what}")
    if what == "retraining" and "run_uid" not in said:
        raise InputError("run", "", "is missing", hint="Name the new run with --run.")
    return said


def _told(kind: str, text: str, person: str, at: str, fields: dict[str, Any]) -> Told:
    from pretrain_archive.services.caller import local_identity  # noqa: PLC0415
    from pretrain_archive.services.model_life import Told  # noqa: PLC0415

    here = local_identity()
    said = f"stated with --person by the user {here} of the machine"
    return Told(
        kind=kind, text=text, person=person or here.partition("@")[0], at=at, fields=fields,
        authentication=said if person else f"user {here} of the machine",
    )  # fmt: skip


def _origin(task: str) -> Origin:
    from pretrain_archive.domain.identity import new_id  # noqa: PLC0415
    from pretrain_archive.domain.records import Origin  # noqa: PLC0415

    return Origin(dag_id="cli", dag_run_id=new_id("call"), task_id=task)


def _days(ledger: Any, life: Life) -> float | None:
    return _policy_days(ledger, life)[0]


def _policy_days(ledger: Any, life: Life) -> tuple[float | None, str | None]:
    """What the project's policy file says now of keeping records, and its digest; nothing where it cannot be read."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.domain.errors import PolicyError  # noqa: PLC0415
    from pretrain_archive.domain.kinds import RunOpened  # noqa: PLC0415
    from pretrain_archive.domain.run_view import RunView  # noqa: PLC0415

    records = ledger.records(streams=[life.run_uid], kinds=["run.opened"])
    opened = RunView.of(life.run_uid, records).latest(RunOpened)
    try:
        loaded = services.policy(opened.project) if opened else None
    except PolicyError:
        loaded = None
    if loaded is None:
        return None, None
    return loaded.policy.model_life.records_keep_days_after_retirement, loaded.digest


def _lines(document: dict[str, Any]) -> Iterator[str]:
    """The dossier for a person; what is not recorded says so."""
    yield f"{plain(document['name'])}@{plain(document['version'])}  {document['state'].replace('_', ' ')}"
    yield f"  released {document['made_at']} by run {document['run_uid']}, {document['release_id']}"
    if (gone := document["retired"]) is not None:
        instead = f"; use {plain(gone['successor'])}" if gone["successor"] else ""
        yield f"  retired at {gone['at']} by {plain(gone['by'])}: {plain(gone['text'])}{instead}"
    places = plain(", ".join(document["places"])) or (
        "nowhere now" if document["delivered"] else "unrecorded"
    )
    yield f"  delivered to: {places}"
    yield f"  records kept until: {document['records_kept_until'] or 'without end'}"
    yield f"  data: {plain(document['data']['snapshot'] or 'unrecorded')}"
    for source in document["data"]["sources"]:
        gone = source["withdrawn"]
        state = f"withdrawn at {gone['at']}" if gone else "may be used"
        yield f"    {plain(source.get('name') or source['source_id'])}: {plain(state)}"
    yield "evaluations"
    for one in document["evaluations"]:
        numbers = ", ".join(f"{m['name']} {m['value']}" for m in one["metrics"])
        yield f"  {one['evaluation_id']}  {'passed' if one['passed'] else 'not passed'}: {plain(numbers)}"
    yield from _human_lines(document["human_evaluation"])
    yield "checkpoints"
    for one in document["checkpoints"]:
        state = f"deleted, tombstone {one['clean_up']['record_id']}" if one["clean_up"] else "kept"
        gone = sorted({part for stone in one["parts_cleaned_up"] for part in stone["parts"]})
        state += f", without {plain(', '.join(gone))}" if gone else ""
        yield f"  step {one['step']}  {'release' if one['released'] else one['class']}  {state}"
    yield "life"
    for fact in document["life"]:
        late = f" (after it was {fact['after'][0].replace('_', ' ')})" if fact["after"] else ""
        yield f"  {fact['at']}  {fact['kind']} by {plain(fact['by'])}: {plain(fact['text'])}{late}"
    yield "open problems"
    for one in document["open_problems"]:
        yield f"  {one['id']}  {one['severity']}, from {plain(one['from'])}: {plain(one['text'])}"


def _human_lines(report: dict[str, Any] | None) -> Iterator[str]:
    if report is None:
        yield "  by persons: unrecorded"
        return
    told = "nothing speaks against it" if report["passed"] else "; ".join(report["flags"])
    yield f"  by persons ({plain(', '.join(report['reviewers']))}): {report['scored']} items, {plain(told)}"
