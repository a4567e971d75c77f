"""Rules of data processing: what a step does, under which version, and since when.

A project's policy lists its steps in order (``[[data.steps]]``). Each is a rule: name, version, kind, parameters
and the moment from which it holds. A rule never changes under its version; how a step is carried out is told by
:data:`INTERPRETERS`, whose version rises whenever the same rule would choose other documents or other bytes.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, field_validator, model_validator

from pretrain_archive.domain.identity import format_time, parse_time

INTERPRETERS = {
    "clean": "pretrain-archive clean 1",
    "filter": "pretrain-archive filter 1",
    "deduplicate": "pretrain-archive deduplicate 1",
    "mix": "pretrain-archive mix 1",
    "sample": "pretrain-archive sample 1",
    "split": "pretrain-archive split 2",
}
"""Kind of a step → the version of the code that carries it out."""

OUTPUTS = {
    "clean": "cleaned",
    "filter": "filtered",
    "deduplicate": "deduplicated",
    "mix": "mixed",
    "sample": "sampled",
}
"""Kind of a step → how its snapshot is called behind the name of the data (``corpus.filtered``)."""

MOST = 2**53 - 1
"""The largest number that JSON carries everywhere (RFC 8259, section 6)."""

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$"
REST = "*"
"""In a mixture: every domain that is not named."""


class _Step(BaseModel):
    """What all rules have; ``text_field`` is the field with the text in lists of documents (JSON Lines)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=NAME)
    version: int = Field(ge=1, le=MOST)
    effective_from: str | None = None
    output: str = Field(default="", pattern=r"^([A-Za-z0-9][A-Za-z0-9_-]{0,39})?$")
    text_field: str = "text"

    @field_validator("effective_from", mode="before")
    @classmethod
    def _moment(cls, value: Any) -> Any:
        if value is None or value == "":
            return None
        if isinstance(value, datetime):
            return format_time(value)
        return format_time(parse_time(value)) if isinstance(value, str) else value

    def parameters(self) -> dict[str, Any]:
        """What the rule says, without its name, version, kind and moment; plain JSON."""
        return self.model_dump(mode="json", exclude={"name", "version", "effective_from", "kind", "output"})


class CleanStep(_Step):
    """Rewrite text; everything is off until it is asked for."""

    kind: Literal["clean"]
    line_ends: bool = False
    unicode_nfc: bool = False
    strip_controls: bool = False

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if not (self.line_ends or self.unicode_nfc or self.strip_controls):
            raise ValueError("cleans nothing: set line_ends, unicode_nfc or strip_controls")
        return self


class FilterStep(_Step):
    """Keep documents for which everything holds; the first rule that fails is the reason of the drop.

    Sizes are bytes of text. ``licence_header`` are texts of which one must stand within the first 4096 characters
    (case is ignored). ``languages`` compares what a list of documents tells in ``language_field``; a document that
    tells none is kept. Ratios are shares from 0 to 1 as the quality statistics define them.
    """

    kind: Literal["filter"]
    include: list[str] = []
    exclude: list[str] = []
    extensions: list[str] = []
    min_bytes: int | None = Field(ge=0, le=MOST, default=None)
    max_bytes: int | None = Field(ge=1, le=MOST, default=None)
    licence_header: list[str] = []
    languages: list[str] = []
    language_field: str = "language"
    max_line_bytes: int | None = Field(ge=1, le=MOST, default=None)
    min_alphabetic_ratio: FiniteFloat | None = Field(ge=0, le=1, default=None)
    max_repetition_ratio: FiniteFloat | None = Field(ge=0, le=1, default=None)
    max_control_characters: int | None = Field(ge=0, le=MOST, default=None)


class DeduplicateStep(_Step):
    """Keep the first of equal documents, in the order of paths and lines.

    ``content``: the same bytes of text; of a packed file that is one document, the same packed bytes.
    ``normalised``: the same text after NFC, case folding and with each run of white space as one space.
    ``near``: at least ``threshold`` Jaccard similarity of word shingles.
    """

    kind: Literal["deduplicate"]
    by: Literal["content", "normalised", "near"] = "content"
    threshold: FiniteFloat = Field(gt=0, le=1, default=0.8)
    shingle: int = Field(ge=1, le=50, default=5)
    permutations: int = Field(ge=16, le=1024, default=128)
    seed: int = Field(ge=0, le=MOST, default=1)

    def parameters(self) -> dict[str, Any]:
        """Exact modes have no similarity."""
        found = super().parameters()
        near = ("threshold", "shingle", "permutations", "seed")
        return {key: value for key, value in found.items() if self.by == "near" or key not in near}


class MixStep(_Step):
    """Bring domains to declared shares of bytes, or to targets in bytes; nothing is repeated.

    A domain is the value of ``domain_field`` where a record of a list of documents has it, else the first folder
    of its path (``.`` at the top). ``*`` stands for all domains that are not named; without it they are dropped.
    Within a domain the documents with the smallest seeded hash are kept, never the first ones.
    """

    kind: Literal["mix"]
    seed: int = Field(ge=0, le=MOST)
    weights: dict[str, Annotated[FiniteFloat, Field(gt=0)]] = {}
    targets: dict[str, Annotated[int, Field(gt=0, le=MOST)]] = {}
    total_bytes: int | None = Field(gt=0, le=MOST, default=None)
    domain_field: str = "domain"

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.weights) == bool(self.targets):
            raise ValueError("needs either weights (shares of bytes) or targets (bytes per domain)")
        if self.targets and self.total_bytes is not None:
            raise ValueError("total_bytes goes with weights; targets say their bytes themselves")
        return self


class SampleStep(_Step):
    """Take a seeded part of a pool: a share of the documents, or a size in documents or bytes."""

    kind: Literal["sample"]
    seed: int = Field(ge=0, le=MOST)
    share: FiniteFloat | None = Field(gt=0, le=1, default=None)
    documents: int | None = Field(ge=1, le=MOST, default=None)
    bytes: int | None = Field(ge=1, le=MOST, default=None)

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if sum(value is not None for value in (self.share, self.documents, self.bytes)) != 1:
            raise ValueError("needs exactly one of share, documents and bytes")
        return self


class SplitStep(_Step):
    """Name the rule of the split; what it leaves out is taken from the policy's data section. Always the last."""

    kind: Literal["split"]
    seed: int | None = Field(ge=0, le=MOST, default=None)
    validation_fraction: FiniteFloat | None = Field(gt=0, lt=1, default=None)


Step = Annotated[
    CleanStep | FilterStep | DeduplicateStep | MixStep | SampleStep | SplitStep, Field(discriminator="kind")
]


class RecipeRights(BaseModel):
    """Who says whether data may be rebuilt from a recipe, and for how long the recipe is kept (R054)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rebuild_allowed: bool
    keep_days: FiniteFloat = Field(gt=0, le=365_000)
    approver: str = Field(min_length=1)


def asked_sample(share: float, seed: int) -> SampleStep:
    """The sample that a trigger form asks for; its name says share and seed in full, so that no two share one."""
    return SampleStep(
        name=f"asked-sample-{seed}-{share!r}", version=1, kind="sample", seed=seed, share=share, output="asked_sample",
    )  # fmt: skip


def output_of(step: _Step) -> str:
    """How the snapshot of ``step`` is called behind the name of the data."""
    return step.output or OUTPUTS[step.kind]  # type: ignore[attr-defined]


def check_order(steps: list[Any]) -> None:
    """Refuse (``ValueError``) steps that share a name or an output, and a split that is not the last."""
    for what, named in (
        ("name", [step.name for step in steps]),
        ("output", [output_of(step) for step in steps if step.kind != "split"]),
    ):
        twice = sorted({value for value in named if named.count(value) > 1})
        if twice:
            raise ValueError(f"steps share the {what} {', '.join(map(repr, twice))}: give each its own")
    if any(step.kind == "split" for step in steps[:-1]):
        raise ValueError("the split comes last: processing after it would leave its parts")
