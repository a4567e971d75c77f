"""Canonical JSON (RFC 8785) and digests over it: the bytes that are stored, hashed and signed."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import rfc8785


def canonical_bytes(value: Any) -> bytes:
    """Return ``value`` (plain JSON, no NaN, integers within ±(2^53 - 1)) as canonical UTF-8 bytes.

    Raises ``ValueError`` (of rfc8785) for what canonical JSON cannot hold.
    """
    if _is_plain(value):
        return _encode(value).encode()
    return rfc8785.dumps(value)


# For plain values the C encoder writes the same bytes several times faster; what differs between the two are
# numbers with a fraction, and the order of keys beyond the Basic Multilingual Plane.
_encode = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, separators=(",", ":"), check_circular=False
).encode
_SAFE = 2**53 - 1


def _is_plain(value: Any) -> bool:
    """Whether ``value`` holds only what both encoders write alike."""
    kind = type(value)
    if kind is dict:
        return all(type(key) is str and key.isascii() and _is_plain(item) for key, item in value.items())
    if kind is list:
        return all(map(_is_plain, value))
    return kind is str or value is None or kind is bool or (kind is int and -_SAFE <= value <= _SAFE)


def digest_of(value: Any) -> str:
    """Return ``sha256:`` and the hex digest over the canonical bytes of ``value``."""
    return "sha256:" + hashlib.sha256(canonical_bytes(value)).hexdigest()
