"""The items of a plan that is too long for a record: pages in the object store, and an index that names them.

A page is JSON with the texts that its items share written once: a million items take some hundred megabytes and are
never in memory together. The index names each page by its digest; the index's own digest is in the record.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from pretrain_archive.domain.errors import StorageError
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.retention.plan import GOING, OWN, SHARED, Row
from pretrain_archive.storage.port import ObjectStore

FORMAT = "pretrain-archive/retention-plan/1"
PAGE = 5000
"""Items of a page."""
LARGEST = 256 << 20
"""Bytes of a page or an index that are read back at most."""

_ACTION = SHARED.index("action")
Item = Mapping[str, Any]


class PageWriter:
    """Takes items one by one; :meth:`finish` gives the digest of the index."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._waiting: list[Row] = []
        self._pages: list[dict[str, Any]] = []
        self.count = 0

    def add(self, row: Row) -> None:
        """One more item as :meth:`Decision.to_row` gives it; a full page is written."""
        self._waiting.append(row)
        if len(self._waiting) >= PAGE:
            self._write()

    def finish(self) -> str:
        """Write what is left and the index; return the index's digest."""
        self._write()
        index = {"format": FORMAT, "count": self.count, "pages": self._pages}
        return _put(self._store, canonical_bytes(index))

    def _write(self) -> None:
        if not self._waiting:
            return
        going = sum(shared[_ACTION] in GOING for shared, _ in self._waiting)
        digest = _put(self._store, _encode(self._waiting))
        self._pages.append({"digest": digest, "count": len(self._waiting), "going": going})
        self.count += len(self._waiting)
        self._waiting = []


def read_items(store: ObjectStore, index_digest: str, *, going: bool = False) -> Iterator[dict[str, Any]]:
    """The items behind an index, in order; ``going`` leaves out pages without a deletion.

    ``StorageError`` where a page is not there or its bytes are not those that were written.
    """
    index = _get(store, index_digest)
    for page in index["pages"]:
        if page["going"] or not going:
            yield from _decode(_get(store, str(page["digest"])))


def require_whole(store: ObjectStore, index_digest: str) -> None:
    """Read every page once: ``StorageError`` before anything is done with a plan of which a part is lost or changed."""
    for page in _get(store, index_digest)["pages"]:
        _get(store, str(page["digest"]))


def _key(digest: str) -> str:
    return f"retention/plans/{digest.removeprefix('sha256:')}.json"


def _put(store: ObjectStore, data: bytes) -> str:
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    store.put_if_absent(_key(digest), io.BytesIO(data))
    return digest


def _get(store: ObjectStore, digest: str) -> dict[str, Any]:
    key = _key(digest)
    with store.open(key) as file:
        data = file.read(LARGEST + 1)
    if "sha256:" + hashlib.sha256(data).hexdigest() != digest:
        raise StorageError(
            f"{store.location(key)}: expected a part of a plan with digest {digest}, found other bytes.",
            hint="Make the plan again.",
        )
    found: dict[str, Any] = json.loads(data)
    return found


def _encode(items: Sequence[Row]) -> bytes:
    places: dict[tuple[Any, ...], int] = {}
    rows = [(places.setdefault(shared, len(places)), *own) for shared, own in items]
    body = {"format": FORMAT, "names": [*SHARED, *OWN], "shared": list(places), "rows": rows}
    try:
        return to_json(body)  # seven times as fast as the standard library, with the same bytes
    except ValueError:  # a name that is no Unicode text
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def _decode(page: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    shared = [dict(zip(SHARED, values, strict=True)) for values in page["shared"]]
    for each in shared:
        for name in ("parts", "falls"):
            if each[name] is None:
                del each[name]
    for place, *own in page["rows"]:
        yield shared[place] | dict(zip(OWN, own, strict=True))
