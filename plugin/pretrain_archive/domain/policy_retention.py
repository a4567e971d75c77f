"""The policy's section about what is kept and what may be deleted: rules by kind, class and purpose.

There is no built-in day count and no built-in rule: what no rule names is kept (settled reading 4). Rules only ever
let go what nothing needs; what is live is kept whatever they say.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

RuledKind = Literal["checkpoint", "snapshot", "temporary", "cache", "leftover", "log"]
"""What a rule can be about: see ``retention.subjects``."""

ByStep = ("keep_every", "keep_best")
CONDITIONS = ("keep_last", "keep_every", "keep_best", "younger_than_days", "unused_for_days")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Best(_Part):
    """The best ``count`` by a metric of their evaluations. Equally good ones are all kept."""

    metric: str = Field(min_length=1)
    direction: Literal["lower", "higher"]
    count: int = Field(ge=1)


class RetentionRule(_Part):
    """What happens to what the rule is about.

    It is about the ``kinds``, ``classes`` and ``purposes`` that it names; an empty list of classes or purposes means
    every one. ``keep`` keeps, and no later rule is asked. ``delete`` lets go what none of its conditions keeps;
    ``delete_parts`` lets go only the components in ``parts`` (such as ``optimizer``) and keeps the rest. Of several
    rules with the same action the first that is about a thing decides.

    ``keep_last`` are those with the highest attempt and step, ``keep_every`` those whose step is a multiple;
    ``younger_than_days`` counts from the registration, ``unused_for_days`` from the last use on record (a thing that
    was used since is kept; without a record of use, the registration counts).
    """

    name: str = Field(min_length=1)
    kinds: list[RuledKind] = Field(min_length=1, default=["checkpoint"])
    classes: list[str] = []
    purposes: list[str] = []
    action: Literal["keep", "delete", "delete_parts"]
    parts: list[str] = []
    keep_last: int | None = Field(ge=1, default=None)
    keep_every: int | None = Field(ge=1, default=None)
    keep_best: Best | None = None
    younger_than_days: float | None = Field(ge=0, default=None)
    unused_for_days: float | None = Field(ge=0, default=None)

    @model_validator(mode="after")
    def _says_enough(self) -> Self:
        given = [name for name in CONDITIONS if getattr(self, name) is not None]
        if self.action == "keep" and given:
            raise ValueError(
                f"rule {self.name!r} keeps everything that it is about: {given[0]} has no meaning"
            )
        if self.action != "keep" and not given:
            raise ValueError(
                f"rule {self.name!r} must say what stays: at least one of {', '.join(CONDITIONS)}"
            )
        if (self.action == "delete_parts") != bool(self.parts):
            raise ValueError(f"rule {self.name!r}: parts are named with delete_parts, and only there")
        about_others = [kind for kind in self.kinds if kind != "checkpoint"]
        stepped = [name for name in ByStep if getattr(self, name) is not None]
        if about_others and (self.parts or stepped):
            what = "parts" if self.parts else stepped[0]
            raise ValueError(f"rule {self.name!r}: a {about_others[0]} has no {what}")
        return self

    def is_about(self, kind: str, artifact_class: str, purpose: str) -> bool:
        """Whether the rule names such a thing."""
        return (
            kind in self.kinds
            and (not self.classes or artifact_class in self.classes)
            and (not self.purposes or purpose in self.purposes)
        )


class Retention(_Part):
    """How long what lives; there is no built-in day count (settled reading 4).

    ``rules`` come first. A recovery or evaluation checkpoint that no rule with the action ``delete`` is about lives
    by the fields below them. ``legal_hold`` names runs, checkpoints or projects. ``registries`` are addresses of
    model registries that may name a checkpoint (``http://…``, MLflow): where one cannot be asked, nothing of the
    project is deleted. ``responsible`` are people beside those of ``[people]`` who may answer for a checkpoint.
    ``when_incomplete`` says what the task of a clean-up does while something of the project that was to be deleted is
    still there: fail, or warn and go on; the next pass tries only that in either case.
    """

    recovery_keep_last: int = Field(ge=1)
    recovery_max_age_days: float = Field(ge=0)
    evaluation_max_age_days: float = Field(ge=0)
    approval_above_bytes: int = Field(ge=0)
    legal_hold: list[str] = []
    rules: list[RetentionRule] = []
    registries: list[str] = []
    responsible: list[str] = []
    when_incomplete: Literal["fail", "warn"] = "fail"

    @model_validator(mode="after")
    def _names_are_different(self) -> Self:
        names = [rule.name for rule in self.rules]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"retention.rules: {', '.join(map(repr, twice))} is given twice")
        return self

    def all_rules(self) -> list[RetentionRule]:
        """The rules in their order, with those that the plain fields make at the end."""
        plain = [
            RetentionRule(
                name="recovery_keep_last, recovery_max_age_days", classes=["recovery"], action="delete",
                keep_last=self.recovery_keep_last, younger_than_days=self.recovery_max_age_days,
            ),
            RetentionRule(
                name="evaluation_max_age_days", classes=["evaluation"], action="delete",
                younger_than_days=self.evaluation_max_age_days,
            ),
        ]  # fmt: skip
        return [*self.rules, *plain]
