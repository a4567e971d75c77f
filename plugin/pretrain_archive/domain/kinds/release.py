# ruff: noqa: RUF012 (pydantic copies a default for each instance)
"""Payloads about a candidate's and a release's full account: what it rests on, how it serves, where it went."""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from pretrain_archive.domain.kinds.base import Digest, Payload

ServingAspect = Literal["resources", "latency", "concurrency", "safety_boundary", "monitoring"]
"""What is checked before a model serves (R114)."""

ASPECTS: tuple[str, ...] = get_args(ServingAspect)
MOST_VALUE = 500
"""Characters of what is said of an aspect."""


class ServingCheck(Payload):
    """One aspect of serving, declared or measured (R114).

    ``value`` is for people, with its unit. A measured value names the digest of its evidence and of the checkpoint
    that was measured; ``by`` is the person or service behind it.
    """

    aspect: ServingAspect
    value: str = Field(min_length=1, max_length=MOST_VALUE)
    how: Literal["declared", "measured"]
    by: str = Field(min_length=1)
    checkpoint_digest: Digest | None = None
    evidence_digest: Digest | None = None
    evidence_uri: str | None = None

    @model_validator(mode="after")
    def _measured_has_evidence(self) -> Self:
        if self.how == "measured" and (self.evidence_digest is None or self.checkpoint_digest is None):
            raise ValueError("a measured value names the digest of its evidence and of the checkpoint")
        return self


class EvaluationStated(Payload):
    """An evaluation as a candidate or release states it: ``metrics`` maps names to finite values only."""

    evaluation_id: str
    data_set: str
    data_set_digest: Digest
    passed: bool
    metrics: dict[str, float] = {}
    flags: list[str] = []


class CandidateAccount(Payload):
    """What a candidate rests on (R103). ``not_lowest_loss`` says why the checkpoint with the lowest loss was not taken.

    ``loss_at`` and ``lowest_loss_step`` compare the evaluated checkpoints by the training loss that was recorded for
    their steps; None where none was recorded, and for a candidate that is dropped.
    """

    snapshot: str
    split_digest: Digest | None
    configuration_digest: Digest
    evaluations: list[EvaluationStated]
    loss_at: float | None = None
    lowest_loss_step: int | None = None
    not_lowest_loss: str | None = None


class ReleaseDependencies(Payload):
    """What the model was made with, as a worker observed it; None is unrecorded.

    ``packages`` maps distribution names to versions, ``libraries`` loaded shared libraries to theirs.
    ``code_version`` is the commit; ``-dirty`` is appended where tracked files differed.
    """

    packages: dict[str, str] | None = None
    libraries: dict[str, str | None] | None = None
    python: str | None = None
    image: str | None = None
    base_model: str | None = None
    code_digest: Digest | None = None
    code_version: str | None = None


class ReleasedFile(Payload):
    """One file of the released checkpoint; ``path`` as written by ``identity.path_to_text``."""

    path: str
    size: int
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ReleaseAccount(Payload):
    """Everything that a release carries for a registry or a serving team (R104–R108, R110, R112–R114).

    ``unrecorded`` maps the fields that nobody recorded to the reason. ``serves`` says whether the model is meant to
    serve; ``serving`` holds the checks that stood when it was released.
    """

    checkpoint_id: str
    step: int
    tokens: int | None
    attempt: int
    snapshot: str
    configuration_digest: Digest
    responsible: str
    intended_use: str | None
    evaluation: EvaluationStated | None
    conclusion: str | None
    dependencies: ReleaseDependencies
    files: list[ReleasedFile]
    serves: bool = False
    serving: list[ServingCheck] = []
    unrecorded: dict[str, str] = {}


class ReleaseSigned(Payload):
    """A signature over the released files: an OpenSSF model-signing bundle (a sigstore bundle with a DSSE envelope).

    ``key_fingerprint`` is the SHA-256 of the public key in DER (SubjectPublicKeyInfo).
    """

    release_id: str
    checkpoint_digest: Digest
    bundle_uri: str
    bundle_digest: Digest
    key_fingerprint: Digest
    public_key: str
    tool: str


class ReleaseExported(Payload):
    """The release is one version in a registry; ``found`` says that it stood there already.

    ``duplicates`` are further versions of the same release, which somebody else made.
    """

    release_id: str
    registry: str
    registry_url: str
    name: str
    version: str
    found: bool
    duplicates: list[str] = []


class ReleaseExportPending(Payload):
    """The registry could not take the release: the package is complete, and the export is tried again."""

    release_id: str
    registry: str
    registry_url: str
    reason: str
