"""Follow a training program's log: clean, bounded lines for people; the raw bytes stay in the file.

A program can write a gigabyte a second, a reader reads some lines a second: only so many lines are shown, the
others are counted and named ("1200 lines more in the log"), and the last ones are always shown.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pretrain_archive.storage.regular import NotRegularError, open_regular

MAX_DISPLAY = 2000
BURST = 2000
"""Lines that may be shown at once."""
LINES_A_SECOND = 200
LEAST = 20
"""Lines that are shown in one piece, where not all are: single lines out of thousands tell nobody anything."""
LAST_LINES = 40
"""What is shown of the end in any case: there the program says why it failed."""
MAX_READ = 64 * 1024 * 1024
"""Bytes that one call reads of a log that grows faster than it is read."""
_CHUNK = 1024 * 1024
_STEP_TRIES = 200
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_STEP = re.compile(r"\bstep[ =:]+(\d{1,15})\b", re.IGNORECASE)


def clean_line(raw: bytes) -> tuple[str, int]:
    """A line as text and how many bytes of it were not UTF-8.

    Of text that was overwritten by carriage returns the last piece stays, colours and control characters go,
    what is too long is cut.
    """
    pieces = [piece for piece in raw.split(b"\r") if piece]
    last = pieces[-1] if pieces else b""
    text = last.decode("utf-8", "surrogateescape")
    bad = sum(0xDC80 <= ord(char) <= 0xDCFF for char in text)
    text = _ESCAPES.sub("", last.decode("utf-8", "replace"))
    text = "".join(
        char if char.isprintable() or char == "\t" else "�" if char == "\0" else "" for char in text
    )
    if len(text) > MAX_DISPLAY:
        text = f"{text[:MAX_DISPLAY]}… ({len(text) - MAX_DISPLAY} more)"
    return text, bad


@dataclass(kw_only=True)
class LogTail:
    """Reads what was appended since the last call. Memory is bounded by one chunk and a few lines.

    ``last_step`` is the step that the last line with one names, shown or not; ``bad_bytes`` are the bytes of
    shown lines that are not UTF-8; ``replaced`` says that something else lies in the log's place.
    """

    path: Path
    clock: Callable[[], float] = time.monotonic
    offset: int = 0
    bad_bytes: int = 0
    last_step: int | None = None
    replaced: str = ""
    _carry: bytes = field(default=b"", repr=False)
    _more: int = 0
    _last: deque[bytes] = field(default_factory=lambda: deque(maxlen=LAST_LINES), repr=False)
    _credit: float = BURST
    _filled: float = 0.0

    def blocks(self, *, final: bool = False) -> Iterator[list[str]]:
        """New whole lines, cleaned, a bounded block at a time; with ``final`` also the unfinished one.

        Not final, a call reads at most :data:`MAX_READ` bytes, so that its caller can do something else too.
        """
        try:
            with open_regular(self.path) as file:
                file.seek(self.offset)
                end = self.offset + MAX_READ
                while (final or self.offset < end) and (chunk := file.read(_CHUNK)):
                    self.offset += len(chunk)
                    yield self._split(chunk)
        except FileNotFoundError:
            return
        except NotRegularError as error:
            self.replaced = f"{self.path.name} is {error.found}"
        if final:
            rest = [self._carry] if self._carry else []
            self._carry = b""
            self._step_of(rest)
            yield [*self._rest(), *map(self._clean, rest)]

    def _split(self, chunk: bytes) -> list[str]:
        """The lines of a chunk that are shown; the others are counted."""
        *whole, rest = chunk.split(b"\n")
        if whole:
            whole[0] = self._carry + whole[0]
            self._carry = b""
        self._carry = _start_of(self._carry + rest)
        if any(
            b"step" in text.lower() for text in (chunk, *whole[:1])
        ):  # the carried line may hold its begin
            self._step_of(whole)
        room = self._room(len(whole))
        shown = [*self._note(), *map(self._clean, whole[:room])] if room else []
        self._more += len(whole) - room
        self._last.extend(whole[max(room, len(whole) - LAST_LINES) :])
        return shown

    def _room(self, wanted: int) -> int:
        """How many of so many lines may be shown now."""
        now = self.clock()
        self._credit = min(BURST, self._credit + (now - self._filled) * LINES_A_SECOND)
        self._filled = now
        room = min(wanted, int(self._credit))
        if room < min(wanted, LEAST):
            return 0
        self._credit -= room
        return room

    def _note(self) -> list[str]:
        """Name the lines that were passed over, once."""
        more, self._more = self._more, 0
        self._last.clear()
        return [f"… {more} lines more in the log"] if more else []

    def _rest(self) -> list[str]:
        """At the end: the last lines that were passed over."""
        last = list(self._last)
        self._more -= len(last)
        return [*self._note(), *map(self._clean, last)]

    def _step_of(self, lines: list[bytes]) -> None:
        """Find the last line that names a step, looking from the end at a bounded number of candidates."""
        named = (line for line in reversed(lines) if b"step" in line.lower())
        for line, _ in zip(named, range(_STEP_TRIES), strict=False):
            if match := _STEP.search(clean_line(_end_of(line))[0]):
                self.last_step = int(match[1])
                return

    def _clean(self, raw: bytes) -> str:
        text, bad = clean_line(_end_of(raw))
        self.bad_bytes += bad
        return text

    def digest(self) -> str | None:
        """``sha256:…`` over the whole raw log as it lies there, None if there is none."""
        try:
            with open_regular(self.path) as file:
                return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
        except (FileNotFoundError, NotRegularError):
            return None


def _start_of(carry: bytes) -> bytes:
    """What is kept of an unfinished line: after a carriage return only the last piece is of use."""
    if len(carry) <= 4 * MAX_DISPLAY:
        return carry
    kept = carry[carry.rfind(b"\r") :] if b"\r" in carry else carry
    return kept[: 4 * MAX_DISPLAY]


def _end_of(line: bytes) -> bytes:
    return line[-64 * 1024 :] if b"\r" in line else line
