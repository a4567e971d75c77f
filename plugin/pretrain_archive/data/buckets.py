"""A bucket of an S3-compatible service as a :class:`tree.Tree`: ``s3://[CONNECTION@]bucket/prefix``.

Spelled as Airflow spells object storage: the user part is the id of an Airflow connection of type ``aws`` that
gives endpoint, region and keys; without it boto3's own chain does. The prefix is percent-encoded and ends at a
part: ``s3://b/data`` is the object ``data`` or what lies below ``data/``, and never ``data2/…``.

A path is a key without the prefix, byte for byte: ``a//b``, ``a/../b`` and a name with a line break are paths like
others. An empty object whose key ends in ``/`` is a marker of a folder and, as empty folders are, not listed; one
with content is. Where the bucket keeps versions, the version id is part of each file, and reading is by it; where
it does not, reading is refused once the object's ETag is not the listed one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Self
from urllib.parse import quote, unquote, unquote_to_bytes

from pretrain_archive.data.globs import Filter
from pretrain_archive.data.tree import Listed
from pretrain_archive.domain.errors import InputError, SourceError

if TYPE_CHECKING:
    from pretrain_archive.storage.s3_source import SeenObject, SourceBucket

SPELLING = "s3://[CONNECTION@]bucket/prefix"
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_CONNECTION = re.compile(r"[\w#!()\-.:/\\]{1,250}")
"""What Airflow takes as the id of a connection."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Where a source lies: bucket, the raw bytes that its keys begin with, and the id of a connection or ''."""

    bucket: str
    prefix: bytes = b""
    connection: str = ""

    @property
    def uri(self) -> str:
        """The address as text."""
        user = f"{quote(self.connection, safe='')}@" if self.connection else ""
        return f"s3://{user}{self.bucket}/{quote(self.prefix)}"

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Read an address; ``InputError`` says what is wrong with it and repeats no credentials."""
        place, _, path = uri.removeprefix("s3://").partition("/")
        user, at, bucket = place.rpartition("@")
        shown = f"s3://{'…@' if at else ''}{bucket}/{path}"
        if ":" in user:
            raise InputError(
                "source", shown, "holds what looks like credentials", hint=f"Use {SPELLING}, without keys."
            )
        connection, prefix = unquote(user), unquote_to_bytes(path)
        if not _BUCKET.fullmatch(bucket) or (at and not _CONNECTION.fullmatch(connection)):
            raise InputError("source", shown, "not the address of a bucket", hint=f"Use {SPELLING}.")
        try:
            prefix.decode()
        except UnicodeDecodeError:
            raise InputError("source", shown, "the prefix is not UTF-8, which S3 keys are") from None
        return cls(bucket=bucket, prefix=prefix, connection=connection)


class BucketTree:
    """The objects below a prefix that is empty or ends in ``/``, or the one object that the address names."""

    def __init__(self, bucket: SourceBucket, address: Address) -> None:
        self.bucket = bucket
        self.address = address
        self.single = bool(address.prefix) and not address.prefix.endswith(b"/")

    @classmethod
    def at(cls, bucket: SourceBucket, address: Address) -> Self:
        """Look whether the address names an object or what lies below it; ``SourceError`` if both have bytes."""
        prefix = address.prefix
        if not prefix or prefix.endswith(b"/"):
            return cls(bucket, address)
        folder = Address(bucket=address.bucket, prefix=prefix + b"/", connection=address.connection)
        first = next(bucket.list(prefix), None)
        alone = first is not None and first.key == prefix
        if not alone or next(bucket.list(folder.prefix), None) is None:
            return cls(bucket, address if alone else folder)
        if first is not None and first.size:
            raise SourceError(
                f"source {address.uri}: is an object of {first.size} bytes, and there are objects below {folder.uri}.",
                hint=f"Name {folder.uri} for these, or the folder above with an include pattern for both.",
            )
        return cls(bucket, folder)

    @property
    def uri(self) -> str:
        """See :meth:`Tree.uri`."""
        return self.address.uri

    def list(self, chosen: Filter) -> Iterator[Listed]:
        """See :meth:`Tree.list`."""
        prefix = self.address.prefix
        if self.single:
            seen = next(self.bucket.list(prefix), None)
            if seen is None or seen.key != prefix:
                raise SourceError(f"source {self.uri}: is not there.", hint="Check the address.")
            yield _listed(seen, prefix.rpartition(b"/")[2])
            return
        entered = _Entered(chosen)
        for seen in self.bucket.list(prefix):
            if seen.key.endswith(b"/") and not seen.size:
                continue
            path = seen.key[len(prefix) :]
            if not path:
                raise SourceError(
                    f"source {self.uri}: the marker of the folder holds {seen.size} bytes and has no name below it.",
                    hint="Name the folder above, or move the object.",
                )
            if entered(path) and chosen.takes(path):
                yield _listed(seen, path)

    def open(self, listed: Listed) -> BinaryIO:
        """See :meth:`Tree.open`."""
        key = self.address.prefix if self.single else self.address.prefix + listed.path
        etag = str(listed.mark[0]) if listed.mark else ""
        return self.bucket.open(key, version=listed.version, etag=etag)

    def same(self, listed: Listed, stream: BinaryIO) -> bool:  # noqa: ARG002 - the port's form
        """See :meth:`Tree.same`: every byte came from the state that was listed, or reading was refused."""
        return True


class _Entered:
    """Whether the folders above a path belong; neighbours in a listing mostly share them."""

    def __init__(self, chosen: Filter) -> None:
        self._chosen = chosen
        self._folder = b""
        self._answer = True

    def __call__(self, path: bytes) -> bool:
        folder = path.rpartition(b"/")[0]
        if folder != self._folder:
            parts = folder.split(b"/")
            above = (b"/".join(parts[: depth + 1]) for depth in range(len(parts)))
            self._folder, self._answer = folder, all(self._chosen.enters(each) for each in above)
        return self._answer


def _listed(seen: SeenObject, path: bytes) -> Listed:
    mark = (seen.etag, seen.modified, seen.size)
    return Listed(path, seen.size, mark + ((seen.version,) if seen.version else ()), None, seen.version)
