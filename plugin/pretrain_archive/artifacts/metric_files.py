"""Metric files as programs write them: JSON or JSON Lines, with bare NaN and Infinity, read without believing.

Python's own writer emits ``NaN`` and ``Infinity``, and ``1e999`` becomes infinite when read: none of them may
turn into a number. A key that is given twice is refused with both values: whichever a parser keeps was picked by
nobody.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pretrain_archive.domain.errors import InputError
from pretrain_archive.storage.regular import open_regular

MAX_BYTES = 64 * 1024 * 1024
MAX_LINES = 1_000_000
MAX_PARTS = 4_000_000
"""Objects, lists, texts and numbers of a file, at most: each takes far more memory than its few bytes on disk."""

MAX_DEPTH = 32
"""Levels of nesting that a result file may have; the deepest known format needs seven."""

NotFinite = Literal["", "nan", "inf", "-inf"]


class RepeatedMetricError(InputError):
    """One name stands for two values: nothing is picked. ``flag`` says it as ``repeated_metric: detail``."""

    code = "repeated_metric"

    def __init__(self, where: str, name: str, *values: object) -> None:
        shown = ", ".join(_shown(value) for value in values)
        super().__init__(
            where, name, f"{name} given twice: {shown}", hint="Let the program write each value once."
        )
        self.flag = f"repeated_metric: {where}: {name} given twice: {shown}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Parsed:
    """A file's documents (one for JSON, one per line for JSON Lines), each with the line where it stands."""

    documents: tuple[Any, ...]
    lines: tuple[int, ...] = ()


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
    parts, lines = sum(map(raw.count, (b"{", b"[", b",", b":"))), raw.count(b"\n") + 1
    if parts > MAX_PARTS or lines > MAX_LINES:
        limit = f"a metric file has at most {MAX_PARTS} values on {MAX_LINES} lines"
        raise InputError(where, f"about {parts} values on {lines} lines", limit)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(where, raw[error.start : error.start + 1], "not UTF-8 text") from error
    if not text.strip():
        raise InputError(where, "", "the file is empty", hint="Let the evaluation program write its results.")
    try:
        return Parsed(documents=(_load(text, where),), lines=(1,))
    except (ValueError, RecursionError) as error:
        # Only a line feed ends a line: a text may hold other separators.
        rows = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        if len(rows) < 2:
            raise InputError(where, text[:80], f"not valid JSON: {error}") from error
    documents = []
    for number, line in rows:
        try:
            documents.append(_load(line, f"{where} line {number}"))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where} line {number}", line[:80], f"not valid JSON: {error}") from error
    return Parsed(documents=tuple(documents), lines=tuple(number for number, _ in rows))


def read(path: Path, *, name: str = "") -> tuple[bytes, Parsed]:
    """The bytes of a metric file and what they say; :class:`InputError` if it is missing or unreadable."""
    raw = read_bytes(path)
    return raw, parse(raw, where=name or path.name)


def read_bytes(path: Path) -> bytes:
    """The bytes of a metric file, at most :data:`MAX_BYTES` and one.

    A link or pipe in its place is refused by name: what a link points to is not the program's output.
    """
    try:
        with open_regular(path) as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(
            "evaluation output",
            path.name,
            f"cannot be read: {error.strerror}",
            hint="The evaluation program must write it before it ends with exit code 0.",
        ) from error


def strict(value: Any) -> Any:
    """``value`` without what strict JSON cannot hold: a number that is not finite becomes its name."""
    if isinstance(value, Mapping):
        return {key: strict(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [strict(entry) for entry in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 53:
        return str(value)
    if isinstance(value, float):
        number, not_finite = finite(value)
        return not_finite if number is None else number
    return value


def _load(text: str, where: str) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise RepeatedMetricError(where, key, found[key], value)
            found[key] = value
        return found

    return json.loads(text, object_pairs_hook=unique)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
