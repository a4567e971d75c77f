"""Write a Parquet file again with some of its rows: every column, the schema with its metadata, the same row groups.

A row has no bytes of its own in this format, so kept values are the same and the file is not. The same rows give the
same bytes on the same library, whose version is told by :func:`writer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

from pretrain_archive.data.hashing import BLOCK
from pretrain_archive.data.quality.readers.parquet import ROWS
from pretrain_archive.domain.errors import StorageError

COMPRESSION = "zstd"


def writer() -> str:
    """The library that writes, with its version."""
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415

    return f"pyarrow {pa.__version__}, {COMPRESSION}"


def keep_rows(path: str, source: BinaryIO, out: BinaryIO, keep: Callable[[int], bool]) -> None:
    """Copy the rows for which ``keep`` (row, from 1) holds from ``source``, which seeks, into ``out``.

    Memory holds a row group of what is kept. ``StorageError`` where a kept row cannot be read in all its columns.
    """
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # noqa: PLC0415

    file = pq.ParquetFile(source, pre_buffer=False, buffer_size=BLOCK, page_checksum_verification=True)
    row = 1
    with pq.ParquetWriter(out, file.schema_arrow, compression=COMPRESSION) as writing:
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            marks = [keep(number) for number in range(row, row + rows)]
            row += rows
            if any(marks):
                try:
                    _copy_group(file, group, marks, writing, pa)
                except (pa.ArrowException, OSError, ValueError, NotImplementedError) as error:
                    raise StorageError(
                        f"{path}: row group {group} cannot be copied ({type(error).__name__}).",
                        hint="Leave the file out by a pattern, or write it anew.",
                    ) from None


def _copy_group(file: Any, group: int, marks: list[bool], writing: Any, pa: Any) -> None:
    """Copy one row group batch by batch, up to its last kept row: what follows may not be readable."""
    last, at, kept = max(place for place, mark in enumerate(marks) if mark), 0, []
    for batch in file.iter_batches(ROWS, [group], use_threads=False):
        mask = marks[at : at + batch.num_rows]
        at += batch.num_rows
        if any(mask):
            kept.append(batch.filter(pa.array(mask)))
        if at > last:
            break
    if at <= last:
        raise ValueError("the group ends before its last row")
    writing.write_table(pa.Table.from_batches(kept, file.schema_arrow))
