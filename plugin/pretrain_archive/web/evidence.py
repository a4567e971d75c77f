"""The evidence of a run as the pages count it."""

from __future__ import annotations

from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item
from pretrain_archive.package.items import evidence_items


def evidence(view: RunView) -> list[Item]:
    """The run's items without the sums over a track: a page shows each fact once, and counts it once."""
    return [item for item in evidence_items(view) if not item.id.startswith("track.")]
