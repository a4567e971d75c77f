"""Read a bucket that belongs to somebody else: list its keys, or the newest versions, and open objects at a pin.

Keys are bytes here (S3 keeps UTF-8). Listings ask for ``EncodingType=url``, since XML 1.0 cannot carry control
characters; a space comes as ``+`` from some services and as ``%20`` from others, a plus always as ``%2B``. An ETag
only tells whether an object was written again: it is sent back as ``If-Match`` and never taken for a digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, cast
from urllib.parse import quote, unquote_to_bytes

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]
from botocore.parsers import ResponseParserError  # type: ignore[import-untyped]

from pretrain_archive.domain.errors import SourceChangedError, SourceError
from pretrain_archive.domain.identity import path_to_text
from pretrain_archive.storage.resuming import Answer, Resuming
from pretrain_archive.storage.s3_client import make_client, words_of

FAILURES = (BotoCoreError, ClientError, ResponseParserError)
"""No way there, an error of the service, and an answer that is none of S3 (a web page)."""
GONE = {"NoSuchKey", "NoSuchVersion", "NotFound", "404", "MethodNotAllowed", "405"}
"""Answers for an object or version that is not there; 405 is that of a delete marker asked for by its id."""
REWRITTEN = {"PreconditionFailed", "412"}
WITHOUT_VERSIONS = {"NotImplemented", "MethodNotAllowed", "501", "405"}
"""What services that know no versions answer to the question whether a bucket keeps them."""
HINT = "Check the address, the endpoint, and the rights to list and read (and s3:GetBucketVersioning)."
EXPIRED = "Renew the credentials and try again."
HINTS = {
    "AccessDenied": f"{HINT} A bucket whose reader has to pay cannot be read.",
    "ExpiredToken": EXPIRED,
    "ExpiredTokenException": EXPIRED,
    "TokenRefreshRequired": EXPIRED,
    "RequestTimeTooSkewed": "Set this machine's clock.",
}
"""What to do, by the service's word for the error."""
POOL = 32
"""Connections at once: at least as many as there are threads that read."""
SHOWN = 4
"""Characters of an access key id that are shown at each end."""


@dataclass(frozen=True, slots=True)
class SeenObject:
    """A listed object: key, bytes, ETag, time of writing, and version id where the bucket keeps versions."""

    key: bytes
    size: int
    etag: str
    modified: str
    version: str | None


def open_bucket(bucket: str, options: Mapping[str, str]) -> SourceBucket:
    """A bucket to read; ``options`` by boto3's names, what is missing comes from boto3's own chain.

    Where the chain has no credentials either, requests are not signed: only public buckets answer these.
    """
    # Retries of a throttled request (503 SlowDown) are the client's, beyond boto's default of 4.
    client, access_key = make_client(options, attempts=8, connections=POOL, unsigned=True)
    return SourceBucket(bucket, client=client, access_key=access_key)


class SourceBucket:
    """A bucket reached by a boto3 S3 ``client``; ``access_key`` is the id (never the secret) that reads it."""

    def __init__(self, name: str, *, client: Any, access_key: str = "") -> None:
        self.name = name
        self.endpoint = str(client.meta.endpoint_url)
        self._client = client
        self._access_key = access_key

    @property
    def identity(self) -> str:
        """Who reads, with the access key id masked."""
        if not self._access_key:
            return "nobody (requests not signed)"
        key = self._access_key
        masked = f"{key[:SHOWN]}…{key[-SHOWN:]}" if len(key) >= 4 * SHOWN else "…"
        return f"access key {masked}"

    def keeps_versions(self) -> bool:
        """Whether objects have version ids; also for a bucket whose versioning was suspended."""
        try:
            answer = self._client.get_bucket_versioning(Bucket=self.name)
        except FAILURES as error:
            if _code(error) in WITHOUT_VERSIONS:
                return False
            raise self._refused("ask for the versioning of", b"", error) from error
        return answer.get("Status") in {"Enabled", "Suspended"}

    def list(self, prefix: bytes) -> Iterator[SeenObject]:
        """Yield the newest state of every object whose key begins with ``prefix``, sorted by the key's bytes.

        Holds one page (1,000 keys). ``SourceError`` from a service that lists in another order: a manifest
        would be wrong.
        """
        pages = self._versions(prefix) if self.keeps_versions() else self._objects(prefix)
        last = b""
        for seen in pages:
            if seen.key <= last:
                raise SourceError(
                    f"source {self._where(seen.key)}: listed after {path_to_text(last)}, expected ascending keys.",
                    hint="The service does not sort as S3 does; copy the data to one that does.",
                )
            last = seen.key
            yield seen

    def folders(self, prefix: bytes) -> Iterator[bytes]:
        """Yield every prefix up to the next ``/`` behind ``prefix`` once, however many keys begin with it."""
        more: dict[str, str] = {}
        while True:
            page = self._page("list_objects_v2", prefix, {"Delimiter": "/", **more})
            for entry in page.get("CommonPrefixes", ()):
                yield _decoded(entry["Prefix"], page)
            if not page.get("IsTruncated"):
                return
            more = self._next(prefix, more, {"ContinuationToken": page.get("NextContinuationToken")})

    def open(self, key: bytes, *, version: str | None = None, etag: str = "") -> BinaryIO:
        """Open an object: the version that is named and no other, or the newest if it still has this ETag.

        A connection that breaks is taken up at the byte reached, at the same version and ETag. Raises
        ``SourceChangedError`` for what is gone or was written again, ``SourceError`` for everything else.
        """
        stream = Resuming(partial(self._get, key), where=self._where(key), version=version, etag=etag)
        stream.connect()
        return cast("BinaryIO", stream)

    def read_range(
        self, key: bytes, *, start: int, size: int, version: str | None = None, etag: str = ""
    ) -> bytes:
        """Up to ``size`` bytes from ``start``, of the state that :meth:`open` would read; fewer only at its end."""
        if size <= 0:
            return b""
        answer = self._get(key, start, version, etag, end=start + size - 1)
        with answer["Body"] as body:
            try:
                raw: bytes = body.read(size)
            except Exception as error:  # urllib3 and botocore raise unrelated types for a broken connection
                raise self._refused("read", key, error) from error
        if len(raw) < min(size, answer.get("ContentLength", size)):
            raise self._refused("read", key, EOFError(f"it ended after {len(raw)} bytes"))
        return raw

    def _get(
        self, key: bytes, start: int, version: str | None, etag: str, *, end: int | None = None
    ) -> Answer:
        wanted: dict[str, Any] = {"Bucket": self.name, "Key": key.decode()}
        wanted |= {"VersionId": version} if version is not None else {}
        wanted |= {"IfMatch": etag} if etag else {}
        wanted |= {"Range": f"bytes={start}-{'' if end is None else end}"} if start or end is not None else {}
        try:
            answer: Answer = self._client.get_object(**wanted)
        except FAILURES as error:
            raise self._not_read(key, version, etag, error) from error
        got = answer.get("VersionId", version)
        if version is not None and got != version:
            answer["Body"].close()
            raise SourceError(
                f"source {self._where(key)}: version {version} was asked for and {got} came.",
                hint="The service does not keep versions as S3 does; copy the data to one that does.",
            )
        return answer

    def _not_read(self, key: bytes, version: str | None, etag: str, error: Exception) -> SourceError:
        code = _code(error)
        if code in GONE and version is not None:
            problem = f"the pinned version {version} is gone"
        elif code in REWRITTEN or (code in GONE and etag):
            problem = "changed while it was read"
        elif code in GONE:
            return SourceError(f"source {self._where(key)}: is not there.", hint="Check the address.")
        else:
            return self._refused("read", key, error)
        return SourceChangedError(
            f"source {self._where(key)}: {problem}.",
            paths=(path_to_text(key),),
            hint="Stop what writes there and try again; a version that is gone must be restored.",
        )

    def _objects(self, prefix: bytes) -> Iterator[SeenObject]:
        more: dict[str, str] = {}
        while True:
            page = self._page("list_objects_v2", prefix, more)
            for entry in page.get("Contents", ()):
                yield _seen(entry, page)
            if not page.get("IsTruncated"):
                return
            more = self._next(prefix, more, {"ContinuationToken": page.get("NextContinuationToken")})

    def _versions(self, prefix: bytes) -> Iterator[SeenObject]:
        more: dict[str, str] = {}
        while True:
            page = self._page("list_object_versions", prefix, more)
            for entry in page.get("Versions", ()):
                # Where the newest is a delete marker no version is the latest: the key is absent.
                if entry.get("IsLatest"):
                    yield _seen(entry, page)
            if not page.get("IsTruncated"):
                return
            marker = page.get("NextKeyMarker")
            key = marker and _decoded(marker, page).decode()
            more = self._next(
                prefix, more, {"KeyMarker": key, "VersionIdMarker": page.get("NextVersionIdMarker")}
            )

    def _page(self, call: str, prefix: bytes, more: dict[str, str]) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = getattr(self._client, call)(
                Bucket=self.name, Prefix=prefix.decode(), EncodingType="url", **more
            )
        except FAILURES as error:
            raise self._refused("list", prefix, error) from error
        return answer

    def _next(self, prefix: bytes, last: dict[str, str], found: dict[str, str | None]) -> dict[str, str]:
        """Where the next page begins; a service that gives no way on, or none forward, would list for ever."""
        told = {name: text for name, text in found.items() if text}
        if not told or told == last:
            raise SourceError(
                f"source {self._where(prefix)}: the listing is cut and does not say how it goes on.",
                hint="Ask who runs the service.",
            )
        return told

    def _refused(self, act: str, key: bytes, error: Exception) -> SourceError:
        reason = words_of(error, key_id=self._access_key)
        unsigned = "" if self._access_key else " (no credentials were found: requests are not signed)"
        return SourceError(
            f"source {self._where(key)}: cannot {act} it{unsigned}: {reason}.",
            hint=HINTS.get(_code(error), HINT),
        )

    def _where(self, key: bytes) -> str:
        return f"s3://{self.name}/{quote(key)}"


def _seen(entry: dict[str, Any], page: dict[str, Any]) -> SeenObject:
    return SeenObject(
        _decoded(entry["Key"], page),
        entry["Size"],
        entry.get("ETag", ""),
        str(entry.get("LastModified", "")),
        entry.get("VersionId"),
    )


def _decoded(text: str, page: dict[str, Any]) -> bytes:
    """The bytes of a listed key; ``SourceError`` for one that no request can name."""
    if page.get("EncodingType") != "url":
        return text.encode()
    raw = unquote_to_bytes(text.replace("+", " "))
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise SourceError(
            f"source key {path_to_text(raw)}: is not UTF-8, which S3 keys are.",
            hint="Store it under another key.",
        ) from error
    return raw


def _code(error: Exception) -> str:
    """The service's word for the error, empty where the service said nothing."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""
