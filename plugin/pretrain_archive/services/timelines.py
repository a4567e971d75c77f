"""What is shown of a run's course: its timeline, the three questions, and hints."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from pretrain_archive.domain.cost import account
from pretrain_archive.domain.diagnosis import diagnose
from pretrain_archive.domain.diagnosis_inspection import inspection
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.governance_support import recorded_platform, supports
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.timeline import LANES, Entry, timeline


def timeline_of(view: RunView, lanes: Collection[str]) -> list[Entry]:
    """The entries of the named lanes (none: all); :class:`InputError` for a lane that there is not."""
    for lane in lanes:
        if lane not in LANES:
            raise InputError("--lane", lane, "is no lane", hint=f"Lanes are {', '.join(LANES)}.")
    return timeline(view, lanes=lanes)


def diagnosis_of(view: RunView) -> dict[str, Any]:
    """The inspection in its fixed order, all hints, and who supports what (what has ended first), as plain JSON."""
    found, today = account(view), datetime.now(UTC).date()
    return {
        "run_uid": view.run_uid,
        "inspection": [look.to_dict() for look in inspection(view, found)],
        "hints": [hint.to_dict() for hint in diagnose(view, found)],
        "support": [one.to_dict() for one in supports(recorded_platform(view), today)],
    }
