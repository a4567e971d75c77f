# ruff: noqa: RUF012 (pydantic copies a default for each instance)
"""Payloads of a model's life after its release (R109, R111, R156): appended for good, each by a named person.

They stand in a stream of the release, ``release/NAME@VERSION``, so that a run that is closed stays closed. ``at`` is
when it happened, ``by`` who says so; ``authentication`` is how that person is known.
"""

from __future__ import annotations

from typing import Literal

from pretrain_archive.domain.kinds.base import Payload


class LifeFact(Payload):
    """What every fact of a release's life says."""

    fact_id: str
    release_id: str
    name: str
    version: str
    at: str
    by: str
    authentication: str
    text: str
    after: list[Literal["taken_down", "retired"]] = []


class FeedbackReceived(LifeFact):
    """Feedback from use; with a ``severity`` it is a problem, open until an adjustment or a retraining resolves it."""

    source: str | None = None
    severity: Literal["minor", "major", "critical"] | None = None


class AdjustmentMade(LifeFact):
    """Something around the model was changed (a prompt, a filter, a limit); its weights are the released ones."""

    resolves: list[str] = []


class RetrainingBegun(LifeFact):
    """A new run that shall replace the release."""

    run_uid: str
    resolves: list[str] = []


class ModelDelivered(LifeFact):
    """Handed over: to whom, and where it lies there."""

    to: str
    where: str


class ModelTakenDown(LifeFact):
    """Taken out of service at a place; empty ``where`` is everywhere."""

    where: str = ""


class ModelRetired(LifeFact):
    """No longer to be used. ``records_keep_days`` is the policy's word then, None where it sets no end."""

    successor: str | None = None
    records_keep_days: float | None = None
    policy_digest: str | None = None
