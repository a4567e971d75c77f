"""``pretrain-archive run``: what the ledger says of runs, without Airflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pretrain_archive.commands.governed import governed, governed_lines
from pretrain_archive.commands.model_of_run import model_lines, model_of
from pretrain_archive.commands.output import (
    FINDING,
    OK,
    WRONG_USE,
    Json,
    answer,
    command,
    plain,
    table,
    verdict_text,
)
from pretrain_archive.commands.run_search import list_runs

if TYPE_CHECKING:
    from pretrain_archive.domain.run_view import RunView
    from pretrain_archive.ledger.port import Ledger

MOST_NODES = 1_000_000

app = typer.Typer(help="Runs as the ledger tells them.")

RunName = Annotated[str, typer.Argument(metavar="RUN", help="Run uid, the end of one, or an Airflow run id.")]


def find_run(ledger: Ledger, name: str) -> RunView:
    """The run with this uid, unambiguous end of a uid, or DAG run id; ``InputError`` otherwise."""
    from pretrain_archive.domain.errors import InputError  # noqa: PLC0415
    from pretrain_archive.domain.run_view import RunView  # noqa: PLC0415
    from pretrain_archive.ledger.port import RunQuery  # noqa: PLC0415

    view = RunView.of(name, ledger.records(streams=[name]))
    if view.opened is not None:
        return view
    rows = ledger.runs(RunQuery(dag_run_id=name, limit=2))
    if not rows and len(name) >= 4:
        rows = [row for row in ledger.runs(RunQuery(limit=1_000)) if row.run_uid.endswith(name)]
    if len(rows) == 1:
        return RunView.of(rows[0].run_uid, ledger.records(streams=[rows[0].run_uid]))
    problem = "names several runs" if rows else "is not in the ledger"
    raise InputError("RUN", name, problem, hint="List runs with: pretrain-archive run list")


command(app, "list")(list_runs)


@command(app)
def show(run: RunName, as_json: Json = False) -> None:
    """One run: its three tracks item by item, gates, people and verdicts."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.gates.sources import with_sources  # noqa: PLC0415
    from pretrain_archive.services.known_run import knowing_runs  # noqa: PLC0415

    ledger = knowing_runs(services.open_ledger(create=False))
    view = with_sources(ledger, find_run(ledger, run))
    document = run_document(view) | governed(ledger, view)
    document["model"] = model_of(ledger, view)
    lines = [
        f"{view.run_uid}  {view.state}  {verdict_text(document['verdict'])}",
        plain((document["purpose"] or {}).get("objective", "purpose unrecorded")),
        f"submitted by {plain(document['submitter'] or 'nobody')}, project {plain(document['project'])}",
        f"scope {document['scope']}",
        *governed_lines(document),
        f"Airflow run {plain(document['dag_run_id'])} of {plain(document['dag_id'])}",
        "",
    ]
    for track, items in document["tracks"].items():
        lines.append(f"{track}")
        lines += [
            f"  {verdict_text(i['verdict'])}  {plain(i['id'])}: {plain(i['check'] or i['hint'])}"
            for i in items
        ]
    lines += ["", "sources", *_source_lines(document["sources"]), "", "gates"]
    lines += [f"  {gate['gate']}: {_gate_text(gate)}" for gate in document["gates"]]
    lines += model_lines(document["model"])
    answer(document, lines, as_json=as_json)


def _source_lines(sources: list[dict[str, Any]]) -> list[str]:
    """A line per source: licence, scope, who reads since when, and whether it may still be used."""
    lines = []
    for source in sources:
        gone = source["withdrawn"]
        state = f"withdrawn at {gone['at']} by {gone['by']}: {gone['reason']}" if gone else source["revoked"]
        told = [
            f"licence {source.get('licence') or 'unrecorded'}",
            f"scope {', '.join(source.get('usage_scope', [])) or 'unrecorded'}",
            f"read by {source.get('access_identity') or 'unrecorded'}",
            source["permitted"] or "permission unrecorded",
            *([state] if state else []),
        ]
        lines.append(f"  {plain(source.get('name') or source['source_id'])}: {plain('; '.join(told))}")
    return lines


def run_document(view: RunView) -> dict[str, Any]:
    """A run as one JSON document: the worst verdict first within each track."""
    from pretrain_archive.domain.exploration import scope_of  # noqa: PLC0415
    from pretrain_archive.domain.verdicts import counts, worst_first  # noqa: PLC0415
    from pretrain_archive.package.items import evidence_items, worst  # noqa: PLC0415

    items = worst_first(evidence_items(view))
    opened = view.opened
    assert opened is not None  # find_run hands out opened runs only
    tracks: dict[str, list[dict[str, Any]]] = {"data": [], "compute": [], "artifact": []}
    for item in items:
        tracks.setdefault(item.track, []).append(item.to_dict())
    return {
        "run_uid": view.run_uid,
        "state": view.state,
        "scope": scope_of(opened),
        "verdict": worst(item.verdict for item in items).value,
        "counts": counts(items),
        "project": opened.project,
        "submitter": opened.submitter,
        "dag_id": opened.dag_id,
        "dag_run_id": opened.dag_run_id,
        "derived_from": opened.derived_from,
        "purpose": opened.purpose.to_json() if opened.purpose else None,
        "people": dict(opened.people),
        "attempts": view.attempts,
        "records": len(view.records),
        "tracks": tracks,
        "sources": _sources(view),
        "gates": [_gate(view, gate) for gate in _gates(view)],
        "outcome": _outcome(view),
    }


def _sources(view: RunView) -> list[dict[str, Any]]:
    from pretrain_archive.domain.source_rights import standings  # noqa: PLC0415
    from pretrain_archive.domain.withdrawal import source_document, withdrawal_document  # noqa: PLC0415

    return [{**source_document(s), "withdrawn": withdrawal_document(s)} for s in standings(view)]


def _gates(view: RunView) -> list[str]:
    """The gates of every run in their order, and the review where one was asked."""
    from pretrain_archive.domain.run_view import ALL_GATES, GATES  # noqa: PLC0415

    return [gate for gate in ALL_GATES if gate in GATES or view.dossier(gate) is not None]


def _gate(view: RunView, gate: str) -> dict[str, Any]:
    asked, decided = view.dossier(gate), view.decision(gate)
    waiting = view.waiting_gate() == gate
    document: dict[str, Any] = {
        "gate": gate,
        "state": "waiting" if waiting else "asked" if asked else "unrecorded",
    }
    if asked is not None:
        document |= {"dossier_digest": asked[1].digest, "eligible": list(asked[1].eligible)}
    if decided is not None:
        record, decision = decided
        document |= {
            "state": "approved" if decision.decision == "approve" else "rejected",
            "person": decision.person_name,
            "reason": decision.reason,
            "responded_at": decision.responded_at,
            "signed_digest": decision.dossier_digest,
            "acknowledged": list(decision.acknowledged),
            "self_signed": decision.self_signed,
            "outcome": decision.outcome,
            "record_id": record.record_id,
        }
    return document


def _gate_text(gate: dict[str, Any]) -> str:
    if "person" not in gate:
        return str(gate["state"])
    return f"{gate['state']} by {plain(gate['person'])} at {gate['responded_at']}: {plain(gate['reason'])}"


def _outcome(view: RunView) -> dict[str, Any] | None:
    from pretrain_archive.domain.kinds import RunClosed  # noqa: PLC0415

    closed = view.latest(RunClosed)
    return closed.to_json() if closed else None


@command(app)
def trace(
    thing: Annotated[str, typer.Argument(metavar="ID", help="TYPE:NAME[@VERSION], or a run.")],
    direction: Annotated[
        Literal["backward", "forward"],
        typer.Option(help="backward: what it rests on; forward: what rests on it."),
    ] = "backward",
    limit: Annotated[int, typer.Option(min=1, help="Stop after so many nodes.")] = 5000,
    as_json: Json = False,
) -> None:
    """Follow the edges of a thing through the ledger."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.domain.errors import InputError  # noqa: PLC0415
    from pretrain_archive.domain.identity import Ref  # noqa: PLC0415

    if limit > MOST_NODES:
        raise InputError("--limit", limit, f"at most {MOST_NODES} nodes are followed")
    ledger = services.open_ledger(create=False)
    try:
        start = Ref.parse(thing) if ":" in thing else Ref(type="run", id=find_run(ledger, thing).run_uid)
    except ValueError as error:
        raise InputError("ID", thing, str(error), hint="Write for example snapshot:corpus@3.") from error
    found = ledger.trace(start, direction=direction, max_nodes=limit)
    other: Literal["backward", "forward"] = "forward" if direction == "backward" else "backward"
    if not found.edges and not ledger.trace(start, direction=other, max_nodes=1).edges:
        raise InputError(
            "ID", thing, "no edge of the ledger names it", hint="Write for example snapshot:corpus@3."
        )
    edges = [{**e.edge.to_dict(), "record_id": e.record_id, "depth": e.depth} for e in found.edges]
    document = {
        "start": str(found.start),
        "direction": found.direction,
        "nodes": [str(node) for node in found.nodes],
        "edges": edges,
        "truncated": found.truncated,
    }
    lines = [
        f"{'  ' * (e.depth - 1)}{e.edge.subject} {e.edge.relation.value} {e.edge.object}" for e in found.edges
    ]
    answer(document, map(plain, lines), as_json=as_json, code=FINDING if found.truncated else OK)


@command(app)
def diff(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN RUN…", help="The first is compared with each other.")
    ],
    as_json: Json = False,
) -> None:
    """What differs between runs, by cause, and whether one cause explains a different result."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.domain.errors import InputError  # noqa: PLC0415
    from pretrain_archive.domain.run_diff import compare  # noqa: PLC0415

    if len(runs) < WRONG_USE:
        raise InputError("RUN", runs[0], "a comparison needs at least two runs")
    ledger = services.open_ledger(create=False)
    first, *others = [find_run(ledger, name) for name in runs]
    uids = [view.run_uid for view in (first, *others)]
    if twice := next((name for name, uid in zip(runs, uids, strict=True) if uids.count(uid) > 1), ""):
        raise InputError("RUN", twice, "names the same run twice", hint="Compare different runs.")
    found = compare(first, others)
    rows = [
        [change.cause, plain(change.field), *(_side(change, side) for side in ("left", "right"))]
        for change in found.changed
    ]
    lines = [*table(rows, head=["cause", "field", "left", "right"])] if rows else []
    lines += [f"unrecorded: {gap}" for gap in found.unrecorded]
    lines += [f"{uid}: {plain(told or 'no conclusion recorded')}" for uid, told in found.conclusions]
    lines.append(f"{found.verdict}: {len(found.changed)} changed, {found.equal} equal")
    answer(found.to_json(), lines, as_json=as_json)


def _side(change: Any, side: str) -> str:
    return "(missing)" if change.missing == side else plain(repr(getattr(change, side)))
