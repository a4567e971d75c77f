"""Reading: records by page, runs as lists show them, and traces along the edges."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from pretrain_archive.domain.errors import LedgerError
from pretrain_archive.domain.identity import Ref, format_time, parse_time
from pretrain_archive.domain.records import Edge, Record, Relation
from pretrain_archive.ledger.engine import Database, Session
from pretrain_archive.ledger.port import Direction, RunQuery, RunRow, Trace, TraceEdge
from pretrain_archive.ledger.rows import VERIFY_HINT, checked_record
from pretrain_archive.ledger.tables import column_text, from_column

PAGE = 200
"""Records per read. A page is one short transaction: with a rollback journal an open read blocks writers."""

_RELATIONS = {relation.value: relation for relation in Relation}


# Constructors without checks for values that were checked when they were written. The constructor of a frozen
# dataclass costs a microsecond, a quarter of what the database needs for the row, and a trace makes thousands.
_new = object.__new__
_set_type, _set_id, _set_version = (getattr(Ref, name).__set__ for name in ("type", "id", "version"))
_set_subject, _set_relation, _set_object = (
    getattr(Edge, name).__set__ for name in ("subject", "relation", "object")
)
_set_edge, _set_record_id, _set_depth = (
    getattr(TraceEdge, name).__set__ for name in ("edge", "record_id", "depth")
)


def _ref(text: str) -> Ref:
    """The same as ``Ref.parse`` without its checks."""
    made = _new(Ref)
    kind, _, rest = text.partition(":")
    name, at, version = rest.rpartition("@")
    _set_type(made, kind)
    _set_id(made, name if at else rest)
    _set_version(made, version if at else "")
    return made


def _trace_edge(subject: Ref, relation: str, object_: Ref, record_id: str, depth: int) -> TraceEdge:
    edge, made = _new(Edge), _new(TraceEdge)
    _set_subject(edge, subject)
    _set_relation(edge, _RELATIONS[relation])
    _set_object(edge, object_)
    _set_edge(made, edge)
    _set_record_id(made, record_id)
    _set_depth(made, depth)
    return made


_RUN_COLUMNS = "run_uid, position, project, dag_id, dag_run_id, submitter, objective, opened_at"


def _marks(values: Collection[Any]) -> str:
    return ", ".join("?" * len(values))


def _sayable(text: str) -> str:
    """Text that every driver can send; a lone surrogate matches nothing, as it should."""
    return text.encode("utf-8", "replace").decode()


def read_records(
    database: Database,
    *,
    streams: Collection[str] | None,
    kinds: Collection[str],
    after: int,
    limit: int | None,
) -> Iterator[Record]:
    """See ``Ledger.records``; ``LedgerError`` names a row that is not what was appended."""
    if streams is not None and not streams:
        return
    where, fixed = ["position > ?"], list[Any]()
    for column, values in (("stream", streams), ("kind", kinds)):
        if values:
            where.append(f"{column} IN ({_marks(values)})")
            fixed.extend(column_text(_sayable(value)) for value in values)
    # Within one stream the sequence grows with the position and has an index: a page costs what it holds. By
    # position alone every page would look at the whole stream.
    single = streams is not None and len(streams) == 1
    order = "sequence" if single else "position"
    if single:
        where.append("sequence > ?")
    sql = (
        f"SELECT position, stored, leaf, {order} FROM pretrain_archive_record "  # noqa: S608 - only marks are inserted
        f"WHERE {' AND '.join(where)} ORDER BY {order} LIMIT ?"
    )
    left, at, since = limit, -1, after
    while left is None or left > 0:
        size = PAGE if left is None else min(PAGE, left)
        rows = _rows(database, sql, [since, *fixed, at, size] if single else [after, *fixed, size])
        for position, stored, leaf, _ in rows:
            record = checked_record(int(position), stored, leaf)
            if (streams and record.stream not in streams) or (kinds and record.kind not in kinds):
                raise LedgerError(
                    f"Record {record.record_id} at position {position} was edited: it is {record.kind} of "
                    f"{record.stream!r}, and its columns say something else.",
                    hint=VERIFY_HINT,
                )
            if int(position) <= after:
                raise LedgerError(
                    f"Record {record.record_id} at position {position} was moved: it follows position {after} in its "
                    "stream.",
                    hint=VERIFY_HINT,
                )
            after = int(position)
            yield record
        if len(rows) < size:
            return
        at = int(rows[-1][3])
        left = None if left is None else left - size


def _rows(database: Database, sql: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
    def read() -> list[tuple[Any, ...]]:
        with database.transaction() as session:
            return session.all(sql, parameters)

    return database.attempt(read)


def read_runs(database: Database, query: RunQuery) -> list[RunRow]:
    """See ``Ledger.runs``. The text is looked for in uid, project, DAG, submitter and objective."""
    if query.dag_ids is not None and not query.dag_ids:
        return []
    where, parameters = ["1 = 1"], list[Any]()
    for column, value in (("project", query.project), ("dag_run_id", query.dag_run_id)):
        if value:
            where.append(f"{column} = ?")
            parameters.append(column_text(_sayable(value)))
    if query.dag_ids is not None:
        where.append(f"dag_id IN ({_marks(query.dag_ids)})")
        parameters.extend(column_text(_sayable(value)) for value in query.dag_ids)
    for word in query.text.casefold().split():
        where.append("search LIKE ? ESCAPE '!'")
        parameters.append(f"%{_literal(column_text(_sayable(word)))}%")
    if query.before is not None:
        where.append("position < ?")
        parameters.append(query.before)
    sql = (
        f"SELECT {_RUN_COLUMNS} FROM pretrain_archive_run "  # noqa: S608 - only marks are inserted
        f"WHERE {' AND '.join(where)} ORDER BY position DESC LIMIT ?"
    )
    return [_run_row(row) for row in _rows(database, sql, [*parameters, query.limit])]


def _literal(text: str) -> str:
    """Text whose ``%`` and ``_`` mean themselves in LIKE."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def _run_row(row: tuple[Any, ...]) -> RunRow:
    uid, position, project, dag_id, dag_run_id, submitter, objective, opened_at = row
    return RunRow(
        run_uid=from_column(uid),
        position=int(position),
        project=from_column(project),
        dag_id=from_column(dag_id),
        dag_run_id=from_column(dag_run_id),
        submitter=from_column(submitter),
        objective=from_column(objective),
        opened_at=opened_at,
    )


def trace_sql(direction: Direction, *, dated: bool) -> str:
    """The recursive statement: nodes breadth first (a set, so that cycles end), cut, then their edges."""
    near, far = ("subject", "object") if direction == "backward" else ("object", "subject")
    in_time = " AND e.recorded_at <= ?" if dated else ""
    return (
        "WITH RECURSIVE reach(name) AS (SELECT CAST(? AS VARCHAR) UNION "  # noqa: S608 - constants only
        f"SELECT e.{far} FROM reach JOIN pretrain_archive_edge e ON e.{near} = reach.name{in_time}), "
        "cut(name) AS (SELECT name FROM reach LIMIT ?) "
        "SELECT e.subject, e.relation, e.object, r.record_id FROM cut "
        f"JOIN pretrain_archive_edge e ON e.{near} = cut.name{in_time} "
        "JOIN pretrain_archive_record r ON r.position = e.position"
    )


def read_trace(
    database: Database, start: Ref, *, direction: Direction, as_of: str | None, max_nodes: int
) -> Trace:
    """See ``Ledger.trace``. ``max_nodes`` counts what is found beside the start."""
    moment = [format_time(parse_time(as_of))] if as_of else []
    parameters = [column_text(_sayable(str(start))), *moment, max_nodes + 1, *moment]
    rows = _rows(database, trace_sql(direction, dated=bool(as_of)), parameters)
    return _breadth_first(start, direction, rows, max_nodes)


def read_lineage(
    database: Database, starts: Sequence[Ref], *, max_nodes: int
) -> tuple[tuple[Edge, ...], bool]:
    """See ``Ledger.lineage``. Equal edges of many records are one row: they are not read one by one."""
    marks = " UNION ".join("SELECT CAST(? AS VARCHAR)" for _ in starts)
    sql = (
        f"WITH RECURSIVE reach(name) AS (SELECT * FROM ({marks}) AS starts UNION "  # noqa: S608 - only marks
        "SELECT e.object FROM reach JOIN pretrain_archive_edge e ON e.subject = reach.name), "
        "cut(name) AS (SELECT name FROM reach LIMIT ?) "
        "SELECT DISTINCT e.subject, e.relation, e.object FROM cut JOIN pretrain_archive_edge e ON e.subject = cut.name"
    )
    most = max_nodes + len(starts)
    names = [column_text(_sayable(str(start))) for start in starts]
    rows = _rows(database, sql, [*names, most + 1])
    edges = tuple(
        Edge(subject=_ref(from_column(a)), relation=_RELATIONS[relation], object=_ref(from_column(b)))
        for a, relation, b in sorted(rows)  # in an order that no plan of the database changes
    )
    reached = {*names, *(row[0] for row in rows), *(row[2] for row in rows)}
    return edges, len(reached) <= most


def _breadth_first(start: Ref, direction: Direction, rows: list[tuple[Any, ...]], max_nodes: int) -> Trace:
    """Order the edges by distance from ``start``."""
    backward = direction == "backward"
    near = 0 if backward else 2
    leaving: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        leaving.setdefault(row[near], []).append(row)
    first = column_text(_sayable(str(start)))
    refs, queue = {first: start}, deque([(first, 1)])
    edges: list[TraceEdge] = []
    truncated = False
    while queue:
        name, depth = queue.popleft()
        for subject, relation, object_, record_id in leaving.pop(name, ()):
            other = object_ if backward else subject
            if other not in refs:
                if len(refs) > max_nodes:
                    truncated = True
                    continue
                refs[other] = _ref(from_column(other))
                queue.append((other, depth + 1))
            edges.append(_trace_edge(refs[subject], relation, refs[object_], record_id, depth))
    del refs[first]
    return Trace(
        start=start, direction=direction, nodes=tuple(refs.values()), edges=tuple(edges), truncated=truncated
    )


def size_of(session: Session) -> int:
    """The number of records, as the last position tells."""
    row = session.one("SELECT position FROM pretrain_archive_record ORDER BY position DESC LIMIT 1")
    return int(row[0]) + 1 if row else 0


def read_newest_time(database: Database, after: int) -> str | None:
    """See ``Ledger.newest_time``. The newest thousand: the work does not grow with the log."""
    sql = (
        "SELECT MAX(recorded_at) FROM (SELECT recorded_at FROM pretrain_archive_record WHERE position > ? "
        "ORDER BY position DESC LIMIT 1000) AS newest"
    )
    rows = _rows(database, sql, [after])
    return str(rows[0][0]) if rows and rows[0][0] is not None else None
