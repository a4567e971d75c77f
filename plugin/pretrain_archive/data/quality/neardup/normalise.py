"""When two documents count as the same text: the written rule, and its fast form.

Modes, as words joined by ``+``:

- ``exact``: the text as it is, byte for byte.
- ``normalised``: Unicode NFC; every run of blanks becomes one space, none at either end. Nothing else changes.
- ``normalised+case``: then case is folded (Unicode default case folding), and the result brought to NFC again.
- ``normalised+punctuation``: then each punctuation character (Unicode category P) becomes a blank, but never
  one that a digit follows (``3.14``, ``-5``) and never one of ``%``, ``‰``, primes and degrees, which belong to a
  number. Symbols (category S: ``$``, ``|``, ``+``) stay.
- ``normalised+case+punctuation``: all of it, in this order.

No mode maps, drops or reorders digits: tables that differ in a number are never the same text.
"""

from __future__ import annotations

import unicodedata
from typing import Final

from pretrain_archive.domain.errors import InputError

EXACT: Final = "exact"
NORMALISED: Final = "normalised"
MODES: Final = (
    EXACT,
    NORMALISED,
    "normalised+case",
    "normalised+punctuation",
    "normalised+case+punctuation",
)

RULES: Final = {
    EXACT: "byte for byte",
    NORMALISED: "Unicode NFC, blanks collapsed and trimmed; case, punctuation and digits kept",
    "normalised+case": "Unicode NFC, blanks collapsed and trimmed, case folded; punctuation and digits kept",
    "normalised+punctuation": "Unicode NFC, blanks collapsed and trimmed, punctuation dropped unless a digit "
    "follows it; case and digits kept",
    "normalised+case+punctuation": "Unicode NFC, blanks collapsed and trimmed, case folded, punctuation dropped "
    "unless a digit follows it; digits kept",
}
"""The written rule of each mode, for reports."""

_OF_NUMBERS = frozenset("%‰‱′″‴°")

# Python's str.split() takes exactly these ASCII bytes for blanks.
_BLANKS = bytes(0x20 if chr(byte).isspace() and byte < 0x80 else byte for byte in range(256))


def check_mode(mode: str) -> str:
    """Return ``mode``; ``InputError`` if there is none of that name."""
    if mode not in MODES:
        raise InputError("mode", mode, "is no way to compare texts", hint=f"One of: {', '.join(MODES)}.")
    return mode


def normalised(text: str, mode: str) -> str:
    """The form of ``text`` that is compared in ``mode``: two documents are the same if their forms are equal."""
    if mode == EXACT:
        return text
    text = text if text.isascii() else unicodedata.normalize("NFC", text)
    if "case" in mode:
        # Folding can take a text out of NFC (U+0345 is reordered): a second pass makes the form final.
        text = unicodedata.normalize("NFC", text.casefold())
    if "punctuation" in mode:
        text = _without_punctuation(text)
    return " ".join(text.split())


def normalised_bytes(text: str, mode: str) -> bytes:
    """``normalised(text, mode)`` in UTF-8, several times faster for ASCII; a lone surrogate keeps three bytes."""
    if mode == NORMALISED and text.isascii():
        raw = text.encode().translate(_BLANKS).strip(b" ")
        return b" ".join(raw.split()) if b"  " in raw else raw
    return normalised(text, mode).encode("utf-8", "surrogatepass")


def _without_punctuation(text: str) -> str:
    drop = {char for char in set(text) if unicodedata.category(char)[0] == "P"} - _OF_NUMBERS
    if not drop:
        return text
    following = text[1:] + " "
    return "".join(
        " " if char in drop and not after.isdigit() else char
        for char, after in zip(text, following, strict=True)
    )
