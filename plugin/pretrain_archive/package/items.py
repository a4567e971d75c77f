"""What can be said of a run's evidence: tracks, gates, the items of a package (R143, R146).

An item is verified only where a check exists, and names it; what nobody recorded is unrecorded with a hint
and an owner; what contradicts is changed. Pure: the same records give the same items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pretrain_archive.domain.records import Track
from pretrain_archive.domain.run_view import ALL_GATES, GATES, RunView
from pretrain_archive.domain.verdicts import WORST_FIRST, Item, Verdict
from pretrain_archive.package import items_artifact, items_compute, items_data, items_run


def evidence_items(view: RunView) -> list[Item]:
    """The items of a run in reading order: tracks, gates, then the items of the package."""
    items = [check(view) for check in CHECKS]
    asked = [gate for gate in ALL_GATES if gate in GATES or view.dossier(gate) is not None]
    gates = [items_run.gate(view, gate) for gate in asked]
    tracks = [
        _track(track, [item for item in items if item.track == track.value])
        for track in (Track.DATA, Track.COMPUTE, Track.ARTIFACT)
    ]
    return [*tracks, *gates, *items]


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of ``verdicts``; unrecorded where there are none."""
    seen = set(verdicts)
    return next((verdict for verdict in WORST_FIRST if verdict in seen), Verdict.UNRECORDED)


def _track(track: Track, items: list[Item]) -> Item:
    verdict = worst(item.verdict for item in items)
    good = sum(item.verdict is Verdict.VERIFIED for item in items)
    bad = [item.id for item in items if item.verdict is verdict and verdict is not Verdict.VERIFIED]
    return Item(
        id=f"track.{track.value}",
        track=track.value,
        verdict=verdict,
        check=f"{good} of {len(items)} items of this track are verified",
        checked_at=max((item.checked_at for item in items), default=""),
        expected="every item verified" if bad else "",
        found=", ".join(bad),
        hint="See the items of this track." if bad else "",
        requirement="R142",
    )


CHECKS: tuple[Callable[[RunView], Item], ...] = (
    items_run.summary,
    items_data.source,
    items_data.rights,
    items_data.access,
    items_data.snapshot,
    items_data.processing,
    items_data.rebuilding,
    items_data.quality,
    items_compute.configuration,
    items_compute.events,
    items_artifact.checkpoints,
    items_artifact.candidate,
    items_artifact.evaluation,
    items_artifact.limits,
    items_run.people,
    items_artifact.retention,
)
