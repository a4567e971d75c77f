"""The data track of a run: register its source, snapshot and split it, check its quality."""

from __future__ import annotations

from pretrain_archive.data.places import refuse_own_places
from pretrain_archive.data.recipes import create_recipe
from pretrain_archive.data.snapshots import create_snapshot
from pretrain_archive.data.sources import register_source, resolve_source
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.kinds import SnapshotCreated, SourceRegistered, SplitCreated
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller, local_identity
from pretrain_archive.services.pools import is_pool, register_pool, take_pool
from pretrain_archive.services.processing import content, make_split, steps_of
from pretrain_archive.services.progress import every
from pretrain_archive.services.quality import quality as quality  # noqa: PLC0414 - a step of the data track
from pretrain_archive.services.runs import policy_of, request_of, run_of
from pretrain_archive.services.wiring import own_places, stamps_folder
from pretrain_archive.services.withdrawing import told_of_registration
from pretrain_archive.storage.port import ObjectStore


def register(ledger: Ledger, caller: Caller, run_uid: str) -> SourceRegistered:
    """Register the source that the run asked for, with its rights and the identity that reads it."""
    view = run_of(ledger, caller, run_uid)
    request, policy = request_of(view), policy_of(view)
    if is_pool(request.source):
        return register_pool(ledger, caller, run_uid, request, policy)
    source = resolve_source(request.source)
    refuse_own_places(source.tree, own_places())
    registered = register_source(
        ledger,
        source=source,
        name=request.source_name,
        licence=request.licence,
        obtained=request.obtained,
        authorisation=request.authorisation,
        usage_scope=request.usage_scope,
        origin_class=request.origin_class,
        owner=request.business_owner or policy.people.data_owner,
        responsible=request.responsible or caller.submitter or policy.people.data_owner,
        collected_at=request.collected_at,
        masking=request.masking,
        applicable_tasks=request.applicable_tasks,
        access_granted_at=request.access_granted_at,
        access_revoked_at=request.access_revoked_at,
        access_open=request.access_open,
        access_identity=request.access_identity,
        observed_identity=source.identity or local_identity(),
        actor=caller.actor,
        origin=caller.origin,
        stream=run_uid,
    )
    for twin in told_of_registration(ledger, registered.source_id)[1]:
        if twin.withdrawal is not None:
            fact = twin.withdrawal[1]
            caller.say(f"data at {source.uri} were withdrawn as {twin.name} by {fact.by}: {fact.reason}")
    return registered


def make_snapshot(
    ledger: Ledger, store: ObjectStore, caller: Caller, run_uid: str
) -> tuple[SnapshotCreated, SplitCreated | None]:
    """Snapshot the registered source; where no step of processing follows, split it by document.

    A source that is a snapshot itself (a pool) is taken as it is.
    """
    view = run_of(ledger, caller, run_uid)
    request, policy = request_of(view), policy_of(view)
    source = view.latest(SourceRegistered)
    if source is None:
        raise RefusedError(
            f"run {run_uid} has no registered source", hint="Run the task 'register_source' first."
        )
    if is_pool(request.source):
        created = take_pool(ledger, store, caller, run_uid, request)
    else:
        created = _read_source(ledger, store, caller, run_uid, source)
    if steps_of(policy, request):
        return created, None
    with content(store, created, caller) as (place, shown):
        return created, make_split(ledger, place, caller, run_uid, policy, shown)


def _read_source(
    ledger: Ledger, store: ObjectStore, caller: Caller, run_uid: str, source: SourceRegistered
) -> SnapshotCreated:
    view = run_of(ledger, caller, run_uid)
    request, policy = request_of(view), policy_of(view)
    resolved = resolve_source(request.source)
    refuse_own_places(resolved.tree, own_places(), store)
    if policy.data.snapshot_mode == "recipe":
        return create_recipe(
            store, ledger, name=request.source_name, tree=resolved.tree, rights=policy.data.recipe,
            include=request.include or resolved.include, exclude=[*resolved.exclude, *request.exclude],
            source_id=source.source_id, source_uri=resolved.uri, stream=run_uid,
            progress=every(caller.say, "hashed"), actor=caller.actor, origin=caller.origin,
        )  # fmt: skip
    return create_snapshot(
        store,
        ledger,
        name=request.source_name,
        source_root=resolved.tree,
        mode=policy.data.snapshot_mode,
        include=request.include or resolved.include,
        exclude=[*resolved.exclude, *request.exclude],
        source_id=source.source_id,
        source_uri=resolved.uri,
        stream=run_uid,
        progress=every(caller.say, "hashed"),
        stamps=stamps_folder() if policy.data.incremental == "stamps" else None,
        actor=caller.actor,
        origin=caller.origin,
    )
