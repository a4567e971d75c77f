"""Clients for S3-compatible services, made alike for stores and for sources, and what their errors may say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import boto3  # type: ignore[import-untyped]
from botocore import UNSIGNED  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from pretrain_archive.domain.errors import StorageError

_USER = re.compile(r"//[^/\s\"']*@")
"""The user part of an address, which may be a name and a password."""


def make_client(
    options: Mapping[str, str], *, attempts: int, connections: int = 10, unsigned: bool = False
) -> tuple[Any, str]:
    """An S3 client from ``endpoint_url``, ``region_name`` and ``aws_…`` keys (all optional), and the id of its key.

    What is missing comes from boto3's own chain. With ``unsigned`` requests are not signed where that has no
    credentials either. ``attempts`` is how often a request is tried that was throttled or lost. Raises
    ``StorageError`` for settings of which no client can be made.
    """
    endpoint = options.get("endpoint_url") or None
    given = {name: text for name, text in options.items() if name.startswith("aws_") and text}
    try:
        session = boto3.session.Session(**given)
        held = session.get_credentials()
        config = Config(
            retries={"mode": "standard", "max_attempts": attempts},
            s3={"addressing_style": "path" if endpoint else "auto"},
            max_pool_connections=connections,
            signature_version=UNSIGNED if unsigned and held is None else None,
        )
        region = options.get("region_name") or None
        client = session.client("s3", config=config, endpoint_url=endpoint, region_name=region)
        key_id = held.access_key if held else ""
    except (BotoCoreError, ClientError) as error:
        raise _unmade(words_of(error)) from error
    except (ValueError, TypeError):
        # Without the cause: its text repeats the endpoint, and with it what may stand in there.
        raise _unmade("the endpoint or another setting is not one") from None
    return client, key_id


def _unmade(reason: str) -> StorageError:
    return StorageError(
        f"S3: no client can be made: {reason}.",
        hint="Check profile, region, endpoint and credentials: in the connection, or in AWS's own settings.",
    )


def words_of(error: Exception, *, key_id: str = "") -> str:
    """What the client says of an error: service, code and operation, and no credentials.

    Those can stand there where an endpoint or proxy was set with a user, where a header cannot hold a token, or
    where a service repeats the key id.
    """
    text = str(error).rstrip(".")
    if "Invalid header value" in text:
        return "the credentials hold a character that no request can carry"
    text = _USER.sub("//…@", text)
    return text.replace(key_id, "…") if key_id else text
