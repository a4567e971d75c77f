# ruff: noqa: RUF012 (pydantic copies a default for each instance)
"""Payloads of the data track."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from pretrain_archive.domain.kinds.base import Digest, Payload


class SourceRegistered(Payload):
    """Where data came from and by what right (R035–R040, R055, R056).

    ``licence_spdx`` is the canonical SPDX expression, None where ``licence`` is the text of a contract
    (``contract: …``) or was recorded before expressions were told apart. ``applicable_tasks`` empty means that
    nobody said for which tasks the data may be used. ``access_identity`` is who reads, as declared, else as observed;
    ``access_identity_observed`` is who the process was seen to be, which no declaration hides. ``access_open`` says why
    nobody has to permit the reading.
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
    access_identity_observed: str | None = None
    access_open: str | None = None


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
    mode: Literal["copy", "reference", "recipe"]
    source_id: str | None = None
    source_uri: str = ""
    include: list[str] = []
    exclude: list[str] = []
    check: str = "every byte read and hashed with SHA-256"
    files_read: int | None = None
    files_from_stamps: int | None = None
    changes: dict[str, int] = {}
    derived_from: str | None = None
    rule: str | None = None
    recipe_uri: str | None = None
    recipe_digest: Digest | None = None


class SplitCreated(Payload):
    """Train and validation by document: ``train`` and ``validation`` are lists of documents with a digest.

    ``left_out`` counts what is in neither part, by reason; None is unrecorded.
    """

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
    rule: str | None = None
    text_field: str | None = None
    left_out: dict[str, int] | None = None


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


class RuleDeclared(Payload):
    """A rule of processing, recorded when it is applied for the first time (R042, R050).

    ``rule_digest`` is over the canonical JSON of what it says and of ``interpreter``, the version of the code that
    carries it out. ``effective_from`` is the declared moment, the record's own time that of the first application.
    """

    rule_digest: Digest
    name: str
    version: int = Field(ge=1)
    kind: str
    parameters: dict[str, Any]
    effective_from: str | None = None
    interpreter: str
    project: str = ""


class DroppedCount(Payload):
    """How many documents and bytes one reason took away; blank lines are bytes and no documents."""

    reason: str
    documents: int = Field(ge=0)
    bytes: int = Field(ge=0)


class ProcessingApplied(Payload):
    """One application of a rule: from which snapshot to which, and what was left out why (R042, R043, R050).

    In = out + dropped, for documents and for bytes; ``bytes_rewritten`` is what cleaning added (or took, below 0).
    ``dropped_uri`` lists the dropped documents (path, line, digest, reason) without their text. ``output`` is
    ``snapshot:NAME@VERSION``, or ``split:DIGEST`` for the split.
    """

    rule: RuleDeclared
    first_applied_at: str | None = None
    code_version: str
    codecs: dict[str, str] = {}
    input: str
    input_digest: Digest
    output: str
    output_digest: Digest
    files_in: int = Field(ge=0)
    files_out: int = Field(ge=0)
    documents_in: int = Field(ge=0)
    documents_out: int = Field(ge=0)
    bytes_in: int = Field(ge=0)
    bytes_out: int = Field(ge=0)
    bytes_rewritten: int = 0
    changed_documents: int = Field(ge=0, default=0)
    dropped: list[DroppedCount] = []
    dropped_uri: str | None = None
    dropped_digest: Digest | None = None
    observed: dict[str, Any] = {}

    @model_validator(mode="after")
    def _conserved(self) -> Self:
        documents = self.documents_out + sum(item.documents for item in self.dropped)
        size = self.bytes_out - self.bytes_rewritten + sum(item.bytes for item in self.dropped)
        if (self.documents_in, self.bytes_in) != (documents, size):
            raise ValueError(
                f"{self.documents_in} documents ({self.bytes_in} bytes) went in, {documents} ({size}) are accounted for"
            )
        return self
