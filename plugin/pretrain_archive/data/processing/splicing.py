"""Put another text into a line of JSON and leave every other byte of it as it is."""

from __future__ import annotations

import json
from json.decoder import JSONDecoder, scanstring  # type: ignore[attr-defined]

_DECODER = JSONDecoder()
_BLANK = " \t\n\r"


def replace_text(line: bytes, name: str, new: str) -> bytes:
    """Replace the value of the top-level member ``name``; ``line`` is an object that was read before.

    Numbers, spaces and the order of members stay: reading and writing the whole object would change them.
    """
    text = line.decode("utf-8")
    at = text.index("{") + 1
    span = None
    while True:
        at = _skip(text, at)
        if text[at] == "}":
            break
        key, at = scanstring(text, at + 1)
        at = _skip(text, _skip(text, at) + 1)
        _, end = _DECODER.raw_decode(text, at)
        if key == name:
            span = (at, end)  # of a name that stands twice the last value counts, as in every reader of ours
        at = _skip(text, end)
        if text[at] == ",":
            at += 1
    if span is None:
        raise ValueError(f"no member {name!r}")
    return (text[: span[0]] + json.dumps(new, ensure_ascii=False) + text[span[1] :]).encode()


def _skip(text: str, at: int) -> int:
    while text[at] in _BLANK:
        at += 1
    return at
