"""The three ways in which an item of evidence comes out; only a check makes it verified."""

from __future__ import annotations

from collections.abc import Sequence

from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item, Verdict

REQUIREMENT = "R143"


def verified(name: str, track: str, check: str, records: Sequence[Record], found: str = "") -> Item:
    """``check`` holds over ``records``; ``found`` is what they say."""
    return Item(
        id=name,
        track=track,
        verdict=Verdict.VERIFIED,
        check=check,
        checked_at=records[-1].recorded_at if records else "",
        found=found,
        evidence=tuple(record.record_id for record in records),
        requirement=REQUIREMENT,
    )


def missing(name: str, track: str, view: RunView, *, role: str, hint: str, check: str = "") -> Item:
    """Nobody recorded it: ``hint`` says what to do, and the person of ``role`` can do it."""
    people = view.opened.people if view.opened else {}
    return Item(
        id=name,
        track=track,
        verdict=Verdict.UNRECORDED,
        check=check,
        owner=people.get(role, ""),
        hint=hint,
        requirement=REQUIREMENT,
    )


def changed(  # noqa: PLR0917 - the order in which a finding is told
    name: str, track: str, check: str, records: Sequence[Record], expected: str, found: str
) -> Item:
    """``records`` contradict each other; both values are told."""
    return Item(
        id=name,
        track=track,
        verdict=Verdict.CHANGED,
        check=check,
        checked_at=records[-1].recorded_at if records else "",
        expected=expected,
        found=found,
        evidence=tuple(record.record_id for record in records),
        requirement=REQUIREMENT,
    )
