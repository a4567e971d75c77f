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
