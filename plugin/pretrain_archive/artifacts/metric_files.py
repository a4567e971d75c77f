"""Metric files as programs write them: JSON or JSON Lines, with bare NaN and Infinity, read without believing.

Python's own writer emits ``NaN`` and ``Infinity``, and ``1e999`` becomes infinite when read: none of them may
turn into a number. A key given twice is a finding, not the last value.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pretrain_archive.domain.errors import InputError
from pretrain_archive.storage.regular import open_regular

MAX_BYTES = 64 * 1024 * 1024
NotFinite = Literal["", "nan", "inf", "-inf"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Parsed:
    """A file's documents (one for JSON, one per line for JSON Lines) and the keys that were repeated."""

    documents: tuple[Any, ...]
    repeated: tuple[str, ...]


def finite(value: object) -> tuple[float | None, NotFinite]:
    """A number as ``(value, "")``, one that is not finite as ``(None, "nan" | "inf" | "-inf")``.

    Raises ``ValueError`` for what is no number; a truth value is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"expected a number, found {value!r}")  # noqa: TRY004 - a fault of the file
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    if math.isnan(number):
        return None, "nan"
    if math.isinf(number):
        return None, "inf" if number > 0 else "-inf"
    return number, ""


def parse(raw: bytes, *, where: str) -> Parsed:
    """Read JSON, or JSON Lines; :class:`InputError` names ``where`` and the fault."""
    if len(raw) > MAX_BYTES:
        raise InputError(where, f"{len(raw)} bytes or more", f"a metric file has at most {MAX_BYTES} bytes")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(where, raw[error.start : error.start + 1], "not UTF-8 text") from error
    if not text.strip():
        raise InputError(where, "", "the file is empty", hint="Let the evaluation program write its results.")
    repeated: list[str] = []
    try:
        return Parsed(documents=(_load(text, repeated),), repeated=tuple(repeated))
    except (ValueError, RecursionError) as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2:
            raise InputError(where, text[:80], f"not valid JSON: {error}") from error
    return _lines(lines, where)


def read(path: Path) -> tuple[bytes, Parsed]:
    """The bytes of a metric file and what they say; :class:`InputError` if it is missing or unreadable.

    A link or pipe in its place is refused by name: what a link points to is not the program's output.
    """
    try:
        with open_regular(path) as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(
            "evaluation output",
            path.name,
            f"cannot be read: {error.strerror}",
            hint="The evaluation program must write it before it ends with exit code 0.",
        ) from error
    return raw, parse(raw, where=path.name)


def _lines(lines: list[str], where: str) -> Parsed:
    documents, repeated = [], list[str]()
    for number, line in enumerate(lines, 1):
        try:
            documents.append(_load(line, repeated))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where} line {number}", line[:80], f"not valid JSON: {error}") from error
    return Parsed(documents=tuple(documents), repeated=tuple(repeated))


def _load(text: str, repeated: list[str]) -> Any:
    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                repeated.append(f"{key} given twice: {found[key]!r}, {value!r}")
            found[key] = value
        return found

    before = len(repeated)
    try:
        return json.loads(text, object_pairs_hook=note)
    except (ValueError, RecursionError):
        del repeated[before:]
        raise
