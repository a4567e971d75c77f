"""Sources across runs: find one by id or name, record who may read it, and withdraw it with all that rests on it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pretrain_archive.data.rights import moment, words
from pretrain_archive.domain.errors import AlreadyRecordedError, InputError
from pretrain_archive.domain.identity import Ref, format_time, parse_time, utc_now
from pretrain_archive.domain.kinds import SourceAccess, SourceWithdrawn
from pretrain_archive.domain.lineage import content_edges, reach
from pretrain_archive.domain.records import Draft, Edge, Record, Relation
from pretrain_archive.domain.source_rights import LATER_KINDS, Standing, source_stream, standing_of
from pretrain_archive.domain.withdrawal import RUN_KINDS, Touched, touched
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller

SOURCE_KINDS = ("source.registered", *LATER_KINDS)
MOST_NODES = 1_000_000
STREAMS_AT_ONCE = 200
_PLACE = re.compile(r"^s3://[^/@]*@")
"""The connection in the address of a bucket."""
HINT = "List sources with: pretrain-archive source list"


def all_sources(ledger: Ledger) -> list[Standing]:
    """Every source that was ever registered, in the order of its first registration."""
    found: dict[str, list[Record]] = defaultdict(list)
    for record in ledger.records(kinds=SOURCE_KINDS):
        found[str(record.payload["source_id"])].append(record)
    return [standing_of(source, records) for source, records in found.items()]


def find_source(ledger: Ledger, name: str) -> Standing:
    """The source with this id, or with this name if only one has it; ``InputError`` names the candidates."""
    known = all_sources(ledger)
    if by_id := [source for source in known if source.source_id == name]:
        return by_id[0]
    named = [source for source in known if name in {fact.name for _, fact in source.registrations}]
    if len(named) == 1:
        return named[0]
    if not named:
        raise InputError("SOURCE", name, "is not a registered source", hint=HINT)
    told = "; ".join(
        f"{source.source_id} ({source.registered.uri if source.registered else '?'})" for source in named
    )
    raise InputError("SOURCE", name, f"names {len(named)} sources", hint=f"Give the id: {told}.")


def record_access(
    ledger: Ledger, caller: Caller, source: Standing, *, action: str, identity: str, at: str, reason: str
) -> SourceAccess:
    """Record that ``identity`` was granted the right to read ``source``, or lost it, at ``at`` (default: now).

    Raises ``InputError`` without an identity, for a moment that is none or lies ahead: nobody knows what will be.
    """
    if not (name := words("--identity", identity)):
        raise InputError("--identity", identity, "is missing", hint="Name the service identity that reads.")
    when = moment("--at", at) or utc_now()
    if parse_time(when) > datetime.now(UTC):
        raise InputError("--at", at, "lies in the future", hint="Record it when it has happened.")
    fact = SourceAccess.model_validate({
        "source_id": source.source_id, "action": action, "identity": name, "at": when,
        "by": caller.actor.name, "reason": words("--reason", reason),
    })  # fmt: skip
    ledger.append([_draft(caller, source, "source.access", fact.to_json())])
    return fact


def withdraw(ledger: Ledger, caller: Caller, source: Standing, *, reason: str) -> tuple[Standing, bool]:
    """Withdraw the source, once; returns it as it stands, and whether this call did it.

    Raises ``InputError`` without a reason.
    """
    if source.withdrawal is not None:
        return source, False
    if not (why := words("--reason", reason)):
        raise InputError("--reason", reason, "is missing", hint="Say why the source may no longer be used.")
    fact = SourceWithdrawn(
        source_id=source.source_id, name=source.name, reason=why, by=caller.actor.name,
        at=format_time(datetime.now(UTC)),
    )  # fmt: skip
    this = Ref(type="withdrawal", id=source.source_id)
    edges = (
        Edge(subject=Ref(type="source", id=source.source_id), relation=Relation.WAS_INVALIDATED_BY, object=this),
        Edge(subject=this, relation=Relation.WAS_ASSOCIATED_WITH, object=Ref(type="person", id=fact.by)),
    )  # fmt: skip
    draft = _draft(caller, source, "source.withdrawn", fact.to_json(), edges, f"withdraw/{source.source_id}")
    try:
        ledger.append([draft])
    except AlreadyRecordedError:
        return find_source(ledger, source.source_id), False
    return find_source(ledger, source.source_id), True


def _draft(  # noqa: PLR0917 - the order of a draft
    caller: Caller, source: Standing, kind: str, payload: dict[str, object], edges: tuple[Edge, ...] = (),
    unique: str = "",
) -> Draft:  # fmt: skip
    return Draft(stream=source_stream(source.source_id), kind=kind, payload=payload, actor=caller.actor,
                 origin=caller.origin, edges=edges, unique=unique)  # fmt: skip


def what_rests_on(ledger: Ledger, source: Standing) -> Touched:
    """Everything that rests on ``source``: over the ledger's edges, through derived snapshots too.

    A snapshot that was made from the source's address and names no source counts as resting on it.
    """
    snapshots = list(ledger.records(kinds=["snapshot.created"]))
    start = Ref(type="source", id=source.source_id)
    starts = [start, *_by_address(source, snapshots)]
    edges: dict[Edge, None] = {edge: None for record in snapshots for edge in record.edges}
    truncated = False
    for ref in starts:
        trace = ledger.trace(ref, direction="forward", max_nodes=MOST_NODES)
        edges |= dict.fromkeys(step.edge for step in trace.edges)
        truncated = truncated or trace.truncated
    reached = reach(content_edges(edges), starts, "forward")
    reached |= {ref: start for ref in starts[1:] if ref not in reached}
    runs = [ref.id for ref in reached if ref.type == "run"]
    records = [*snapshots, *_of_runs(ledger, runs)]
    found = touched(source, reached=reached, records=records, truncated=truncated)
    return replace(found, beside=tuple(_beside(ledger, source)))


def told_of_registration(ledger: Ledger, source_id: str) -> tuple[dict[str, list[Any]], tuple[Standing, ...]]:
    """What the newest registration of a source says otherwise than the one before, and other sources at its address.

    The differences are ``field: [before, now]``; empty for a first registration.
    """
    source = find_source(ledger, source_id)
    known = ledger.records(kinds=["source.registered"])
    facts = [record.payload for record in known if record.payload["source_id"] == source_id]
    before, now = facts[max(0, len(facts) - 2)], facts[-1]
    changed = {
        field: [before.get(field), value] for field, value in now.items() if before.get(field) != value
    }
    return changed, tuple(_beside(ledger, source))


def _beside(ledger: Ledger, source: Standing) -> Iterator[Standing]:
    """Other sources that were registered at an address of this one, whichever connection reads it."""
    addresses = {_PLACE.sub("s3://", fact.uri) for _, fact in source.registrations}
    for other in all_sources(ledger):
        theirs = {_PLACE.sub("s3://", fact.uri) for _, fact in other.registrations}
        if other.source_id != source.source_id and addresses & theirs:
            yield other


def _by_address(source: Standing, snapshots: Iterable[Record]) -> list[Ref]:
    """Snapshots of the same address that name no source and are made from nothing else."""
    addresses = {fact.uri for _, fact in source.registrations}
    found: dict[Ref, None] = {}
    for record in snapshots:
        payload = record.payload
        ref = Ref(type="snapshot", id=str(payload["name"]), version=str(payload["version"]))
        made = [e for e in record.edges if e.subject == ref and e.relation is Relation.WAS_DERIVED_FROM]
        unnamed = payload.get("source_uri") in addresses and not payload.get("source_id")
        if unnamed and all(edge.object.type == "snapshot" and edge.object.id == ref.id for edge in made):
            found[ref] = None
    return list(found)


def _of_runs(ledger: Ledger, runs: Sequence[str]) -> Iterator[Record]:
    for first in range(0, len(runs), STREAMS_AT_ONCE):
        yield from ledger.records(streams=runs[first : first + STREAMS_AT_ONCE], kinds=RUN_KINDS)
