"""Which runs a person looks for: by project, person, date, data, verdict, state, release and text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pretrain_archive.commands.output import Json, answer, plain, table

if TYPE_CHECKING:
    from pretrain_archive.domain.run_view import RunView
    from pretrain_archive.ledger.port import Ledger, RunRow

PAGE = 200
DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """Conditions that all have to hold; an empty one holds for every run.

    ``since`` and ``until`` are UTC moments (RFC 3339) with the first included and the second not; ``data`` names a
    source, a snapshot (with or without ``@VERSION``) or a manifest digest; ``release`` a name, with or without
    ``@VERSION``.
    """

    text: str = ""
    project: str = ""
    person: str = ""
    since: str = ""
    until: str = ""
    data: str = ""
    verdict: str = ""
    state: str = ""
    release: str = ""


def day(option: str, text: str, *, after: bool = False) -> str:
    """A date or a moment as the moment to compare with; a date as an end means the whole of that day."""
    from pretrain_archive.domain.errors import InputError  # noqa: PLC0415
    from pretrain_archive.domain.identity import format_time, parse_time  # noqa: PLC0415

    if not text:
        return ""
    try:
        if DAY.fullmatch(text):
            start = datetime.fromisoformat(text).replace(tzinfo=UTC)
            return format_time(start + timedelta(days=1) if after else start)
        return format_time(parse_time(text))
    except (ValueError, OverflowError) as error:
        hint = "Write 2026-11-30 or 2026-11-30T08:00:00Z."
        raise InputError(option, text, "not a date or a moment", hint=hint) from error


def find_runs(ledger: Ledger, wanted: Wanted, *, limit: int) -> Iterator[tuple[RunRow, RunView, str]]:
    """At most ``limit`` runs with their worst verdict, newest first; reads no further than it has to."""
    from pretrain_archive.domain.run_view import RunView  # noqa: PLC0415
    from pretrain_archive.gates.sources import with_later_facts  # noqa: PLC0415
    from pretrain_archive.package.items import evidence_items, worst  # noqa: PLC0415

    rows = (row for row in _rows(ledger, wanted) if _in_time(row, wanted))
    kept: list[RunRow] = []

    def views() -> Iterator[RunView]:
        for row in rows:
            kept.append(row)
            yield RunView.of(row.run_uid, ledger.records(streams=[row.run_uid]))

    left = limit
    for view in with_later_facts(ledger, views()):
        row = kept.pop()
        if not matches(view, wanted):
            continue
        verdict = worst(item.verdict for item in evidence_items(view)).value
        if wanted.verdict not in {"", verdict}:
            continue
        yield row, view, verdict
        left -= 1
        if not left:
            return


def _rows(ledger: Ledger, wanted: Wanted) -> Iterator[RunRow]:
    from pretrain_archive.ledger.port import RunQuery  # noqa: PLC0415

    before: int | None = None
    while True:
        rows = ledger.runs(RunQuery(text=wanted.text, project=wanted.project, limit=PAGE, before=before))
        yield from rows
        if len(rows) < PAGE:
            return
        before = rows[-1].position


def _in_time(row: RunRow, wanted: Wanted) -> bool:
    return (not wanted.since or row.opened_at >= wanted.since) and (
        not wanted.until or row.opened_at < wanted.until
    )


def matches(view: RunView, wanted: Wanted) -> bool:
    """Whether the run's records fit the conditions on person, data, state and release."""
    return (
        (not wanted.state or view.state == wanted.state)
        and (not wanted.person or wanted.person.casefold() in {name.casefold() for name in people_of(view)})
        and (not wanted.data or wanted.data in set(_data_of(view)))
        and (not wanted.release or wanted.release in set(_releases_of(view)))
    )


def people_of(view: RunView) -> set[str]:
    """Everybody who is named: the submitter, the roles, who signed and who recorded something as a person."""
    from pretrain_archive.domain.kinds import GateDecision  # noqa: PLC0415

    opened = view.opened
    found = {*(opened.people.values() if opened else ()), *([opened.submitter] if opened else [])}
    for _, decision in view.all(GateDecision):
        found |= {decision.person_id, decision.person_name}
    found |= {record.actor.name for record in view.records if record.actor.type == "person"}
    return {name for name in found if name}


def _data_of(view: RunView) -> Iterator[str]:
    from pretrain_archive.domain.kinds import SnapshotCreated, SourceRegistered  # noqa: PLC0415

    for _, snapshot in view.all(SnapshotCreated):
        yield from (snapshot.name, f"{snapshot.name}@{snapshot.version}", snapshot.manifest_digest)
    for _, source in view.all(SourceRegistered):
        yield from (source.source_id, source.name)


def _releases_of(view: RunView) -> Iterator[str]:
    from pretrain_archive.domain.kinds import ReleaseMade  # noqa: PLC0415

    for _, release in view.all(ReleaseMade):
        yield from (release.name, f"{release.name}@{release.version}", release.release_id)


def list_runs(  # noqa: PLR0917 - one option per condition
    search: Annotated[str, typer.Option(help="Only runs whose texts contain this.")] = "",
    project: Annotated[str, typer.Option(help="Only runs of this project.")] = "",
    person: Annotated[str, typer.Option(help="Only runs that name this person in any part.")] = "",
    since: Annotated[
        str, typer.Option(metavar="DATE", help="Only runs opened on this day (UTC) or later.")
    ] = "",
    until: Annotated[
        str, typer.Option(metavar="DATE", help="Only runs opened on this day (UTC) or before.")
    ] = "",
    data: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Only runs on this source, snapshot NAME[@VERSION] or manifest digest."
        ),
    ] = "",
    verdict: Annotated[
        Literal["verified", "changed", "unrecorded"] | None,
        typer.Option(help="Only runs with this worst verdict."),
    ] = None,
    state: Annotated[str, typer.Option(help="Only runs in this state, such as closed or waiting_run.")] = "",
    release: Annotated[str, typer.Option(metavar="NAME", help="Only the run that made NAME[@VERSION].")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many, newest first.")] = 50,
    as_json: Json = False,
) -> None:
    """List runs, newest first, with state and worst verdict; conditions narrow each other."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.domain.exploration import scope_of  # noqa: PLC0415

    wanted = Wanted(
        text=search, project=project, person=person, since=day("--since", since),
        until=day("--until", until, after=True), data=data, verdict=verdict or "", state=state, release=release,
    )  # fmt: skip
    runs = []
    for row, view, worst in find_runs(services.open_ledger(create=False), wanted, limit=limit):
        runs.append(
            {
                "run_uid": row.run_uid,
                "project": row.project,
                "state": view.state,
                "scope": scope_of(view.opened),
                "verdict": worst,
                "submitter": row.submitter,
                "objective": row.objective,
                "dag_id": row.dag_id,
                "dag_run_id": row.dag_run_id,
                "opened_at": row.opened_at,
                "waiting_gate": view.waiting_gate(),
            }
        )
    columns = ("opened_at", "run_uid", "state", "scope", "verdict", "submitter", "objective")
    rows = [[plain(run[column] or "") for column in columns] for run in runs]
    text = (
        table(rows, head=["opened", "run", "state", "scope", "verdict", "submitter", "objective"])
        if rows
        else ["no runs"]
    )
    answer({"runs": runs}, text, as_json=as_json)
