"""index.html of a package."""

from __future__ import annotations

from collections.abc import Sequence

from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item
from pretrain_archive.package.evidence import Reference


def render_index(view: RunView, items: Sequence[Item], references: Sequence[Reference]) -> bytes:
    """The page."""
    return b"<!doctype html>\n"
