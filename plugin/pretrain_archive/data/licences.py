"""The licence file at the top of a source: its digest says which text the data came with."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

from pretrain_archive.data.buckets import BucketTree
from pretrain_archive.data.hashing import hash_stream
from pretrain_archive.data.tree import Listed

LICENCE_NAMES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "LICENCE.txt", "COPYING")


def object_digest(tree: BucketTree) -> str | None:
    """Digest of the licence object at the top of the prefix, None if there is none."""
    if tree.single:
        return None
    for name in LICENCE_NAMES:
        # Listed first: a file that is there and cannot be read is an error, and not the same as none.
        key = tree.address.prefix + name.encode()
        seen = next(tree.bucket.list(key), None)
        if seen is not None and seen.key == key:
            with tree.open(Listed(name.encode(), seen.size, version=seen.version)) as stream:
                return hash_stream(stream)[0]
    return None


def file_digest(root: bytes) -> str | None:
    """Digest of the licence file at the top of the source, None if there is none that can be read."""
    for name in LICENCE_NAMES:
        with suppress(OSError):
            path = Path(os.fsdecode(root)) / name
            if path.is_file():
                with path.open("rb", buffering=0) as stream:
                    return hash_stream(cast("BinaryIO", stream))[0]
    return None
