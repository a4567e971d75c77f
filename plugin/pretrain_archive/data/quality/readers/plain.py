"""Plain text and source code: the whole file is one document."""

from __future__ import annotations

from typing import BinaryIO

from pretrain_archive.data.hashing import BLOCK
from pretrain_archive.data.quality.readers.base import TEXT_LIMIT, Broken, Oversized, Text, domain_of
from pretrain_archive.data.quality.statistics import Counter


def read_plain(path: str, stream: BinaryIO) -> Text | Broken:
    """The document of a file. A blank file is an empty one, a very large one only its numbers."""
    blocks, size = [], 0
    while size <= TEXT_LIMIT and (block := stream.read(BLOCK)):
        blocks.append(block)
        size += len(block)
    if size > TEXT_LIMIT:
        return _streamed(path, blocks, stream)
    raw = b"".join(blocks)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return Broken(path=path, line=0, reason="not UTF-8", kind="encoding")
    if not raw.strip():
        raw, text = b"", ""
    return Text(path=path, line=0, raw=raw, text=text, domain=domain_of(path))


def _streamed(path: str, blocks: list[bytes], stream: BinaryIO) -> Broken:
    counter, tokens, joined = Counter(), 0, False
    while block := (blocks.pop(0) if blocks else stream.read(BLOCK)):
        counter.feed(block)
        # Words at blanks of ASCII: what is too large for memory is a log or a dump, and each word counts once.
        tokens += len(block.split()) - (joined and not block[:1].isspace())
        joined = not block[-1:].isspace()
    statistics = counter.statistics()
    if not statistics.encoding_valid:
        return Broken(path=path, line=0, reason="not UTF-8", kind="encoding")
    reason = f"a text above {TEXT_LIMIT} bytes: it is counted, and nothing else is measured"
    return Oversized(path=path, line=0, reason=reason, kind="oversized", statistics=statistics, tokens=tokens)
