"""What a data team asks for when it triggers a run: the trigger form's values, typed and checked.

The field names are the DAG's params. :func:`read_request` names field, value and remedy of every fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, field_validator

from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.identity import format_time, parse_time
from pretrain_archive.domain.kinds import Budget, CheckpointPlan, Purpose, StopConditions
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.policy_release import parse_line

TrainingType = Literal["pre-training", "continued pre-training", "fine-tuning", "alignment", "evaluation"]


class RunRequest(BaseModel):
    """Every value of the trigger form. Lists of text are one item per line in the form."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    # open fields
    project: str = Field(min_length=1)
    objective: str = Field(min_length=8, max_length=2000)
    training_type: TrainingType
    source: str = Field(min_length=1)
    licence: str = Field(min_length=1, max_length=200)
    intended_use: str = Field(min_length=1)
    # data
    source_name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")
    origin_class: str = Field(min_length=1)
    obtained: str = Field(min_length=1)
    collected_at: str | None = None
    authorisation: str = Field(min_length=1)
    usage_scope: list[str] = Field(min_length=1)
    masking: str | None = None
    business_owner: str | None = None
    applicable_tasks: list[str] = []
    access_identity: str | None = None
    access_granted_at: str | None = None
    access_revoked_at: str | None = None
    access_open: str | None = None
    include: list[str] = []
    exclude: list[str] = []
    sample_share: float | None = Field(gt=0, le=1, default=None)
    sample_seed: int = Field(ge=0, le=2**53 - 1, default=0)
    # configuration
    configuration: dict[str, Any] = Field(min_length=1)
    train_command: list[str] = Field(min_length=1)
    evaluate_command: list[str] = Field(min_length=1)
    human_items: str | None = Field(max_length=2000, default=None)
    base_model: str | None = None
    # resources
    accelerator: str = "none"
    accelerators: int = Field(ge=0, le=100_000, default=0)
    nodes: int = Field(ge=1, le=10_000, default=1)
    budget_minutes: float = Field(gt=0, le=1_000_000)
    scope: Literal["full", "exploration"] = "full"
    # checkpoints
    checkpoint_every: int = Field(ge=1)
    # stop conditions
    wall_minutes: float = Field(gt=0, le=1_000_000)
    no_progress_minutes: float = Field(gt=0, le=1_000_000)
    start_minutes: float | None = Field(gt=0, le=1_000_000, default=None)
    stop_on_nan: bool = True
    max_loss: FiniteFloat | None = None
    max_attempts: int = Field(ge=1, le=100)
    loss_factor: FiniteFloat | None = Field(gt=1, default=None)
    loss_points: int = Field(ge=1, le=1000, default=20)
    stop_on_bad_data: bool = True
    max_read_errors: float | None = Field(ge=0, le=1, default=None)
    max_empty_reads: float | None = Field(ge=0, le=1, default=None)
    # where it comes from: the run that this one replaces with changes
    derived_from: str | None = Field(pattern=r"^run_[0-9a-f-]{36}$", default=None)
    # people
    responsible: str | None = None
    # acceptance
    acceptance_metric: str = Field(min_length=1)
    acceptance_limit: FiniteFloat | None = None
    must_beat_baselines: bool = True
    # intended use of the release
    release_name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")
    release_version: str = Field(min_length=1, max_length=80)
    applicable: list[str] = []
    not_applicable: list[str] = []
    known_limits: list[str] = []
    rollback: str | None = None
    take_down: str | None = None
    serving: list[str] = []

    @field_validator(
        "usage_scope",
        "applicable_tasks",
        "include",
        "exclude",
        "applicable",
        "not_applicable",
        "known_limits",
        "serving",
        mode="before",
    )
    @classmethod
    def _drop_blank_lines(cls, value: Any) -> Any:
        return [line for line in value if str(line).strip()] if isinstance(value, list) else value

    @field_validator(
        "collected_at", "masking", "business_owner", "access_identity", "access_granted_at", "access_revoked_at",
        "access_open", "human_items", "base_model", "derived_from", "responsible", "rollback", "take_down",
        mode="before",
    )  # fmt: skip
    @classmethod
    def _empty_is_unrecorded(cls, value: Any) -> Any:
        return None if isinstance(value, str) and not value.strip() else value

    @field_validator("serving")
    @classmethod
    def _names_an_aspect(cls, lines: list[str]) -> list[str]:
        for line in lines:
            parse_line(line)
        return lines

    @field_validator("access_granted_at", "access_revoked_at")
    @classmethod
    def _is_a_moment(cls, value: str | None) -> str | None:
        try:
            return None if value is None else format_time(parse_time(value))
        except ValueError as error:
            raise ValueError("a moment needs date, time and zone, such as 2026-11-29T10:00:00Z") from error

    def purpose(self) -> Purpose:
        """The purpose as it is recorded."""
        return Purpose(
            training_type=self.training_type,
            objective=self.objective,
            origin_class=self.origin_class,
            intended_use=self.intended_use,
            acceptance_metric=self.acceptance_metric,
            acceptance_limit=self.acceptance_limit,
        )

    def budget(self, policy: Policy) -> Budget:
        """The ceiling of a launch under ``policy``."""
        return Budget(
            accelerator=self.accelerator,
            accelerators=self.accelerators,
            minutes=self.budget_minutes,
            owner=policy.people.budget_owner,
            nodes=self.nodes,
        )

    def stop_conditions(self) -> StopConditions:
        """When the job is stopped."""
        return StopConditions(
            wall_minutes=self.wall_minutes,
            no_progress_minutes=self.no_progress_minutes,
            start_minutes=self.start_minutes,
            stop_on_nan=self.stop_on_nan,
            max_loss=self.max_loss,
            max_attempts=self.max_attempts,
            loss_factor=self.loss_factor,
            loss_points=self.loss_points,
            stop_on_bad_data=self.stop_on_bad_data,
            max_read_errors=self.max_read_errors,
            max_empty_reads=self.max_empty_reads,
        )

    def checkpoint_plan(self, policy: Policy, location: str) -> CheckpointPlan:
        """Where checkpoints go and how long they live under ``policy``; no retention policy leaves a gap."""
        kept = policy.retention
        return CheckpointPlan(
            location=location,
            every_steps=self.checkpoint_every,
            keep_last=kept.recovery_keep_last if kept else 1,
            restore_owner=policy.people.restore_owner,
            retention_rule=(
                f"keep the last {kept.recovery_keep_last}, others {kept.recovery_max_age_days:g} days after close"
                if kept
                else ""
            ),
        )


def read_request(values: Mapping[str, Any]) -> RunRequest:
    """Read the form's values; raise :class:`InputError` naming each wrong field, its value and a remedy."""
    try:
        return RunRequest.model_validate(dict(values))
    except ValidationError as error:
        faults = error.errors()
        first = faults[0]
        field = ".".join(str(part) for part in first["loc"])
        others = "; ".join(f"{'.'.join(map(str, f['loc']))}: {f['msg']}" for f in faults[1:])
        raise InputError(
            field,
            None if first["type"] == "missing" else first["input"],
            first["msg"][:1].lower() + first["msg"][1:],
            hint=f"Mend it in the trigger form and start again.{' Also ' + others + '.' if others else ''}",
        ) from error


def check_against_policy(request: RunRequest, policy: Policy) -> None:
    """Refuse values that the policy's quotas forbid: the earliest place where a person learns of it."""
    quotas = policy.quotas
    for field, value, limit in (
        ("accelerators", request.accelerators, quotas.max_accelerators),
        ("budget_minutes", request.budget_minutes, quotas.max_minutes),
    ):
        if value > limit:
            raise InputError(
                field,
                value,
                f"above the project's quota of {limit:g}",
                hint=f"Ask for at most {limit:g}, or have {policy.people.budget_owner} raise the quota in the policy.",
            )
    if request.intended_use not in policy.data.usage_scope:
        raise InputError(
            "intended_use",
            request.intended_use,
            f"outside the project's data-use scope ({', '.join(policy.data.usage_scope)})",
            hint=f"Choose one of them, or ask {policy.people.data_owner}.",
        )
