"""One machine: the scan measures every document, sketches are searched for near duplicates, and all is summed up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pretrain_archive.data.quality.aggregates import Plan, Summary, beyond, summarise, total
from pretrain_archive.data.quality.facts import EXAMPLES, Facts, Inputs
from pretrain_archive.data.quality.fields import field_batches
from pretrain_archive.data.quality.judge_local import LocalJudge
from pretrain_archive.data.quality.neardup.search import NearDuplicates, Overlap, find, overlap
from pretrain_archive.data.quality.scan import Measures, Scan, scan
from pretrain_archive.data.quality.tables import Documents, twins_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROW_BITS = 32
"""A document's number in a sketch: the ordinal of its job, then its row in so many bits."""


@contextmanager
def measure_local(inputs: Inputs) -> Iterator[tuple[Facts, Plan]]:
    """Measure everything on this machine; what was measured can be judged inside the ``with`` block."""
    found = scan(
        inputs.shards(), measures=inputs.measures, work=inputs.work / "scan", progress=inputs.progress
    )
    documents = Documents(scan=found)
    examples: dict[str, Sequence[Mapping[str, Any]]] = _listed(found)
    duplicates = _exact(documents, examples)
    near = _near(documents, inputs, examples)
    contamination, numbers = _compared(documents, inputs)
    plan = Plan(
        thresholds=inputs.suite.thresholds,
        rules=tuple(rule for rule in inputs.suite.rules if rule.table == "documents" and rule.rows),
        columns=documents.columns,
    )
    summary = total(summarise(table, plan) for table in documents.batches(plan.names()))
    examples["unclean_documents"] = unclean(documents, plan) if summary.unclean else []
    totals = found.totals
    blame_findings(summary, found.findings())
    facts = Facts(
        judge=LocalJudge(documents.batches, plan, fields=field_batches(inputs.shards)),
        summary=summary,
        columns=documents.columns,
        files=totals.files,
        documents=totals.documents,
        total_bytes=totals.bytes,
        empty=totals.empty,
        broken=totals.broken,
        exact_duplicates=duplicates,
        not_read=totals.not_read,
        near=near,
        contamination=contamination,
        sensitive={kind: counts[0] for kind, counts in summary.sensitive.items()},
        numbers=numbers,
        examples=examples,
    )
    yield facts, plan


def blame_findings(summary: Summary, findings: Iterable[Mapping[str, Any]]) -> None:
    """Where broken records lie, as far as they are listed."""
    from pretrain_archive.data.quality.readers.base import domain_of  # noqa: PLC0415

    paths = Counter(str(one["path"]) for one in findings if one["kind"] == "broken")
    domains: Counter[str] = Counter()
    for path, count in paths.items():
        domains[domain_of(path)] += count
    if paths:
        summary.blamed("format", paths, domains)


def unclean(documents: Documents, plan: Plan) -> list[dict[str, Any]]:
    """The first unclean documents: where they are, and which thresholds they break."""
    thresholds = [one for one in plan.usable() if one.group == "cleanliness"]
    names = {one.column for one in thresholds} | {one.where.column for one in thresholds if one.where}
    listed: list[dict[str, Any]] = []
    for table in documents.batches([*sorted({"path", "line"} | names)]):
        broken = {one.id: beyond(table, one) for one in thresholds}
        for row in sum(broken.values()).nonzero()[0]:
            place = table.slice(int(row), 1).select(["path", "line"]).to_pylist()[0]
            reasons = [name for name, mask in broken.items() if mask[row]]
            listed.append({"file": place["path"], "line": place["line"], "reasons": reasons})
            if len(listed) >= EXAMPLES:
                return listed
    return listed


def near_report(found: NearDuplicates, exact: int) -> dict[str, Any]:
    """What a report tells of near duplicates; documents that equal an earlier one byte by byte are left to the exact."""
    told = found.to_json()
    told.pop("examples")
    bars = told.pop("histogram")
    return told | {
        "documents": found.dropped - exact,
        "searched": found.documents,
        "jaccard": [bar[2] for bar in bars],
    }


def _listed(found: Scan) -> dict[str, Sequence[Mapping[str, Any]]]:
    """The scan's located findings by what a report calls them."""
    names = {"broken": "format_errors", "oversized": "oversized", "nul": "nul"}
    listed: dict[str, list[Mapping[str, Any]]] = {}
    for one in found.findings():
        kind = str(one["kind"])
        if kind.startswith("sensitive_"):
            place = {"kind": kind.removeprefix("sensitive_"), "offset": one.get("offset")}
            listed.setdefault("sensitive", []).append({"file": one["path"], "line": one["line"], **place})
        elif kind in names:
            place = {"file": one["path"], "line": one["line"], "reason": one.get("reason", "")}
            listed.setdefault(names[kind], []).append(place)
    return {name: places[:EXAMPLES] for name, places in listed.items()}


def _exact(documents: Documents, examples: dict[str, Sequence[Mapping[str, Any]]]) -> int:
    """Mark documents whose bytes equal an earlier one's, and list some; their number."""
    import numpy as np  # noqa: PLC0415

    parts = [_digests(table["sha256"]) for table in documents.batches(["sha256"])]
    digests = np.concatenate(parts) if parts else np.zeros((0, 2), np.uint64)
    marks, twins = twins_of(digests)
    documents.marks["duplicate"] = marks
    places = _places(documents, {*twins, *twins.values()})
    examples["exact_duplicates"] = [
        {**places[row], "same_as": places[first]} for row, first in sorted(twins.items())
    ]
    return int(marks.sum())


def _digests(column: Any) -> NDArray[np.uint64]:
    import numpy as np  # noqa: PLC0415

    raw = b"".join(map(_raw, column.chunks))
    return np.frombuffer(raw, ">u8").astype(np.uint64).reshape(-1, 2)


def _raw(chunk: Any) -> bytes:
    """The bytes of a chunk of 16-byte values without a missing one."""
    start = chunk.offset * 16
    return bytes(chunk.buffers()[1][start : start + len(chunk) * 16])


def _near(
    documents: Documents, inputs: Inputs, examples: dict[str, Sequence[Mapping[str, Any]]]
) -> dict[str, Any] | None:
    """Search the sketches and mark documents that are like an earlier one without being equal to it."""
    import numpy as np  # noqa: PLC0415

    settings = inputs.measures.near_duplicates
    duplicate = documents.marks["duplicate"]
    if settings is None or not len(duplicate):
        return None
    found = find(documents.scan.sketches, settings, work=inputs.work / "near")
    starts = _starts(documents.scan)
    marks = np.zeros(len(duplicate), dtype=bool)
    for number, _ in found.twins():
        marks[_row(number, starts)] = True
    marks &= ~duplicate
    documents.marks["near_duplicate"] = marks
    pairs = [one for one in found.examples if one.jaccard < 1]
    rows = {_row(number, starts) for one in pairs for number in (one.first, one.second)}
    places = _places(documents, rows)
    examples["near_duplicates"] = [
        {
            **places[_row(one.second, starts)],
            "same_as": places[_row(one.first, starts)],
            "jaccard": round(one.jaccard, 4),
        }
        for one in pairs
    ]
    return near_report(found, int(duplicate.sum()))


def _compared(documents: Documents, inputs: Inputs) -> tuple[list[dict[str, Any]] | None, dict[str, float]]:
    """Documents of the data that are, or nearly are, in another set; None where there is none to compare with."""
    import numpy as np  # noqa: PLC0415

    settings = inputs.measures.near_duplicates
    if settings is None or (not inputs.others and inputs.parent is None):
        return None, {}
    measures = Measures(
        fields=inputs.measures.fields, heuristics=False, language="off", near_duplicates=settings
    )
    starts, rows = _starts(documents.scan), len(documents.marks["duplicate"])
    marks = np.zeros(rows, dtype=bool)
    told = []
    for name, shards in inputs.others.items():
        place = inputs.work / f"set-{len(told)}"
        other = scan(shards(), measures=measures, work=place / "scan")
        found = _overlap(other, documents.scan, settings, place)
        for number, _ in found.twins():
            marks[_row(number, starts)] = True
        told.append(
            {"name": name, "of": other.totals.documents, "documents": found.documents, "exact": found.exact}
        )
    documents.marks["contaminated"] = marks
    numbers = {}
    if inputs.parent is not None:
        earlier = scan(inputs.parent(), measures=measures, work=inputs.work / "parent" / "scan")
        found = _overlap(earlier, documents.scan, settings, inputs.work / "parent")
        numbers["parent_overlap_rate"] = found.documents / rows if rows else 0.0
    return told if inputs.others else None, numbers


def _overlap(left: Scan, right: Scan, settings: Any, place: Path) -> Overlap:
    return overlap(left.sketches, right.sketches, settings, work=place / "overlap")


def _starts(found: Scan) -> list[int]:
    """The first row of each job's documents among all."""
    starts = [0]
    for table in found.batches(["bytes"]):
        starts.append(starts[-1] + table.num_rows)
    return starts


def _row(number: int, starts: Sequence[int]) -> int:
    return starts[number >> ROW_BITS] + (number & ((1 << ROW_BITS) - 1))


def _places(documents: Documents, rows: set[int]) -> dict[int, dict[str, Any]]:
    """File and line of some documents."""
    places: dict[int, dict[str, Any]] = {}
    if not rows:
        return places
    wanted: Iterator[int] = iter(sorted(rows))
    row, begin = next(wanted), 0
    for table in documents.batches(["path", "line"]):
        while row < begin + table.num_rows:
            one = table.slice(row - begin, 1).to_pylist()[0]
            places[row] = {"file": one["path"], "line": one["line"]}
            if (following := next(wanted, None)) is None:
                return places
            row = following
        begin += table.num_rows
    return places
