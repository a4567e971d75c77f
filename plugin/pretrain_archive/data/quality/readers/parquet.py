"""Parquet: one document a row. Row groups are read in batches, and only the columns that are needed.

Text is taken as bytes and decoded here: a file may say UTF-8 and hold something else. A row group that cannot
be read is one broken unit at its first lost row; the next one is read again.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from pretrain_archive.data.hashing import BLOCK
from pretrain_archive.data.quality.readers.base import TEXT_LIMIT, Broken, Fields, Text, domain_of
from pretrain_archive.data.quality.readers.parquet_pages import Pages

ROWS = 512
"""Rows of a batch: what is held beside the pages themselves."""


def read_parquet(path: str, stream: BinaryIO, fields: Fields) -> Iterator[Text | Broken]:
    """Yield the document of each row, and each row or row group that is none. ``stream`` need not seek."""
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # noqa: PLC0415

    faults = (pa.ArrowException, OSError, MemoryError, ValueError, NotImplementedError)
    with seekable(stream) as source:
        if fault := _ending(source):
            yield Broken(path=path, line=0, reason=fault, kind=fault.partition(":")[0])
            return
        try:
            # No read-ahead: a row group may be larger than the memory that we want to use.
            file = pq.ParquetFile(
                source, pre_buffer=False, buffer_size=BLOCK, page_checksum_verification=True
            )
            names = _columns(file.schema_arrow, fields, pa)
        except faults as error:
            yield Broken(path=path, line=0, reason=f"damaged parquet: {_told(error)}", kind="damaged parquet")
            return
        if isinstance(names, str):
            yield Broken(path=path, line=0, reason=names, kind="no text")
            return
        row, pages = 1, Pages(source)
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            read = 0
            try:
                if fault := pages.oversized(group, names):
                    raise MemoryError(fault)
                for batch in file.iter_batches(ROWS, [group], list(names), use_threads=False):
                    yield from _rows(path, row + read, _values(batch, names, pa), fields)
                    read += batch.num_rows
            except faults as error:
                reason = f"row group {group} cannot be read from row {row + read} to {row + rows - 1}"
                reason = f"damaged parquet: {reason}: {_told(error)}"
                yield Broken(path=path, line=row + read, reason=reason, kind="damaged parquet")
            row += rows


def seekable(stream: BinaryIO) -> BinaryIO:
    """The stream, or a copy in a temporary file: the directory of a Parquet file stands at its end."""
    if getattr(stream, "seekable", bool)():
        return stream
    spool = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    while block := stream.read(BLOCK):
        spool.write(block)
    spool.seek(0)
    return cast("BinaryIO", spool)


def _ending(source: BinaryIO) -> str:
    """Why the end of the file is no Parquet directory; empty if it can be one."""
    size = source.seek(0, io.SEEK_END)
    source.seek(max(0, size - 8))
    tail = source.read(8)
    if tail.endswith(b"PARE"):
        return "encrypted parquet: its directory is encrypted"
    length = int.from_bytes(tail[:4], "little")
    if size < 12 or not tail.endswith(b"PAR1") or length > size - 12:
        return "truncated parquet: the directory at its end is not there"
    return ""


def _columns(schema: Any, fields: Fields, pa: Any) -> dict[str, str] | str:
    """Which columns are read for which field, or the reason why there is no text."""
    if fields.text not in schema.names:
        return f"no column {fields.text!r}"
    if not _is_text(schema.field(fields.text).type, pa):
        return f"column {fields.text!r} is {schema.field(fields.text).type}, not text"
    wanted = (fields.text, fields.domain, fields.language, fields.label)
    return {name: name for name in wanted if name in schema.names and _is_plain(schema.field(name).type, pa)}


def _is_text(kind: Any, pa: Any) -> bool:
    # Old writers left out that bytes are text; whether they are is seen row by row.
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(inner) for test in tests)


def _is_plain(kind: Any, pa: Any) -> bool:
    return _is_text(kind, pa) or bool(pa.types.is_integer(kind))


def _values(batch: Any, names: dict[str, str], pa: Any) -> dict[str, list[Any]]:
    """The values of each column; text as bytes, since nobody has looked yet whether it is UTF-8."""
    values = {}
    for name in names:
        column = batch.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_string(column.type):
            column = column.view(pa.binary())
        elif pa.types.is_large_string(column.type):
            column = column.view(pa.large_binary())
        values[name] = column.to_pylist()
    return values


def _rows(path: str, first: int, values: dict[str, list[Any]], fields: Fields) -> Iterator[Text | Broken]:
    none = [None] * len(values[fields.text])
    declared = [values.get(name, none) for name in (fields.domain, fields.language, fields.label)]
    columns = (values[fields.text], *declared)
    for row, (raw, domain, language, label) in enumerate(zip(*columns, strict=True), first):
        if raw is None:
            yield Broken(path=path, line=row, reason=f"no text in column {fields.text!r}")
            continue
        if len(raw) > TEXT_LIMIT:
            yield Broken(path=path, line=row, reason=f"longer than {TEXT_LIMIT} bytes")
            continue
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            yield Broken(path=path, line=row, reason="not UTF-8")
            continue
        yield Text(
            path=path,
            line=row,
            raw=raw,
            text=text,
            domain=_name(domain) or domain_of(path),
            language=_name(language),
            label=_name(label),
        )


def _name(value: bytes | int | None) -> str | None:
    if isinstance(value, bytes):
        try:
            return value.decode() or None
        except UnicodeDecodeError:
            return None
    return None if value is None else str(value)


def _told(error: BaseException) -> str:
    """The kind of a fault. The library's words may quote bytes of the file: they are left out."""
    if "crypt" in str(error):
        return "it is encrypted"
    if "CRC" in str(error) or "checksum" in str(error):
        return "wrong checksum"
    if isinstance(error, MemoryError) and str(error).startswith("a page says"):
        return str(error)
    return type(error).__name__
