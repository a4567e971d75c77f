"""A checkpoint's address in a record: ``file://`` and the percent-encoded absolute path, or ``s3://bucket/prefix``.

Both hold any bytes. An address in a bucket has no user part: endpoint and credentials come from boto3's own chain.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote, quote_from_bytes, unquote_to_bytes

from pretrain_archive.domain.errors import InputError

SCHEME = "file://"
S3_SCHEME = "s3://"
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
HINT = "Use an absolute folder, file:///folder or s3://bucket/prefix."


def to_location(folder: Path) -> str:
    """The address of ``folder`` (made absolute, links resolved)."""
    return SCHEME + quote_from_bytes(os.fsencode(folder.resolve()))


def to_path(location: str) -> Path | None:
    """The folder behind an address, or None where it is not on a file system."""
    if location.startswith(SCHEME + "/"):
        return Path(os.fsdecode(unquote_to_bytes(location[len(SCHEME) :])))
    return None


def bucket_location(bucket: str, prefix: bytes) -> str:
    """The address of what lies below ``prefix`` (without its last ``/``) in ``bucket``."""
    return f"{S3_SCHEME}{bucket}/{quote(prefix)}"


def to_bucket(location: str) -> tuple[str, bytes] | None:
    """Bucket and key prefix (no ``/`` at its end) behind an ``s3://`` address, None for another kind.

    Raises :class:`InputError` for an address that names no bucket, or holds what looks like credentials.
    """
    if not location.startswith(S3_SCHEME):
        return None
    bucket, _, path = location[len(S3_SCHEME) :].partition("/")
    if "@" in bucket:
        raise InputError(
            "location", f"{S3_SCHEME}…/{path}", "has a user part, which it cannot have", hint=HINT
        )
    prefix = unquote_to_bytes(path).rstrip(b"/")
    try:
        prefix.decode()
    except UnicodeDecodeError:
        raise InputError("location", location, "the prefix is not UTF-8, which S3 keys are") from None
    # A key may begin with a slash, and is another one than without: that is not guessed.
    if not _BUCKET.fullmatch(bucket) or not prefix or prefix.startswith(b"/"):
        raise InputError("location", location, "does not name a bucket and a prefix in it", hint=HINT)
    return bucket, prefix


def address_of(text: str) -> str:
    """An address from what a person writes: a folder, ``file://`` or ``s3://``; :class:`InputError` otherwise."""
    if "://" not in text:
        return to_location(Path(text).expanduser())
    if to_path(text) is None and to_bucket(text) is None:
        raise InputError("location", text, "not the address of a checkpoint", hint=HINT)
    return text.rstrip("/")


def below(location: str, name: str) -> str:
    """The address of ``name`` (as the system spells it) directly below ``location``."""
    return f"{location.rstrip('/')}/{quote_from_bytes(os.fsencode(name))}"
