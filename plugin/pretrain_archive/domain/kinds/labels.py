# ruff: noqa: RUF012 (pydantic copies a default for each instance)
"""Payloads of the sampled review of labels by persons (R048, R049). None of them holds text of the data."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pretrain_archive.domain.kinds.base import Digest, Payload


class SampledItem(Payload):
    """A document of the sample: digest of its text, where it lies (``line`` 0: the whole file), its label."""

    digest: Digest
    path: str
    line: int = Field(ge=0)
    label: str


class Stratum(Payload):
    """Documents with one label, and how many of them are in the sample."""

    label: str
    documents: int
    sampled: int


class LabelsSampled(Payload):
    """A seeded sample of a snapshot's labelled documents, drawn so that it can be drawn again.

    ``sample_digest`` is over snapshot, definition, seed and items in canonical JSON. ``definition_*`` is None where
    no label definition was named. ``reviewers`` are who may answer, ``wanted`` of them each the whole sample.
    """

    snapshot: str
    sample_digest: Digest
    seed: int
    method: str
    definition_name: str | None = None
    definition_version: str | None = None
    definition_digest: Digest | None = None
    labels: dict[str, str] = {}
    strata: list[Stratum]
    items: list[SampledItem] = Field(min_length=1)
    page_size: int = Field(ge=1)
    reviewers: list[str] = []
    wanted: int = Field(ge=1, default=1)
    min_agreement: float = Field(ge=0, le=1)


class ItemAnswer(Payload):
    """What a reviewer says of an item; ``label`` is the right one where another of the definition is."""

    digest: Digest
    path: str
    line: int
    given: str
    answer: Literal["agree", "wrong", "problem"]
    label: str | None = None
    note: str = ""


class LabelPageAnswered(Payload):
    """A reviewer's answers to one page (from 1) of the sample."""

    sample_digest: Digest
    page: int = Field(ge=1)
    reviewer: int = Field(ge=1)
    person_id: str
    person_name: str
    responded_at: str
    authentication: str | None = None
    answers: list[ItemAnswer] = Field(min_length=1)


class LabelAnswerRefused(Payload):
    """An answer to a page that does not count, and why; ``timed_out`` is no answer in time."""

    sample_digest: Digest
    page: int
    reviewer: int
    person_id: str | None
    person_name: str | None
    cause: Literal["not_entitled", "stale", "unsigned", "invalid", "timed_out"]
    detail: str


class LabelsReviewed(Payload):
    """The review as a whole: agreement over all answers, and between two reviewers.

    ``agreement`` is the share of answers that agree with the given label. ``kappa`` is Cohen's between the first two
    reviewers, None for one reviewer and where chance alone would always agree.
    """

    snapshot: str
    sample_digest: Digest
    definition_digest: Digest | None = None
    reviewers: list[str] = Field(min_length=1)
    items: int
    answers: int
    agreed: int
    wrong: int
    problems: int
    agreement: float
    agreement_by_label: dict[str, float] = {}
    kappa: float | None = None
    min_agreement: float
    passed: bool
    objections: list[ItemAnswer] = []
