"""A store that is a prefix in an S3 bucket: writes carry ``If-None-Match: *``, so a key is written once.

Needs a store with conditional writes (AWS S3 since August 2024, MinIO, Ceph, SeaweedFS and others have
them): without, two writers could both believe that they won. ETags are never compared with anything: that of
a multipart object is no digest of its bytes.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, BinaryIO, cast
from urllib.parse import quote

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from pretrain_archive.domain.errors import StorageError
from pretrain_archive.storage import s3_uploads
from pretrain_archive.storage.bulk import BulkAnswer, StoredVersion
from pretrain_archive.storage.keys import check_key
from pretrain_archive.storage.port import BucketPlace, ObjectInfo
from pretrain_archive.storage.s3_bulk import S3Bulk
from pretrain_archive.storage.s3_client import words_of
from pretrain_archive.storage.uploads import Upload

PART = 8 << 20
"""Bytes of the first 1000 parts; each further 1000 are twice as large (S3 allows 10,000 parts)."""

TAKEN = {"PreconditionFailed", "412"}
RACING = {"ConditionalRequestConflict", "OperationAborted", "409"}
ABSENT = {"NoSuchKey", "NotFound", "404"}
RETRIES = 5


class S3Store:
    """Objects below ``prefix`` in ``bucket``, reached by a boto3 S3 ``client``."""

    def __init__(self, bucket: str, prefix: str = "", *, client: Any) -> None:
        self.bucket = bucket
        self.prefix = prefix.strip("/") + "/" if prefix.strip("/") else ""
        self.client = client

    @property
    def place(self) -> BucketPlace:
        """See :func:`port.bucket_place`."""
        return BucketPlace(
            endpoint=str(self.client.meta.endpoint_url), bucket=self.bucket, prefix=self.prefix
        )

    def put_if_absent(self, key: str, data: BinaryIO) -> bool:
        """See :meth:`ObjectStore.put_if_absent`."""
        if self.stat(key) is not None:
            return False
        try:
            first = _read_exactly(data, PART)
            if len(first) < PART:
                return self._conditional(self._put_small, key, first)
            return self._put_large(key, first, data)
        except (BotoCoreError, ClientError) as error:
            raise self._refused("write", key, error) from error

    def open(self, key: str) -> BinaryIO:
        """See :meth:`ObjectStore.open`."""
        try:
            answer = self.client.get_object(Bucket=self.bucket, Key=self._key(key))
        except (BotoCoreError, ClientError) as error:
            raise self._refused("read", key, error) from error
        if "ContentLength" not in answer:
            answer["Body"].close()
            raise self._refused("read", key, EOFError("the service does not say how many bytes there are"))
        raw = _Body(answer["Body"], self.location(key), answer["ContentLength"])
        return cast("BinaryIO", io.BufferedReader(raw, buffer_size=1 << 20))

    def stat(self, key: str) -> ObjectInfo | None:
        """See :meth:`ObjectStore.stat`."""
        try:
            answer = self.client.head_object(Bucket=self.bucket, Key=self._key(key))
        except ClientError as error:
            if _code(error) in ABSENT:
                return None
            raise self._refused("look up", key, error) from error
        except BotoCoreError as error:
            raise self._refused("look up", key, error) from error
        return ObjectInfo(key=key, size=answer["ContentLength"])

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """See :meth:`ObjectStore.list`."""
        pages = self.client.get_paginator("list_objects_v2")
        try:
            for page in pages.paginate(Bucket=self.bucket, Prefix=self.prefix + prefix):
                for entry in page.get("Contents", ()):
                    yield ObjectInfo(key=entry["Key"][len(self.prefix) :], size=entry["Size"])
        except (BotoCoreError, ClientError) as error:
            raise self._refused("list", prefix, error) from error

    def delete(self, key: str) -> None:
        """See :meth:`ObjectStore.delete`."""
        try:
            self.client.delete_object(Bucket=self.bucket, Key=self._key(key))
        except (BotoCoreError, ClientError) as error:
            raise self._refused("delete", key, error) from error

    def versions(self, prefix: str) -> Iterator[StoredVersion]:
        """See :meth:`VersionedStore.versions`."""
        try:
            for entry in S3Bulk(self.bucket, client=self.client).versions(self.prefix + prefix):
                yield replace(entry, key=entry.key[len(self.prefix) :])
        except (BotoCoreError, ClientError) as error:
            raise self._refused("list the versions of", prefix, error) from error

    def delete_versions(self, versions: Iterable[StoredVersion]) -> BulkAnswer:
        """See :meth:`VersionedStore.delete_versions`."""
        whole = (replace(entry, key=self.prefix + entry.key) for entry in versions)
        answer = S3Bulk(self.bucket, client=self.client).delete(whole)
        faults = tuple(replace(fault, key=fault.key[len(self.prefix) :]) for fault in answer.faults)
        return replace(answer, faults=faults)

    def uploads(self) -> Iterator[Upload]:
        """See :meth:`UploadingStore.uploads`."""
        try:
            for upload in s3_uploads.unfinished(self.client, self.bucket, self.prefix):
                yield replace(upload, key=upload.key[len(self.prefix) :])
        except (BotoCoreError, ClientError) as error:
            raise self._refused("list the uploads of", "", error) from error

    def abort(self, upload: Upload) -> None:
        """See :meth:`UploadingStore.abort`."""
        try:
            s3_uploads.abort(self.client, self.bucket, replace(upload, key=self.prefix + upload.key))
        except (BotoCoreError, ClientError) as error:
            raise self._refused("drop the upload of", upload.key, error) from error

    def location(self, key: str) -> str:
        """See :meth:`ObjectStore.location`."""
        return f"s3://{self.bucket}/{quote(self._key(key))}"

    def _key(self, key: str) -> str:
        return self.prefix + check_key(key)

    def _put_small(self, key: str, body: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=self._key(key), Body=body, IfNoneMatch="*")

    def _put_large(self, key: str, first: bytes, data: BinaryIO) -> bool:
        target = {"Bucket": self.bucket, "Key": self._key(key)}
        upload = {**target, "UploadId": self.client.create_multipart_upload(**target)["UploadId"]}
        parts: list[dict[str, Any]] = []
        finished = False
        try:
            block = first
            while block:
                number = len(parts) + 1
                answer = self.client.upload_part(**upload, PartNumber=number, Body=block)
                parts.append({"PartNumber": number, "ETag": answer["ETag"]})
                block = _read_exactly(data, PART << (number // 1000))
            finished = self._conditional(self._complete, upload, parts)
            return finished
        finally:
            if not finished:
                with suppress(BotoCoreError, ClientError):
                    self.client.abort_multipart_upload(**upload)

    def _complete(self, upload: dict[str, Any], parts: Sequence[dict[str, Any]]) -> None:
        self.client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts}, IfNoneMatch="*")

    @staticmethod
    def _conditional(write: Any, *arguments: Any) -> bool:
        """Run a conditional write: False if the key is taken; a race that S3 calls off is run again."""
        for attempt in range(RETRIES):
            try:
                write(*arguments)
            except ClientError as error:
                if _code(error) in TAKEN:
                    return False
                if _code(error) not in RACING or attempt == RETRIES - 1:
                    raise
            else:
                return True
        return False

    def _refused(self, act: str, key: str, error: Exception) -> StorageError:
        reason = "not there" if isinstance(error, ClientError) and _code(error) in ABSENT else words_of(error)
        where = f"s3://{self.bucket}/{quote(self.prefix + key)}"
        return StorageError(
            f"{where}: cannot {act}: {reason.rstrip('.')}.",
            hint="Check the bucket, its rights and its space.",
        )


class _Body(io.RawIOBase):
    """An answer's bytes as a file; an answer cut short is an error and never an end."""

    def __init__(self, body: Any, where: str, size: int) -> None:
        self._body = body
        self._where = where
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            block = self._body.read(len(buffer))
        except Exception as error:  # urllib3 and botocore raise unrelated types for a broken connection
            raise StorageError(
                f"{self._where}: reading broke off: {words_of(error)}.", hint="Try again."
            ) from error
        if not block and self._left:
            raise StorageError(
                f"{self._where}: {self._left} bytes are missing at the end.", hint="Try again."
            )
        self._left -= len(block)
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        if not self.closed:
            self._body.close()
        super().close()


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _read_exactly(data: BinaryIO, size: int) -> bytes:
    """Up to ``size`` bytes; fewer only at the end (S3 refuses short parts before the last)."""
    blocks = []
    while size and (block := data.read(size)):
        blocks.append(block)
        size -= len(block)
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)
