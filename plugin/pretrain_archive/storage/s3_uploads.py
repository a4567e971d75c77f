"""Unfinished multipart uploads of a bucket: a writer that was killed leaves its parts, which no listing shows.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListMultipartUploads.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from pretrain_archive.storage.s3_bulk import code_of
from pretrain_archive.storage.uploads import Upload

UNKNOWN = {"NotImplemented", "MethodNotAllowed", "501", "405"}
"""Answers of services that do not list uploads: nothing is told of them then."""
GONE = {"NoSuchUpload", "404"}


def unfinished(client: Any, bucket: str, prefix: str) -> Iterator[Upload]:
    """Yield those below ``prefix``, by whole keys. Raises what boto3 raises."""
    pages = client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=prefix)
    try:
        for page in pages:
            for entry in page.get("Uploads", ()):
                if entry["Key"].startswith(prefix):  # some services leave the prefix unheeded
                    size = _size(client, bucket, entry["Key"], entry["UploadId"])
                    yield Upload(
                        key=entry["Key"], id=entry["UploadId"], begun_at=entry["Initiated"], size=size
                    )
    except ClientError as error:
        if code_of(error) not in UNKNOWN:
            raise


def abort(client: Any, bucket: str, upload: Upload) -> None:
    """Drop one; raises what boto3 raises, but not for one that is gone."""
    try:
        client.abort_multipart_upload(Bucket=bucket, Key=upload.key, UploadId=upload.id)
    except ClientError as error:
        if code_of(error) not in GONE:
            raise


def _size(client: Any, bucket: str, key: str, upload_id: str) -> int:
    pages = client.get_paginator("list_parts").paginate(Bucket=bucket, Key=key, UploadId=upload_id)
    try:
        return sum(int(part["Size"]) for page in pages for part in page.get("Parts", ()))
    except ClientError as error:
        if code_of(error) in GONE:  # completed or dropped while it was looked at
            return 0
        raise
