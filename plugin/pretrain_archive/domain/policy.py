"""A project's policy: who may do what, for how long things are kept, and what a launch may cost.

The policy is a TOML file, one per project, outside the DAG. Its digest is recorded with each run.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pretrain_archive.domain.errors import PolicyError
from pretrain_archive.domain.policy_compute import Compute, Cost, Exploration
from pretrain_archive.domain.policy_evaluation import Evaluation
from pretrain_archive.domain.policy_human import HumanEvaluation, ModelLife
from pretrain_archive.domain.policy_platform import Platform
from pretrain_archive.domain.policy_release import Release
from pretrain_archive.domain.policy_retention import Retention
from pretrain_archive.domain.processing import RecipeRights, Step, check_order

ROLES = ("data_owner", "model_owner", "platform_owner", "budget_owner", "restore_owner", "acceptance")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class People(_Part):
    """The person behind each role, by Airflow user name (R178)."""

    data_owner: str = Field(min_length=1)
    model_owner: str = Field(min_length=1)
    platform_owner: str = Field(min_length=1)
    budget_owner: str = Field(min_length=1)
    restore_owner: str = Field(min_length=1)
    acceptance: str = Field(min_length=1)


class Approvers(_Part):
    """Who may answer each gate, and plans of the clean-up.

    ``review`` answers after a stop; empty, those of the run gate do.
    """

    prepare: list[str] = Field(min_length=1)
    run: list[str] = Field(min_length=1)
    close: list[str] = Field(min_length=1)
    retention: list[str] = Field(min_length=1)
    review: list[str] = []
    label_reviewers: list[str] = []


class Gates(_Part):
    """How gates behave. A deadline never approves.

    ``decision_valid_hours`` bounds the first launch after an approval, ``resume_valid_hours`` a resumed attempt of
    the same run (a run that is preempted on its second day); by default it is the same.
    """

    separation_of_duties: Literal["required", "off"] = "required"
    deadline_hours: float = Field(gt=0)
    decision_valid_hours: float = Field(gt=0)
    resume_valid_hours: float | None = Field(gt=0, default=None)
    user_ids: dict[str, str] = {}


SensitiveKind = Literal[
    "email", "ipv4", "ipv6", "phone", "card", "iban", "cn_resident_id", "us_ssn", "national_id", "secret",
    "forbidden_term",
]  # fmt: skip
"""What may be looked for in texts."""


class Quality(_Part):
    """Which suite judges the data, and what of it a project sets otherwise.

    ``suite`` is a suite that comes with the program or the path of a file; ``profile`` chooses the suite's thresholds
    for prose or for source code. ``limits`` and ``severities`` are by rule id. ``benchmarks`` are folders or files
    (name → path) that training data must not contain. ``languages`` are ISO 639-1 codes; empty declares none.
    ``sensitive_kinds`` are looked for, by default all; a rule over kinds of which none is looked for has no answer.
    ``sensitive_allow`` are regular expressions: what matches one as a whole is no finding.
    """

    suite: str = "standard-1"
    profile: Literal["text", "code"] = "text"
    engine: Literal["local", "spark"] = "local"
    spark_master: str = "local[*]"
    limits: dict[str, float] = {}
    severities: dict[str, Literal["blocking", "advisory"]] = {}
    mixture_unit: Literal["tokens", "bytes"] = "tokens"
    text_field: str = Field(min_length=1, default="text")
    benchmarks: dict[str, str] = {}
    languages: list[str] = []
    forbidden_terms: list[str] = []
    sensitive_kinds: list[SensitiveKind] = Field(min_length=1, default=list(get_args(SensitiveKind)))
    sensitive_allow: list[str] = []

    @field_validator("forbidden_terms")
    @classmethod
    def _no_blank_term(cls, terms: list[str]) -> list[str]:
        if not all(term.strip() for term in terms):
            raise ValueError("a term is blank and would match everywhere")
        return terms

    @field_validator("sensitive_allow")
    @classmethod
    def _expressions(cls, patterns: list[str]) -> list[str]:
        for number, pattern in enumerate(patterns, 1):
            try:
                re.compile(pattern)
            except re.error:
                # A pattern may spell out an address: it is named by its place in the list.
                raise ValueError(f"pattern {number} is no regular expression") from None
        return patterns


class LabelReview(_Part):
    """The sampled review of labels by persons (R048, R049), who are ``approvers.label_reviewers``.

    ``sample`` documents are drawn with ``seed``, shared out over the labels; ``reviewers`` persons each answer all of
    them. ``show``: whether a question holds the beginning of each text, which Airflow then keeps in its database,
    or only where it lies.
    """

    sample: int = Field(ge=1, le=500, default=30)
    seed: int = Field(ge=1 - 2**53, le=2**53 - 1, default=0)
    reviewers: Literal[1, 2] = 1
    min_agreement: float = Field(ge=0, le=1, default=0.95)
    show: Literal["location", "excerpt"] = "location"


class Labels(_Part):
    """The labels of the data: the path of their definition, the field that holds one, and who looks at a sample."""

    definition: str | None = None
    field: str = Field(min_length=1, default="label")
    review: LabelReview | None = None


class Data(_Part):
    """What the data may be used for, how it is kept and what quality is demanded."""

    usage_scope: list[str] = Field(min_length=1)
    snapshot_mode: Literal["copy", "reference", "recipe"] = "copy"
    incremental: Literal["off", "stamps"] = "off"
    validation_fraction: float = Field(gt=0, lt=1)
    split_seed: int = Field(ge=1 - 2**53, le=2**53 - 1, default=0)
    max_exact_duplicate_rate: float = Field(ge=0, le=1)
    max_unclean_rate: float = Field(ge=0, le=1)
    max_format_error_rate: float = Field(ge=0, le=1, default=0.0)
    min_documents: int = Field(ge=1, default=1)
    mixture: dict[str, list[float]] = {}
    quality: Quality = Quality()
    labels: Labels | None = None
    steps: list[Step] = []
    recipe: RecipeRights | None = None

    @model_validator(mode="after")
    def _processing_fits(self) -> Self:
        check_order(self.steps)
        if self.snapshot_mode == "recipe" and self.recipe is None:
            raise ValueError(
                "snapshot_mode recipe needs [data.recipe]: rebuild_allowed, keep_days and approver"
            )
        return self


class Quotas(_Part):
    """The ceiling of a launch."""

    max_accelerators: int = Field(ge=0)
    max_minutes: float = Field(gt=0)


class Environment(_Part):
    """Which environment variables may be recorded, and whether drift stops a launch."""

    allowed_variables: list[str] = []
    drift: Literal["warn", "stop"] = "warn"


class Policy(_Part):
    """The whole file."""

    project: str = Field(min_length=1)
    title: str = ""
    language: Literal["en", "zh-CN"] = "en"
    people: People
    approvers: Approvers
    gates: Gates
    retention: Retention | None = None
    data: Data
    quotas: Quotas
    environment: Environment = Environment()
    compute: Compute = Compute()
    exploration: Exploration | None = None
    cost: Cost = Cost()
    human_evaluation: HumanEvaluation | None = None
    model_life: ModelLife = ModelLife()
    release: Release = Release()
    evaluation: Evaluation = Evaluation()
    platform: Platform = Platform()

    @model_validator(mode="after")
    def _reviewers_are_named(self) -> Self:
        review = self.data.labels.review if self.data.labels else None
        if review is not None and len(set(self.approvers.label_reviewers)) < review.reviewers:
            raise ValueError(
                f"data.labels.review wants {review.reviewers} reviewers; name them in approvers.label_reviewers"
            )
        return self

    def approvers_of(self, gate: str) -> list[str]:
        """User names that may answer ``gate`` (prepare, review, run, close, retention or label_reviewers)."""
        if gate == "review" and not self.approvers.review:
            return list(self.approvers.run)
        return list(getattr(self.approvers, gate))


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedPolicy:
    """A policy with the digest of the file's bytes (``sha256:`` and hex)."""

    policy: Policy
    digest: str
    name: str


def _known_names(location: tuple[Any, ...]) -> list[str]:
    model: Any = Policy
    for part in location:
        info = model.model_fields.get(part) if hasattr(model, "model_fields") else None
        if info is None:
            break
        candidates = [info.annotation, *getattr(info.annotation, "__args__", ())]
        model = next((c for c in candidates if hasattr(c, "model_fields")), None)
    return list(model.model_fields) if model is not None else []


def _explain(error: ValidationError, name: str) -> str:
    lines = []
    for fault in error.errors():
        where = ".".join(str(part) for part in fault["loc"])
        text = f"{where}: {fault['msg']}" if where else str(fault["msg"]).removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            near = difflib.get_close_matches(str(fault["loc"][-1]), _known_names(fault["loc"][:-1]), n=1)
            text = f"{where}: unknown name" + (f", did you mean {near[0]!r}?" if near else "")
        elif fault["type"] != "missing" and not isinstance(
            fault["input"], dict
        ):  # a section would be all of it
            text += f" (got {fault['input']!r})"
        lines.append(text)
    return f"policy {name}: " + "; ".join(lines) + "."


def parse_policy(raw: bytes, *, name: str) -> LoadedPolicy:
    """Read a policy from the bytes of its TOML file; raise :class:`PolicyError` naming each wrong field."""
    try:
        policy = Policy.model_validate(tomllib.loads(raw.decode("utf-8")))
    except ValidationError as error:
        raise PolicyError(_explain(error, name), hint="Mend the file and trigger again.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PolicyError(
            f"policy {name}: not a TOML file: {error}.", hint="Mend the file and trigger again."
        ) from error
    return LoadedPolicy(policy=policy, digest="sha256:" + hashlib.sha256(raw).hexdigest(), name=name)


def load_policy(folder: Path, project: str) -> LoadedPolicy:
    """Read ``folder/project.toml``; an unknown project lists the known ones."""
    known = sorted(path.stem for path in folder.glob("*.toml"))
    if project not in known:
        raise PolicyError(
            f"project: no policy for {project!r} in {folder} (known: {', '.join(known) or 'none'}).",
            hint=f"Choose a known project or add {project}.toml.",
        )
    loaded = parse_policy((folder / f"{project}.toml").read_bytes(), name=f"{project}.toml")
    if loaded.policy.project != project:
        raise PolicyError(
            f"policy {loaded.name}: project is {loaded.policy.project!r}, expected {project!r}."
        )
    return loaded
