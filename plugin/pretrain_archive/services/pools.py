"""A data pool as the source of a run: a snapshot that exists is used again, without reading its source (R059)."""

from __future__ import annotations

from pretrain_archive.data import layout
from pretrain_archive.data.recipes import read_recipe, require_rebuild_allowed
from pretrain_archive.data.snapshots import open_version, snapshot_ref
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import SnapshotCreated, SourceRegistered, read_payload
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.records import Draft, Edge, Record, Relation
from pretrain_archive.domain.request import RunRequest
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller, local_identity
from pretrain_archive.storage.port import ObjectStore

PREFIX = "snapshot:"


def is_pool(source: str) -> bool:
    """Whether a request's source names a snapshot."""
    return source.startswith(PREFIX)


def register_pool(
    ledger: Ledger, caller: Caller, run_uid: str, request: RunRequest, policy: Policy
) -> SourceRegistered:
    """Record the source behind the pool for this run, with the rights that were registered with the pool.

    What the form says of licence and scope counts for new data only. Refuses a pool without a registered source:
    nobody could say by what right it is used.
    """
    made, pool = _recorded(ledger, request.source)
    known = [
        (record.stream == made.stream, payload)
        for record in ledger.records(kinds=["source.registered"])
        if (payload := read_payload(record, SourceRegistered)).source_id == pool.source_id
    ]
    # What the run that made the pool said of its rights counts, whatever others said of the same place later.
    rights = next((payload for own, payload in reversed(known) if own), known[-1][1] if known else None)
    if rights is None:
        raise RefusedError(
            f"{request.source}: no source is registered behind this snapshot",
            hint="Make the pool by a run, which registers its source with licence and scope.",
        )
    payload = rights.model_copy(
        update={
            "responsible": request.responsible or caller.submitter or policy.people.data_owner,
            "applicable_tasks": request.applicable_tasks or rights.applicable_tasks,
            "access_identity": request.access_identity or local_identity(),
            "access_identity_observed": local_identity(),
            # Rights of whoever read it then are not those of whoever reads it now.
            "access_granted_at": request.access_granted_at,
            "access_revoked_at": request.access_revoked_at,
            "access_open": request.access_open,
        }
    )
    source = Ref(type="source", id=payload.source_id)
    people = sorted({payload.owner, payload.responsible})
    edges = [
        Edge(subject=source, relation=Relation.WAS_ATTRIBUTED_TO, object=Ref(type="person", id=name))
        for name in people
    ]
    edges.append(Edge(subject=Ref(type="run", id=run_uid), relation=Relation.USED, object=source))
    draft = Draft(stream=run_uid, kind="source.registered", payload=payload.to_json(), actor=caller.actor,
                  origin=caller.origin, edges=tuple(edges))  # fmt: skip
    return SourceRegistered(**ledger.append([draft])[0].payload)


def take_pool(
    ledger: Ledger, store: ObjectStore, caller: Caller, run_uid: str, request: RunRequest
) -> SnapshotCreated:
    """Record that the run uses the pool's version; nothing is read and no version is made."""
    made, recorded = _recorded(ledger, request.source)
    found = open_version(store, recorded.name, recorded.version)
    if found.manifest_digest != recorded.manifest_digest:
        raise RefusedError(
            f"{request.source}: the store says {found.manifest_digest}, the ledger {recorded.manifest_digest}",
            hint="Verify the snapshot; one of the two was changed.",
        )
    if recorded.mode == "recipe":
        # To use it means to rebuild it, which its policy allows or not, and for a time only.
        require_rebuild_allowed(read_recipe(store, recorded), recorded_at=made.recorded_at)
    payload = recorded.model_copy(
        update={"unchanged": True, "changes": {"added": 0, "removed": 0, "modified": 0}}
    )
    edge = Edge(subject=Ref(type="run", id=run_uid), relation=Relation.USED, object=snapshot_ref(payload))
    draft = Draft(stream=run_uid, kind="snapshot.created", payload=payload.to_json(), actor=caller.actor,
                  origin=caller.origin, edges=(edge,))  # fmt: skip
    return SnapshotCreated(**ledger.append([draft])[0].payload)


def _recorded(ledger: Ledger, source: str) -> tuple[Record, SnapshotCreated]:
    """The version that ``snapshot:NAME[@VERSION]`` means, as the ledger recorded it first."""
    name, version = layout.parse_snapshot(source)
    found = [
        (record, payload)
        for record in ledger.records(kinds=["snapshot.created"])
        if (payload := read_payload(record, SnapshotCreated)).name == name
        and version in {None, payload.version}
    ]
    if not found:
        raise RefusedError(
            f"{source}: the ledger knows no such snapshot", hint="Name it as snapshot:NAME@VERSION."
        )
    newest = max(payload.version for _, payload in found)
    return next(pair for pair in found if pair[1].version == newest)
