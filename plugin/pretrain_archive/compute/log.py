"""Follow a training program's log: clean, bounded lines for people; the raw bytes stay in the file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MAX_DISPLAY = 2000
_CHUNK = 1024 * 1024
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
    """Reads what was appended since the last call. Memory is bounded by one chunk and one line's start."""

    path: Path
    offset: int = 0
    bad_bytes: int = 0
    last_step: int | None = None
    _carry: bytes = field(default=b"", repr=False)
    _dropped: int = 0

    def blocks(self, *, final: bool = False) -> Iterator[list[str]]:
        """New whole lines, cleaned, a bounded block at a time; with ``final`` also the unfinished one."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                while chunk := file.read(_CHUNK):
                    self.offset += len(chunk)
                    yield self._split(chunk)
        except FileNotFoundError:
            return
        if final and self._carry:
            yield [self._finish(b"")]

    def _split(self, chunk: bytes) -> list[str]:
        *whole, rest = chunk.split(b"\n")
        lines = [self._finish(piece) for piece in whole]
        self._carry += rest
        if len(self._carry) > 4 * MAX_DISPLAY:
            # Updates by carriage return leave only the last; of one endless line the start is what people see.
            kept = self._carry[self._carry.rfind(b"\r") :] if b"\r" in self._carry else self._carry
            kept = kept[: 4 * MAX_DISPLAY]
            self._dropped += len(self._carry) - len(kept)
            self._carry = kept
        return lines

    def _finish(self, piece: bytes) -> str:
        raw, self._carry = self._carry + piece, b""
        text, bad = clean_line(raw[-64 * 1024 :] if b"\r" in raw else raw)
        self._dropped, self.bad_bytes = 0, self.bad_bytes + bad
        if match := _STEP.search(text):
            self.last_step = int(match[1])
        return text

    def digest(self) -> str | None:
        """``sha256:…`` over the whole raw log, None if there is none."""
        try:
            with self.path.open("rb") as file:
                return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            return None
