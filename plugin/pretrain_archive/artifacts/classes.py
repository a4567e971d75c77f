"""The classes of artifact: each has its own retention, readers and signer (R098–R100, R153).

The class follows from recorded facts and never from a file name: what a checkpoint was registered as, whether it
was evaluated, named a candidate, released.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pretrain_archive.domain.kinds import (
    CandidateNamed,
    CheckpointRegistered,
    EvaluationReported,
    ReleaseMade,
)
from pretrain_archive.domain.run_view import RunView

CheckpointClass = Literal["recovery", "evaluation", "candidate"]


OWN_KINDS = frozenset({"checkpoint.registered", "checkpoint.classified"})
"""Records that state a checkpoint's own class; the newest one counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ArtifactClass:
    """What a class means: use, retention rule (policy field, empty: never by age), readers and signer role."""

    name: str
    purpose: str
    retention_rule: str
    readers: str
    signer_role: str


CLASSES: Mapping[str, ArtifactClass] = {
    "recovery": ArtifactClass(
        name="recovery",
        purpose="resume the run after an interruption",
        retention_rule="recovery_max_age_days, recovery_keep_last",
        readers="the run itself and its restore owner",
        signer_role="restore_owner",
    ),
    "evaluation": ArtifactClass(
        name="evaluation",
        purpose="be measured at a stage of the run",
        retention_rule="evaluation_max_age_days",
        readers="those who evaluate the run",
        signer_role="model_owner",
    ),
    "candidate": ArtifactClass(
        name="candidate",
        purpose="become the model",
        retention_rule="",
        readers="the model's owner and the approvers of the close gate",
        signer_role="acceptance",
    ),
    "release": ArtifactClass(
        name="release",
        purpose="be handed over",
        retention_rule="",
        readers="those whom the release's usage scope names",
        signer_role="acceptance",
    ),
}


def effective_class(view: RunView, checkpoint: CheckpointRegistered) -> str:
    """What ``checkpoint`` is used for by now: the highest of release, candidate, evaluation and its own class.

    Its own class is that of its newest registration, or of a later record that classified it.
    """
    own = _own_class(view, checkpoint)
    candidates = {
        fact.candidate_id: fact
        for _, fact in view.all(CandidateNamed)
        if fact.checkpoint_id == checkpoint.checkpoint_id
    }
    if any(fact.candidate_id in candidates for _, fact in view.all(ReleaseMade)):
        return "release"
    if own == "candidate" or any(fact.kept for fact in candidates.values()):
        return "candidate"
    if any(fact.checkpoint_id == checkpoint.checkpoint_id for _, fact in view.all(EvaluationReported)):
        return "evaluation"
    return own


def _own_class(view: RunView, checkpoint: CheckpointRegistered) -> str:
    stated = checkpoint.artifact_class
    for record in view.records:
        if record.kind not in OWN_KINDS or record.payload.get("checkpoint_id") != checkpoint.checkpoint_id:
            continue
        stated = record.payload["artifact_class"]
    return stated
