# ruff: noqa: RUF012 (pydantic copies a default for each instance)
"""Payloads of the compute track."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from pretrain_archive.domain.kinds.base import Digest, Payload
from pretrain_archive.domain.kinds.cluster import ExitClass
from pretrain_archive.domain.kinds.evaluation import EvaluationPlanned


class Budget(Payload):
    """The ceiling of a launch. ``accelerator`` is a resource name or ``none`` (CPU only)."""

    accelerator: str = "none"
    accelerators: int = Field(ge=0, default=0)
    minutes: float = Field(gt=0)
    owner: str
    nodes: int = Field(ge=1, default=1)


START_MINUTES = 10.0
"""What a program gets before its first step, where its conditions do not say: longer than a group of workers needs."""


class StopConditions(Payload):
    """When a job is stopped (R096, R131).

    ``loss_factor`` stops a training whose loss was above so many times its best smoothed value for ``loss_points``
    points in a row. ``stop_on_bad_data`` stops at a shard that cannot be read or has another digest;
    ``max_read_errors`` and ``max_empty_reads`` are shares of the reads, 0 to 1. None asks for nothing.

    ``start_minutes`` is the time before the program's first step, in place of ``no_progress_minutes``: imports,
    rendezvous and loading take a time of their own. None: :data:`START_MINUTES`. The longer of both counts.
    """

    wall_minutes: float = Field(gt=0)
    no_progress_minutes: float = Field(gt=0)
    stop_on_nan: bool = True
    max_loss: float | None = None
    max_attempts: int = Field(ge=1, default=3)
    loss_factor: float | None = Field(gt=1, default=None)
    loss_points: int = Field(ge=1, le=1000, default=20)
    stop_on_bad_data: bool = True
    max_read_errors: float | None = Field(ge=0, le=1, default=None)
    max_empty_reads: float | None = Field(ge=0, le=1, default=None)
    start_minutes: float | None = Field(gt=0, default=None)

    @property
    def first_step_minutes(self) -> float:
        """The time that the program has for its first step."""
        start = START_MINUTES if self.start_minutes is None else self.start_minutes
        return max(self.no_progress_minutes, start)


class CheckpointPlan(Payload):
    """Where checkpoints go, how often, how long they live and who restores (R129)."""

    location: str
    every_steps: int = Field(ge=1)
    keep_last: int = Field(ge=1)
    restore_owner: str
    retention_rule: str


class ConfigurationDeclared(Payload):
    """The effective configuration of the training program and the launch around it (R062–R067).

    A digest of code that is None is unrecorded: no file of the program was found. ``evaluate_code_files`` is
    empty where the evaluation program is the training program's folder, file by file. ``evaluations`` are the programs
    that measure with the suites that they are held to, the request's own first.
    """

    configuration: dict[str, Any]
    configuration_digest: Digest
    command: list[str]
    code_digest: Digest | None
    code_files: dict[str, str] = {}
    evaluate_command: list[str] = []
    evaluate_code_digest: Digest | None = None
    evaluate_code_files: dict[str, str] = {}
    evaluations: list[EvaluationPlanned] = []
    base_model: str | None = None
    budget: Budget
    stop: StopConditions
    checkpoints: CheckpointPlan


class EnvironmentDeclared(Payload):
    """The environment that the launch is signed for: allow-listed facts only."""

    environment: dict[str, Any]
    environment_digest: Digest
    image: str | None = None


class EnvironmentObserved(Payload):
    """What the wrapper found inside a worker; ``differences`` against the declared one.

    ``since_previous`` are differences from what the same worker was before: at the start of the attempt before, or
    earlier in this one. None: there is nothing to compare with.
    """

    moment: Literal["start", "resume", "end"]
    worker: int = 0
    environment: dict[str, Any]
    environment_digest: Digest
    differences: list[dict[str, Any]] = []
    since_previous: list[dict[str, Any]] | None = None


class LaunchIntended(Payload):
    """A launch token was consumed: from here a process may start (design §1, launch token)."""

    token_digest: Digest
    token: dict[str, Any]
    target: Literal["local", "kubernetes"]
    checkpoint_size: int
    checkpoint_root: str
    signer: str
    scope: Literal["full", "exploration"] = "full"


class AttemptStarted(Payload):
    """A process group began to work on the run.

    ``resume_refused`` says of each newer checkpoint why the attempt does not go on from it.
    """

    attempt: int
    host: str
    process_group: int | None = None
    resume_from: str | None = None
    resume_step: int | None = None
    resume_refused: list[str] = []
    requested: dict[str, Any]
    allocated: dict[str, Any]


class AttemptEnded(Payload):
    """How an attempt ended. ``completed`` needs exit code 0 *and* the program's end marker.

    ``counted`` False means that the end does not use up one of the run's attempts: it was preempted. ``began_at``
    and ``ended_at`` are the first and the last moment of the wrapper's report, by the worker's clock;
    ``program_ended_at`` is when worker 0's program was gone. ``node_sent_bytes`` and ``node_received_bytes`` are what
    the network interfaces of the workers' nodes counted meanwhile, whoever caused it (None: a worker did not tell).
    ``log_bad_bytes`` counts bytes of the log's shown lines that are not UTF-8.
    """

    attempt: int
    state: Literal["completed", "failed", "stopped", "interrupted", "lost"]
    exit_code: int | None
    signal: int | None = None
    reason: str
    first_step: int | None = None
    last_step: int | None = None
    last_checkpoint_step: int | None = None
    steps_repeated: int | None = None
    steps_lost: int | None = None
    seconds: float | None = None
    accelerator_seconds: float | None = None
    cpu_seconds: float | None = None
    max_rss_bytes: int | None = None
    log_uri: str | None = None
    log_digest: Digest | None = None
    log_bad_bytes: int | None = None
    exit_class: ExitClass | None = None
    counted: bool = True
    began_at: str | None = None
    ended_at: str | None = None
    program_ended_at: str | None = None
    node_sent_bytes: int | None = None
    node_received_bytes: int | None = None


class MetricPoint(Payload):
    """One observation. ``value`` is None when not finite; ``not_finite`` then says nan, inf or -inf."""

    name: str
    step: int
    tokens: int | None = None
    value: float | None
    not_finite: Literal["", "nan", "inf", "-inf"] = ""
    at: str | None = None


class MetricsRecorded(Payload):
    """A batch of metric points as the program reported them, in order."""

    attempt: int
    points: list[MetricPoint]


class EventRecorded(Payload):
    """Something on the timeline: heartbeat lost, data read, progress, checkpoint written, program note."""

    attempt: int
    event: str
    at: str
    step: int | None = None
    data: dict[str, Any] = {}


class StopFired(Payload):
    """A stop rule ended the job."""

    attempt: int
    rule: Literal[
        "wall_time",
        "budget",
        "nan_loss",
        "divergence",
        "no_progress",
        "evidence",
        "repeated_failure",
        "data_anomaly",
        "drift",
    ]
    observed: str
    limit: str
    last_step: int | None = None
    last_checkpoint_step: int | None = None
