# ruff: noqa: RUF012 (pydantic copies a default for each instance)
"""Payloads of decisions: the run, its gates, its close."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from pretrain_archive.domain.kinds.base import Digest, GateName, Payload


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
    """The run is frozen; later facts are appended as notes.

    ``stopped`` and ``superseded`` (a new run with changes follows) are outcomes of a review: ``figures`` then holds
    what the run took and the checkpoint that is kept. ``explored`` ends an exploration with the same figures. None of
    them makes a release.
    """

    outcome: Literal[
        "register", "continue", "clean_up", "rejected", "expired", "stopped", "superseded", "explored"
    ]
    reason: str
    package_digest: Digest | None = None
    figures: dict[str, Any] = {}


class GateDossier(Payload):
    """What a gate showed its approver; ``digest`` is over ``document`` in canonical JSON."""

    gate: GateName
    digest: Digest
    document: dict[str, Any]
    eligible: list[str]


class GateDecision(Payload):
    """A person's answer. ``acknowledged`` holds the advisory items that were not verified, by id.

    ``outcome`` is what an approval chose: one of the first three at the close gate, of the others at a review.
    """

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
    outcome: Literal["register", "continue", "clean_up", "resume", "resume_changed", "stop"] | None = None
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
