"""A large source as a snapshot in parts: plan, hash each part on any worker, merge; and drop what is left over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pretrain_archive.data.leftovers import drop, left_over
from pretrain_archive.data.parts import Done, hash_part, merge_parts
from pretrain_archive.data.places import refuse_own_places
from pretrain_archive.data.planning import Plan, make_plan, open_plan
from pretrain_archive.data.snapshots import check_wish, name_version
from pretrain_archive.data.sources import ResolvedSource, resolve_source, source_id
from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.domain.kinds import SnapshotCreated, SourceRegistered, SplitCreated, TemporaryRemoved
from pretrain_archive.domain.records import Draft
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.processing import make_split, steps_of
from pretrain_archive.services.progress import every
from pretrain_archive.services.runs import policy_of, request_of, run_of
from pretrain_archive.services.wiring import own_places
from pretrain_archive.storage.port import ObjectStore

CHECK = "every byte read and hashed with SHA-256, in {parts} parts"
TEMPORARY = "temporary.removed"
KEEP_DAYS = 7
"""A plan that was not merged may be gone on with for so many days."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """A snapshot that is wanted: of which source, how, and in whose stream it is recorded."""

    name: str
    source: str
    mode: str
    stream: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


def wanted_by_run(ledger: Ledger, caller: Caller, run_uid: str) -> Wanted:
    """What an open run asks for; its source must be registered."""
    view = run_of(ledger, caller, run_uid)
    request, policy = request_of(view), policy_of(view)
    if view.latest(SourceRegistered) is None:
        raise RefusedError(
            f"run {run_uid} has no registered source", hint="Run the task 'register_source' first."
        )
    return Wanted(
        name=request.source_name, source=request.source, mode=policy.data.snapshot_mode, stream=run_uid,
        include=tuple(request.include), exclude=tuple(request.exclude),
    )  # fmt: skip


def wanted_by_form(values: Mapping[str, Any]) -> Wanted:
    """What a form asks for: ``name``, ``source``, ``mode``, ``include``, ``exclude``; ``InputError`` names a field."""
    for field in ("name", "source", "mode"):
        if not isinstance(values.get(field), str) or not values[field].strip():
            raise InputError(field, str(values.get(field, "")), "is missing")
    name = str(values["name"]).strip()
    return Wanted(
        name=name, source=str(values["source"]).strip(), mode=str(values["mode"]), stream=f"data/{name}",
        include=tuple(values.get("include") or ()), exclude=tuple(values.get("exclude") or ()),
    )  # fmt: skip


def plan_parts(ledger: Ledger, store: ObjectStore, caller: Caller, wanted: Wanted, *, parts: int) -> Plan:
    """List the source once and cut the listing into parts, kept in the store; nothing is hashed yet."""
    check_wish(wanted.name, wanted.mode)
    resolved = resolve_source(wanted.source)
    refuse_own_places(resolved.tree, own_places(), store)
    wish = {
        "name": wanted.name, "mode": wanted.mode, "source": wanted.source, "stream": wanted.stream,
        "source_id": _registered(ledger, wanted, resolved), "source_uri": resolved.uri,
        "include": list(wanted.include or resolved.include), "exclude": [*resolved.exclude, *wanted.exclude],
    }  # fmt: skip
    plan = make_plan(store, resolved.tree, wish, stream=wanted.stream, parts=parts)
    caller.say(f"{plan.files:,} files, {plan.size / 1e9:,.1f} GB in {len(plan.parts)} parts: {plan.name}")
    return plan


def make_part(store: ObjectStore, caller: Caller, plan_name: str, number: int) -> Done:
    """Hash one part of a plan; a part that was begun before goes on after its last whole piece."""
    plan = open_plan(store, plan_name)
    tree = resolve_source(plan.wish["source"]).tree
    done = hash_part(store, plan, number, tree, progress=every(caller.say, f"part {number}: hashed"))
    again = f", {done.found} of them from an earlier try" if done.found else ""
    caller.say(f"part {number} of {len(plan.parts)} is done in {done.steps} steps{again}")
    return done


def merge(
    ledger: Ledger, store: ObjectStore, caller: Caller, plan_name: str
) -> tuple[SnapshotCreated, SplitCreated | None]:
    """Merge a plan whose parts are done into the next version, record it, and drop what the plan left in the store.

    In a run without processing the version is split by document, as the one-task snapshot does. A merge whose answer
    was lost gives that answer again.
    """
    try:
        plan = open_plan(store, plan_name)
    except InputError:
        before = _merged_before(ledger, caller)
        if before is None:
            raise
        stream, made = before
        split = _split(ledger, store, caller, made, stream)
        # The earlier try may have ended while it dropped what the plan left.
        drop_left_over(ledger, store, caller, stream, own=plan_name.rpartition("@")[0])
        return made, split
    wish = plan.wish
    built = merge_parts(store, plan, resolve_source(wish["source"]).tree)
    fields = {key: wish[key] for key in ("name", "mode", "source_id", "source_uri", "include", "exclude")}
    made = name_version(
        store, ledger, built, fields | {"check": CHECK.format(parts=len(plan.parts))}, proof=None,
        stream=wish["stream"], attempt=0, actor=caller.actor, origin=caller.origin,
    )  # fmt: skip
    split = _split(ledger, store, caller, made, wish["stream"])
    drop_left_over(ledger, store, caller, wish["stream"], own=plan.folder)
    return made, split


def drop_left_over(
    ledger: Ledger, store: ObjectStore, caller: Caller, stream: str, *, own: str = ""
) -> TemporaryRemoved | None:
    """Drop what planned snapshots of one stream left in the store, and record it; None if there was nothing.

    A run has one plan that counts: all of its plans go. Of a name, whose plans may be under way side by side, goes
    the plan in the folder ``own``, and what was planned more than :data:`KEEP_DAYS` days ago.
    """
    long_ago = datetime.now(UTC) - timedelta(days=KEEP_DAYS)
    found = [
        left
        for left in left_over(store, stream)
        if stream.startswith("run_") or left.folder == own or left.planned_at < long_ago
    ]
    if not found:
        return None
    for left in found:
        drop(store, left.folder)
    payload = TemporaryRemoved(
        paths=[store.location(left.folder) for left in found],
        bytes_released=sum(left.size for left in found),
        verified_absent=True,
    )
    before = ledger.records(streams=[stream], kinds=[TEMPORARY])
    draft = Draft(
        stream=stream, kind=TEMPORARY, payload=payload.to_json(), actor=caller.actor, origin=caller.origin,
        ordinal=sum(record.origin == caller.origin for record in before),
    )  # fmt: skip
    ledger.append([draft])
    caller.say(f"{payload.bytes_released:,} bytes of plans and pieces dropped")
    return payload


def _registered(ledger: Ledger, wanted: Wanted, resolved: ResolvedSource) -> str | None:
    """The id of the source if it is registered under this name and address."""
    own = source_id(wanted.name, resolved.uri)
    known = ledger.records(kinds=["source.registered"])
    return own if any(record.payload["source_id"] == own for record in known) else None


def _merged_before(ledger: Ledger, caller: Caller) -> tuple[str, SnapshotCreated] | None:
    """The stream and the snapshot that an earlier try of this very task recorded."""
    mine = caller.origin
    for record in ledger.records(kinds=["snapshot.created"]):
        if replace(record.origin, try_number=mine.try_number) == mine:
            return record.stream, SnapshotCreated(**record.payload)
    return None


def _split(
    ledger: Ledger, store: ObjectStore, caller: Caller, made: SnapshotCreated, run_uid: str
) -> SplitCreated | None:
    if not run_uid.startswith("run_"):
        return None
    view = run_of(ledger, caller, run_uid)
    policy = policy_of(view)
    return (
        None
        if steps_of(policy, request_of(view))
        else make_split(ledger, store, caller, run_uid, policy, made)
    )
