"""Documents that are like others: near duplicates in the data, and twins in sets that must not be in it.

Everything is found in the sketches that a scan left, by document numbers; memory is bounded by the search's setting
and a number per document that is found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pretrain_archive.data.quality.facts import Inputs
from pretrain_archive.data.quality.item_overlap import items_of
from pretrain_archive.data.quality.neardup.search import NearDuplicates, Overlap, find, overlap
from pretrain_archive.data.quality.scan import Measures, Scan, scan

if TYPE_CHECKING:
    from pretrain_archive.data.quality.tables import Documents

ROW_BITS = 32
"""A document's number in a sketch: the ordinal of its job, then its row in so many bits."""

Examples = dict[str, Sequence[Mapping[str, Any]]]


def starts_of(found: Scan) -> list[int]:
    """The first row of each job's documents among all, and at the end the number of all."""
    starts = [0]
    for table in found.batches(["bytes"]):
        starts.append(starts[-1] + table.num_rows)
    return starts


def row_of(number: int, starts: Sequence[int]) -> int:
    """The row among all documents of the one with this number."""
    return starts[number >> ROW_BITS] + (number & ((1 << ROW_BITS) - 1))


def places_of(documents: Documents, rows: set[int]) -> dict[int, dict[str, Any]]:
    """File and line of some documents, by row."""
    places: dict[int, dict[str, Any]] = {}
    wanted: Iterator[int] = iter(sorted(rows))
    row, begin = next(wanted, None), 0
    for table in documents.batches(["path", "line"]):
        while row is not None and row < begin + table.num_rows:
            one = table.slice(row - begin, 1).to_pylist()[0]
            places[row] = {"file": one["path"], "line": one["line"]}
            row = next(wanted, None)
        if row is None:
            break
        begin += table.num_rows
    return places


def find_near(
    documents: Documents, inputs: Inputs, starts: Sequence[int], examples: Examples
) -> NearDuplicates:
    """Search the data's own sketches, and list some pairs that are alike without being equal."""
    found = find(documents.scan.sketches, inputs.measures.near_duplicates, work=inputs.work / "near")
    pairs = [
        (row_of(one.first, starts), row_of(one.second, starts), one.jaccard)
        for one in found.examples
        if one.jaccard < 1
    ]
    places = places_of(documents, {row for pair in pairs for row in pair[:2]})
    examples["near_duplicates"] = [
        {**places[second], "same_as": places[first], "jaccard": round(jaccard, 4)}
        for first, second, jaccard in pairs
    ]
    return found


def near_report(found: NearDuplicates, exact: int) -> dict[str, Any]:
    """What a report tells of near duplicates; documents that equal an earlier one byte by byte are not among them."""
    told = found.to_json()
    told.pop("examples")
    bars = told.pop("histogram")
    return told | {
        "documents": found.dropped - exact,
        "searched": found.documents,
        "jaccard": [bar[2] for bar in bars],
    }


def compared(
    documents: Documents, inputs: Inputs, near: NearDuplicates | None, starts: Sequence[int]
) -> tuple[list[dict[str, Any]] | None, dict[str, float], list[Iterable[int]]]:
    """What of the data is, or nearly is, in another set.

    The sets with their counts (None if there are none): how many documents of the data have a twin there, and how many
    of the set's items stand in the data. Further aggregates, and for each set the numbers of the
    documents that were found.
    """
    settings = inputs.measures.near_duplicates
    if settings is None:
        return None, {}, []
    told: list[dict[str, Any]] = []
    marks: list[Iterable[int]] = []
    numbers: dict[str, float] = {}
    items = items_of(inputs)
    for place, (name, shards) in enumerate(inputs.others.items()):
        folder = inputs.work / f"set-{place}"
        other = scan(shards(), measures=_sketched(inputs), work=folder / "scan")
        found = _overlap(other, documents.scan, settings, folder)
        marks.append([number for number, _ in found.twins()])
        told.append({
            "name": name, "of": other.totals.documents, "documents": found.documents, "exact": found.exact,
            "items": items[name].contaminated, "rare_items": items[name].rare, "tested": items[name].tested,
        })  # fmt: skip
    if inputs.parent is not None and starts[-1]:
        folder = inputs.work / "parent"
        earlier = scan(inputs.parent(), measures=_sketched(inputs), work=folder / "scan")
        numbers["parent_overlap_rate"] = (
            _overlap(earlier, documents.scan, settings, folder).documents / starts[-1]
        )
    if inputs.validation is not None and near is not None:
        share = held_out(documents, inputs, near, starts)
        numbers |= {} if share is None else {"validation_overlap": share}
    return told if inputs.others else None, numbers, marks


def held_out(
    documents: Documents, inputs: Inputs, near: NearDuplicates, starts: Sequence[int]
) -> float | None:
    """The share of validation documents that equal, or are connected by likeness to, a training document.

    The documents of the validation part are known by the digests of their texts; of a text that the data hold more
    often than the validation part does, a copy is in training.
    """
    assert inputs.validation is not None
    part = scan(inputs.validation(), measures=_plain(inputs), work=inputs.work / "validation" / "scan")
    copies: Counter[bytes] = Counter()
    for table in part.batches(["sha256"]):
        copies.update(table["sha256"].to_pylist())
    if not copies:
        return None
    rows = _rows_of(documents, copies)
    trained = sum(count for digest, count in copies.items() if len(rows.get(digest, ())) > count)
    held = {row for digest, found in rows.items() if len(found) <= copies[digest] for row in found}
    heads: dict[int, int] = dict.fromkeys(held, 0)
    head_of: dict[int, int] = {}
    for number, kept in near.twins():
        if (row := row_of(number, starts)) in held:
            head_of[row] = row_of(kept, starts)
    members = Counter(head_of.get(row, row) for row in heads)
    mixed = {head for head in members if head not in held}
    for number, kept in near.twins():
        if (head := row_of(kept, starts)) in members and row_of(number, starts) not in held:
            mixed.add(head)
    return (trained + sum(members[head] for head in mixed)) / copies.total()


def _rows_of(documents: Documents, wanted: Mapping[bytes, int]) -> dict[bytes, list[int]]:
    """The rows of the data whose text has one of these digests."""
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415
    import pyarrow.compute as pc  # type: ignore[import-untyped]  # noqa: PLC0415

    known = pa.array(list(wanted), pa.binary(16))
    rows: dict[bytes, list[int]] = {}
    begin = 0
    for table in documents.batches(["sha256"]):
        column = table["sha256"].combine_chunks()
        for row in pc.indices_nonzero(pc.is_in(column, value_set=known)).to_pylist():
            rows.setdefault(column[row].as_py(), []).append(begin + row)
        begin += table.num_rows
    return rows


def _plain(inputs: Inputs) -> Measures:
    return Measures(fields=inputs.measures.fields, heuristics=False, language="off")


def _sketched(inputs: Inputs) -> Measures:
    return Measures(
        fields=inputs.measures.fields,
        heuristics=False,
        language="off",
        near_duplicates=inputs.measures.near_duplicates,
    )


def _overlap(left: Scan, right: Scan, settings: Any, folder: Path) -> Overlap:
    return overlap(left.sketches, right.sketches, settings, work=folder / "overlap")
