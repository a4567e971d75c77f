"""Payload about what explorations may take of a project's day."""

from __future__ import annotations

from pydantic import Field

from pretrain_archive.domain.kinds.base import Digest, Payload


class ExplorationReserved(Payload):
    """An exploration launch took a share of its project's day, before anything started.

    It stands in the stream ``exploration/PROJECT/DAY``, written in one transaction with the launch's intent: two
    launches cannot both take the last minutes. ``units`` are the accelerators that are held (machines where there
    are none), ``deadline_seconds`` is how long the job is let live.
    """

    project: str
    day: str
    run_uid: str
    attempt: int
    token_digest: Digest
    units: int = Field(ge=1)
    deadline_seconds: float = Field(gt=0)
