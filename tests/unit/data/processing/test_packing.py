"""Lists are packed into the same bytes at any time."""

from __future__ import annotations

import gzip
import io
import time

import pytest
import zstandard

from pretrain_archive.data.processing.packing import codec, packed

LINES = [b"one line\n" * 50, b"", b"another\n"]


@pytest.mark.parametrize("packing", ["gzip", "zstd", ""])
def test_same_lines_same_bytes(packing, monkeypatch):
    """Neither the clock nor the size of the pieces is in the result, and it reads back."""
    made = []
    for moment, pieces in ((1e9, LINES), (2e9, LINES)):
        monkeypatch.setattr(time, "time", lambda moment=moment: moment)
        out = io.BytesIO()
        with packed(packing, out) as write:
            for piece in pieces:
                write(piece)
        made.append(out.getvalue())
    unpack = {
        "gzip": gzip.decompress,
        "zstd": lambda raw: zstandard.ZstdDecompressor().decompressobj().decompress(raw),
        "": bytes,
    }[packing]

    assert made[0] == made[1]
    assert b"".join(LINES) == unpack(made[0])
    assert bool(packing) == bool(codec(packing))
