"""Numbers of one document: of one in memory at once, of one too large for it while its bytes stream by.

Memory of the :class:`Counter` is bounded: a block, at most :data:`LINES_KEPT` line hashes of eight bytes, and one
line of at most :data:`LINE_COMPARED` bytes.
"""

from __future__ import annotations

import codecs
import hashlib
import itertools
import sys
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pretrain_archive.data.hashing import BLOCK

LINES_KEPT = 1 << 18
LINE_COMPARED = 4096
_LETTERS = bytes(range(ord("A"), ord("Z") + 1)) + bytes(range(ord("a"), ord("z") + 1))
_ASCII = bytes(range(0x80))
# C0 controls and DEL, without the ones that lay out text: tab, line feed, vertical tab, form feed, return.
_CONTROLS = bytes(set(range(0x20)) - set(b"\t\n\v\f\r")) + b"\x7f"
_KEEP_CONTROLS = bytes(set(range(256)) - set(_CONTROLS))
# One pass gives each byte its class; counting a class is faster than deleting what is none of it.
_LETTER, _CONTROL = 1, 2
_CLASSES = bytes(_LETTER if byte in _LETTERS else _CONTROL if byte in _CONTROLS else 0 for byte in range(256))


@dataclass(frozen=True, kw_only=True, slots=True)
class Statistics:
    """What is known of a document without its text.

    ``bytes``, ``characters``, ``lines`` and ``longest_line`` (bytes) are counts; ``control_characters``
    includes ``nul``; ``alphabetic_ratio`` is letters per character; ``repetition_ratio`` is the share of
    bytes in non-blank lines that occurred before in the document.
    """

    sha256: str
    bytes: int
    characters: int
    lines: int
    longest_line: int
    nul: int
    control_characters: int
    encoding_valid: bool
    alphabetic_ratio: float
    repetition_ratio: float


@dataclass(kw_only=True, slots=True)
class Counter:
    """Feed blocks of a document, then ask for its :meth:`statistics`."""

    _digest: hashlib._Hash = field(default_factory=hashlib.sha256)
    _decoder: codecs.IncrementalDecoder = field(default_factory=codecs.getincrementaldecoder("utf-8"))
    _bytes: int = 0
    _characters: int = 0
    _letters: int = 0
    _controls: int = 0
    _nul: int = 0
    _valid: bool = True
    _lines: int = 0
    _longest: int = 0
    _tail: bytes = b""
    _tail_size: int = 0
    _seen: set[int] = field(default_factory=set)
    _repeated: int = 0

    def feed(self, block: bytes) -> None:
        """Count ``block``."""
        if not block:
            return
        self._digest.update(block)
        self._bytes += len(block)
        self._nul += block.count(0)
        self._controls += len(block.translate(None, _KEEP_CONTROLS))
        self._letters += len(block) - len(block.translate(None, _LETTERS))
        self._decode(block, final=False)
        self._split(block)

    def statistics(self) -> Statistics:
        """The numbers of everything that was fed."""
        self._decode(b"", final=True)
        if self._tail_size:
            self._line()
        return Statistics(
            sha256="sha256:" + self._digest.hexdigest(),
            bytes=self._bytes,
            characters=self._characters,
            lines=self._lines,
            longest_line=self._longest,
            nul=self._nul,
            control_characters=self._controls,
            encoding_valid=self._valid,
            alphabetic_ratio=self._letters / self._characters if self._characters else 0.0,
            repetition_ratio=self._repeated / self._bytes if self._bytes else 0.0,
        )

    def _decode(self, block: bytes, *, final: bool) -> None:
        if not self._valid:
            self._characters += len(block)
            return
        try:
            text = self._decoder.decode(block, final)
        except UnicodeDecodeError:
            # Without an encoding there are no characters: bytes are counted in their place.
            self._valid = False
            self._characters += len(block)
            return
        self._characters += len(text)
        if not text.isascii():
            beyond = text.encode().translate(None, _ASCII).decode()
            self._letters += sum(map(str.isalpha, beyond))

    def _split(self, block: bytes) -> None:
        pieces = block.split(b"\n")
        for piece in pieces[:-1]:
            self._grow(piece)
            self._line()
        self._grow(pieces[-1])

    def _grow(self, piece: bytes) -> None:
        self._tail_size += len(piece)
        if self._tail_size <= LINE_COMPARED:
            self._tail += piece

    def _line(self) -> None:
        self._lines += 1
        self._longest = max(self._longest, self._tail_size)
        words = self._tail.strip() if self._tail_size <= LINE_COMPARED else b""
        if words:
            key = int.from_bytes(hashlib.blake2b(words, digest_size=8).digest(), "big")
            if key in self._seen:
                self._repeated += self._tail_size + 1
            elif len(self._seen) < LINES_KEPT:
                self._seen.add(key)
        self._tail = b""
        self._tail_size = 0


def of_text(raw: bytes, text: str | None = None) -> Statistics:
    """The statistics of a document in memory, as :class:`Counter` finds them; ``text`` spares decoding it.

    Each number is one pass of a built-in over the whole document. A document that is not UTF-8, or has more lines
    than are compared, is left to the counter.
    """
    import numpy as np  # noqa: PLC0415

    if text is None:
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return _counted(raw)
    if raw.count(b"\n") >= LINES_KEPT:
        return _counted(raw)
    lines = raw.split(b"\n")
    if not lines[-1]:
        lines.pop()
    characters = len(text)
    classes = raw.translate(_CLASSES)
    controls = classes.count(_CONTROL)
    letters = int(np.count_nonzero(np.frombuffer(classes, np.bool_))) - controls
    if characters != len(raw):
        letters += _letters_beyond_ascii(text)
    return Statistics(
        sha256="sha256:" + hashlib.sha256(raw).hexdigest(),
        bytes=len(raw),
        characters=characters,
        lines=len(lines),
        longest_line=max(map(len, lines), default=0),
        nul=raw.count(0) if controls else 0,
        control_characters=controls,
        encoding_valid=True,
        alphabetic_ratio=letters / characters if characters else 0.0,
        repetition_ratio=_repeated(lines) / len(raw) if raw else 0.0,
    )


def _counted(raw: bytes) -> Statistics:
    counter = Counter()
    for start in range(0, len(raw), BLOCK):
        counter.feed(raw[start : start + BLOCK])
    return counter.statistics()


def _repeated(lines: list[bytes]) -> int:
    """Bytes in non-blank lines that occurred before, whatever space surrounds them."""
    stripped = [line.strip() for line in lines]
    if len(set(stripped)) == len(lines):
        return 0
    seen: set[bytes] = set()
    repeated = 0
    for line, words in zip(lines, stripped, strict=True):
        if not words or len(line) > LINE_COMPARED:
            continue
        if words in seen:
            repeated += len(line) + 1
        else:
            seen.add(words)
    return repeated


def _letters_beyond_ascii(text: str) -> int:
    import numpy as np  # noqa: PLC0415

    codes = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
    return int(_letter_table()[codes].sum())


@cache
def _letter_table() -> Any:
    """One byte a code point: 1 for a letter (str.isalpha) beyond ASCII. A megabyte, made on first use."""
    import numpy as np  # noqa: PLC0415

    beyond = (chr(code).isalpha() for code in range(0x80, sys.maxunicode + 1))
    return np.fromiter(itertools.chain(itertools.repeat(0, 0x80), beyond), dtype=np.uint8)
