# ruff: noqa: RUF012 (pydantic copies a default for each instance)
"""Payloads of the artifact track."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from pretrain_archive.domain.kinds.base import Digest, Payload
from pretrain_archive.domain.kinds.evaluation import SuiteUsed
from pretrain_archive.domain.kinds.release import CandidateAccount, ReleaseAccount


class FileDigest(Payload):
    """One file of an artifact; ``path`` as written by ``identity.path_to_text``, ``version`` that of a bucket."""

    path: str
    size: int
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    version: str | None = None


class NotFiniteTensor(Payload):
    """A tensor with values that are not finite, and how many."""

    file: str
    tensor: str
    nan: int
    infinite: int


class TensorScan(Payload):
    """Every value of a checkpoint's tensors was looked at: how many, which are not finite, what could not be read."""

    tensors: int
    values: int
    not_finite: list[NotFiniteTensor]
    skipped: list[str]


class CheckpointRegistered(Payload):
    """A checkpoint that was written, verified and committed (R100–R102, R193).

    ``model`` is what the run is to release, ``model_facts`` what the checkpoint says of its model, ``check`` how its
    files were read, ``scan`` the look at every value if one was asked for.
    """

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
    model: str | None = None
    model_facts: dict[str, Any] | None = None
    warnings: list[str] = []
    check: str | None = None
    scan: TensorScan | None = None


class CheckpointOverwritten(Payload):
    """At a registered checkpoint's location other bytes were found, of the same step (``found_digest``).

    The registration stays as it is; only its bytes are no longer there. ``replaced_by`` is the checkpoint that was
    registered from them, None if they were refused.
    """

    checkpoint_id: str
    digest: Digest
    location: str
    step: int
    attempt: int
    found_digest: Digest
    found_attempt: int
    replaced_by: str | None


class CheckpointRefused(Payload):
    """A checkpoint that does not count, and why."""

    location: str
    step: int | None
    attempt: int
    problems: list[str]


class MetricResult(Payload):
    """A metric of an evaluation; not finite means not passed.

    ``interval`` says where ``low`` and ``high`` come from, empty where there is none: no counts and no standard error.
    ``defined_by`` is the definition of a suite (``SUITE@VERSION/METRIC``).
    """

    name: str
    unit: str
    direction: Literal["lower", "higher"]
    value: float | None
    not_finite: Literal["", "nan", "inf", "-inf"] = ""
    samples: int | None = None
    low: float | None = None
    high: float | None = None
    stderr: float | None = None
    interval: Literal["", "stated", "wilson", "normal"] = ""
    defined_by: str = ""


class Baseline(Payload):
    """What the candidate is compared with; ``subject_digest`` differs from the candidate's.

    One that is not ``counted`` decides nothing, for the ``reason``; ``record_id`` is the ledger's evidence for it.
    """

    name: str
    kind: Literal["untrained model", "n-gram model", "previous version", "other data version"]
    subject_digest: Digest
    metrics: list[MetricResult]
    counted: bool = True
    reason: str = ""
    record_id: str | None = None


class EvaluationReported(Payload):
    """Metrics of one checkpoint on one data set with its baselines and flags (R117–R121).

    ``evaluator_digest`` is that of the program that measured, as it stood when it ran; ``seconds`` is how long it
    ran, ``devices`` how many accelerators it saw.

    ``program`` is empty for the request's own program; ``imported`` numbers were measured elsewhere, by a program that
    is unrecorded, and decide nothing. ``group`` names runs whose metrics are defined alike (R124). ``comparisons`` are
    differences to each baseline with their intervals. ``scope`` says how far the numbers reach and what was not
    evaluated (R123), None if unrecorded. ``page_uri`` is the report for people.
    """

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
    evaluator_digest: Digest | None = None
    seconds: float | None = None
    devices: int | None = None
    try_id: str | None = None
    program: str = ""
    imported: bool = False
    group: str = ""
    suites: list[SuiteUsed] = []
    comparisons: list[dict[str, Any]] = []
    scope: dict[str, Any] | None = None
    page_uri: str | None = None
    page_digest: Digest | None = None


class CandidateNamed(Payload):
    """A checkpoint that may become the model: why it is kept or dropped (R103).

    ``account`` states what it rests on; None in records of earlier releases.
    """

    candidate_id: str
    checkpoint_id: str
    checkpoint_digest: Digest
    evaluation_id: str
    kept: bool
    reason: str
    account: CandidateAccount | None = None


class ReleaseMade(Payload):
    """What the close gate released (R104–R109, R113).

    ``account`` is everything that a registry or a serving team needs; None in records of earlier releases.
    """

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
    account: ReleaseAccount | None = None


class TombstoneWritten(Payload):
    """What stays when bytes are deleted (R149, R150).

    ``parts`` names the components that went (such as ``optimizer``); empty means that the whole went. It is written
    after absence was proven. ``versions`` are the versions and delete markers of objects that went, ``files`` the
    files (None: not counted); ``digest_of`` says what ``digest`` is over.
    """

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
    parts: list[str] = []
    versions: int | None = None
    files: int | None = None
    digest_of: Literal["content", "manifest", "listing"] = "content"
    location: str = ""
    plan_digest: Digest | None = None


class RetentionPlanned(Payload):
    """What is to be deleted and what is kept, with a reason each.

    A long plan has no ``items`` here: they are in the object store in pages, of which ``items_digest`` is the
    digest of the index, and ``item_count`` is how many there are. ``summary`` counts and adds them up by project.
    """

    plan_digest: Digest
    items: list[dict[str, Any]]
    total_bytes: int
    needs_approval: bool
    item_count: int | None = None
    items_digest: Digest | None = None
    summary: dict[str, Any] | None = None


class RetentionApproved(Payload):
    """A person, or the policy below its limit, allows one exact plan."""

    plan_digest: Digest
    approved_by: str
    person: bool
    reason: str
    responded_at: str | None = None
    authentication: str | None = None


class RetentionRefused(Payload):
    """An answer to a plan that allows nothing: a rejection by an entitled person, or one that does not count.

    ``rejected`` withdraws an earlier approval of the same plan; the other causes leave it as it is.
    """

    plan_digest: Digest
    cause: Literal["rejected", "expired", "not_entitled", "unsigned", "stale", "invalid"]
    person_id: str | None
    person_name: str | None
    detail: str
    responded_at: str | None = None
    authentication: str | None = None


class LedgerRecovered(Payload):
    """A signed statement that appending may go on after records were lost."""

    anchored_size: int
    anchored_root: str
    database_size: int
    database_root: str
    reason: str
    person: str
