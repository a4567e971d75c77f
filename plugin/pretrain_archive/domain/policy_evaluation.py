"""The policy's section about evaluation: which programs measure, by which definitions, against what, and the limits.

It is recorded with the run when it is opened, so that its rules are fixed before the launch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

Direction = Literal["lower", "higher"]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,79}$")]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MetricDefinition(_Part):
    """One metric: its unit, which way is better, and what it asks.

    ``aliases`` are other names that programs give it. ``breakdown``: it has parts, ``NAME.PART``, such as kinds of
    errors. ``measured_by`` persons: no program measures it, so that an evaluation without it says so. ``required``:
    an evaluation without it cannot pass.
    """

    name: Name
    unit: str = Field(min_length=1)
    direction: Direction
    question: str = ""
    aliases: list[str] = []
    required: bool = False
    breakdown: bool = False
    measured_by: Literal["program", "persons"] = "program"


class Suite(_Part):
    """Metric definitions for one objective. A data set that is declared here is the only one that counts."""

    name: Name
    version: str = Field(min_length=1, default="1")
    objective: str = Field(min_length=1)
    metrics: list[MetricDefinition] = Field(min_length=1)
    data_set: str | None = None
    data_set_digest: str | None = Field(pattern=r"^sha256:[0-9a-f]{64}$", default=None)

    @model_validator(mode="after")
    def _one_meaning_per_name(self) -> Self:
        names = [name for metric in self.metrics for name in (metric.name, *metric.aliases)]
        if twice := _repeated(names):
            raise ValueError(f"suite {self.name}: the name {twice!r} stands for two metrics")
        return self


class EvaluationProgram(_Part):
    """A further program that measures each checkpoint, beside the one that the request names.

    ``runs`` says what several result files for one task are: a contradiction, or runs named by their files.
    """

    name: Name
    command: list[str] = Field(min_length=1)
    suites: list[str] = []
    runs: Literal["refuse", "named"] = "refuse"


class EvaluationRule(_Part):
    """A threshold. ``program`` empty: it judges what the request's own program measures."""

    metric: str = Field(min_length=1)
    direction: Direction
    limit: FiniteFloat | None = None
    better_than_baselines: bool = False
    program: str = ""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.limit is None and not self.better_than_baselines:
            raise ValueError(f"the rule about {self.metric} has neither a limit nor better_than_baselines")
        return self


class Evaluation(_Part):
    """How the project's models are measured.

    ``suites`` are what the request's own program is held to: names that come with the program, names of
    ``definitions``, or files beside the policy. ``group`` names runs whose metrics must be defined alike: another
    definition under the same name is flagged. ``baselines`` must be among those compared with; a previous version and
    another data version are looked up in the ledger. ``max_minutes`` ends a program, and with it its hold on the
    checkpoint.
    """

    suites: list[str] = []
    runs: Literal["refuse", "named"] = "refuse"
    group: str = ""
    max_minutes: float = Field(gt=0, default=24 * 60)
    baselines: list[Literal["untrained model", "previous version", "other data version"]] = []
    programs: list[EvaluationProgram] = []
    definitions: list[Suite] = []
    rules: list[EvaluationRule] = []

    @model_validator(mode="after")
    def _names_are_single(self) -> Self:
        for what, names in (
            ("program", [one.name for one in self.programs]),
            ("definition", [one.name for one in self.definitions]),
        ):
            if twice := _repeated(names):
                raise ValueError(f"evaluation: {what} {twice!r} is given twice")
        known = {"", *(one.name for one in self.programs)}
        if unknown := next((rule.program for rule in self.rules if rule.program not in known), None):
            raise ValueError(f"evaluation: a rule names the program {unknown!r}, which is not declared")
        return self


def _repeated(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
