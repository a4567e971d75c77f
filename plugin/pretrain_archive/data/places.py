"""A source must not hold what this program writes, and not lie in it: it would snapshot itself, or its secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pretrain_archive.data.tree import FolderTree, Tree
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.identity import path_to_text
from pretrain_archive.storage.port import ObjectStore, local_path


def refuse_own_places(tree: Tree | bytes, own: Mapping[str, Path], store: ObjectStore | None = None) -> None:
    """Raise ``InputError`` naming both paths if ``tree`` is around, inside or equal to one of this program's places.

    ``own`` are places by what they are for; ``store`` adds its folder if it has one. Nothing is written.
    """
    if not isinstance(tree, bytes | FolderTree):
        return
    root = tree if isinstance(tree, bytes) else tree.root
    places = dict(own)
    if store is not None and (folder := local_path(store, "")) is not None:
        places["store"] = folder
    source = os.path.realpath(root)
    for what, path in places.items():
        place = os.path.realpath(os.fsencode(path))
        if _within(place, source) or _within(source, place):
            raise InputError(
                "source",
                path_to_text(source),
                f"overlaps the {what}, {path_to_text(place)}",
                hint="Name a folder of its own for the data, or configure another place; nothing was written.",
            )


def _within(inner: bytes, outer: bytes) -> bool:
    return inner == outer or inner.startswith(outer.rstrip(b"/") + b"/")
