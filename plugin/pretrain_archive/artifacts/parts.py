"""Checkpoints of which parts were deleted: what their tombstones say, and what that means for the rest (R149, R150).

A part is a component (``formats.folder.COMPONENTS``). Its files leave the folder, the rest stays and still verifies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pretrain_archive.domain.kinds import TombstoneWritten
from pretrain_archive.domain.run_view import RunView

RESUMING = frozenset({"optimizer", "data_state", "weights"})
"""Parts without which a training cannot go on as if it had not stopped."""


def gone_parts(view: RunView) -> Mapping[str, frozenset[str]]:
    """Parts that were deleted, by checkpoint id; a checkpoint that is gone as a whole is not among them."""
    found: dict[str, frozenset[str]] = {}
    for _, stone in view.all(TombstoneWritten):
        if stone.parts:
            name = stone.ref.partition(":")[2]
            found[name] = found.get(name, frozenset()) | frozenset(stone.parts)
    return found


def whole_stones(view: RunView) -> frozenset[str]:
    """References of what was deleted as a whole."""
    return frozenset(stone.ref for _, stone in view.all(TombstoneWritten) if not stone.parts)


def not_resumable(parts: Collection[str]) -> str:
    """Why a checkpoint without these parts cannot be resumed from; empty if it can."""
    missing = sorted(RESUMING & set(parts))
    return (
        f"its {', '.join(missing)} was deleted by policy: nothing can be resumed from it" if missing else ""
    )
