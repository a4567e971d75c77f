"""``pretrain-archive incident``, and the evidence of a run for somebody on call."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pretrain_archive.commands.output import FINDING, OK, Json, answer, command, plain, table
from pretrain_archive.commands.platform import RUNBOOK, Language, Person, Root, Runbook, grounds_of
from pretrain_archive.commands.run import RunName, find_run

app = typer.Typer(help="Incidents: what happened, why, and what was made of it.")

IncidentName = Annotated[
    str, typer.Argument(metavar="INCIDENT", help="The incident's id, or the end of one.")
]


@command(app, "open")
def open_(  # noqa: PLR0917 (options of a command line, each given by name)
    severity: Annotated[
        Literal["minor", "major"], typer.Option(help="A major one has to leave something behind.")
    ],
    title: Annotated[str, typer.Option(help="What happened, in a line.")],
    impact: Annotated[str, typer.Option(help="Whom or what it hit, and for how long.")],
    run: Annotated[list[str] | None, typer.Option(metavar="RUN", help="A run that it touched.")] = None,
    attempt: Annotated[
        list[str] | None, typer.Option(metavar="RUN#N", help="An attempt that it touched.")
    ] = None,
    at: Annotated[str, typer.Option(metavar="TIME", help="When it was noticed; default: now.")] = "",
    person: Person = "",
    root: Root = Path(),
    runbook: Runbook = RUNBOOK,
    as_json: Json = False,
) -> None:
    """Open an incident, linked to the runs and attempts that it touched."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.incidents import Report, open_incident  # noqa: PLC0415
    from pretrain_archive.services.platform_said import speaker  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    attempts = [text.rpartition("#") for text in attempt or ()]
    told = Report(
        severity=severity, title=title, impact=impact, noticed_at=at,
        runs=tuple(find_run(ledger, name).run_uid for name in run or ()),
        attempts=tuple(f"{find_run(ledger, name).run_uid}#{number}" for name, _, number in attempts),
    )  # fmt: skip
    record = open_incident(ledger, grounds_of(root, runbook), told, speaker(person, task="incident"))
    answer({"record_id": record.record_id, **record.payload},
           [f"{record.payload['incident_id']}  {severity}: {plain(title)}"], as_json=as_json)  # fmt: skip


@command(app)
def review(
    incident: IncidentName,
    cause: Annotated[str, typer.Option(help="Why it happened.")],
    contributing: Annotated[
        list[str] | None, typer.Option(help="What made it possible or worse. May be given often.")
    ] = None,
    person: Person = "",
    as_json: Json = False,
) -> None:
    """Record the cause, beside what the linked runs' own timelines show."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.incidents import incident_of  # noqa: PLC0415
    from pretrain_archive.services.incidents import review as record_review  # noqa: PLC0415
    from pretrain_archive.services.platform_said import speaker  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    record = record_review(
        ledger, incident_of(ledger, incident), speaker(person, task="incident"), cause=cause,
        contributing=tuple(contributing or ()),
    )  # fmt: skip
    told = [f"{entry['at']}  {plain(entry['what'])}" for entry in record.payload["timeline"]]
    answer({"record_id": record.record_id, **record.payload},
           [f"{record.payload['incident_id']}  cause: {plain(cause)}", *told], as_json=as_json)  # fmt: skip


@command(app)
def close(  # noqa: PLR0917 (options of a command line, each given by name)
    incident: IncidentName,
    learnt: Annotated[str, typer.Option(help="What is known now.")],
    follow_up: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND:NAME", help="drill:FAULT, test:PATH::NAME, policy:PROJECT.FIELD or runbook:HEADING."
        ),
    ] = None,
    person: Person = "",
    root: Root = Path(),
    runbook: Runbook = RUNBOOK,
    as_json: Json = False,
) -> None:
    """Close a reviewed incident; what was made of it is looked up, and of a major one something must be."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.incidents import close as record_close  # noqa: PLC0415
    from pretrain_archive.services.incidents import incident_of  # noqa: PLC0415
    from pretrain_archive.services.platform_said import speaker  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    record = record_close(
        ledger, grounds_of(root, runbook), incident_of(ledger, incident), speaker(person, task="incident"),
        learnt=learnt, follow_ups=tuple(follow_up or ()),
    )  # fmt: skip
    told = [f"{f['kind']}:{plain(f['ref'])}: {plain(f['found'])}" for f in record.payload["follow_ups"]]
    answer({"record_id": record.record_id, **record.payload},
           [f"{record.payload['incident_id']}  closed", *told], as_json=as_json)  # fmt: skip


@command(app, "list")
def list_incidents(as_json: Json = False) -> None:
    """List incidents, oldest first."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.incidents import incidents  # noqa: PLC0415

    found = incidents(services.open_ledger(create=False))
    rows = [[one.incident_id, one.state, one.opened.severity, plain(one.opened.title)] for one in found]
    text = table(rows, head=["incident", "state", "severity", "title"]) if rows else ["no incidents"]
    answer({"incidents": [one.to_dict() for one in found]}, text, as_json=as_json)


@command(app)
def show(incident: IncidentName, as_json: Json = False) -> None:
    """One incident: what it touched, its cause, its timeline, and what was made of it."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.incidents import incident_of  # noqa: PLC0415

    one = incident_of(services.open_ledger(create=False), incident)
    lines = [
        f"{one.incident_id}  {one.state}  {one.opened.severity}",
        f"{plain(one.opened.title)}: {plain(one.opened.impact)}",
        f"noticed {one.opened.noticed_at}, runs: {', '.join(one.opened.runs) or 'none'}",
        f"cause: {plain(one.reviewed.cause if one.reviewed else 'unrecorded')}",
    ]
    lines += [f"  {e['at']}  {plain(e['what'])}" for e in one.reviewed.timeline] if one.reviewed else []
    if one.closed:
        lines.append(f"learnt: {plain(one.closed.learnt)}")
        lines += [f"  {f.kind}:{plain(f.ref)}: {plain(f.found)}" for f in one.closed.follow_ups]
    answer(one.to_dict(), lines, as_json=as_json)


def oncall(
    run: RunName,
    root: Root = Path(),
    runbook: Runbook = RUNBOOK,
    language: Language = "en",
    as_json: Json = False,
) -> None:
    """What somebody on call needs: whom to call, why it waits, what ended how, and where to read. Exit 1: act."""
    from datetime import UTC, datetime  # noqa: PLC0415

    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.oncall import bundle  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    document = bundle(
        ledger, find_run(ledger, run), grounds_of(root, runbook), today=datetime.now(UTC).date()
    )
    acts = [one["symptom"] for one in document["read"] if one["symptom"] != "nothing"]
    lines = _lines(document, "zh" if language == "zh-CN" else "en")
    answer(document, lines, as_json=as_json, code=FINDING if acts else OK)


def _lines(document: dict[str, Any], language: str) -> list[str]:
    contacts = document["contacts"]
    lines = [f"{document['run_uid']}  {document['state']}"]
    for one in document["read"]:
        where = f"{one['page']}: {one['section']}" + ("" if one["there"] else " (?)")
        lines.append(f"{one['seen'][language]} → {plain(where)}")
    lines += [f"{team['title'][language]}: {plain(team['person'] or '◌')}" for team in contacts["teams"]]
    lines += [f"{role}: {plain(name)}" for role, name in contacts["owners"].items()]
    if contacts["gate"]:
        lines.append(f"{contacts['gate']['gate']}: {plain(', '.join(contacts['gate']['eligible']))}")
    if document["waiting"]:
        lines.append(f"{document['waiting']['reason']}: {plain(document['waiting']['message'])}")
    for exit_ in document["exits"]:
        lines.append(
            f"#{exit_['attempt']} {exit_['state']} {plain(exit_['exit_class'] or '')} {plain(exit_['reason'])}"
        )
        used = [f"{name} {value}" for name, value in exit_["resources"].items() if value is not None]
        lines += [f"    {plain(text)}" for text in (exit_["log_uri"], ", ".join(used)) if text]
        lines += [f"    {m['worker']} {plain(m['node'] or '')} {m['phase']} {plain(m['exit_class'] or '')}"
                  for m in exit_["members"]]  # fmt: skip
    lines += [
        f"{'!' if one['state'] != 'valid' else ' '} {plain(one['told'][language])}"
        for one in document["support"]
    ]
    for one in document["metrics"]:
        value = one["not_finite"] or f"{one['value']:g}"
        lines.append(f"{plain(one['name'])} {value} @ {one['step']} (#{one['attempt']})")
    lines += [f"! {one['change_id']} {one['state']}: {plain(one['before'])} → {plain(one['after'])}"
              for one in document["changes"]]  # fmt: skip
    lines += [f"! {one['incident_id']}: {plain(one['title'])}" for one in document["incidents"]]
    lines += [f"- {plain(hint['text'])}" for hint in document["hints"]]
    return [*lines, *(f"  {event['at']}  {plain(event['what'])}" for event in document["events"])]
