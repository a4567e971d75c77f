"""Which files of a tree belong: glob patterns over paths that are bytes.

A pattern without ``/`` is matched with the last part of a path; one with ``/`` with the whole path. ``*`` and
``?`` stay within a part, ``**/`` spans any folders, ``[...]`` is a set. An excluded folder is not entered.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Include and exclude patterns; no include pattern means every file."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    _include: tuple[tuple[bool, re.Pattern[bytes]], ...] = field(init=False, repr=False)
    _exclude: tuple[tuple[bool, re.Pattern[bytes]], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_include", _compile(self.include))
        object.__setattr__(self, "_exclude", _compile(self.exclude))

    def enters(self, folder: bytes) -> bool:
        """Whether to look into ``folder`` (path relative to the root)."""
        return not (self._exclude and _matches(self._exclude, folder))

    def takes(self, path: bytes) -> bool:
        """Whether the file at ``path`` (relative to the root) belongs."""
        # Most filters are empty, and are asked for each of very many files.
        if self._exclude and _matches(self._exclude, path):
            return False
        return not self._include or _matches(self._include, path)


def _matches(patterns: Sequence[tuple[bool, re.Pattern[bytes]]], path: bytes) -> bool:
    name = path.rpartition(b"/")[2]
    return any(pattern.fullmatch(path if whole else name) for whole, pattern in patterns)


def _compile(patterns: Sequence[str]) -> tuple[tuple[bool, re.Pattern[bytes]], ...]:
    return tuple(("/" in text.strip("/"), re.compile(_translate(text.strip("/")))) for text in patterns)


def _translate(pattern: str) -> bytes:
    """The regular expression of a pattern, over bytes."""
    out = ""
    for piece in re.findall(r"\*\*/|\*+|\?|\[[^]/]+\]|[^*?\[]+|\[", pattern):
        if piece == "**/":
            out += "(?:.*/)?"
        elif set(piece) == {"*"}:
            out += ".*" if len(piece) > 1 else "[^/]*"
        elif piece == "?":
            out += "[^/]"
        elif piece.startswith("[") and piece.endswith("]"):
            # fnmatch wraps its translation in flags and an end anchor; only the set itself is wanted.
            out += re.sub(r"^\(\?s:(.*)\)\\[Zz]$", r"\1", fnmatch.translate(piece))
        else:
            out += re.escape(piece)
    return b"(?s:" + os.fsencode(out) + b")"
