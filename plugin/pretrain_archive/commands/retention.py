"""``pretrain-archive retention``: what policy lets go, and letting it go."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pretrain_archive.commands.output import FINDING, OK, Json, answer, command, plain, size_text, table

if TYPE_CHECKING:
    from pretrain_archive.domain.kinds import RetentionPlanned
    from pretrain_archive.domain.records import Actor, Origin
    from pretrain_archive.ledger.port import Ledger
    from pretrain_archive.services.cleanup import Room

app = typer.Typer(help="What policy lets go, and letting it go.")


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
    """Work out what may be deleted now and what stays, and record it as a plan; nothing is deleted."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.retention.service import plan  # noqa: PLC0415

    actor, origin = _caller("retention_plan")
    room = _room()
    planned = plan(services.open_ledger(), room.policies, actor=actor, origin=origin, places=room.places)
    document = {"plan": planned.plan_digest, **planned.to_json()}
    rows = [
        [str(item["action"]), plain(item["id"]), size_text(int(item["bytes"])), plain(item["reason"])]
        for item in planned.items
    ]
    lines = table(rows)
    need = "needs a person's approval" if planned.needs_approval else "within the policy's limit"
    lines.append(f"{size_text(planned.total_bytes)} to delete, {need}")
    lines.append(f"plan {planned.plan_digest}")
    answer(document, lines, as_json=as_json)


@command(app)
def apply(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="Digest of a recorded plan, or its beginning.")],
    as_json: Json = False,
) -> None:
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
    done = service.apply(ledger, planned, approval, policies, actor=actor, origin=origin, places=room.places)
    document: dict[str, Any] = {**done.to_dict(), "total_bytes": done.bytes_released}
    lines = table(
        [[r.outcome, plain(r.id), size_text(r.bytes_released), plain(r.reason)] for r in done.results]
    )
    lines.append(
        f"{size_text(done.bytes_released)} released, {'complete' if done.complete else 'not complete'}"
    )
    answer(document, lines, as_json=as_json, code=OK if done.complete else FINDING)


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
