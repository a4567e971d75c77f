# ruff: noqa: RUF012 (pydantic copies a default for each instance)
"""Payloads of the evaluation of sampled outputs by persons (R118). None of them holds a prompt or an output."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pretrain_archive.domain.kinds.base import Digest, Payload

Severity = Literal["minor", "major", "critical"]
Whose = Literal["candidate", "baseline", "both"]
"""In pairs, whose output has a problem."""


class ScaleLabel(Payload):
    """A point of the scale, best first, with its meaning in English and 简体中文."""

    label: str
    en: str
    zh: str
    value: float | None = None


class OutputSampled(Payload):
    """An item: digest of what is shown of it, its line in the source and its id there.

    ``candidate_first`` says for each reviewer which output stood first, empty where there is but one. ``identical``
    says that both outputs are the same, ``cut`` that a question shows only the beginning of a text.
    """

    digest: Digest
    line: int = Field(ge=1)
    item_id: str | None = None
    candidate_first: list[bool] = []
    identical: bool = False
    cut: bool = False


class HumanEvaluationSampled(Payload):
    """A seeded sample of prompts and outputs, with the scale, the standard and the limits that decide.

    ``source_*`` is the file that the items were drawn from, ``items_*`` the drawn lines as they are kept in the
    store. ``subject`` says how the outputs are known to be of this checkpoint: the evaluation program wrote them,
    every line of the file states it, or nothing does (``unproven``). ``sample_digest`` is over all that a question
    shows and how it is judged.
    """

    sample_digest: Digest
    checkpoint_id: str
    checkpoint_digest: Digest
    evaluation_id: str | None = None
    subject: Literal["evaluation_program", "stated", "unproven"]
    source_uri: str
    source_digest: Digest
    source_items: int
    duplicates: int = 0
    items_uri: str
    items_digest: Digest
    seed: int
    method: str
    mode: Literal["single", "pairs"]
    baseline_name: str | None = None
    standard_en: str
    standard_zh: str
    scale: list[ScaleLabel] = Field(min_length=2)
    page_size: int = Field(ge=1)
    show_characters: int
    reviewers: list[str] = []
    wanted: int = Field(ge=1)
    fewest: int
    min_agreement: float
    min_kappa: float | None = None
    min_mean: float | None = None
    min_win_rate: float | None = None
    most_critical: int = 0
    items: list[OutputSampled] = Field(min_length=1)


class HumanAnswer(Payload):
    """What a reviewer says of an item: a point of the scale, None where the item was skipped.

    In pairs ``label`` is read from the candidate's side, whichever stood first, and ``outcome`` is its result.
    """

    digest: Digest
    line: int
    item_id: str | None = None
    label: str | None
    outcome: Literal["", "win", "tie", "loss"] = ""
    candidate_first: bool | None = None
    problem: str | None = None
    severity: Severity | None = None
    whose: Whose | None = None
    note: str = ""


class HumanPageAnswered(Payload):
    """A reviewer's answers to one page (from 1) of the sample; ``page_digest`` is of exactly what was shown."""

    sample_digest: Digest
    page_digest: Digest
    page: int = Field(ge=1)
    reviewer: int = Field(ge=1)
    person_id: str
    person_name: str
    responded_at: str
    authentication: str | None = None
    answers: list[HumanAnswer] = Field(min_length=1)


class HumanAnswerRefused(Payload):
    """An answer to a page that does not count, and why; ``timed_out`` is no answer in time."""

    sample_digest: Digest
    page: int
    reviewer: int
    person_id: str | None
    person_name: str | None
    cause: Literal["not_entitled", "stale", "unsigned", "invalid", "contradictory", "timed_out"]
    detail: str


class ProblemFound(Payload):
    """An entry of the problem log: which item, what kind, how bad, and who says so; ``whose`` output in pairs."""

    digest: Digest
    line: int
    item_id: str | None = None
    category: str
    severity: Severity
    whose: Whose | None = None
    note: str
    by: str

    @property
    def of_candidate(self) -> bool:
        """Whether it is one of the candidate's output, alone or with the other one's."""
        return self.whose != "baseline"


class Skipped(Payload):
    """An item that a reviewer did not score, and why."""

    digest: Digest
    line: int
    note: str
    by: str


class Disagreement(Payload):
    """An item that two reviewers score differently; ``opposite`` is on different sides of the scale's middle."""

    digest: Digest
    line: int
    labels: dict[str, str]
    opposite: bool


class HumanEvaluationReported(Payload):
    """The evaluation as a whole.

    ``points`` counts answers per point of the scale. ``mean`` is over items (of an item's answers first), with a 95 %
    interval where at least ten items and some spread allow one. ``wins``, ``ties`` and ``losses`` are items by the
    sum of their answers; ``win_rate`` is of those that are won or lost, with Wilson's 95 % interval. ``agreement``
    (share of equal answers) and ``kappa`` (Cohen's) are over the items that both reviewers scored, and None where
    there are none. ``flags`` are ``code: detail``; ``passed`` says that none of them speaks against the numbers.
    """

    sample_digest: Digest
    checkpoint_id: str
    checkpoint_digest: Digest
    mode: Literal["single", "pairs"]
    reviewers: list[str] = Field(min_length=1)
    items: int
    scored: int
    answers: int
    points: dict[str, int]
    mean: float | None = None
    mean_low: float | None = None
    mean_high: float | None = None
    wins: int | None = None
    ties: int | None = None
    losses: int | None = None
    win_rate: float | None = None
    win_low: float | None = None
    win_high: float | None = None
    both_scored: int = 0
    agreement: float | None = None
    kappa: float | None = None
    skipped: list[Skipped] = []
    disagreements: list[Disagreement] = []
    problems: list[ProblemFound] = []
    flags: list[str] = []
    passed: bool
