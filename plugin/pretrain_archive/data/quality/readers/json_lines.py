"""JSON Lines: one object a line (jsonlines.org); blank lines are ignored.

orjson reads a line that is well; what it refuses is looked at again by the standard library, which tells where
the fault is. Both are strict (RFC 8259): no NaN, no text without a UTF-8 form, no raw control characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from pretrain_archive.data.quality.readers.base import (
    LINE_LIMIT,
    Broken,
    Fields,
    Text,
    declared,
    domain_of,
    has_surrogate,
    lines,
)

BOM = b"\xef\xbb\xbf"


def read_json_lines(path: str, stream: BinaryIO, fields: Fields) -> Iterator[Text | Broken]:
    """Yield the document of each line, and each line that is none."""
    import orjson  # noqa: PLC0415

    loads, text_name, domain = orjson.loads, fields.text, domain_of(path)
    twice = _Twice(fields)
    for number, line in lines(stream):
        if line is None:
            yield Broken(path=path, line=number, reason=f"longer than {LINE_LIMIT} bytes")
            continue
        # RFC 8259 lets a reader ignore a byte order mark; only the first line can have one.
        body = line.removeprefix(BOM) if number == 1 else line
        try:
            value: Any = loads(body)
            text: Any = None if twice.suspected(body, value) else value[text_name]
            raw = text.encode()
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            if not body.strip():
                continue
            value, reason = _slowly(body, fields)
            if reason:
                yield Broken(path=path, line=number, reason=reason)
                continue
            text = value[text_name]
            raw = text.encode()
        yield Text(
            path=path,
            line=number,
            raw=raw,
            text=text,
            record=line,
            domain=declared(value.get(fields.domain)) or domain,
            language=declared(value.get(fields.language)),
            label=declared(value.get(fields.label)),
        )


class _Twice:
    """Tells cheaply whether a field may stand twice in a line; the slow reader then looks closely.

    Names that are spelled with escapes are not seen: of a field so hidden the last one counts.
    """

    def __init__(self, fields: Fields) -> None:
        names = sorted({fields.text, fields.domain, fields.language, fields.label})
        quoted = [json.dumps(name, ensure_ascii=False).encode() for name in names]
        members = [re.compile(re.escape(name) + rb"\s*:") for name in quoted]
        self._names = list(zip(names, quoted, members, strict=True))

    def suspected(self, line: bytes, value: Any) -> bool:
        for name, quoted, member in self._names:
            if name in value and line.count(quoted) > 1 and len(member.findall(line)) > 1:
                return True
        return False


def _slowly(line: bytes, fields: Fields) -> tuple[dict[str, Any], str]:
    """The object of a line, or the reason why it is no document."""
    members: list[tuple[str, Any]] = []

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal members
        members = pairs  # the outermost object is made last
        return dict(pairs)

    try:
        value = json.loads(line.decode(), parse_constant=_no_constant, object_pairs_hook=keep)
    except UnicodeDecodeError:
        return {}, "not UTF-8"
    except RecursionError:
        return {}, "nested too deeply"
    except ValueError as error:
        # The parser's own words ("Expecting ',' delimiter") tell the fault; its position, but no text, is added.
        where = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        return {}, f"not JSON{where}: cut off or malformed"
    if not isinstance(value, dict):
        return {}, "not an object"
    for name in (fields.text, fields.domain, fields.language, fields.label):
        if sum(name == member for member, _ in members) > 1:
            return {}, f"field {name!r} stands twice"
    return value, _fault_of(value.get(fields.text), fields.text)


def _fault_of(value: object, name: str) -> str:
    if not isinstance(value, str):
        return f"no text in field {name!r}"
    return "a lone surrogate, which has no UTF-8 form" if has_surrogate(value) else ""


def _no_constant(_: str) -> None:
    raise ValueError("NaN and Infinity are no JSON")
