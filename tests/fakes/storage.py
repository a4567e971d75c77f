"""A store in memory that keeps the promises of the port; the contract tests run on it too."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from typing import BinaryIO
from urllib.parse import quote

from pretrain_archive.domain.errors import StorageError
from pretrain_archive.storage.keys import check_key
from pretrain_archive.storage.port import ObjectInfo


class MemoryStore:
    """Objects in a dict."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def put_if_absent(self, key: str, data: BinaryIO) -> bool:
        """See the port."""
        check_key(key)
        blocks = []
        while block := data.read(1 << 20):
            blocks.append(block)
        with self._lock:
            if key in self.objects:
                return False
            self.objects[key] = b"".join(blocks)
            return True

    def open(self, key: str) -> BinaryIO:
        """See the port."""
        if check_key(key) not in self.objects:
            raise StorageError(f"{self.location(key)}: cannot read: not there.")
        return io.BytesIO(self.objects[key])

    def stat(self, key: str) -> ObjectInfo | None:
        """See the port."""
        content = self.objects.get(check_key(key))
        return None if content is None else ObjectInfo(key=key, size=len(content))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """See the port."""
        for key in sorted(self.objects):
            if key.startswith(prefix):
                yield ObjectInfo(key=key, size=len(self.objects[key]))

    def delete(self, key: str) -> None:
        """See the port."""
        self.objects.pop(check_key(key), None)

    def location(self, key: str) -> str:
        """See the port."""
        return "memory:///" + quote(check_key(key))
