"""``pretrain-archive retention``: what policy lets go, letting it go, and what people say against it."""

from __future__ import annotations

import getpass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pretrain_archive.commands.output import FINDING, OK, Json, answer, command, plain, size_text, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pretrain_archive.domain.kinds import RetentionPlanned
    from pretrain_archive.domain.records import Actor, Origin
    from pretrain_archive.ledger.port import Ledger
    from pretrain_archive.services.cleanup import Room

app = typer.Typer(help="What policy lets go, and letting it go.")
MOST_SHOWN = 2000
PlanName = Annotated[str, typer.Argument(metavar="PLAN", help="Digest of a recorded plan, or its beginning.")]
Reason = Annotated[str, typer.Option("--reason", help="Why. It is recorded.")]
Person = Annotated[
    str, typer.Option("--by", help="Who says this; without it, the user of this machine's account.")
]


def _room() -> Room:
    from pretrain_archive.services.wiring import cleanup_room  # noqa: PLC0415

    return cleanup_room()


def _caller(command: str) -> tuple[Actor, Origin]:
    from pretrain_archive.domain.identity import new_id  # noqa: PLC0415
    from pretrain_archive.domain.records import Actor, Origin  # noqa: PLC0415

    call = Origin(dag_id="cli", dag_run_id=new_id("call"), task_id=command)
    return Actor(type="cli", name=getpass.getuser()), call


@command(app, "plan")
def make(as_json: Json = False) -> None:
    """Work out what may be deleted now and what stays, and record it as a plan; nothing is deleted.

    A plan too long for one answer shows its first deletions; 'retention show' reads all of it.
    """
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.retention.service import plan  # noqa: PLC0415

    actor, origin = _caller("retention_plan")
    room = _room()
    planned = plan(
        services.open_ledger(), room.policies, actor=actor, origin=origin, places=room.places, store=room.store,
        sources=room.finders,
    )  # fmt: skip
    _show(planned, room, action=None, limit=MOST_SHOWN, as_json=as_json)


@command(app)
def show(
    plan: PlanName,
    action: Annotated[
        str | None, typer.Option("--action", help="Only these items: delete, delete_parts, keep or blocked.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many items.")] = MOST_SHOWN,
    as_json: Json = False,
) -> None:
    """Read a recorded plan: its items with their reasons, its cost, and what could no longer be verified after it."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.domain.errors import InputError  # noqa: PLC0415

    if action not in {None, "delete", "delete_parts", "keep", "blocked"}:
        raise InputError(
            "--action", action, "is no action", hint="Use delete, delete_parts, keep or blocked."
        )
    _show(
        _find(services.open_ledger(create=False), plan), _room(), action=action, limit=limit, as_json=as_json
    )


def _show(planned: RetentionPlanned, room: Room, *, action: str | None, limit: int, as_json: bool) -> None:
    from pretrain_archive.retention.service import items_of  # noqa: PLC0415

    going = action in {"delete", "delete_parts"} or (action is None and planned.items_digest is not None)
    found: Iterator[Mapping[str, Any]] = items_of(planned, room.store, going=going)
    items = list(islice((i for i in found if action is None or i["action"] == action), limit))
    document = {"plan": planned.plan_digest, **planned.to_json(), "items": items}
    rows = [
        [str(item["action"]), plain(item["id"]), size_text(int(item["bytes"])), plain(item["reason"])]
        for item in items
    ]
    lines = table(rows) + _said(planned)
    lines.append(f"plan {planned.plan_digest}")
    answer(document, lines, as_json=as_json)


def _said(planned: RetentionPlanned) -> list[str]:
    """What the plan says in numbers, by project."""
    lines = []
    for name, said in (planned.summary or {}).get("projects", {}).items():
        cost = said["cost_per_month"]
        price = "cost unrecorded" if cost is None else f"{said['currency']} {cost:,.2f} a month"
        counts = ", ".join(f"{count} {action}" for action, count in said["actions"].items())
        lines.append(f"{plain(name) or '(no project)'}: {counts}; {size_text(said['bytes'])}, {price}")
        if said["falls"]:
            falls = ", ".join(f"{count} {kind}" for kind, count in said["falls"].items())
            lines.append(f"  would fall from verified to unrecorded: {falls}")
        lines += [f"  blocked: {plain(e['id'])}: {plain(e['reason'])}" for e in said["blocked"][:5]]
        if (lost := said.get("ownerless")) is not None:
            lines.append(f"  nobody answers for {lost['count']} checkpoints ({size_text(lost['bytes'])})")
    need = "needs a person's approval" if planned.needs_approval else "within the policy's limit"
    return [*lines, f"{size_text(planned.total_bytes)} to delete, {need}"]


@command(app)
def apply(plan: PlanName, as_json: Json = False) -> None:
    """Delete what an approved plan names and still may go; prove absence, leave a tombstone each.

    A plan within the policy's limit needs no person. Above it an entitled person approves in Airflow first.
    """
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.retention import service  # noqa: PLC0415

    room, ledger, (actor, origin) = _room(), services.open_ledger(), _caller("retention_apply")
    policies = room.policies
    planned = _find(ledger, plan)
    approval = service.find_approval(ledger, planned.plan_digest)
    if approval is None or not approval.person:
        # Nobody is authenticated here, so only the policy itself can allow it (again, if its word expired); above
        # its limit this refuses.
        reason = "within the limit that the policy sets"
        approval = service.approve(
            ledger, planned, policies, person=None, reason=reason, actor=actor, origin=origin
        )
    done = service.apply(
        ledger, planned, approval, policies, actor=actor, origin=origin, places=room.places, store=room.store,
        finders=room.finders,
    )  # fmt: skip
    document: dict[str, Any] = {**done.to_dict(), "total_bytes": done.bytes_released}
    lines = table(
        [[r.outcome, plain(r.id), size_text(r.bytes_released), plain(r.reason)] for r in done.results]
    )
    lines.append(
        f"{size_text(done.bytes_released)} released, {'complete' if done.complete else 'not complete'}"
    )
    answer(document, lines, as_json=as_json, code=OK if done.complete else FINDING)


@command(app)
def hold(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[TARGET]", help="checkpoint:ID, snapshot:NAME@VERSION, run:UID or project:NAME."
        ),
    ] = None,
    reason: Reason = "",
    by: Person = "",
    release: Annotated[str | None, typer.Option("--release", metavar="HOLD", help="Lift this hold.")] = None,
    as_json: Json = False,
) -> None:
    """Forbid the deletion of something, or lift a hold; without a target, list the holds that stand."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.domain.errors import InputError  # noqa: PLC0415
    from pretrain_archive.retention import holding  # noqa: PLC0415

    if target is not None and release is not None:
        raise InputError("TARGET", target, "is not named when a hold is lifted", hint="Give --release alone.")
    ledger, (actor, origin) = services.open_ledger(), _caller("retention_hold")
    who = {"person": by or getpass.getuser(), "reason": reason, "actor": actor, "origin": origin}
    if release is not None:
        lifted = holding.release_hold(ledger, _room().policies, release, **who)  # type: ignore[arg-type]
        answer(lifted.to_json(), [f"released {lifted.hold_id}"], as_json=as_json)
    if target is not None:
        placed = holding.place_hold(ledger, _room().policies, target, **who)  # type: ignore[arg-type]
        answer(placed.to_json(), [f"{placed.hold_id} holds {plain(target)}"], as_json=as_json)
    found = holding.holds(ledger)
    rows = [[h.hold_id, plain(h.target), plain(h.placed_by), plain(h.reason)] for h in found]
    answer({"holds": [h.to_json() for h in found]}, table(rows), as_json=as_json)


@command(app)
def classify(  # noqa: PLR0917 (options of a command line, each given by name)
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help="Id of a registered checkpoint.")],
    artifact_class: Annotated[
        str | None, typer.Option("--class", help="recovery, evaluation or candidate.")
    ] = None,
    purpose: Annotated[str | None, typer.Option("--purpose", help="What it is kept for.")] = None,
    reason: Reason = "",
    by: Person = "",
    as_json: Json = False,
) -> None:
    """Give a registered checkpoint another class or purpose; plans go by the newest."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.retention.holding import classify as record  # noqa: PLC0415

    actor, origin = _caller("retention_classify")
    fact = record(
        services.open_ledger(), checkpoint, artifact_class=_class(artifact_class), purpose=purpose,
        person=by or getpass.getuser(), reason=reason, actor=actor, origin=origin,
    )  # fmt: skip
    text = (
        f"{fact.checkpoint_id}: {fact.previous_class} → {fact.artifact_class}, purpose {plain(fact.purpose)}"
    )
    answer(fact.to_json(), [text], as_json=as_json)


def _class(name: str | None) -> Literal["recovery", "evaluation", "candidate"] | None:
    from pretrain_archive.domain.errors import InputError  # noqa: PLC0415

    match name:
        case None | "recovery" | "evaluation" | "candidate":
            return name
    raise InputError("--class", name, "is no class", hint="Use recovery, evaluation or candidate.")


def _find(ledger: Ledger, name: str) -> RetentionPlanned:
    from pretrain_archive.domain.errors import InputError  # noqa: PLC0415
    from pretrain_archive.domain.kinds import RetentionPlanned, read_payload  # noqa: PLC0415
    from pretrain_archive.retention.service import PLANNED, STREAM  # noqa: PLC0415

    found: dict[str, RetentionPlanned] = {}
    for record in ledger.records(streams=[STREAM], kinds=[PLANNED]):
        digest = str(record.payload["plan_digest"])
        if len(name) >= 8 and (digest.startswith(name) or digest.removeprefix("sha256:").startswith(name)):
            found[digest] = read_payload(record, RetentionPlanned)
    if len(found) != 1:
        problem = "names several plans" if found else "is not a recorded plan"
        raise InputError("PLAN", name, problem, hint="Make one with: pretrain-archive retention plan")
    return next(iter(found.values()))
