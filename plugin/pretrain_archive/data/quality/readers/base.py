"""What every reader takes and gives: a file, a document with its text, a unit that is none.

Reasons never hold text of the data, only places, numbers and words of our own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from pretrain_archive.data.quality.statistics import Statistics

LINE_LIMIT = 64 << 20
"""Bytes of a JSON line or CSV row that is still read; a longer one is broken."""

TEXT_LIMIT = 64 << 20
"""Bytes of a plain file that is held as one text; a larger one is counted while it streams by."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """A file of the data: name as text, size in bytes and how to open it."""

    path: str
    size: int
    open: Callable[[], BinaryIO]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fields:
    """The names of a record's fields or columns: its text, and what it declares about itself."""

    text: str = "text"
    domain: str = "domain"
    language: str = "language"
    label: str = "label"


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A document with its content.

    ``line`` is the line where it begins, or its row (from 1), 0 if it is the whole file. ``raw`` is the text
    as UTF-8; ``record`` the bytes of the whole record as they stand in the (unpacked) file, its line end
    included, empty where a record has none of its own (Parquet, a plain file). ``domain`` is the declared one,
    else the first folder of the path, ``.`` for a file in no folder. ``language`` and ``label`` are what the
    record declares, None where it declares nothing.
    """

    path: str
    line: int
    raw: bytes
    text: str
    record: bytes = b""
    domain: str = "."
    language: str | None = None
    label: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Broken:
    """A unit that is no document, and why; ``kind`` is a word or two for it (damaged, truncated gzip …).

    ``line`` 0 says that the fault is the file's, whatever was read of it before.
    """

    path: str
    line: int
    reason: str
    kind: str = "damaged"


@dataclass(frozen=True, kw_only=True, slots=True)
class Oversized(Broken):
    """A plain text above :data:`TEXT_LIMIT`: no text in memory, but its numbers; ``tokens`` is a count of words."""

    statistics: Statistics
    tokens: int = 0


class DamagedError(Exception):
    """A packed stream that cannot be read on; the message is a reason, ``kind`` as in :class:`Broken`."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


def domain_of(path: str) -> str:
    """The domain of a file that declares none: its first folder."""
    return path.partition("/")[0] if "/" in path else "."


def declared(value: object) -> str | None:
    """What a record says of itself, as text that has a UTF-8 form; None where it says nothing usable."""
    if isinstance(value, str):
        return value if value and (value.isascii() or not has_surrogate(value)) else None
    # A class is often a number. A truth value or a list is no name.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def has_surrogate(text: str) -> bool:
    """Whether a text has no UTF-8 form."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def lines(stream: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Number and bytes of each line; None for one above the limit, of which no more than that is held."""
    number = 0
    while line := stream.readline(LINE_LIMIT):
        number += 1
        if len(line) < LINE_LIMIT or line.endswith(b"\n"):
            yield number, line
            continue
        while (rest := stream.readline(LINE_LIMIT)) and not rest.endswith(b"\n"):
            pass
        yield number, None
