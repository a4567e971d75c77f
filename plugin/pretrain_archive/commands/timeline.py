"""``pretrain-archive run timeline`` and ``run diagnose``: what happened, and where to look first."""

from __future__ import annotations

from typing import Annotated

import typer

from pretrain_archive.commands.output import FINDING, OK, Json, answer, plain
from pretrain_archive.commands.run import RunName, find_run

MARKS = {"plain": " ", "good": "+", "bad": "!"}


def timeline(
    run: RunName,
    lane: Annotated[
        list[str] | None, typer.Option(help="Only this lane, such as waits or nodes; may be given often.")
    ] = None,
    as_json: Json = False,
) -> None:
    """What members, nodes, storage, network, checkpoints and persons did, in one order."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.timelines import timeline_of  # noqa: PLC0415

    view = find_run(services.open_ledger(create=False), run)
    entries = timeline_of(view, lane or [])
    lines = [
        f"{e.at}  {MARKS[e.tone]} {e.lane:<11} {f'#{e.attempt}' if e.attempt else '':<4} {plain(e.what)}"
        + (f" (until {e.until})" if e.until else "")
        for e in entries
    ]
    document = {"run_uid": view.run_uid, "entries": [entry.to_dict() for entry in entries]}
    answer(document, lines or ["nothing is recorded in these lanes"], as_json=as_json)


def diagnose(run: RunName, as_json: Json = False) -> None:
    """Does the task live, are its resources used, do its metrics move; and hints from joined signals."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.timelines import diagnosis_of  # noqa: PLC0415

    document = diagnosis_of(find_run(services.open_ledger(create=False), run))
    answers = {True: "yes", False: "NO", None: "unrecorded"}
    lines = [
        f"{look['question']}: {answers[look['holds']]}{': ' if look['found'] else ''}{plain(look['found'])}"
        for look in document["inspection"]
    ]
    for hint in document["hints"]:
        lines += [f"- {plain(hint['text'])}", *(f"    evidence {record}" for record in hint["records"][:5])]
    lines += [
        f"{'!' if one['state'] != 'valid' else ' '} {plain(one['told']['en'])}" for one in document["support"]
    ]
    if not document["hints"]:
        lines.append("no hint: nothing that was recorded stands out")
    wrong = bool(document["hints"]) or any(look["holds"] is False for look in document["inspection"])
    answer(document, lines, as_json=as_json, code=FINDING if wrong else OK)
