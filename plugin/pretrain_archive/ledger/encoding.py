"""The bytes of a new record, and words on the value that canonical JSON or the ledger cannot hold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from pretrain_archive.domain.errors import InputError
from pretrain_archive.ledger.canonical import canonical_bytes

MOST_BYTES = 8 << 20
"""Bytes of a record's canonical JSON. A package's own verifier reads records of up to twice as many."""
DEEPEST = 200
"""Levels of objects and lists in a record: every reader can follow them, however deep its own calls are."""

LARGEST = 2**53 - 1
_BRIEF = 200
_UNFIT = (OverflowError, RecursionError, TypeError, ValueError)


def encode_new(body: Mapping[str, Any]) -> bytes:
    """Canonical bytes of a record that is about to be stored; ``InputError`` names what does not fit."""
    stored = encode(body)
    if len(stored) > MOST_BYTES:
        name, value = max(
            ((key, encode({"": value})) for key, value in body["payload"].items()),
            key=lambda part: len(part[1]),
        )
        raise InputError(
            f"payload.{name}",
            f"{len(value)} bytes",
            f"makes the record {len(stored)} bytes long, at most {MOST_BYTES} are kept",
            hint="Store the bulk in the object store and record its digest.",
        )
    # Counting brackets is quick and finds every record that may be deep; only those are walked.
    if stored.count(b"[") + stored.count(b"{") > DEEPEST:
        raise_fault(body)
    return stored


def encode(value: Mapping[str, Any]) -> bytes:
    """Canonical bytes; ``InputError`` names the field that canonical JSON cannot hold."""
    try:
        return canonical_bytes(value)
    except _UNFIT as problem:
        raise_fault(value)
        raise InputError("payload", shown(value), f"cannot be canonical JSON: {problem}") from problem


def raise_fault(value: Any, where: str = "") -> None:
    """Raise ``InputError`` for the first value within ``value`` that a record cannot hold, if there is one."""
    waiting: list[tuple[str, Any, int]] = [(where, value, 0)]
    while waiting:
        path, item, depth = waiting.pop()
        if depth > DEEPEST:
            raise InputError(path[:_BRIEF], "…", f"lies more than {DEEPEST} levels deep", hint=_HINT)
        problem = _problem_of(item)
        if problem:
            raise InputError(path or "value", shown(item), problem, hint=_HINT)
        waiting.extend((inner, below, depth + 1) for inner, below in _within(path, item))


_HINT = "Numbers must be finite and integers below 2^53; write paths with identity.path_to_text."


def shown(value: object) -> object:
    """``value`` or, where it is long or cannot be written, words on it: fit for a message."""
    try:
        text = ascii(value)
    except _UNFIT:
        return f"a {type(value).__name__}"
    return value if len(text) <= _BRIEF else text[:_BRIEF] + "…"


def _within(path: str, item: object) -> Iterator[tuple[str, Any]]:
    if isinstance(item, Mapping):
        for key, below in item.items():
            name = key.encode("ascii", "backslashreplace").decode() if isinstance(key, str) else "(key)"
            inner = f"{path}.{name}" if path else name
            yield inner, below
            if not isinstance(key, str) or not _is_text(key):
                yield f"key {inner}", _Key(key)
    elif isinstance(item, list | tuple):
        yield from ((f"{path}[{place}]", below) for place, below in enumerate(item))


class _Key:
    """A key that no JSON object can have."""

    def __init__(self, key: object) -> None:
        self.key = key

    def __repr__(self) -> str:
        return ascii(self.key)


def _problem_of(item: object) -> str:
    """Why JSON cannot hold ``item`` itself, empty if it can."""
    if isinstance(item, _Key):
        return "is no key of a JSON object: keys are Unicode texts"
    if isinstance(item, str):
        return "" if _is_text(item) else "is not Unicode text: it has half of a surrogate pair"
    if item is None or isinstance(item, bool | Mapping | list | tuple):
        return ""
    if isinstance(item, int):
        return "" if -LARGEST <= item <= LARGEST else f"is an integer beyond {LARGEST}"
    if isinstance(item, float):
        return "" if math.isfinite(item) else "is not a finite number"
    return f"is a {type(item).__name__}, which JSON does not have"


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
