"""One machine: the scan measures every document, sketches are searched for near duplicates, and all is summed up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pretrain_archive.data.quality.aggregates import Plan, Summary, summarise, total
from pretrain_archive.data.quality.columns import beyond
from pretrain_archive.data.quality.facts import EXAMPLES, Facts, Inputs
from pretrain_archive.data.quality.fields import field_batches
from pretrain_archive.data.quality.judging.local import LocalJudge
from pretrain_archive.data.quality.likeness import (
    Examples,
    compared,
    find_near,
    near_report,
    places_of,
    row_of,
    starts_of,
)
from pretrain_archive.data.quality.neardup.search import NearDuplicates
from pretrain_archive.data.quality.readers.base import domain_of
from pretrain_archive.data.quality.scan import Scan, scan
from pretrain_archive.data.quality.tables import Documents, twins_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@contextmanager
def measure_local(inputs: Inputs) -> Iterator[tuple[Facts, Plan]]:
    """Measure everything on this machine; what was measured can be judged inside the ``with`` block."""
    found = scan(
        inputs.shards(), measures=inputs.measures, work=inputs.work / "scan", progress=inputs.progress
    )
    documents = Documents(scan=found)
    examples = listed(found)
    duplicates = _exact(documents, examples)
    starts = starts_of(found)
    near = _near(documents, inputs, starts, examples)
    contamination, numbers, marked = compared(documents, inputs, near, starts)
    if marked:
        documents.marks["contaminated"] = _marks((one for found in marked for one in found), starts)
    plan = plan_of(inputs, documents.columns)
    summary = total(summarise(table, plan) for table in documents.batches(plan.names()))
    blame_findings(summary, found.findings())
    examples["unclean_documents"] = unclean(documents, plan) if summary.unclean else []
    judge = LocalJudge(documents.batches, plan, fields=field_batches(inputs.shards))
    facts = facts_of(found, summary, plan, judge)
    facts.exact_duplicates = duplicates
    facts.near = None if near is None else near_report(near, duplicates)
    facts.contamination, facts.numbers, facts.examples = contamination, numbers, examples
    yield facts, plan


def plan_of(inputs: Inputs, columns: frozenset[str]) -> Plan:
    """What is summed up of documents with these columns."""
    return Plan(
        thresholds=inputs.suite.thresholds,
        rules=tuple(rule for rule in inputs.suite.rules if rule.table == "documents" and rule.rows),
        columns=columns,
    )


def facts_of(found: Scan, summary: Summary, plan: Plan, judge: Any) -> Facts:
    """The facts that a scan and a sum tell; what comparing documents tells is added by the engine."""
    totals = found.totals
    return Facts(
        judge=judge,
        summary=summary,
        columns=plan.columns,
        files=totals.files,
        documents=totals.documents,
        total_bytes=totals.bytes,
        empty=totals.empty,
        broken=totals.broken,
        not_read=totals.not_read,
        sensitive={kind: counts[0] for kind, counts in summary.sensitive.items()},
    )


def blame_findings(summary: Summary, findings: Iterable[Mapping[str, Any]]) -> None:
    """Where broken records lie, as far as they are listed."""
    paths = Counter(str(one["path"]) for one in findings if one["kind"] == "broken")
    domains: Counter[str] = Counter()
    for path, count in paths.items():
        domains[domain_of(path)] += count
    if paths:
        summary.blamed("format", paths, domains)


def listed(found: Scan) -> Examples:
    """The scan's located findings by what a report calls them."""
    names = {"broken": "format_errors", "oversized": "oversized", "nul": "nul"}
    made: dict[str, list[Mapping[str, Any]]] = {}
    for one in found.findings():
        kind = str(one["kind"])
        place: dict[str, Any] = {"file": one["path"], "line": one["line"]}
        if kind.startswith("sensitive_"):
            place |= {"kind": kind.removeprefix("sensitive_"), "offset": one.get("offset")}
            made.setdefault("sensitive", []).append(place)
        elif kind in names:
            made.setdefault(names[kind], []).append(place | {"reason": one.get("reason", "")})
    return {name: places[:EXAMPLES] for name, places in made.items()}


def unclean(documents: Documents, plan: Plan) -> list[dict[str, Any]]:
    """The first unclean documents: where they are, and which thresholds they break."""
    import numpy as np  # noqa: PLC0415

    thresholds = [one for one in plan.usable() if one.group == "cleanliness"]
    names = {one.column for one in thresholds} | {one.where.column for one in thresholds if one.where}
    made: list[dict[str, Any]] = []
    for table in documents.batches(sorted({"path", "line"} | names)):
        broken = {one.id: beyond(table, one) for one in thresholds}
        for row in np.flatnonzero(np.any(list(broken.values()), axis=0)):
            place = table.slice(int(row), 1).select(["path", "line"]).to_pylist()[0]
            reasons = [name for name, mask in broken.items() if mask[row]]
            made.append({"file": place["path"], "line": place["line"], "reasons": reasons})
            if len(made) >= EXAMPLES:
                return made
    return made


def _exact(documents: Documents, examples: Examples) -> int:
    """Mark documents whose bytes equal an earlier one's, and list some; their number."""
    import numpy as np  # noqa: PLC0415

    parts = [_digests(table["sha256"]) for table in documents.batches(["sha256"])]
    digests = np.concatenate(parts) if parts else np.zeros((0, 2), np.uint64)
    marks, twins = twins_of(digests)
    documents.marks["duplicate"] = marks
    places = places_of(documents, {*twins, *twins.values()})
    examples["exact_duplicates"] = [
        {**places[row], "same_as": places[first]} for row, first in sorted(twins.items())
    ]
    return int(marks.sum())


def _near(
    documents: Documents, inputs: Inputs, starts: list[int], examples: Examples
) -> NearDuplicates | None:
    """Search the sketches and mark documents that are like an earlier one without being equal to it."""
    if inputs.measures.near_duplicates is None or not starts[-1]:
        return None
    found = find_near(documents, inputs, starts, examples)
    alike = _marks((number for number, _ in found.twins()), starts)
    documents.marks["near_duplicate"] = alike & ~documents.marks["duplicate"]
    return found


def _marks(numbers: Iterable[int], starts: list[int]) -> NDArray[np.bool_]:
    """A bit a document, set for those of these numbers."""
    import numpy as np  # noqa: PLC0415

    marks = np.zeros(starts[-1], dtype=bool)
    for number in numbers:
        marks[row_of(number, starts)] = True
    return marks


def _digests(column: Any) -> NDArray[np.uint64]:
    """Digests of 16 bytes as two whole numbers each."""
    import numpy as np  # noqa: PLC0415

    raw = b"".join(map(_raw, column.chunks))
    return np.frombuffer(raw, ">u8").astype(np.uint64).reshape(-1, 2)


def _raw(chunk: Any) -> bytes:
    """The bytes of a chunk of 16-byte values without a missing one."""
    start = chunk.offset * 16
    return bytes(chunk.buffers()[1][start : start + len(chunk) * 16])
