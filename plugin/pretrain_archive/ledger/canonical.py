"""Canonical JSON (RFC 8785) and digests over it: the bytes that are stored, hashed and signed."""

from __future__ import annotations

import hashlib
from typing import Any

import rfc8785


def canonical_bytes(value: Any) -> bytes:
    """Return ``value`` (plain JSON, no NaN, integers within ±(2^53 - 1)) as canonical UTF-8 bytes.

    Raises ``ValueError`` (of rfc8785) for what canonical JSON cannot hold.
    """
    return rfc8785.dumps(value)


def digest_of(value: Any) -> str:
    """Return ``sha256:`` and the hex digest over the canonical bytes of ``value``."""
    return "sha256:" + hashlib.sha256(canonical_bytes(value)).hexdigest()
