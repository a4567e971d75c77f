"""How checklist items are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pretrain_archive.domain.kinds import Payload, PayloadT, SnapshotCreated
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item, Verdict

Check = Callable[[RunView, Policy], Item | None]
"""A checklist item as a function of the run's records and the policy recorded with them; None where the policy
asks for nothing of the kind."""


def item(
    item_id: str,
    track: str,
    *,
    check: str,
    evidence: tuple[Record | None, ...],
    found: str,
    expected: str = "",
    holds: bool | None,
    owner: str = "",
    hint: str = "",
    requirement: str = "",
    blocking: bool = True,
) -> Item:
    """An item: ``holds`` True is verified, False is changed, None is unrecorded.

    The time of the check is that of the newest evidence record, so that the same records give the same item.
    """
    records = [record for record in evidence if record is not None]
    verdict = {True: Verdict.VERIFIED, False: Verdict.CHANGED, None: Verdict.UNRECORDED}[holds]
    return Item(
        id=item_id,
        track=track,
        verdict=verdict,
        check=check,
        checked_at=max((record.recorded_at for record in records), default=""),
        expected=expected,
        found=found if holds is not None else "",
        blocking=blocking,
        evidence=tuple(record.record_id for record in records),
        owner=owner,
        hint=hint,
        requirement=requirement,
    )


def last(view: RunView, model: type[PayloadT]) -> tuple[Record | None, PayloadT | None]:
    """The newest record of a kind and its payload, or two Nones."""
    return view.last(model) or (None, None)


def short(digest: str) -> str:
    """A digest as people read it: the first and last eight hex digits."""
    value = digest.removeprefix("sha256:")
    return f"{value[:8]}…{value[-8:]}" if len(value) > 20 else value


def named(payload: Payload | None, *fields: str) -> list[str]:
    """Which of ``fields`` are recorded (neither None nor empty)."""
    return [
        name for name in fields if payload is not None and getattr(payload, name) not in (None, "", [], {})
    ]


def stated(value: Any) -> str:
    """A form's value as text, empty where nothing is said: blank lines say nothing."""
    lines = value if isinstance(value, list) else [value]
    return "; ".join(text for line in lines if line is not None and (text := str(line).strip()))


def names_snapshot(text: str, snapshot: SnapshotCreated) -> bool:
    """Whether ``text`` (with or without the type of a reference) names exactly this snapshot version."""
    return text.removeprefix("snapshot:") == f"{snapshot.name}@{snapshot.version}"
