"""Write lists of documents again, packed as they were: the same lines give the same bytes on the same libraries.

gzip (RFC 1952) without name and time, zstd (RFC 8878) as one frame with its content's checksum. Which versions of
the libraries wrote is recorded with the step, since another version may pack the same lines into other bytes.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

GZIP_LEVEL = 6
ZSTD_LEVEL = 3

Write = Callable[[bytes], object]


@contextmanager
def packed(packing: str, out: BinaryIO) -> Iterator[Write]:
    """A function that takes the plain bytes; everything has reached ``out`` when the context ends."""
    if packing == "gzip":
        with gzip.GzipFile(filename="", mode="wb", compresslevel=GZIP_LEVEL, fileobj=out, mtime=0) as stream:
            yield stream.write
    elif packing == "zstd":
        import zstandard  # noqa: PLC0415

        packer = zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=True, write_content_size=False)
        with packer.stream_writer(out, closefd=False) as writer:
            yield cast("Write", writer.write)
    else:
        yield out.write


def codec(packing: str) -> str:
    """The library behind a packing, with its version; empty for none."""
    if packing == "gzip":
        return f"zlib {zlib.ZLIB_RUNTIME_VERSION}, level {GZIP_LEVEL}"
    if packing == "zstd":
        import zstandard  # noqa: PLC0415

        return f"zstd {'.'.join(map(str, zstandard.ZSTD_VERSION))}, level {ZSTD_LEVEL}"
    if packing == "parquet":
        from pretrain_archive.data.quality.parquet_rows import writer  # noqa: PLC0415

        return writer()
    return ""
