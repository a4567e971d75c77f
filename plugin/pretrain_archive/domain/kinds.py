"""The kinds of records and the shape of each payload.

Rules: a field whose default is ``None`` is *unrecorded* until somebody records it; it is never filled with a
guess. A changed shape gets a higher ``schema_version`` in :data:`KINDS` and an upgrade step in
:data:`UPGRADES`; stored payloads are never rewritten. Digests are ``sha256:`` and 64 hex digits. Times are
RFC 3339 in UTC. Sizes are bytes, durations seconds, unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from pretrain_archive.domain.records import Record, Track

Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
GateName = Literal["prepare", "run", "close"]
PayloadT = TypeVar("PayloadT", bound="Payload")


class Payload(BaseModel):
    """Base of all payloads: frozen, strict about unknown names when written, tolerant when read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def to_json(self) -> dict[str, Any]:
        """The payload as plain JSON for a draft."""
        return self.model_dump(mode="json")


# -- gates ---------------------------------------------------------------------------------------------


class Purpose(Payload):
    """Why the run is made (R028–R033)."""

    training_type: Literal["pre-training", "continued pre-training", "fine-tuning", "alignment", "evaluation"]
    objective: str = Field(min_length=1)
    origin_class: str
    intended_use: str
    acceptance_metric: str
    acceptance_direction: Literal["lower", "higher"] = "lower"
    acceptance_limit: float | None = None


class RunOpened(Payload):
    """A training decision begins: what was asked, by whom, under which policy.

    ``conf`` is what the form sent, ``policy`` the whole policy as it stood: gates read both from here, so
    that a dossier computed later from the ledger alone is the same. Purpose and policy are None where the
    request could not be read; a ``run.failed`` record then says why.
    """

    run_uid: str
    project: str
    dag_id: str
    dag_run_id: str
    submitter: str | None
    purpose: Purpose | None
    people: dict[str, str]
    policy_digest: Digest | None
    policy_name: str
    policy: dict[str, Any] = {}
    conf: dict[str, Any]
    conf_digest: Digest
    code_version: str | None = None
    bundle: str | None = None
    derived_from: str | None = None


class RunFailed(Payload):
    """The run ended without a decision."""

    task_id: str
    error_code: str
    reason: str
    hint: str = ""


class RunClosed(Payload):
    """The run is frozen; later facts are appended as notes."""

    outcome: Literal["register", "continue", "clean_up", "rejected", "expired"]
    reason: str
    package_digest: Digest | None = None


class GateDossier(Payload):
    """What a gate showed its approver; ``digest`` is over ``document`` in canonical JSON."""

    gate: GateName
    digest: Digest
    document: dict[str, Any]
    eligible: list[str]


class GateDecision(Payload):
    """A person's answer. ``answers`` holds the acknowledged advisory items by id."""

    gate: GateName
    decision: Literal["approve", "reject"]
    person_id: str
    person_name: str
    reason: str = Field(min_length=1)
    dossier_digest: Digest
    dossier_record: str
    responded_at: str
    acknowledged: list[str] = []
    items: dict[str, str] = {}
    self_signed: bool = False
    outcome: Literal["register", "continue", "clean_up"] | None = None
    authentication: str | None = None


class GateRefused(Payload):
    """An answer that does not count, and why."""

    gate: GateName
    person_id: str | None
    person_name: str | None
    cause: Literal["not_entitled", "stale", "submitter", "unsigned", "invalid", "timed_out"]
    detail: str
    shown_digest: str | None = None
    current_digest: str | None = None


class GateExpired(Payload):
    """The deadline passed without an answer: not approved."""

    gate: GateName
    deadline_seconds: float
    asked_at: str | None = None


class PackageWritten(Payload):
    """A package was assembled; ``digest`` is over its sorted file digests."""

    location: str
    digest: Digest
    files: int
    total_bytes: int
    verdict: str


class NoteAdded(Payload):
    """A later fact about a closed run: feedback, adjustment, retraining, retirement."""

    topic: Literal["feedback", "adjustment", "retraining", "retirement", "manual_change", "note"]
    text: str
    refs: list[str] = []


# -- data ----------------------------------------------------------------------------------------------


class SourceRegistered(Payload):
    """Where data came from and by what right (R035–R040, R055, R056)."""

    source_id: str
    name: str
    uri: str
    licence: str = Field(min_length=1)
    licence_file_digest: Digest | None = None
    obtained: str
    collected_at: str | None = None
    authorisation: str
    usage_scope: list[str]
    origin_class: str
    masking: str | None = None
    owner: str
    responsible: str
    applicable_tasks: list[str] = []
    access_identity: str | None = None
    access_granted_at: str | None = None
    access_revoked_at: str | None = None


class SnapshotCreated(Payload):
    """An immutable data version; ``manifest_uri`` is in the object store."""

    name: str
    version: int = Field(ge=1)
    manifest_digest: Digest
    manifest_uri: str
    file_count: int
    total_bytes: int
    parent: str | None
    unchanged: bool
    mode: Literal["copy", "reference"]
    source_id: str | None = None
    source_uri: str = ""
    include: list[str] = []
    exclude: list[str] = []
    check: str = "every byte read and hashed with SHA-256"
    changes: dict[str, int] = {}


class SplitCreated(Payload):
    """Train and validation by document: ``train`` and ``validation`` are lists of documents with a digest."""

    method: str
    seed: int
    validation_fraction: float
    snapshot: str
    split_uri: str
    split_digest: Digest
    train_documents: int
    train_bytes: int
    validation_documents: int
    validation_bytes: int


class QualityGate(Payload):
    """One quality gate: what was observed against which limit."""

    name: str
    passed: bool
    observed: float | str | None
    limit: float | str | None
    detail: str = ""


class QualityReported(Payload):
    """The result of a quality check over a snapshot."""

    snapshot: str
    suite_name: str
    suite_digest: Digest
    passed: bool
    documents: int
    exact_duplicates: int
    near_duplicates: int | None = None
    gates: list[QualityGate]
    report_uri: str
    report_digest: Digest
    engine: str
    reason: str = ""


class TemporaryRemoved(Payload):
    """Temporary data of a run that was cleaned (R057, R154)."""

    paths: list[str]
    bytes_released: int
    verified_absent: bool


# -- compute -------------------------------------------------------------------------------------------


class Budget(Payload):
    """The ceiling of a launch. ``accelerator`` is a resource name or ``none`` (CPU only)."""

    accelerator: str = "none"
    accelerators: int = Field(ge=0, default=0)
    minutes: float = Field(gt=0)
    owner: str


class StopConditions(Payload):
    """When a job is stopped (R096, R131)."""

    wall_minutes: float = Field(gt=0)
    no_progress_minutes: float = Field(gt=0)
    stop_on_nan: bool = True
    max_loss: float | None = None
    max_attempts: int = Field(ge=1, default=3)


class CheckpointPlan(Payload):
    """Where checkpoints go, how often, how long they live and who restores (R129)."""

    location: str
    every_steps: int = Field(ge=1)
    keep_last: int = Field(ge=1)
    restore_owner: str
    retention_rule: str


class ConfigurationDeclared(Payload):
    """The effective configuration of the training program and the launch around it (R062–R067)."""

    configuration: dict[str, Any]
    configuration_digest: Digest
    command: list[str]
    code_digest: Digest | None
    code_files: dict[str, str] = {}
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
    """What the wrapper found inside a worker; ``differences`` against the declared one."""

    moment: Literal["start", "resume", "end"]
    worker: int = 0
    environment: dict[str, Any]
    environment_digest: Digest
    differences: list[dict[str, Any]] = []


class LaunchIntended(Payload):
    """A launch token was consumed: from here a process may start (design §1, launch token)."""

    token_digest: Digest
    token: dict[str, Any]
    target: Literal["local", "kubernetes"]
    checkpoint_size: int
    checkpoint_root: str
    signer: str


class AttemptStarted(Payload):
    """A process group began to work on the run."""

    attempt: int
    host: str
    process_group: int | None = None
    resume_from: str | None = None
    resume_step: int | None = None
    requested: dict[str, Any]
    allocated: dict[str, Any]


class AttemptEnded(Payload):
    """How an attempt ended. ``completed`` needs exit code 0 *and* the program's end marker."""

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
        "wall_time", "budget", "nan_loss", "divergence", "no_progress", "evidence", "repeated_failure"
    ]
    observed: str
    limit: str
    last_step: int | None = None
    last_checkpoint_step: int | None = None


# -- artifact ------------------------------------------------------------------------------------------


class FileDigest(Payload):
    """One file of an artifact; ``path`` as written by ``identity.path_to_text``."""

    path: str
    size: int
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class CheckpointRegistered(Payload):
    """A checkpoint that was written, verified and committed (R100–R102)."""

    checkpoint_id: str
    step: int
    tokens: int | None
    attempt: int
    location: str
    format: str
    digest: Digest
    files: list[FileDigest]
    components: dict[str, int]
    tensors: int | None
    tensors_digest: Digest | None
    snapshot: str
    configuration_digest: Digest
    data_position: dict[str, Any] | None
    responsible: str
    artifact_class: Literal["recovery", "evaluation", "candidate"]
    purpose: str


class CheckpointRefused(Payload):
    """A checkpoint that does not count, and why."""

    location: str
    step: int | None
    attempt: int
    problems: list[str]


class MetricResult(Payload):
    """A metric of an evaluation; not finite means not passed."""

    name: str
    unit: str
    direction: Literal["lower", "higher"]
    value: float | None
    not_finite: Literal["", "nan", "inf", "-inf"] = ""
    samples: int | None = None
    low: float | None = None
    high: float | None = None


class Baseline(Payload):
    """What the candidate is compared with; ``subject_digest`` differs from the candidate's."""

    name: str
    kind: Literal["untrained model", "n-gram model", "previous version", "other data version"]
    subject_digest: Digest
    metrics: list[MetricResult]


class EvaluationReported(Payload):
    """Metrics of one checkpoint on one data set with its baselines and flags (R117–R121)."""

    evaluation_id: str
    checkpoint_id: str
    checkpoint_digest: Digest
    data_set: str
    data_set_digest: Digest
    definition: dict[str, Any]
    definition_digest: Digest
    metrics: list[MetricResult]
    baselines: list[Baseline]
    flags: list[str]
    passed: bool
    rules: list[dict[str, Any]]
    report_uri: str
    report_digest: Digest


class CandidateNamed(Payload):
    """A checkpoint that may become the model: why it is kept or dropped (R103)."""

    candidate_id: str
    checkpoint_id: str
    checkpoint_digest: Digest
    evaluation_id: str
    kept: bool
    reason: str


class ReleaseMade(Payload):
    """What the close gate released (R104–R109, R113)."""

    release_id: str
    name: str
    version: str
    candidate_id: str
    checkpoint_digest: Digest
    applicable: list[str]
    not_applicable: list[str]
    known_limits: list[str]
    rollback: str
    take_down: str
    usage_scope: list[str]


class TombstoneWritten(Payload):
    """What stays when bytes are deleted (R149, R150)."""

    ref: str
    digest: Digest
    size: int
    artifact_class: str
    reason: str
    policy_digest: Digest | None
    approved_by: str
    bytes_released: int
    verified_absent: bool
    already_missing: bool = False


class RetentionPlanned(Payload):
    """What is to be deleted and what is kept, with a reason each."""

    plan_digest: Digest
    items: list[dict[str, Any]]
    total_bytes: int
    needs_approval: bool


class RetentionApproved(Payload):
    """A person, or the policy below its limit, allows one exact plan."""

    plan_digest: Digest
    approved_by: str
    person: bool
    reason: str


class LedgerRecovered(Payload):
    """A signed statement that appending may go on after records were lost."""

    anchored_size: int
    anchored_root: str
    database_size: int
    database_root: str
    reason: str
    person: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A kind of record: its payload model, its track and its current schema version."""

    model: type[Payload]
    track: Track
    version: int = 1


KINDS: dict[str, Kind] = {
    "run.opened": Kind(model=RunOpened, track=Track.GATES),
    "run.failed": Kind(model=RunFailed, track=Track.GATES),
    "run.closed": Kind(model=RunClosed, track=Track.GATES),
    "gate.dossier": Kind(model=GateDossier, track=Track.GATES),
    "gate.decision": Kind(model=GateDecision, track=Track.GATES),
    "gate.refused": Kind(model=GateRefused, track=Track.GATES),
    "gate.expired": Kind(model=GateExpired, track=Track.GATES),
    "package.written": Kind(model=PackageWritten, track=Track.GATES),
    "note.added": Kind(model=NoteAdded, track=Track.GATES),
    "ledger.recovered": Kind(model=LedgerRecovered, track=Track.GATES),
    "source.registered": Kind(model=SourceRegistered, track=Track.DATA),
    "snapshot.created": Kind(model=SnapshotCreated, track=Track.DATA),
    "split.created": Kind(model=SplitCreated, track=Track.DATA),
    "quality.reported": Kind(model=QualityReported, track=Track.DATA),
    "temporary.removed": Kind(model=TemporaryRemoved, track=Track.DATA),
    "configuration.declared": Kind(model=ConfigurationDeclared, track=Track.COMPUTE),
    "environment.declared": Kind(model=EnvironmentDeclared, track=Track.COMPUTE),
    "environment.observed": Kind(model=EnvironmentObserved, track=Track.COMPUTE),
    "launch.intended": Kind(model=LaunchIntended, track=Track.COMPUTE),
    "attempt.started": Kind(model=AttemptStarted, track=Track.COMPUTE),
    "attempt.ended": Kind(model=AttemptEnded, track=Track.COMPUTE),
    "metrics.recorded": Kind(model=MetricsRecorded, track=Track.COMPUTE),
    "event.recorded": Kind(model=EventRecorded, track=Track.COMPUTE),
    "stop.fired": Kind(model=StopFired, track=Track.COMPUTE),
    "checkpoint.registered": Kind(model=CheckpointRegistered, track=Track.ARTIFACT),
    "checkpoint.refused": Kind(model=CheckpointRefused, track=Track.ARTIFACT),
    "evaluation.reported": Kind(model=EvaluationReported, track=Track.ARTIFACT),
    "candidate.named": Kind(model=CandidateNamed, track=Track.ARTIFACT),
    "release.made": Kind(model=ReleaseMade, track=Track.ARTIFACT),
    "tombstone.written": Kind(model=TombstoneWritten, track=Track.ARTIFACT),
    "retention.planned": Kind(model=RetentionPlanned, track=Track.ARTIFACT),
    "retention.approved": Kind(model=RetentionApproved, track=Track.ARTIFACT),
}

BY_MODEL: dict[type[Payload], str] = {kind.model: name for name, kind in KINDS.items()}

Upgrade = Callable[[Mapping[str, Any]], dict[str, Any]]
UPGRADES: dict[tuple[str, int], Upgrade] = {}
"""(kind, version) → the step from that version to the next one."""


def track_of(kind: str) -> Track:
    """The track of a kind; an unknown kind (of a later release) belongs to the gates."""
    known = KINDS.get(kind)
    return known.track if known else Track.GATES


def read_payload(record: Record, model: type[PayloadT]) -> PayloadT:
    """Read a record's payload as ``model``, upgraded from the version it was written in.

    Fields that this release does not know are ignored here and kept in ``record.payload``. Raises
    ``ValueError`` where the payload does not fit.
    """
    name = BY_MODEL[model]
    if record.kind != name:
        raise ValueError(f"record {record.record_id} is a {record.kind}, not a {name}")
    payload: Mapping[str, Any] = record.payload
    for version in range(record.schema_version, KINDS[name].version):
        payload = UPGRADES[name, version](payload)
    return model.model_validate(payload, extra="ignore")
