"""Which keys a store accepts: texts that every backend keeps byte for byte and that never leave the store."""

from __future__ import annotations

from collections.abc import Callable

from pretrain_archive.domain.errors import StorageError

MAX_PART = 255
"""Bytes of one part: the limit of ext4, xfs and APFS file names."""

MAX_KEY = 1024
"""Bytes of a whole key: the limit of S3."""

TEMPORARY = ".tmp"
"""First part of keys that are never objects: unfinished writes of a folder store."""


def check_key(key: str) -> str:
    """Return ``key`` if a store can hold it, else raise :class:`StorageError` that says why."""
    problem = next((text for text, broken in _RULES if broken(key)), "")
    if problem:
        raise StorageError(
            f"storage key {key!r}: {problem}.",
            hint="Build keys with identity.path_to_text, parts joined by '/'.",
        )
    return key


def _encodable(key: str) -> bool:
    # Lone surrogates are the only texts without a UTF-8 form.
    return not any(0xD800 <= ord(char) <= 0xDFFF for char in key)


_RULES: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("not encodable as UTF-8", lambda key: not _encodable(key)),
    ("has an empty part, '.' or '..'", lambda key: any(part in {"", ".", ".."} for part in key.split("/"))),
    ("has a control character", lambda key: any(ord(char) < 0x20 or ord(char) == 0x7F for char in key)),
    (f"longer than {MAX_KEY} bytes", lambda key: len(key.encode()) > MAX_KEY),
    (
        f"has a part longer than {MAX_PART} bytes",
        lambda key: any(len(part.encode()) > MAX_PART for part in key.split("/")),
    ),
    (f"{TEMPORARY} holds unfinished writes", lambda key: key.split("/")[0] == TEMPORARY),
)
