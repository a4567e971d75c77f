"""What the ledger says, outside of a run, of the sources that the run rests on.

A run's own records name its sources; who may still read them, and whether one was withdrawn, is recorded in a
stream of each source. Data made from other snapshots (a pool that serves several runs) leads to sources that
the run never registered: their lineage is followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import SnapshotCreated
from pretrain_archive.domain.lineage import content_edges, reach
from pretrain_archive.domain.records import Edge, Record, Relation
from pretrain_archive.domain.run_view import Around, RunView
from pretrain_archive.domain.source_rights import LATER_KINDS, known_until, source_ids, source_stream
from pretrain_archive.ledger.port import Ledger

MOST_NODES = 100_000
"""How far a lineage is followed; one that is longer counts as not followed to its end, which blocks."""


def with_sources(ledger: Ledger, view: RunView, *, until: int | None = None) -> RunView:
    """The view with what is recorded around it; ``until`` is the last position of the log that counts."""
    snapshots = list(dict.fromkeys(_ref(snapshot) for _, snapshot in view.all(SnapshotCreated)))
    starts = [Ref(type="run", id=view.run_uid), *snapshots]
    traced, complete = ledger.lineage(starts, max_nodes=MOST_NODES)
    edges = content_edges(_as_this_run_says(view, list(traced)))
    behind = {ref: _sources_behind(edges, ref) for ref in (Ref(type="run", id=view.run_uid), *snapshots)}
    rooted = tuple(str(ref) for ref in snapshots if behind[ref])
    found = tuple(dict.fromkeys(source for ids in behind.values() for source in ids))
    around = Around(sources=found, rooted=rooted, complete=complete)
    ids = source_ids(replace(view, around=around))
    around = replace(around, records=tuple(_facts(ledger, view, ids)))
    return replace(view, around=around if until is None else known_until(around, until))


def with_later_facts(ledger: Ledger, views: Iterable[RunView]) -> Iterator[RunView]:
    """The views for a list, one by one: the lineage is followed only where any source's standing changed at all."""
    unchanged = next(ledger.records(kinds=LATER_KINDS, limit=1), None) is None
    for view in views:
        yield replace(view, around=Around()) if unchanged else with_sources(ledger, view)


def newest_of_sources(view: RunView) -> dict[str, int]:
    """The newest record that :func:`with_sources` saw in each source's own stream, by its sequence; -1 for none.

    A launch names them, so that it is not recorded if a source was withdrawn since.
    """
    streams = {source_stream(source): -1 for source in source_ids(view)}
    for record in view.around.records if view.around else ():
        if record.stream in streams:
            streams[record.stream] = max(streams[record.stream], record.sequence)
    return streams


def _ref(snapshot: SnapshotCreated) -> Ref:
    return Ref(type="snapshot", id=snapshot.name, version=str(snapshot.version))


def _as_this_run_says(view: RunView, edges: list[Edge]) -> list[Edge]:
    """Without what others say of the run's own snapshots: equal content from elsewhere is the same version there.

    Where the run's own record says what a version was made from, that stands, whatever is said later.
    """
    own = {
        edge
        for record, _ in view.all(SnapshotCreated)
        for edge in record.edges
        if edge.relation is Relation.WAS_DERIVED_FROM
    }
    told = {edge.subject for edge in own}
    others = {
        edge for edge in edges if edge.relation is Relation.WAS_DERIVED_FROM and edge.subject in told
    } - own
    return [edge for edge in edges if edge not in others]


def _sources_behind(edges: list[Edge], start: Ref) -> list[str]:
    return [ref.id for ref in reach(edges, [start], "backward") if ref.type == "source"]


def _facts(ledger: Ledger, view: RunView, ids: tuple[str, ...]) -> list[Record]:
    """Records of the sources' own streams, and the registration of each source that the run did not register.

    Of registrations in other runs the newest before the run's data were made counts: a later one is another
    run's affair and changes nothing here.
    """
    if not ids:
        return []
    found = list(ledger.records(streams=[source_stream(source) for source in ids]))
    registered = {r.payload["source_id"] for r in (*view.records, *found) if r.kind == "source.registered"}
    if missing := set(ids) - registered:
        made = max((record.position for record, _ in view.all(SnapshotCreated)), default=-1)
        newest: dict[str, Record] = {}
        for record in ledger.records(kinds=["source.registered"]):
            if record.payload["source_id"] in missing and record.position <= made:
                newest[str(record.payload["source_id"])] = record
        found += newest.values()
    return sorted(found, key=lambda record: record.position)
