"""``pretrain-archive run resubmit``: ask again for what a run that cannot go on was asked for."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from pretrain_archive.commands.output import Json, answer, plain, table
from pretrain_archive.commands.run import RunName, find_run


def resubmit(
    run: RunName,
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=JSON", help="Another value in the new form.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the trigger form of a new run in place of one that cannot go on, and what may be removed of the old.

    Nothing is triggered and nothing is deleted. The new run names the old one as what it is derived from.
    """
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.resubmitting import resubmission_of  # noqa: PLC0415
    from pretrain_archive.services.wiring import runs_folder  # noqa: PLC0415

    view = find_run(services.open_ledger(create=False), run)
    made = resubmission_of(view, runs_folder(), _changes(change or []))
    document = {**made.to_dict(), "dag_id": view.opened.dag_id if view.opened else ""}
    lines = [
        f"trigger {plain(document['dag_id'])} with:",
        json.dumps(made.conf, ensure_ascii=False, indent=1),
        "",
    ]
    if made.resume_step is not None:
        lines.append(
            f"a verified checkpoint of step {made.resume_step} is there: a resume would go on from it"
        )
    rows = [[word, plain(i["what"]), plain(i["path"]), plain(i["reason"])]
            for word, items in (("may go", made.removable), ("stays", made.kept)) for i in items]  # fmt: skip
    answer(document, [*lines, *table(rows)], as_json=as_json)


def _changes(words: list[str]) -> dict[str, object]:
    """``FIELD=JSON`` words; text that is no JSON is taken as text."""
    from pretrain_archive.domain.errors import InputError  # noqa: PLC0415

    changes: dict[str, object] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise InputError("--set", word, "is not FIELD=VALUE")
        try:
            changes[name] = json.loads(value)
        except ValueError:
            changes[name] = value
    return changes
