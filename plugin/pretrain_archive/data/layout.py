"""Where the data track keeps its objects in a store.

``snapshots/NAME/VERSION.json`` names a version and is written last: what it names is complete.
Everything else is stored under its own digest.
"""

from __future__ import annotations

from pretrain_archive.domain.errors import InputError

NAME_LIMIT = 100
VERSION_DIGITS = 9


def version_key(name: str, version: int) -> str:
    """The key of a version's document."""
    return f"snapshots/{check_name(name)}/{version}.json"


def content_key(kind: str, digest: str, suffix: str = "") -> str:
    """The key of content under its digest; ``kind`` is blobs, manifests, splits or reports."""
    value = digest.removeprefix("sha256:")
    return f"{kind}/sha256/{value[:2]}/{value}{suffix}"


def blob_key(digest: str) -> str:
    """The key of a file's bytes."""
    return content_key("blobs", digest)


def check_name(name: str) -> str:
    """Return a snapshot's name if it can be one, else raise ``InputError``."""
    plain = name.replace("-", "a").replace("_", "a").replace(".", "a")
    if not plain.isalnum() or name[0] in ".-" or len(name.encode()) > NAME_LIMIT:
        raise InputError(
            "snapshot name",
            name,
            "not a usable name",
            hint=f"Use letters, digits, '.', '_' and '-', at most {NAME_LIMIT} bytes, a letter or digit first.",
        )
    return name


def parse_snapshot(text: str) -> tuple[str, int | None]:
    """Read ``NAME`` or ``NAME@VERSION``; the version is None for the newest."""
    name, at, version = text.removeprefix("snapshot:").partition("@")
    number = version.isascii() and version.isdigit() and len(version) <= VERSION_DIGITS
    if at and not (number and int(version) > 0):
        raise InputError(
            "snapshot", text, "the version is not a number from 1", hint="Use NAME or NAME@VERSION."
        )
    return check_name(name), int(version) if at else None
