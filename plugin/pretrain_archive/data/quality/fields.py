"""Numbers that records carry themselves (a score, a year): the table ``fields`` that a project's own rules may ask.

A value that is no number is missing; ``nan`` is missing too, ``inf`` is a number and out of every range. A record of
a form without fields (plain text) has none.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from pretrain_archive.data.containers import bare_name, kind_of, looks_like_json_lines
from pretrain_archive.data.quality.documents import Shard, beginning
from pretrain_archive.data.quality.readers.base import LINE_LIMIT, DamagedError, lines
from pretrain_archive.data.quality.readers.packed import unpacked
from pretrain_archive.data.quality.readers.parquet import seekable

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

ROWS = 1 << 16


def field_batches(shards: Callable[[], Iterable[Shard]]) -> Callable[[Sequence[str]], Iterator[pa.Table]]:
    """A reader of named fields of all records, batch by batch; a field that no record has is in no batch."""

    def batches(names: Sequence[str]) -> Iterator[pa.Table]:
        import pyarrow as pa  # noqa: PLC0415

        held: list[list[float | None]] = []
        for shard in shards():
            for row in _rows(shard, names):
                held.append(row)
                if len(held) >= ROWS:
                    yield _table(names, held, pa)
                    held = []
        if held:
            yield _table(names, held, pa)

    return batches


def _table(names: Sequence[str], rows: list[list[float | None]], pa: Any) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table(
        {name: pa.array(column, pa.float64()) for name, column in zip(names, columns, strict=True)}
    )


def _rows(shard: Shard, names: Sequence[str]) -> Iterator[list[float | None]]:
    """The values of each record that has at least one of the fields."""
    with closing(shard.open()) as opened:
        head, stream = beginning(opened)
        kind, name = kind_of(shard.path, head), shard.path
        try:
            if kind in {"gzip", "zstd"}:
                head, stream = beginning(unpacked(kind, stream))
                name = bare_name(name)
                kind = kind_of(name, head)
                name += ".jsonl" if not kind and looks_like_json_lines(name, head) else ""
            records = _records(name.lower(), kind, stream, names)
            for record in records:
                if any(field in record for field in names):
                    yield [_number(record.get(field)) for field in names]
        except DamagedError:
            return  # the scan tells where a shard is broken


def _records(name: str, kind: str, stream: BinaryIO, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    if kind == "parquet":
        yield from _parquet(stream, names)
    elif name.endswith(".csv"):
        yield from _csv(stream)
    elif name.endswith((".jsonl", ".ndjson")):
        for _, line in lines(stream):
            try:
                value = json.loads(line or b"null")
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                yield value


def _csv(stream: BinaryIO) -> Iterator[dict[str, Any]]:
    """Rows as the scan reads them: after one that is broken, and told by the scan, the next is read."""
    csv.field_size_limit(min(LINE_LIMIT, sys.maxsize))
    rows = csv.reader(_decoded(stream), strict=True)
    try:
        header = next(rows, [])
    except csv.Error:
        return
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error:
            continue
        if len(row) == len(header):
            yield dict(zip(header, row, strict=True))


def _decoded(stream: BinaryIO) -> Iterator[str]:
    for number, line in lines(stream):
        yield "\n" if line is None else line.decode("utf-8-sig" if number == 1 else "utf-8", errors="replace")


def _parquet(stream: BinaryIO, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # noqa: PLC0415

    faults = (pa.ArrowException, OSError)
    try:
        file = pq.ParquetFile(seekable(stream), pre_buffer=False)
    except faults:
        return
    present = [name for name in names if name in file.schema_arrow.names]
    for group in range(file.num_row_groups if present else 0):
        # What of a group cannot be read is told by the scan; the next one is read again.
        with suppress(*faults):
            for batch in file.iter_batches(ROWS, [group], columns=present):
                yield from batch.to_pylist()


def _number(value: Any) -> float | None:
    """The number, None where there is none; NaN says that the value is missing."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if number != number else number  # noqa: PLR0124 - only NaN differs from itself
