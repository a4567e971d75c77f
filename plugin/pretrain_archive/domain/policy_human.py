"""What a project demands of persons who read outputs, and how long records outlive a retired model.

Sections ``[human_evaluation]`` and ``[model_life]`` of a policy. Neither has a built-in number that allows
something: how many items, which reviewers and how much agreement are the project's to say.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Standard(_Part):
    """The scoring standard: what reviewers are asked to look at, in both languages."""

    en: str = Field(min_length=1, max_length=4000)
    zh: str = Field(min_length=1, max_length=4000)


class ScalePoint(_Part):
    """A point of the scale with its meaning in both languages; ``value`` where a mean shall be told."""

    label: str = Field(min_length=1, max_length=40, pattern=r"^[^\s:](?:[^:\r\n]*[^\s:])?$")
    en: str = Field(min_length=1, max_length=400)
    zh: str = Field(min_length=1, max_length=400)
    value: float | None = Field(default=None, allow_inf_nan=False)


class HumanEvaluation(_Part):
    """The evaluation of sampled outputs by persons (R118).

    ``mode`` is ``single`` (each output is scored) or ``pairs`` (the outputs of the candidate and of a baseline stand
    side by side, in an order that is drawn and recorded). ``sample`` items are drawn with ``seed``; ``wanted`` of the
    ``reviewers`` (Airflow user names) each answer all of them. ``scale`` names its points, best first; in pairs they
    say how the first output compares with the second, and read backwards they say the opposite.

    What decides: at least ``fewest`` items with a score, answers of two reviewers that agree in ``min_agreement`` of
    the items, ``min_kappa``, ``min_mean`` and ``min_win_rate`` where they are set, and at most ``most_critical``
    critical problems. A question shows up to ``show_characters`` of each text; Airflow keeps them in its database.
    """

    mode: Literal["single", "pairs"]
    sample: int = Field(ge=1, le=500)
    seed: int = Field(ge=1 - 2**53, le=2**53 - 1)
    reviewers: list[str] = Field(min_length=1)
    wanted: Literal[1, 2] = 2
    fewest: int = Field(ge=1, le=500)
    min_agreement: float = Field(ge=0, le=1)
    min_kappa: float | None = Field(ge=-1, le=1, default=None)
    min_mean: float | None = Field(default=None, allow_inf_nan=False)
    min_win_rate: float | None = Field(ge=0, le=1, default=None)
    most_critical: int = Field(ge=0, default=0)
    show_characters: int = Field(ge=80, le=20_000, default=2000)
    standard: Standard
    scale: list[ScalePoint] = Field(min_length=2, max_length=20)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(set(self.reviewers)) != len(self.reviewers) or not all(n.strip() for n in self.reviewers):
            raise ValueError("reviewers: a name is blank or stands twice")
        if len(self.reviewers) < self.wanted:
            raise ValueError(f"wants {self.wanted} reviewers; name them in reviewers")
        if self.fewest > self.sample:
            raise ValueError(f"fewest is {self.fewest}, more than the sample of {self.sample}")
        labels = [point.label for point in self.scale]
        if len(set(labels)) != len(labels):
            raise ValueError("scale: a label stands twice")
        self._values_fit([point.value for point in self.scale])
        return self

    def _values_fit(self, values: list[float | None]) -> None:
        """Raise ``ValueError`` where a mean or a win rate is asked for that the scale cannot give."""
        given = [value for value in values if value is not None]
        if self.mode == "pairs" and (given or self.min_mean is not None):
            raise ValueError("pairs are compared, not scored: leave out value and min_mean")
        if self.mode == "single" and self.min_win_rate is not None:
            raise ValueError("a win rate needs pairs: set mode to pairs, or leave out min_win_rate")
        if given and len(given) != len(values):
            raise ValueError("scale: give every point a value, or none")
        if any(left <= right for left, right in pairwise(given)):
            raise ValueError("scale: values must fall, the best point stands first")
        if self.min_mean is not None and not given:
            raise ValueError("min_mean needs a value for every point of the scale")


class ModelLife(_Part):
    """How long records are kept at least once a released model is retired (R156); None is without end.

    Nothing in this program deletes records: the number says from when on an owner of the storage may.
    """

    records_keep_days_after_retirement: float | None = Field(ge=0, default=None, allow_inf_nan=False)
