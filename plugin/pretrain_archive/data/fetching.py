"""Fetch a file once that is read twice: for its digest, and then, under that digest, into the store."""

from __future__ import annotations

import errno
import io
import tempfile
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from pretrain_archive.data.globs import Filter
from pretrain_archive.data.tree import FolderTree, Listed, Tree

IN_MEMORY = 4 << 20
"""Bytes of a file that are kept in memory, on each thread; what is larger waits in an unnamed file."""

KEPT = 256 << 20
"""A file of up to so many bytes is kept between its two readings: times threads, what the disk must hold for it."""

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def fetched_once(tree: Tree) -> Tree:
    """The tree, so that each file which a thread reads twice in a row is fetched once; a folder is as it is."""
    return tree if isinstance(tree, FolderTree | Once) else Once(tree)


class Once:
    """A tree whose last file waits on each thread; a file that is larger, or for which no room is left, does not."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._last = threading.local()

    @property
    def uri(self) -> str:
        """See :meth:`Tree.uri`."""
        return self._tree.uri

    def list(self, chosen: Filter) -> Iterator[Listed]:
        """See :meth:`Tree.list`."""
        return self._tree.list(chosen)

    def open(self, listed: Listed) -> BinaryIO:
        """See :meth:`Tree.open`; what was read to its end before, in this very state, is not fetched again."""
        kept: _Kept | None = getattr(self._last, "kept", None)
        self._last.kept = None
        if kept is not None and kept.whole and kept.listed == listed:
            return kept.again()
        if kept is not None:
            kept.drop()
        stream = self._tree.open(listed)
        if not listed.mark or listed.size > KEPT:
            return stream
        self._last.kept = _Kept(stream, listed)
        return cast("BinaryIO", self._last.kept)

    def same(self, listed: Listed, stream: BinaryIO) -> bool:
        """See :meth:`Tree.same`."""
        return self._tree.same(listed, stream.origin if isinstance(stream, _Kept) else stream)


class _Kept(io.RawIOBase):
    """A stream that keeps what is read of it; ``whole`` once that is all."""

    def __init__(self, stream: BinaryIO, listed: Listed) -> None:
        self.origin = stream
        self.listed = listed
        self._copy: Any = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed by drop
        self._size = 0

    @property
    def whole(self) -> bool:
        return self._copy is not None and self._size == self.listed.size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self.origin.readinto(buffer)  # type: ignore[attr-defined]
        if count and self._copy is not None:
            try:
                self._copy.write(memoryview(buffer)[:count])
                self._size += count
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                self.drop()
        return count

    def again(self) -> BinaryIO:
        """What was kept, from its beginning; whoever closes it gives the room back."""
        copy, self._copy = self._copy, None
        copy.seek(0)
        return cast("BinaryIO", copy)

    def drop(self) -> None:
        """Give the room back; the file is fetched again where it is read again."""
        if self._copy is not None:
            self._copy.close()
            self._copy = None

    def close(self) -> None:
        """Close the connection; what was kept stays."""
        self.origin.close()
        super().close()
