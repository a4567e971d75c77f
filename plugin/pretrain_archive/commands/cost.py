"""``pretrain-archive cost``: where device time, storage and money went."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from pretrain_archive.commands.output import FINDING, OK, Json, answer, command, plain, size_text, table
from pretrain_archive.commands.run import RunName, find_run

app = typer.Typer(help="Where device time, storage and money went.")

By = Literal["project", "team", "person", "budget", "priority", "training_type", "month"]


@command(app)
def show(run: RunName, as_json: Json = False) -> None:
    """The account of one run: every device-second in one bin, per attempt, with its causes."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.domain.advice import advise  # noqa: PLC0415
    from pretrain_archive.domain.cost import account, document  # noqa: PLC0415
    from pretrain_archive.domain.identity import utc_now  # noqa: PLC0415
    from pretrain_archive.services import costing  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    view = find_run(ledger, run)
    found = account(view, as_of=utc_now())
    others = costing.history(ledger, view)
    advice = advise(view, found, [others])
    data: dict[str, Any] = {**document(found), "advice": advice.to_dict()}
    answer(data, _account_lines(data), as_json=as_json)


def _account_lines(data: dict[str, Any]) -> list[str]:
    lines = [f"{data['run_uid']}  {data['scope']}"]
    lines += [f"  {k}: {plain(v or 'unrecorded')}" for k, v in data["attribution"].items()]
    for held in data["devices"]:
        rows = [
            [name, f"{s:.3f}", _share(s, held["allocated_seconds"])] for name, s in held["bins"].items() if s
        ]
        lines += ["", f"{held['device']}-seconds: {held['allocated_seconds']:.3f}", *table(rows)]
        if held["unevidenced_seconds"]:
            lines.append(f"idle_hold for lack of evidence: {held['unevidenced_seconds']:.3f}")
    lines += ["", f"queued: {data['queue_seconds']:.3f} s"]
    lines += [f"  {reason}: {seconds:.3f} s" for reason, seconds in data["waits"].items()]
    for one in data["attempts"]:
        lines.append(
            f"attempt {one['attempt']}: {one['state'] or 'open'}, {one['devices']} {one['device']}, "
            f"{one['allocated_seconds']:.3f} device-seconds"
        )
        lines += [f"  {name}: {seconds:.3f}" for name, seconds in one["details"].items()]
        lines += [f"  note: {note}" for note in one["notes"]]
    lines += [
        f"{c['bin']} {c['device_seconds']:.3f} s in attempt {c['attempt']}: {c['record']}"
        for c in data["causes"]
    ]
    lines += [f"note: {note}" for note in data["notes"]]
    kept = data["storage"]
    lines.append(
        f"stored: {(kept['checkpoint_byte_days'] + kept['snapshot_byte_days']) / 1e9:.6f} gigabyte-days; "
        f"sent by the program: {_size(kept['sent_bytes'])}"
    )
    lines.append(
        f"network of the nodes meanwhile: {_size(kept['node_sent_bytes'])} sent, "
        f"{_size(kept['node_received_bytes'])} received"
    )
    money = data["money"]
    lines.append(
        f"money: {money['known']} {plain(money['currency'])}" if money else "money: the policy names no price"
    )
    lines += ["", *data["advice"]["text"]]
    return lines


def _size(value: int | None) -> str:
    return "unrecorded" if value is None else size_text(value)


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:5.1f} %" if whole else ""


@command(app)
def report(
    by: Annotated[By, typer.Option(help="What runs are put together by; month shows trends.")] = "project",
    since: Annotated[str, typer.Option(help="Only runs opened from this day or moment on.")] = "",
    until: Annotated[str, typer.Option(help="Only runs opened before this day or moment.")] = "",
    project: Annotated[str, typer.Option(help="Only runs of this project.")] = "",
    as_json: Json = False,
) -> None:
    """All runs put together: bins, shares, queue time, success and failure."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services import costing  # noqa: PLC0415

    first, last = costing.period(since, until)
    ledger = services.open_ledger(create=False)
    data = costing.report(ledger, by, project=project, since=first, until=last).to_dict()
    rows = [
        row for group in [*data["groups"], {"group": "all", **data["total"]}] for row in _group_rows(group)
    ]
    head = [
        by,
        "runs",
        "ok",
        "failed",
        "queued s",
        "device",
        "device-s",
        "share",
        "productive",
        "lost+again",
        "idle",
    ]
    lines = table(rows, head=head) if data["groups"] else ["no runs"]
    answer({**data, "since": first, "until": last}, lines, as_json=as_json)


def _group_rows(group: dict[str, Any]) -> list[list[str]]:
    start = [
        plain(group["group"]), str(group["runs"]), str(group["succeeded"]), str(group["failed"]),
        f"{group['queue_seconds']:.1f}",
    ]  # fmt: skip
    rows = []
    for held in group["devices"] or [None]:
        if held is None:
            rows.append([*start, "", "", "", "", "", ""])
            continue
        bins, whole = held["bins"], held["allocated_seconds"]
        parts = (bins["productive"], bins["lost"] + bins["recomputed"], bins["idle_hold"])
        share = "" if held["share"] is None else f"{100 * held['share']:.1f} %"
        rows.append([*start, held["device"], f"{whole:.1f}", share, *(_share(part, whole) for part in parts)])
    return rows


@command(app)
def idle(
    project: Annotated[str, typer.Option(help="Only runs of this project.")] = "",
    retain_days: Annotated[
        float, typer.Option(min=0, help="Checkpoints of an unclosed run may lie so many days.")
    ] = 14.0,
    silent_minutes: Annotated[
        float | None,
        typer.Option(min=0, help="Without a step for so long is idle (default: the run's own limit)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """What could be given back: finished, failed, idle and long retained, with evidence and whom to ask."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services import costing  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    found = [
        candidate.to_dict()
        for candidate in costing.idle(
            ledger, project=project, retain_days=retain_days, silent_minutes=silent_minutes
        )
    ]
    lines = [
        f"{c['idle_class']}  {c['run_uid']}"
        + (f" attempt {c['attempt']}" if c["attempt"] else "")
        + f"  since {c['since']}  {c['devices']} devices, {size_text(c['bytes'])}: {plain(c['evidence'])}; "
        + f"ask {plain(c['ask'] or 'nobody is recorded')}"
        + (f"; but {plain(c['exception'])}" if c["exception"] else "")
        for c in found
    ]
    answer(
        {"candidates": found}, lines or ["nothing is idle"], as_json=as_json, code=FINDING if found else OK
    )
