"""Payloads about what may be deleted: holds, late classification, what has no owner."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pretrain_archive.domain.kinds.base import Digest, Payload


class HoldPlaced(Payload):
    """A person forbids the deletion of something, until the hold is released.

    ``target`` is a reference (``checkpoint:ID``, ``snapshot:NAME@VERSION``), a run (``run:UID``) or a project
    (``project:NAME``).
    """

    hold_id: str = Field(min_length=1)
    target: str = Field(min_length=1)
    reason: str = Field(min_length=1)
    placed_by: str = Field(min_length=1)


class HoldReleased(Payload):
    """A person lifts a hold; other holds on the same thing stay."""

    hold_id: str = Field(min_length=1)
    reason: str = Field(min_length=1)
    released_by: str = Field(min_length=1)


class CheckpointClassified(Payload):
    """A registered checkpoint gets another class or purpose; the newest one counts.

    ``previous_class`` and ``previous_purpose`` are what counted before. ``by`` is the person who said so, or the
    task that did.
    """

    checkpoint_id: str = Field(min_length=1)
    artifact_class: Literal["recovery", "evaluation", "candidate"]
    purpose: str
    reason: str = Field(min_length=1)
    by: str = Field(min_length=1)
    previous_class: str
    previous_purpose: str


class OwnerlessReported(Payload):
    """Artifacts of a project for which nobody answers, reported to the project's owner.

    ``responsible`` counts them by the name that the records give (empty: none), which the policy does not know.
    ``examples`` are some of their references.
    """

    project: str
    reported_to: str
    plan_digest: Digest
    count: int = Field(ge=1)
    size: int = Field(ge=0)
    responsible: dict[str, int]
    examples: list[str]


class StillThere(Payload):
    """One file or version of an object that a deletion could not remove, with the code that was given for it."""

    key: str
    code: str
    message: str = ""
    version: str | None = None


class DeletionPartial(Payload):
    """Something of an artifact went and something did not: it is partly deleted, and has no tombstone yet.

    ``faults`` are the first thousand of ``left`` that stay; the next pass tries only those. ``gone`` and
    ``bytes_released`` are of this pass alone.
    """

    ref: str
    plan_digest: Digest
    approved_by: str
    gone: int = Field(ge=0)
    left: int = Field(ge=1)
    bytes_released: int = Field(ge=0)
    faults: list[StillThere]


class NotDeleted(Payload):
    """An item of a plan that is not gone after a pass, and why."""

    ref: str
    outcome: str
    reason: str
    project: str = ""


class RetentionApplied(Payload):
    """One pass over an approved plan: what went, what did not, and on whose word.

    ``outcomes`` counts items by what happened to them, ``released_by_class`` bytes by class. ``not_deleted`` names
    the first thousand that failed, wait or are partly deleted. ``complete`` is False while any of these is left.
    """

    plan_digest: Digest
    approved_by: str
    by_person: bool
    policy_digests: dict[str, Digest]
    started_at: str
    outcomes: dict[str, int]
    bytes_planned: int = Field(ge=0)
    bytes_released: int = Field(ge=0)
    versions_removed: int = Field(ge=0)
    released_by_class: dict[str, int]
    not_deleted: list[NotDeleted]
    complete: bool
