"""Deletion in an S3 bucket: every version and delete marker by its id, a thousand in a request.

DeleteObjects answers 200 with an error per key: each is read, what may pass is tried again after a pause that
doubles, the rest is told with key and code. Keys that XML 1.0 cannot carry, and services without the request, are
served one by one.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from pretrain_archive.storage.bulk import BATCH, BulkAnswer, KeyFault, StoredVersion
from pretrain_archive.storage.s3_client import words_of

PASSING = {
    "InternalError", "SlowDown", "ServiceUnavailable", "RequestTimeout", "Throttling", "ThrottlingException",
    "RequestThrottled", "RequestThrottledException", "TooManyRequests", "RequestLimitExceeded",
    "BandwidthLimitExceeded", "OperationAborted", "500", "503", "429",
}  # fmt: skip
"""Codes after which the same request may succeed."""
GONE = {"NoSuchKey", "NoSuchVersion", "NotFound", "404"}
ONE_BY_ONE = {"NotImplemented", "MethodNotAllowed", "MissingContentMD5", "MalformedXML", "501", "405"}
"""Answers of services that do not take DeleteObjects as it is sent."""
WITHOUT_VERSIONS = {"NotImplemented", "MethodNotAllowed", "501", "405"}
TRIES = 6
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class S3Bulk:
    """Versions and deletions in ``bucket``, by whole keys. ``sleep`` takes seconds."""

    def __init__(self, bucket: str, *, client: Any, sleep: Callable[[float], None] = time.sleep) -> None:
        self._bucket = bucket
        self._client = client
        self._sleep = sleep

    def versions(self, prefix: str) -> Iterator[StoredVersion]:
        """Yield by key: versions, oldest first, then delete markers. Raises what boto3 raises.

        In this order of deletion no older content becomes the current one on the way.
        """
        try:
            pages = self._client.get_paginator("list_object_versions").paginate(
                Bucket=self._bucket, Prefix=prefix
            )
            for _, group in groupby(_entries(pages), key=lambda entry: entry.key):
                oldest_first = list(group)[::-1]
                yield from sorted(oldest_first, key=lambda entry: entry.marker)
        except ClientError as error:
            if not self._knows_no_versions(error):
                raise
            for page in self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=prefix
            ):
                for entry in page.get("Contents", ()):
                    yield StoredVersion(key=entry["Key"], size=entry["Size"])

    def delete(self, versions: Iterable[StoredVersion]) -> BulkAnswer:
        """Delete in batches; a batch that fails as a whole does not stop the next."""
        answer = BulkAnswer()
        waiting = iter(versions)
        while batch := list(islice(waiting, BATCH)):
            single = [entry for entry in batch if _NOT_XML.search(entry.key)]
            together = [entry for entry in batch if not _NOT_XML.search(entry.key)]
            answer += self._batch(together) + self._singly(single)
        return answer

    def _knows_no_versions(self, error: ClientError) -> bool:
        """Whether the bucket never kept versions, so that a plain listing is the whole truth."""
        if code_of(error) in WITHOUT_VERSIONS:
            return True
        try:
            status = self._client.get_bucket_versioning(Bucket=self._bucket).get("Status")
        except (BotoCoreError, ClientError) as other:
            return code_of(other) in WITHOUT_VERSIONS
        return not status

    def _batch(self, entries: Sequence[StoredVersion]) -> BulkAnswer:
        left, missing, faults = list(entries), 0, list[KeyFault]()
        for attempt in range(TRIES):
            if not left:
                break
            if attempt:
                self._pause(attempt)
            try:
                found = self._errors(left)
            except ClientError as error:
                code = code_of(error)
                if code in ONE_BY_ONE:
                    return self._singly(left) + BulkAnswer(
                        asked=len(entries) - len(left), missing=missing, faults=tuple(faults)
                    )
                found = [_fault(entry, code or "Error", words_of(error)) for entry in left]
            except BotoCoreError as error:  # no way there: boto3 has tried it several times
                found = [_fault(entry, type(error).__name__, words_of(error)) for entry in left]
            missing += sum(fault.code in GONE for fault in found)
            passing = [fault for fault in found if fault.code in PASSING and attempt < TRIES - 1]
            faults += [fault for fault in found if fault.code not in GONE and fault not in passing]
            names = {(fault.key, fault.version) for fault in passing}
            left = [entry for entry in left if (entry.key, entry.version) in names]
        return BulkAnswer(asked=len(entries), missing=missing, faults=tuple(faults))

    def _errors(self, entries: Sequence[StoredVersion]) -> list[KeyFault]:
        """Send one request; what it says of each key that it did not delete."""
        objects = [_named(entry) for entry in entries]
        answer = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": objects, "Quiet": True})
        return [
            KeyFault(
                key=str(error.get("Key", "")), version=error.get("VersionId") or None,
                code=str(error.get("Code") or "Error"), message=str(error.get("Message", "")),
            )
            for error in _belonging(answer.get("Errors", ()), entries)
        ]  # fmt: skip

    def _singly(self, entries: Sequence[StoredVersion]) -> BulkAnswer:
        answer = BulkAnswer()
        for entry in entries:
            answer += self._one(entry)
        return answer

    def _one(self, entry: StoredVersion) -> BulkAnswer:
        fault: KeyFault | None = None
        for attempt in range(TRIES):
            if attempt:
                self._pause(attempt)
            try:
                self._client.delete_object(Bucket=self._bucket, **_named(entry))
            except (BotoCoreError, ClientError) as error:
                code = code_of(error) or type(error).__name__
                if code in GONE:
                    return BulkAnswer(asked=1, missing=1)
                fault = _fault(entry, code, words_of(error))
                if code not in PASSING:
                    break
            else:
                return BulkAnswer(asked=1)
        return BulkAnswer(asked=1, faults=(fault,) if fault else ())

    def _pause(self, attempt: int) -> None:
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempt - 1))
        self._sleep(longest * random.uniform(0.5, 1))  # noqa: S311 - spreads requests, keeps no secret


def _entries(pages: Iterable[dict[str, Any]]) -> Iterator[StoredVersion]:
    """Versions and markers of each page, by key; within a key the newest first, as S3 lists them."""
    for page in pages:
        found = [
            (entry["Key"], order, StoredVersion(
                key=entry["Key"], size=entry.get("Size", 0), version=entry.get("VersionId"), marker=marker,
                latest=bool(entry.get("IsLatest", True)),
            ))
            for name, marker in (("DeleteMarkers", True), ("Versions", False))
            for order, entry in enumerate(page.get(name, ()))
        ]  # fmt: skip
        yield from (entry for _, _, entry in sorted(found, key=lambda row: (row[0].encode(), row[1])))


def _belonging(
    errors: Iterable[dict[str, Any]], entries: Sequence[StoredVersion]
) -> Iterator[dict[str, Any]]:
    """Errors with the version that was asked for: some services leave it out, and then every one of the key failed."""
    asked: dict[str, list[str | None]] = {}
    for entry in entries:
        asked.setdefault(entry.key, []).append(entry.version)
    for error in errors:
        versions = asked.get(str(error.get("Key", "")), [None])
        told = error.get("VersionId") or None
        for version in [told] if told in versions else versions:
            yield {**error, "VersionId": version}


def _named(entry: StoredVersion) -> dict[str, str]:
    return {"Key": entry.key} | ({} if entry.version is None else {"VersionId": entry.version})


def _fault(entry: StoredVersion, code: str, message: str) -> KeyFault:
    return KeyFault(key=entry.key, version=entry.version, code=code, message=message)


def code_of(error: Exception) -> str:
    """The service's word for the error; empty where it said nothing."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""
