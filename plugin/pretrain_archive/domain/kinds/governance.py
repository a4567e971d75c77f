# ruff: noqa: RUF012 (pydantic copies a default for each instance)
"""Payloads about how the platform is run: changes of it, incidents, boundaries, its runbook, and what was learnt.

Each thing has a stream of its own (``change/ID``, ``incident/ID``, ``boundary/PROJECT``, ``runbook/NAME``,
``service/PROJECT``), so that a writer can follow what it has seen. ``person`` is who said so, ``authentication`` how
that person is known; both come from whoever appends and are never filled in later.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from pretrain_archive.domain.kinds.base import Digest, Payload

Component = Literal["scheduling_policy", "image", "framework", "driver", "storage", "network", "platform"]
"""What a change of the platform changes (R228)."""

Team = Literal["training", "platform", "storage", "network"]
"""The teams that answer for a part of the way from data to checkpoint (R237)."""


class Said(Payload):
    """Who said it, how that person is known, and when."""

    person: str = Field(min_length=1)
    authentication: str = Field(min_length=1)
    at: str


class ExperimentConcluded(Said):
    """What a person concludes of a run (R097): what improved against what, and what was learnt.

    ``against_kind`` says what ``against`` was found to be: a run of the ledger or a baseline of the evaluation.
    ``evidence`` are record ids of the run, or uids of runs, that were looked up when it was written.
    """

    outcome: Literal["improved", "no_better", "worse", "no_answer"]
    improved: str | None = None
    against: str | None = None
    against_kind: Literal["run", "baseline"] | None = None
    learnt: str = Field(min_length=1)
    evidence: list[str] = Field(min_length=1)


class AffectedRun(Payload):
    """A run that was seen on the value that is to be replaced; ``record`` is the observation."""

    run_uid: str
    project: str
    open: bool
    attempt: int
    workers: list[int] = []
    value: str
    record: str


class Regression(Payload):
    """The scenario that has to come through on the new value, named before anything is changed (R229)."""

    kind: Literal["drill", "run"]
    name: str = Field(min_length=1)


class PlatformProposed(Said):
    """A change of the platform: what, from which value to which, whom it touches, and how it will be tried.

    ``where`` is the dotted path of the value in an observed environment, ``image``, or ``policy.`` and a path in the
    recorded policy. ``unrecorded_runs`` are those of which nobody knows the value: not known to be touched, and not
    known to be spared. Looked at were all open runs, and those opened ``since``. ``stages`` are shares of the platform
    in rising order, the last one 1. ``support`` is who supports the component, by the policies of the projects that
    are touched.
    """

    change_id: str
    component: Component
    where: str = Field(min_length=1)
    before: str = Field(min_length=1)
    after: str = Field(min_length=1)
    reason: str = Field(min_length=1)
    key: bool
    regression: Regression
    scope_projects: list[str] = []
    scope_nodes: list[str] = []
    stages: list[float] = Field(min_length=1)
    rollback: str | None = None
    known_limits: list[str] = []
    affected: list[AffectedRun] = []
    unrecorded_runs: list[str] = []
    looked_at: int = Field(ge=0)
    since: str
    support: list[dict[str, Any]] = []


class PlatformVerified(Said):
    """The regression scenario came through on the new value inside the controlled scope; read from the ledger."""

    change_id: str
    run_uid: str
    attempt: int
    found: list[str] = Field(min_length=1)
    evidence: list[str] = Field(min_length=1)


class SeenAttempt(Payload):
    """An attempt that was seen on the new value, and how it ended (None: not yet)."""

    run_uid: str
    attempt: int
    state: str | None
    record: str


class PlatformWidened(Said):
    """A change reaches a further stage; ``seen`` are the attempts on the new value since the stage before."""

    change_id: str
    stage: int = Field(ge=1)
    share: float = Field(gt=0, le=1)
    seen: list[SeenAttempt] = []
    despite: str | None = None


class PlatformAccepted(Said):
    """The owner of a project's tasks accepts the change for them: an upgraded platform alone is none (R230)."""

    change_id: str
    project: str
    role: str
    run_uid: str
    attempt: int
    found: list[str] = Field(min_length=1)
    evidence: list[str] = Field(min_length=1)


class PlatformRolledBack(Said):
    """A change was taken back. ``way`` is how, ``seen`` the attempts that ran on the new value."""

    change_id: str
    reason: str = Field(min_length=1)
    way: str = Field(min_length=1)
    seen: list[SeenAttempt] = []


class IncidentOpened(Said):
    """Something went wrong. ``sections`` are the runbook's headings with digests as they stood then."""

    incident_id: str
    severity: Literal["minor", "major"]
    title: str = Field(min_length=1)
    impact: str = Field(min_length=1)
    noticed_at: str
    runs: list[str] = []
    attempts: list[str] = []
    runbook: str | None = None
    sections: dict[str, Digest] | None = None


class IncidentReviewed(Said):
    """What happened and why; ``timeline`` are entries of the linked runs' own timelines, with their records."""

    incident_id: str
    cause: str = Field(min_length=1)
    contributing: list[str] = []
    timeline: list[dict[str, Any]] = []


class FollowUp(Payload):
    """What exists now because of an incident; ``found`` says how it was looked up."""

    kind: Literal["drill", "test", "policy", "runbook"]
    ref: str = Field(min_length=1)
    found: str = Field(min_length=1)
    digest: Digest | None = None


class IncidentClosed(Said):
    """An incident is over; a major one leaves at least one follow-up (R232)."""

    incident_id: str
    learnt: str = Field(min_length=1)
    follow_ups: list[FollowUp] = []


class BoundaryConfirmed(Said):
    """One team confirms for what it answers on one target topology (R237)."""

    project: str
    team: Team
    answers_for: str = Field(min_length=1)
    topology: dict[str, Any]
    topology_digest: Digest


class RunbookDrilled(Said):
    """Somebody who did not write the runbook walked through sections of it on a drill (R238, R249)."""

    runbook: str
    authors: list[str] = Field(min_length=1)
    sections: dict[str, Digest] = Field(min_length=1)
    drill_run: str
    drill_record: str
    completed: bool
    stuck: list[str] = []


class ServiceLabelled(Said):
    """A project is called a shared service: every precondition held when it was said (R248)."""

    project: str
    label: Literal["shared_service"]
    policy_digest: Digest
    checks: list[dict[str, Any]] = Field(min_length=1)
