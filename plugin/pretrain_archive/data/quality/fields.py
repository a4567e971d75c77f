"""Numbers that records carry themselves (a score, a year): the table ``fields`` that a project's own rules may ask.

A value that is no number is missing; ``nan`` is missing too, ``inf`` is a number and out of every range. A record of
a form without fields (plain text) has none.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from pretrain_archive.data.containers import HEAD, bare_name, kind_of
from pretrain_archive.data.quality.documents import Shard
from pretrain_archive.data.quality.readers.base import DamagedError, lines
from pretrain_archive.data.quality.readers.packed import unpacked

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
        stream = opened
        head = opened.read(HEAD)
        opened.seek(0)
        kind, name = kind_of(shard.path, head), shard.path
        if kind in {"gzip", "zstd"}:
            stream, name, kind = unpacked(kind, opened), bare_name(name), ""
        try:
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
        text = io.TextIOWrapper(cast("Any", stream), "utf-8-sig", errors="replace", newline="")
        try:
            yield from csv.DictReader(text)
        except csv.Error:
            return
    elif name.endswith((".jsonl", ".ndjson")):
        for _, line in lines(stream):
            try:
                value = json.loads(line or b"null")
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                yield value


def _parquet(stream: BinaryIO, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        file = pq.ParquetFile(stream)
        present = [name for name in names if name in file.schema_arrow.names]
        if present:
            for batch in file.iter_batches(ROWS, columns=present):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError):
        return


def _number(value: Any) -> float | None:
    """The number, None where there is none; NaN says that the value is missing."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if number != number else number  # noqa: PLR0124 - only NaN differs from itself
