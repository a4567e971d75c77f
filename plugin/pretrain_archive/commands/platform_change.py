"""``pretrain-archive platform change``: propose, verify, widen, accept, roll back, list, show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pretrain_archive.commands.output import Json, answer, command, plain, table

if TYPE_CHECKING:
    from pretrain_archive.domain.records import Record

app = typer.Typer(
    help="Changes of scheduling policy, image, framework, driver, storage, network or platform."
)

ChangeName = Annotated[str, typer.Argument(metavar="CHANGE", help="The change's id, or the end of one.")]
Person = Annotated[str, typer.Option(help="Who says so; default: the user of this machine.")]
Component = Literal["scheduling_policy", "image", "framework", "driver", "storage", "network", "platform"]


@command(app)
def propose(  # noqa: PLR0917 (options of a command line, each given by name)
    component: Annotated[Component, typer.Option(help="What is changed.")],
    before: Annotated[str, typer.Option(help="The value now, as workers observe it.")],
    after: Annotated[str, typer.Option(help="The value afterwards.")],
    reason: Annotated[str, typer.Option(help="Why.")],
    regression: Annotated[
        str,
        typer.Option(metavar="drill:FAULT|run:UID", help="What has to come through on the new value first."),
    ],
    stage: Annotated[
        list[float],
        typer.Option(help="A share of the platform, rising, the last one 1; given for each stage."),
    ],
    where: Annotated[
        str,
        typer.Option(
            metavar="PATH", help="Where the value is observed: packages.torch, policy.… and the like."
        ),
    ] = "",
    key: Annotated[
        bool, typer.Option("--key", help="A key upgrade: says how it is taken back, and its limits.")
    ] = False,
    project: Annotated[list[str] | None, typer.Option(help="A project on which it is tried first.")] = None,
    node: Annotated[list[str] | None, typer.Option(help="A node on which it is tried first.")] = None,
    rollback: Annotated[str, typer.Option(help="How it is taken back.")] = "",
    limit: Annotated[list[str] | None, typer.Option(help="What it cannot do, or was not tried on.")] = None,
    recent_days: Annotated[
        float, typer.Option(min=0, help="Closed runs so many days back are looked at too; open ones always.")
    ] = 30,
    person: Person = "",
    as_json: Json = False,
) -> None:
    """Propose a change; the runs that it touches are looked up in the ledger."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.platform_changing import Proposal  # noqa: PLC0415
    from pretrain_archive.services.platform_changing import propose as record_proposal  # noqa: PLC0415
    from pretrain_archive.services.platform_said import speaker  # noqa: PLC0415
    from pretrain_archive.services.wiring import policy  # noqa: PLC0415

    told = Proposal(
        component=component, before=before, after=after, reason=reason, regression=regression, where=where, key=key,
        stages=tuple(stage), projects=tuple(project or ()), nodes=tuple(node or ()), rollback=rollback,
        limits=tuple(limit or ()), recent_days=recent_days,
    )  # fmt: skip
    record = record_proposal(services.open_ledger(create=False), policy, told, speaker(person))
    _tell(record, as_json=as_json)


@command(app)
def verify(
    change: ChangeName,
    run: Annotated[
        str, typer.Option(metavar="RUN", help="The run or drill that came through on the new value.")
    ],
    person: Person = "",
    as_json: Json = False,
) -> None:
    """Record that the scenario came through; the ledger is asked whether it did."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.commands.run import find_run  # noqa: PLC0415
    from pretrain_archive.services.platform_changing import change_of  # noqa: PLC0415
    from pretrain_archive.services.platform_changing import verify as record_check  # noqa: PLC0415
    from pretrain_archive.services.platform_said import speaker  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    _tell(
        record_check(ledger, change_of(ledger, change), find_run(ledger, run), speaker(person)),
        as_json=as_json,
    )


@command(app)
def widen(
    change: ChangeName,
    share: Annotated[float, typer.Option(help="The next stage's share of the platform.")],
    despite: Annotated[
        str, typer.Option(help="Why to go on although attempts broke off on the new value.")
    ] = "",
    person: Person = "",
    as_json: Json = False,
) -> None:
    """Record that a change reaches its next stage; no stage comes before the verification."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.platform_changing import change_of  # noqa: PLC0415
    from pretrain_archive.services.platform_changing import widen as record_stage  # noqa: PLC0415
    from pretrain_archive.services.platform_said import speaker  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    record = record_stage(ledger, change_of(ledger, change), speaker(person), share=share, despite=despite)
    _tell(record, as_json=as_json)


@command(app)
def accept(
    change: ChangeName,
    project: Annotated[str, typer.Option(help="The project whose tasks are meant.")],
    run: Annotated[
        str, typer.Option(metavar="RUN", help="A run of the project that came through on the new value.")
    ],
    person: Person = "",
    as_json: Json = False,
) -> None:
    """Accept a change for a project's tasks; only their owner does, on a run of theirs."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.commands.run import find_run  # noqa: PLC0415
    from pretrain_archive.services.platform_changing import accept as record_acceptance  # noqa: PLC0415
    from pretrain_archive.services.platform_changing import change_of  # noqa: PLC0415
    from pretrain_archive.services.platform_said import speaker  # noqa: PLC0415
    from pretrain_archive.services.wiring import policy  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    record = record_acceptance(
        ledger, policy, change_of(ledger, change), find_run(ledger, run), speaker(person), project=project
    )
    _tell(record, as_json=as_json)


@command(app, "roll-back")
def roll_back(
    change: ChangeName,
    reason: Annotated[str, typer.Option(help="Why.")],
    way: Annotated[str, typer.Option(help="How, if not as the proposal says.")] = "",
    person: Person = "",
    as_json: Json = False,
) -> None:
    """Record that a change was taken back."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.platform_changing import change_of  # noqa: PLC0415
    from pretrain_archive.services.platform_changing import roll_back as record_return  # noqa: PLC0415
    from pretrain_archive.services.platform_said import speaker  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    record = record_return(ledger, change_of(ledger, change), speaker(person), reason=reason, way=way)
    _tell(record, as_json=as_json)


@command(app, "list")
def list_changes(as_json: Json = False) -> None:
    """List changes, oldest first."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.platform_changing import change_document, changes  # noqa: PLC0415

    found = [change_document(change) for change in changes(services.open_ledger(create=False))]
    rows = [
        [one["change_id"], one["state"], plain(one["proposed"]["component"]), plain(one["proposed"]["before"]),
         plain(one["proposed"]["after"]), plain(", ".join(one["not_accepted"]) or "-")]
        for one in found
    ]  # fmt: skip
    head = ["change", "state", "what", "before", "after", "not accepted by"]
    answer({"changes": found}, table(rows, head=head) if rows else ["no changes"], as_json=as_json)


@command(app)
def show(change: ChangeName, as_json: Json = False) -> None:
    """One change: whom it touches, what was verified, how far it is, and apart from that who accepted it."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.platform_changing import change_document, change_of  # noqa: PLC0415

    document = change_document(change_of(services.open_ledger(create=False), change))
    answer(document, _lines(document), as_json=as_json)


def _lines(document: dict[str, Any]) -> list[str]:
    told, next_share = document["proposed"], document["next_share"]
    lines = [
        f"{document['change_id']}  {document['state']}",
        f"{told['component']} at {plain(told['where'])}: {plain(told['before'])} -> {plain(told['after'])}",
        f"by {plain(told['person'])}: {plain(told['reason'])}",
        f"touched: {len(told['affected'])} of {told['looked_at']} runs; unrecorded: {len(told['unrecorded_runs'])}",
        f"scenario: {told['regression']['kind']} {plain(told['regression']['name'])}",
        f"next stage: {'none' if next_share is None else f'{next_share:g}'}",
        f"way back: {plain(told['rollback'] or 'unrecorded')}",
        *(f"known limit: {plain(text)}" for text in told["known_limits"]),
    ]
    for one in told["support"]:
        told_as = one["told"]["en"] if "told" in one else "who supports it is unrecorded"
        lines.append(
            f"{'!' if one['state'] != 'valid' else ' '} project {plain(one['project'])}: {plain(told_as)}"
        )
    if document["verified"]:
        lines.append(
            f"verified by {document['verified']['run_uid']}: {plain('; '.join(document['verified']['found']))}"
        )
    lines += [f"stage {w['share']:g} by {plain(w['person'])}" for w in document["widened"]]
    lines += [f"accepted for {plain(a['project'])} by {plain(a['person'])}" for a in document["accepted"]]
    lines += [f"NOT accepted for {plain(project)}" for project in document["not_accepted"]]
    if document["rolled_back"]:
        lines.append(
            f"rolled back by {plain(document['rolled_back']['person'])}: {plain(document['rolled_back']['reason'])}"
        )
    return lines


def _tell(record: Record, *, as_json: bool) -> None:
    """A statement that was recorded."""
    payload = dict(record.payload)
    line = f"{record.record_id}  {record.kind} of {payload['change_id']} by {plain(payload['person'])}"
    more = []
    if record.kind == "platform.proposed":
        count = len(payload["affected"])
        more.append(
            f"touched: {count} of {payload['looked_at']} runs; unrecorded: {len(payload['unrecorded_runs'])}"
        )
    answer({"record_id": record.record_id, "kind": record.kind, **payload}, [line, *more], as_json=as_json)
