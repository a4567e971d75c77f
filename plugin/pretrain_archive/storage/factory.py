"""A store from its URL: ``file:///folder`` or ``s3://bucket/prefix``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pretrain_archive.domain.errors import InputError
from pretrain_archive.storage.files import FileStore
from pretrain_archive.storage.port import ObjectStore

if TYPE_CHECKING:
    from pretrain_archive.storage.s3_source import SourceBucket

S3_OPTIONS = frozenset(
    {"endpoint_url", "region_name", "aws_access_key_id", "aws_secret_access_key", "aws_session_token"}
)
HINT = "Use file:///absolute/folder, an absolute path, or s3://bucket/prefix."


def open_store(url: str, *, s3_options: Mapping[str, str] | None = None) -> ObjectStore:
    """Open the store that ``url`` names; nothing is read or written yet.

    ``s3_options`` are endpoint, region and credentials by boto3's names (:data:`S3_OPTIONS`); what is
    missing comes from boto3's own chain (environment, profile, instance role). Raises ``InputError``.
    """
    if url.startswith("/"):
        return FileStore(url)
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"} and parts.path.startswith("/"):
        return FileStore(unquote(parts.path, errors="surrogateescape"))
    if parts.scheme == "s3" and parts.netloc:
        return _open_s3(parts.netloc, unquote(url.partition(parts.netloc)[2]), s3_options or {})
    raise InputError("store", url, "not the address of a store", hint=HINT)


def open_bucket(name: str, *, s3_options: Mapping[str, str] | None = None) -> SourceBucket:
    """Open a bucket to read somebody else's objects; ``s3_options`` as for :func:`open_store`."""
    from pretrain_archive.storage import s3_source  # noqa: PLC0415 - see below

    return s3_source.open_bucket(name, _known(s3_options or {}))


def _open_s3(bucket: str, prefix: str, options: Mapping[str, str]) -> ObjectStore:
    # Imported here: boto3 costs half a second, and a folder store does not need it.
    from pretrain_archive.storage.s3 import S3Store  # noqa: PLC0415
    from pretrain_archive.storage.s3_client import make_client  # noqa: PLC0415

    # Retries beyond boto's default (4): a store that restarts for some seconds costs no snapshot.
    client, _ = make_client(_known(options), attempts=6)
    return S3Store(bucket, prefix, client=client)


def _known(options: Mapping[str, str]) -> dict[str, str]:
    unknown = sorted(set(options) - S3_OPTIONS)
    if unknown:
        raise InputError(
            "s3_options", unknown[0], "unknown option", hint=f"Known are {', '.join(sorted(S3_OPTIONS))}."
        )
    return {name: text for name, text in options.items() if text}
