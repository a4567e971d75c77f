"""The registry of kinds: payload model, track and schema version of each, and how old ones are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pretrain_archive.domain.kinds import (
    artifact,
    cluster,
    compute,
    data,
    evaluation,
    exploration,
    gates,
    governance,
    human_evaluation,
    labels,
    model_life,
    release,
    retention,
)
from pretrain_archive.domain.kinds.base import Payload
from pretrain_archive.domain.records import Record, Track

PayloadT = TypeVar("PayloadT", bound=Payload)


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A kind of record: its payload model, its track and its current schema version."""

    model: type[Payload]
    track: Track
    version: int = 1


KINDS: dict[str, Kind] = {
    "run.opened": Kind(model=gates.RunOpened, track=Track.GATES),
    "run.failed": Kind(model=gates.RunFailed, track=Track.GATES),
    "run.closed": Kind(model=gates.RunClosed, track=Track.GATES),
    "gate.dossier": Kind(model=gates.GateDossier, track=Track.GATES),
    "gate.decision": Kind(model=gates.GateDecision, track=Track.GATES),
    "gate.refused": Kind(model=gates.GateRefused, track=Track.GATES),
    "gate.expired": Kind(model=gates.GateExpired, track=Track.GATES),
    "package.written": Kind(model=gates.PackageWritten, track=Track.GATES),
    "note.added": Kind(model=gates.NoteAdded, track=Track.GATES),
    "ledger.recovered": Kind(model=artifact.LedgerRecovered, track=Track.GATES),
    "source.registered": Kind(model=data.SourceRegistered, track=Track.DATA),
    "source.access": Kind(model=data.SourceAccess, track=Track.DATA),
    "source.withdrawn": Kind(model=data.SourceWithdrawn, track=Track.DATA),
    "snapshot.created": Kind(model=data.SnapshotCreated, track=Track.DATA),
    "rule.declared": Kind(model=data.RuleDeclared, track=Track.DATA),
    "processing.applied": Kind(model=data.ProcessingApplied, track=Track.DATA),
    "split.created": Kind(model=data.SplitCreated, track=Track.DATA),
    "quality.reported": Kind(model=data.QualityReported, track=Track.DATA),
    "labels.sampled": Kind(model=labels.LabelsSampled, track=Track.DATA),
    "labels.answered": Kind(model=labels.LabelPageAnswered, track=Track.DATA),
    "labels.refused": Kind(model=labels.LabelAnswerRefused, track=Track.DATA),
    "labels.reviewed": Kind(model=labels.LabelsReviewed, track=Track.DATA),
    "temporary.removed": Kind(model=data.TemporaryRemoved, track=Track.DATA),
    "configuration.declared": Kind(model=compute.ConfigurationDeclared, track=Track.COMPUTE),
    "environment.declared": Kind(model=compute.EnvironmentDeclared, track=Track.COMPUTE),
    "environment.observed": Kind(model=compute.EnvironmentObserved, track=Track.COMPUTE),
    "launch.intended": Kind(model=compute.LaunchIntended, track=Track.COMPUTE),
    "exploration.reserved": Kind(model=exploration.ExplorationReserved, track=Track.COMPUTE),
    "attempt.started": Kind(model=compute.AttemptStarted, track=Track.COMPUTE),
    "attempt.ended": Kind(model=compute.AttemptEnded, track=Track.COMPUTE),
    "metrics.recorded": Kind(model=compute.MetricsRecorded, track=Track.COMPUTE),
    "event.recorded": Kind(model=compute.EventRecorded, track=Track.COMPUTE),
    "stop.fired": Kind(model=compute.StopFired, track=Track.COMPUTE),
    "job.created": Kind(model=cluster.JobCreated, track=Track.COMPUTE),
    "job.ended": Kind(model=cluster.JobEnded, track=Track.COMPUTE),
    "job.removed": Kind(model=cluster.JobRemoved, track=Track.COMPUTE),
    "wait.observed": Kind(model=cluster.WaitObserved, track=Track.COMPUTE),
    "member.observed": Kind(model=cluster.MemberObserved, track=Track.COMPUTE),
    "change.recorded": Kind(model=cluster.ChangeRecorded, track=Track.COMPUTE),
    "attempt.reconciled": Kind(model=cluster.AttemptReconciled, track=Track.COMPUTE),
    "drill.filed": Kind(model=cluster.DrillFiled, track=Track.COMPUTE),
    "checkpoint.registered": Kind(model=artifact.CheckpointRegistered, track=Track.ARTIFACT),
    "checkpoint.overwritten": Kind(model=artifact.CheckpointOverwritten, track=Track.ARTIFACT),
    "checkpoint.refused": Kind(model=artifact.CheckpointRefused, track=Track.ARTIFACT),
    "evaluation.reported": Kind(model=artifact.EvaluationReported, track=Track.ARTIFACT),
    "evaluation.started": Kind(model=evaluation.EvaluationStarted, track=Track.ARTIFACT),
    "evaluation.failed": Kind(model=evaluation.EvaluationFailed, track=Track.ARTIFACT),
    "evaluation.finished": Kind(model=evaluation.EvaluationFinished, track=Track.ARTIFACT),
    "human_evaluation.sampled": Kind(model=human_evaluation.HumanEvaluationSampled, track=Track.ARTIFACT),
    "human_evaluation.answered": Kind(model=human_evaluation.HumanPageAnswered, track=Track.ARTIFACT),
    "human_evaluation.refused": Kind(model=human_evaluation.HumanAnswerRefused, track=Track.ARTIFACT),
    "human_evaluation.reported": Kind(model=human_evaluation.HumanEvaluationReported, track=Track.ARTIFACT),
    "model.feedback": Kind(model=model_life.FeedbackReceived, track=Track.ARTIFACT),
    "model.adjusted": Kind(model=model_life.AdjustmentMade, track=Track.ARTIFACT),
    "model.retraining": Kind(model=model_life.RetrainingBegun, track=Track.ARTIFACT),
    "model.delivered": Kind(model=model_life.ModelDelivered, track=Track.ARTIFACT),
    "model.taken_down": Kind(model=model_life.ModelTakenDown, track=Track.ARTIFACT),
    "model.retired": Kind(model=model_life.ModelRetired, track=Track.ARTIFACT),
    "candidate.named": Kind(model=artifact.CandidateNamed, track=Track.ARTIFACT),
    "release.made": Kind(model=artifact.ReleaseMade, track=Track.ARTIFACT),
    "release.serving_checked": Kind(model=release.ServingCheck, track=Track.ARTIFACT),
    "release.signed": Kind(model=release.ReleaseSigned, track=Track.ARTIFACT),
    "release.exported": Kind(model=release.ReleaseExported, track=Track.ARTIFACT),
    "release.export_pending": Kind(model=release.ReleaseExportPending, track=Track.ARTIFACT),
    "tombstone.written": Kind(model=artifact.TombstoneWritten, track=Track.ARTIFACT),
    "retention.planned": Kind(model=artifact.RetentionPlanned, track=Track.ARTIFACT),
    "retention.approved": Kind(model=artifact.RetentionApproved, track=Track.ARTIFACT),
    "retention.refused": Kind(model=artifact.RetentionRefused, track=Track.ARTIFACT),
    "deletion.partial": Kind(model=retention.DeletionPartial, track=Track.ARTIFACT),
    "retention.applied": Kind(model=retention.RetentionApplied, track=Track.ARTIFACT),
    "retention.ownerless": Kind(model=retention.OwnerlessReported, track=Track.ARTIFACT),
    "hold.placed": Kind(model=retention.HoldPlaced, track=Track.ARTIFACT),
    "hold.released": Kind(model=retention.HoldReleased, track=Track.ARTIFACT),
    "checkpoint.classified": Kind(model=retention.CheckpointClassified, track=Track.ARTIFACT),
    "experiment.concluded": Kind(model=governance.ExperimentConcluded, track=Track.GATES),
    "platform.proposed": Kind(model=governance.PlatformProposed, track=Track.COMPUTE),
    "platform.verified": Kind(model=governance.PlatformVerified, track=Track.COMPUTE),
    "platform.widened": Kind(model=governance.PlatformWidened, track=Track.COMPUTE),
    "platform.accepted": Kind(model=governance.PlatformAccepted, track=Track.COMPUTE),
    "platform.rolled_back": Kind(model=governance.PlatformRolledBack, track=Track.COMPUTE),
    "incident.opened": Kind(model=governance.IncidentOpened, track=Track.COMPUTE),
    "incident.reviewed": Kind(model=governance.IncidentReviewed, track=Track.COMPUTE),
    "incident.closed": Kind(model=governance.IncidentClosed, track=Track.COMPUTE),
    "boundary.confirmed": Kind(model=governance.BoundaryConfirmed, track=Track.COMPUTE),
    "runbook.drilled": Kind(model=governance.RunbookDrilled, track=Track.COMPUTE),
    "service.labelled": Kind(model=governance.ServiceLabelled, track=Track.COMPUTE),
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
