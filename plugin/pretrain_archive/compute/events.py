"""Read what a program and its wrapper wrote, line by line, whatever it is.

Positions are bytes from the start of all that was ever read, so that a position names a line once even if the
file was cut and written anew. Memory is bounded by :data:`MAX_LINE`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from pretrain_archive.storage.regular import open_regular

MAX_LINE = 256 * 1024
MAX_READ = 8 * 1024 * 1024
SAFE_INTEGER = 2**53 - 1

NotFinite = Literal["", "nan", "inf", "-inf"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where reading goes on: ``offset`` in the file, ``base`` bytes read before the file was cut."""

    offset: int = 0
    base: int = 0
    skipping: bool = False

    @property
    def position(self) -> int:
        """The position of the next byte."""
        return self.base + self.offset


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A line: its position and either a JSON object or the problem that makes it unusable."""

    position: int
    data: Mapping[str, Any] | None = None
    problem: str = ""


def read_lines(path: Path, place: Place, *, final: bool = False) -> tuple[list[Line], Place]:
    """Read whole new lines; with ``final`` also a last line without its end. A missing file has no lines.

    Raises ``NotRegularError`` for what is no regular file: a program could put a pipe there, and a reader that
    waits for its writer watches nothing any more.
    """
    try:
        file = open_regular(path)
    except FileNotFoundError:
        return [], place
    lines: list[Line] = []
    with file:
        size = os.fstat(file.fileno()).st_size
        if size < place.offset:
            lines.append(
                Line(position=place.position, problem=f"the file was cut from {place.offset} to {size} bytes")
            )
            place = Place(base=place.position + 1)
        file.seek(place.offset)
        raw = file.read(MAX_READ)
    at = 0
    while (end := raw.find(b"\n", at)) >= 0:
        if not place.skipping:
            lines.append(parse_line(raw[at:end], place.position + at))
        place = replace(place, skipping=False)
        at = end + 1
    rest = raw[at:]
    if len(rest) > MAX_LINE or (final and rest and len(raw) < MAX_READ):
        if not place.skipping:
            lines.append(parse_line(rest, place.position + at))
        place = replace(place, skipping=not final or len(rest) > MAX_LINE)
        at = len(raw)
    return lines, replace(place, offset=place.offset + at)


def parse_line(raw: bytes, position: int) -> Line:
    """A JSON object, or the reason why it is none. NaN and Infinity are accepted as Python writes them."""
    if len(raw) > MAX_LINE:
        return Line(position=position, problem=f"longer than {MAX_LINE} bytes")
    if not raw.strip():
        return Line(position=position, problem="empty")
    try:
        value = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError:
        return Line(position=position, problem="not UTF-8")
    except (ValueError, RecursionError):
        return Line(position=position, problem="not JSON")
    if not isinstance(value, dict):
        return Line(position=position, problem="not a JSON object")
    return Line(position=position, data=value)


def not_finite(value: float) -> NotFinite:
    """nan, inf or -inf for a number that is not finite, else empty."""
    if math.isfinite(value):
        return ""
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def number_of(value: Any) -> float | None:
    """A JSON number as float; None for anything else. An integer beyond float becomes infinite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def step_of(value: Any) -> int | None:
    """A step or token count: a whole number from 0; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and 0 <= value <= SAFE_INTEGER else None


def clean_text(text: str, limit: int = 2000) -> str:
    """Text that every database and page holds: no NUL, no lone surrogates, bounded."""
    text = text.replace("\0", "�").encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more)"


def plain(value: Any, *, depth: int = 6, width: int = 200) -> Any:  # noqa: PLR0911 (one line a type)
    """``value`` as strict, bounded JSON: what is not finite or too large becomes text, what is too deep is cut."""
    match value:
        case None | bool():
            return value
        case int() | float():
            return _plain_number(value)
        case str():
            return clean_text(value)
        case _ if depth == 0:
            return "…"
        case Mapping():
            some = list(value.items())[:width]
            return {clean_text(str(k), 200): plain(v, depth=depth - 1, width=width) for k, v in some}
        case list() | tuple():
            return [plain(v, depth=depth - 1, width=width) for v in value[:width]]
    return clean_text(str(value))


def _plain_number(value: float) -> Any:
    if isinstance(value, int):
        return value if abs(value) <= SAFE_INTEGER else f"about 2^{value.bit_length() - 1}"
    return value if math.isfinite(value) else not_finite(value)


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """A metric as the program reported it; ``value`` may be not finite."""

    position: int
    name: str
    step: int
    value: float
    tokens: int | None = None
    at: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointEvent:
    """The program says that a checkpoint is complete in ``path``. Whether that is so is checked elsewhere.

    ``seconds`` is how long training stood still for it, ``at`` when it was complete, by the program's clock.
    """

    position: int
    attempt: int
    path: str
    step: int
    tokens: int | None = None
    seconds: float | None = None
    at: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """Anything else for the timeline; ``complete`` is the program's end marker."""

    position: int
    event: str
    text: str
    at: str | None
    step: int | None
    data: Mapping[str, Any]
    complete: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Unusable:
    """A line that cannot be used, and why."""

    position: int
    problem: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DataRead:
    """What the program says of its reading since it last did: counts, and a problem with the data themselves.

    ``problem`` is empty, ``unreadable`` or ``digest`` (the bytes are not those that the manifest names).
    """

    position: int
    step: int
    reads: int = 1
    errors: int = 0
    empty: int = 0
    problem: Literal["", "unreadable", "digest"] = ""
    shard: str = ""
    detail: str = ""
    at: str | None = None

    def text(self) -> str:
        """The problem in words, empty where there is none."""
        what = {"unreadable": "cannot be read", "digest": "is not the one that was signed"}.get(self.problem)
        detail = f" ({self.detail})" if self.detail else ""
        return f"shard {self.shard or 'unnamed'} {what}{detail}" if what else ""


ProgramEvent = Metric | CheckpointEvent | Note | Unusable | DataRead


def read_event(line: Line, *, attempt: int) -> Iterator[ProgramEvent]:
    """What one line of the event file says; a data read becomes metrics and its counts."""
    if line.data is None:
        yield Unusable(position=line.position, problem=line.problem)
        return
    data, kind = line.data, line.data.get("event")
    step = step_of(data.get("step"))
    if kind in {"metric", "checkpoint", "data_read"} and step is None:
        yield Unusable(
            position=line.position,
            problem=f"{kind} without a whole step from 0: {clean_text(repr(data.get('step')), 60)}",
        )
    elif kind == "metric":
        yield _metric(line.position, data, cast("int", step))
    elif kind == "checkpoint":
        path = data.get("path")
        if isinstance(path, str) and path and "\0" not in path:
            yield CheckpointEvent(
                position=line.position,
                attempt=attempt,
                path=path,
                step=cast("int", step),
                tokens=step_of(data.get("tokens")),
                seconds=_duration(data.get("seconds")),
                at=_at(data),
            )
        else:
            yield Unusable(position=line.position, problem="checkpoint without a path")
    elif kind == "data_read" and isinstance(data.get("manifest_digest"), str):
        yield _note(line.position, kind, data, step)  # what one worker read: a statement, not a count
    elif kind == "data_read":
        yield from _data_read(line.position, data, cast("int", step))
    elif isinstance(kind, str) and kind:
        yield _note(line.position, kind, data, step)
    else:
        yield Unusable(position=line.position, problem="no event name")


def _note(position: int, kind: str, data: Mapping[str, Any], step: int | None) -> Note:
    rest = {k: v for k, v in data.items() if k not in {"event", "at", "step"}}
    return Note(
        position=position, event=clean_text(kind, 80), text=clean_text(str(data.get("text", ""))), at=_at(data),
        step=step, data=plain(rest), complete=kind == "note" and data.get("complete") is True,
    )  # fmt: skip


def _metric(position: int, data: Mapping[str, Any], step: int) -> ProgramEvent:
    name, value = data.get("name"), number_of(data.get("value"))
    if not isinstance(name, str) or not name:
        return Unusable(position=position, problem="metric without a name")
    if value is None:
        return Unusable(position=position, problem=f"metric {clean_text(name, 60)!r} is not a number")
    return Metric(
        position=position, name=clean_text(name, 200), step=step, value=value,
        tokens=step_of(data.get("tokens")), at=_at(data),
    )  # fmt: skip


def _data_read(position: int, data: Mapping[str, Any], step: int) -> Iterator[ProgramEvent]:
    for key in ("seconds", "bytes"):
        value = number_of(data.get(key))
        if value is not None:
            yield Metric(position=position, name=f"data_read_{key}", step=step, value=value, at=_at(data))
    problem = data.get("problem")
    yield DataRead(
        position=position, step=step, reads=_count(data.get("reads"), 1), errors=_count(data.get("errors")),
        empty=_count(data.get("empty")), problem=problem if problem in {"unreadable", "digest"} else "",
        shard=clean_text(str(data.get("shard") or ""), 300), detail=_detail(data), at=_at(data),
    )  # fmt: skip


def _detail(data: Mapping[str, Any]) -> str:
    """What else a program says of a problem: its own words, and both digests."""
    sides = " instead of ".join(str(data[key]) for key in ("found", "expected") if data.get(key))
    return clean_text("; ".join(part for part in (str(data.get("detail") or ""), sides) if part), 300)


def _count(value: Any, unsaid: int = 0) -> int:
    """How many, as a program reports it; what is no whole number from 0 counts as unsaid."""
    count = step_of(value)
    return unsaid if count is None else count


def _duration(value: Any) -> float | None:
    """Seconds as a program reports them; what is negative or not finite says nothing."""
    seconds = number_of(value)
    return seconds if seconds is not None and math.isfinite(seconds) and seconds >= 0 else None


def _at(data: Mapping[str, Any]) -> str | None:
    return clean_text(data["at"], 40) if isinstance(data.get("at"), str) else None
