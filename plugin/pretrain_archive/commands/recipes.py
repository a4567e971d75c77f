"""What ``pretrain-archive snapshot`` does with recipes: make one, and make a snapshot again from it."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING

from pretrain_archive.commands.output import FINDING, OK, answer, hashing_progress, plain, verdict_text

if TYPE_CHECKING:
    from pretrain_archive.data.sources import ResolvedSource
    from pretrain_archive.domain.kinds import SnapshotCreated
    from pretrain_archive.storage.port import ObjectStore


def create(  # noqa: PLR0917 - one call
    target: ObjectStore, resolved: ResolvedSource, name: str, policy: Path | None, include: list[str] | None,
    exclude: list[str] | None,
) -> SnapshotCreated:  # fmt: skip
    """Read ``resolved`` and keep its recipe as the next version of ``name``, under the rights of a policy."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.data.recipes import create_recipe  # noqa: PLC0415
    from pretrain_archive.domain.errors import InputError  # noqa: PLC0415
    from pretrain_archive.domain.identity import new_id  # noqa: PLC0415
    from pretrain_archive.domain.policy import parse_policy  # noqa: PLC0415
    from pretrain_archive.domain.records import Actor, Origin  # noqa: PLC0415

    try:
        rights = parse_policy(policy.read_bytes(), name=policy.name).policy.data.recipe if policy else None
    except OSError as error:
        raise InputError("--policy", str(policy), f"cannot be read: {error.strerror}") from error
    if policy is not None and rights is None:
        raise InputError("--policy", policy.name, "says nothing of recipes", hint="Add [data.recipe] to it.")
    with hashing_progress("hashing") as progress:
        return create_recipe(
            target, services.open_ledger(), name=name, tree=resolved.tree, rights=rights, source_uri=resolved.uri,
            include=include or resolved.include, exclude=[*resolved.exclude, *(exclude or ())], progress=progress,
            actor=Actor(type="cli", name=getpass.getuser()),
            origin=Origin(dag_id="cli", dag_run_id=new_id("call"), task_id="snapshot_create"),
        )  # fmt: skip


def rebuild(target: ObjectStore, snapshot: str, to: Path, source: str, *, as_json: bool) -> None:
    """Rebuild and answer; refuses (exit 4) what the policy that was recorded with the recipe forbids."""
    from pretrain_archive.data.layout import parse_snapshot  # noqa: PLC0415
    from pretrain_archive.data.rebuilding import rebuild as make_again  # noqa: PLC0415
    from pretrain_archive.data.recipes import read_recipe, require_rebuild_allowed  # noqa: PLC0415
    from pretrain_archive.data.snapshots import open_version  # noqa: PLC0415
    from pretrain_archive.data.sources import resolve_source  # noqa: PLC0415

    made = open_version(target, *parse_snapshot(snapshot))
    approver = ""
    if made.mode == "recipe":
        recorded = _recorded_at(made)
        approver = require_rebuild_allowed(read_recipe(target, made), recorded_at=recorded)
    with hashing_progress("rebuilding") as progress:
        found = make_again(
            target, made, to, source=resolve_source(source).tree if source else None, progress=progress
        )
    document = found.to_json() | {"approver": approver or None}
    lines = [
        f"{verdict_text(item.verdict.value)}  {plain(item.path)}: expected {plain(item.expected)}, "
        f"found {plain(item.found)}"
        for item in found.items
    ]
    where = f"{found.folder}" if found.folder else f"{found.stage} differs; nothing was written"
    lines.append(f"{verdict_text(document['verdict'])}  {made.name}@{made.version}: {plain(where)}")
    if made.mode == "recipe" and not approver:
        lines.append("no policy is recorded that says who approves a rebuild")
    answer(document, lines, as_json=as_json, code=OK if document["verdict"] == "verified" else FINDING)


def _recorded_at(snapshot: SnapshotCreated) -> str | None:
    """When the ledger first recorded this very recipe under this name and version, None if it did not."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.ledger.factory import NoLedgerError  # noqa: PLC0415

    try:
        ledger = services.open_ledger(create=False)
    except NoLedgerError:
        return None
    for record in ledger.records(kinds=["snapshot.created"]):
        told = record.payload
        if (told["name"], told["version"], told.get("recipe_digest")) == (
            snapshot.name, snapshot.version, snapshot.recipe_digest,
        ):  # fmt: skip
            return record.recorded_at
    return None
