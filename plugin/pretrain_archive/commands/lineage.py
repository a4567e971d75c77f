"""``pretrain-archive run lineage`` and ``run attempts``: a run's tries, for catalogues and for people."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pretrain_archive.commands.output import Json, answer, plain, table
from pretrain_archive.commands.run import RunName, find_run

if TYPE_CHECKING:
    from pretrain_archive.package.tries import AirflowTry

History = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Airflow's answer to GET …/taskInstances/{task}/tries, or a list of several; - reads it."
    ),
]  # fmt: skip


def lineage(
    run: RunName,
    form: Annotated[
        Literal["openlineage"], typer.Option("--format", help="One OpenLineage event a line.")
    ] = "openlineage",
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write there; the file must not exist.")
    ] = None,
    history: History = None,
    as_json: Json = False,
) -> None:
    """Export what each try of each task read and made; the same records give the same events."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.package.openlineage import lineage_lines  # noqa: PLC0415

    view = find_run(services.open_ledger(create=False), run)
    text = lineage_lines(view, history=_read(history) or ()).decode("utf-8")
    events = [json.loads(line) for line in text.split("\n")[:-1]]
    if output is not None:
        with output.open("x", encoding="utf-8") as handle:
            handle.write(text)
        count = len(events)
        document = {"run_uid": view.run_uid, "format": form, "events": count, "file": str(output)}
        answer(document, [f"{count} events in {plain(str(output))}"], as_json=as_json)
    answer(
        {"run_uid": view.run_uid, "format": form, "events": events}, text.split("\n")[:-1], as_json=as_json
    )


def attempts(run: RunName, history: History = None, as_json: Json = False) -> None:
    """Attempts and task tries as recorded here, joined with Airflow's own list where it is given."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.package.tries import attempts_of, tries_of  # noqa: PLC0415

    view = find_run(services.open_ledger(create=False), run)
    listed = _read(history)
    rows, tries = attempts_of(view, listed), tries_of(view, listed)
    document = {
        "run_uid": view.run_uid,
        "attempts": [row.to_dict() for row in rows],
        "tries": [one.to_dict() for one in tries],
    }
    lines = [
        *table(
            [
                [
                    str(r.attempt),
                    plain(r.task_id),
                    str(r.try_number),
                    r.state,
                    r.began or "",
                    plain(r.airflow),
                ]
                for r in rows
            ],
            head=["attempt", "task", "try", "state", "began", "Airflow"],
        ),
        "",
        *table(
            [
                [plain(t.task_id), _place(t.map_index), str(t.try_number), t.ours, plain(t.airflow)]
                for t in tries
            ],
            head=["task", "map index", "try", "recorded here", "Airflow"],
        ),
    ]
    answer(document, lines, as_json=as_json)


def _place(map_index: int) -> str:
    return "" if map_index < 0 else str(map_index)


def _read(history: Path | None) -> list[AirflowTry] | None:
    from pretrain_archive.artifacts.formats.strict_json import loads  # noqa: PLC0415
    from pretrain_archive.domain.errors import ArchiveError, InputError  # noqa: PLC0415
    from pretrain_archive.package.tries import read_history  # noqa: PLC0415

    if history is None:
        return None
    raw = sys.stdin.buffer.read() if str(history) == "-" else history.read_bytes()
    try:
        found: Any = loads(raw, where="the list of tries")
    except ArchiveError as error:
        raise InputError("--history", str(history), error.message.rstrip(".")) from error
    return read_history(found)
