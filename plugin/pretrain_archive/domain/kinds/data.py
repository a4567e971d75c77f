# ruff: noqa: RUF012 (pydantic copies a default for each instance)
"""Payloads of the data track."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pretrain_archive.domain.kinds.base import Digest, Payload


class SourceRegistered(Payload):
    """Where data came from and by what right (R035–R040, R055, R056).

    ``licence_spdx`` is the canonical SPDX expression, None where ``licence`` is the text of a contract
    (``contract: …``) or was recorded before expressions were told apart. ``applicable_tasks`` empty means that
    nobody said for which tasks the data may be used.
    """

    source_id: str
    name: str
    uri: str
    licence: str = Field(min_length=1)
    licence_spdx: str | None = None
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


class SourceAccess(Payload):
    """A service identity was given or lost the right to read a source (R055, R056): when, and who decided it."""

    source_id: str
    action: Literal["granted", "revoked"]
    identity: str = Field(min_length=1)
    at: str
    by: str = Field(min_length=1)
    reason: str = ""


class SourceWithdrawn(Payload):
    """A source may no longer be used: nothing that rests on it is launched or released any more (R037)."""

    source_id: str
    name: str
    reason: str = Field(min_length=1)
    by: str = Field(min_length=1)
    at: str


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
    """One quality gate: what was observed against which limit.

    ``severity`` says whether a failure blocks or is advice; ``checked`` is False where nothing could be judged (a
    column that no measure filled, no document), which is never a pass. ``family`` is the kind of gate it belongs to.
    """

    name: str
    passed: bool
    observed: float | str | None
    limit: float | str | None
    detail: str = ""
    severity: Literal["blocking", "advisory"] = "blocking"
    checked: bool = True
    family: str = ""


class QualityReported(Payload):
    """The result of a quality check over a snapshot.

    ``passed`` asks the blocking gates only; ``warnings`` names the advisory gates that did not pass.
    ``contamination`` counts documents found in a benchmark, a validation part or an earlier snapshot, None where
    none was compared. The page for people (``html``) and the validator's own result (``validation``) lie in the
    store beside the report.
    """

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
    suite_version: str = ""
    contamination: int | None = None
    warnings: list[str] = []
    html_uri: str = ""
    html_digest: Digest | None = None
    validation_uri: str = ""
    validation_digest: Digest | None = None


class TemporaryRemoved(Payload):
    """Temporary data of a run that was cleaned (R057, R154)."""

    paths: list[str]
    bytes_released: int
    verified_absent: bool
