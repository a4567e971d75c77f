"""``pretrain-archive run change``: record what a person changed by hand while a run was open."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from pretrain_archive.commands.output import Json, answer, plain
from pretrain_archive.commands.run import RunName, find_run

What = Literal["quota", "priority", "configuration", "patch", "node", "network", "storage", "other"]


def change(
    run: RunName,
    *,
    what: Annotated[What, typer.Option(help="What was changed.")],
    scope: Annotated[str, typer.Option(help="Which queue, node, file or setting it concerns.")],
    reason: Annotated[str, typer.Option(help="Why, for a reader in a year.")],
    before: Annotated[str, typer.Option(help="The value before, where known.")] = "",
    after: Annotated[str, typer.Option(help="The value after, where known.")] = "",
    attempt: Annotated[
        int | None, typer.Option(help="The attempt that it concerns; default: the run.")
    ] = None,
    person: Annotated[str, typer.Option(help="Who changed it; default: the user of this machine.")] = "",
    as_note: Annotated[
        bool, typer.Option("--as-note", help="Add it to a closed run as a later note.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Record a manual change of an open run: quota, priority, configuration, patch and the like."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.domain.identity import new_id  # noqa: PLC0415
    from pretrain_archive.domain.records import Origin  # noqa: PLC0415
    from pretrain_archive.services.caller import local_identity  # noqa: PLC0415
    from pretrain_archive.services.changing import Change, record_change  # noqa: PLC0415

    ledger, here = services.open_ledger(create=False), local_identity()
    said = (
        f"stated with --person by the user {here} of the machine" if person else f"user {here} of the machine"
    )
    told = Change(
        what=what, scope=scope, reason=reason, before=before, after=after, attempt=attempt,
        person=person or here.partition("@")[0], via="command_line", authentication=said,
    )  # fmt: skip
    origin = Origin(dag_id="cli", dag_run_id=new_id("call"), task_id="run_change")
    record = record_change(ledger, find_run(ledger, run), told, origin=origin, as_note=as_note)
    document = {
        "run_uid": record.stream,
        "record_id": record.record_id,
        "kind": record.kind,
        **record.payload,
    }
    by = record.actor.name
    line = f"{record.record_id}  {record.kind} of run {record.stream}: {plain(what)}, {plain(scope)}, by {plain(by)}"
    answer(document, [line], as_json=as_json)
