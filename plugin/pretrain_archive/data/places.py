"""A source must not hold what this program writes, and not lie in it: it would snapshot itself, or its secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from pretrain_archive.data.buckets import BucketTree
from pretrain_archive.data.tree import FolderTree, Tree
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.identity import path_to_text
from pretrain_archive.storage.port import BucketPlace, ObjectStore, bucket_place, local_path

OWN_NAMES = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}  # noqa: S104 - compared with, and bound to nothing

Own = Mapping[str, Path | ObjectStore]
"""Paths and stores of this program, by what they are for."""


def refuse_own_places(tree: Tree | bytes, own: Own, store: ObjectStore | None = None) -> None:
    """Raise ``InputError`` naming both if ``tree`` is around, inside or equal to one of this program's places.

    ``own`` are places by what they are for; ``store`` adds its folder or its part of a bucket. Nothing is written.
    """
    places = dict(own) if store is None else {**own, "store": store}
    if isinstance(tree, BucketTree):
        _refuse_buckets(tree, places)
    elif isinstance(tree, bytes | FolderTree):
        _refuse_folders(tree if isinstance(tree, bytes) else tree.root, places)


def _refuse_folders(root: bytes, places: Own) -> None:
    source = os.path.realpath(root)
    for what, owned in places.items():
        path = owned if isinstance(owned, Path) else local_path(owned, "")
        if path is None:
            continue
        place = os.path.realpath(os.fsencode(path))
        if _within(place, source) or _within(source, place):
            raise _overlap(path_to_text(source), what, path_to_text(place), "a folder")


def _refuse_buckets(tree: BucketTree, places: Own) -> None:
    ours = tree.address.prefix
    for what, owned in places.items():
        place = None if isinstance(owned, Path) else bucket_place(owned)
        if place is None or place.bucket != tree.address.bucket or not _same_service(place, tree):
            continue
        theirs = place.prefix.encode()
        if ours.startswith(theirs) or theirs.startswith(ours):
            raise _overlap(tree.uri, what, f"s3://{place.bucket}/{place.prefix}", "a prefix")


def _same_service(place: BucketPlace, tree: BucketTree) -> bool:
    """Whether both are one service: the same host and port, or any of Amazon's, whose bucket names are unique."""
    left, right = (_host(url) for url in (place.endpoint, tree.bucket.endpoint))
    return left == right or all("amazonaws.com" in name for name, _ in (left, right))


def _host(url: str) -> tuple[str, int]:
    """Host and port; every name of this machine's own is the same one, in whatever case a host is written."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return ("localhost" if host in OWN_NAMES else host), port


def _overlap(source: str, what: str, place: str, kind: str) -> InputError:
    return InputError(
        "source",
        source,
        f"overlaps the {what}, {place}",
        hint=f"Name {kind} of its own for the data, or configure another place; nothing was written.",
    )


def _within(inner: bytes, outer: bytes) -> bool:
    return inner == outer or inner.startswith(outer.rstrip(b"/") + b"/")
