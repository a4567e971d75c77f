# ruff: noqa: RUF012 (pydantic copies a default for each instance)
"""Payloads about what an attempt runs on: its job, why it waits, its members, what persons changed, drills."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from pretrain_archive.domain.kinds.base import Digest, Payload

WaitReason = Literal[
    "quota",
    "queue",
    "resources",
    "fragmentation",
    "topology",
    "image",
    "data",
    "environment",
    "policy",
    "start",
]
"""Why accelerators are not there yet; ``start`` is a machine that gets the members ready."""

ExitClass = Literal[
    "completed", "oom", "evicted", "preempted", "requeued", "killed", "node_lost", "image", "unschedulable",
    "deadline", "user_error", "stopped", "interrupted", "unknown",
]  # fmt: skip
"""How a member or an attempt ended: exit code 137 alone is ``oom``, ``evicted``, ``preempted`` or ``killed``."""


class JobCreated(Payload):
    """The one job of a launch token; it starts nothing before this record is in the ledger.

    ``resume_refused`` is that of the attempt, for whoever follows the job and has not looked for a recovery point.
    """

    attempt: int
    target: Literal["kubernetes"] = "kubernetes"
    object_kind: Literal["Job", "TrainJob"]
    name: str
    namespace: str
    uid: str | None
    cluster: str = ""
    manifest: dict[str, Any]
    manifest_digest: Digest
    requested: dict[str, Any] = {}
    resume_refused: list[str] = []


class JobEnded(Payload):
    """How a job ended as the cluster itself showed it, written down before the job is taken away.

    Of a job that is gone nothing can be read any more: this is then what tells a success from a loss.
    """

    attempt: int
    name: str
    namespace: str
    succeeded: bool
    exit_class: ExitClass | None = None
    counted: bool = True
    retry: bool = False
    reason: str
    at: str


class JobRemoved(Payload):
    """A job was deleted; ``verified_absent`` says that neither it nor a pod of it was found afterwards."""

    attempt: int
    name: str
    namespace: str
    reason: str
    pods_before: int
    pods_left: list[str] = []
    verified_absent: bool
    at: str


class WaitObserved(Payload):
    """Why an attempt waits from here on; ``ended`` True where it no longer does."""

    attempt: int
    reason: WaitReason
    message: str
    object: str = ""
    at: str
    ended: bool = False
    details: dict[str, Any] = {}


class MemberObserved(Payload):
    """A worker of the attempt as it was seen to change: where it runs, on what, and how it ended.

    ``worker`` is its index from 0. None is unrecorded everywhere. ``allocated_at`` is when the scheduler gave it its
    node: from then on it holds the accelerators, also while its image is pulled.
    """

    attempt: int
    worker: int
    name: str
    uid: str | None = None
    phase: str
    node: str | None = None
    image: str | None = None
    image_digest: str | None = None
    devices: list[str] | None = None
    restarts: int | None = None
    at: str
    allocated_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    condition: str = ""
    message: str = ""
    exit_class: ExitClass | None = None
    replaces: str | None = None


class ChangeRecorded(Payload):
    """Somebody changed something by hand while a run was open (R071, R072, R075, R093)."""

    attempt: int | None
    what: Literal["quota", "priority", "configuration", "patch", "node", "network", "storage", "other"]
    scope: str = Field(min_length=1)
    reason: str = Field(min_length=1)
    person: str = Field(min_length=1)
    before: str | None = None
    after: str | None = None
    at: str
    via: Literal["command_line", "page", "task"]
    authentication: str | None = None


class AttemptReconciled(Payload):
    """After a recovery: progress, duplicates and results compared with what was there before (R195)."""

    attempt: int
    resumed_from: str | None
    resume_step: int | None
    members_loaded: int | None = None
    members_expected: int | None = None
    steps_lost: int | None = None
    steps_repeated: int | None = None
    checks: list[dict[str, Any]]


class DrillFiled(Payload):
    """Evidence of a recovery drill on a representative task (R194, R234–R237): what was injected and seen.

    ``checks`` are ``{name, verdict, expected, found, at}``; names are ``detected``, ``stopped``, ``rescheduled``,
    ``loaded``, ``continued`` and ``reconciled``.
    """

    target: Literal["local", "kubernetes"]
    injected: Literal["worker_exit", "worker_frozen", "node_lost", "network_cut"]
    detail: str
    attempt: int
    recovered_attempt: int | None
    passed: bool
    checks: list[dict[str, Any]]
