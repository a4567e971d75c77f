"""A result that was measured elsewhere, filed as evidence: marked as imported, its program unrecorded.

It can be read and compared, and decides nothing: nobody signed for the program behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pretrain_archive.artifacts.evaluation import record_evaluation
from pretrain_archive.artifacts.evaluation_report import Setting
from pretrain_archive.artifacts.metrics import Supplement
from pretrain_archive.artifacts.rules import fixed_rules
from pretrain_archive.artifacts.verification import newest_verified
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.kinds import CheckpointRegistered, EvaluationReported
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.evaluation_plans import suites_of
from pretrain_archive.services.runs import policy_of
from pretrain_archive.storage.port import ObjectStore


@dataclass(frozen=True, kw_only=True)
class Imported:
    """A result file (or folder), and what a person says about it where it does not say so itself."""

    output: Path
    checkpoint_id: str | None = None
    data_set: str | None = None
    data_set_digest: str | None = None
    definition: Mapping[str, Any] = field(default_factory=dict)
    suites: Sequence[str] = ()
    runs: Literal["refuse", "named"] = "refuse"


def import_result(
    ledger: Ledger, store: ObjectStore, caller: Caller, view: RunView, result: Imported
) -> EvaluationReported:
    """Record ``result`` of one of the run's checkpoints; :class:`RefusedError` for a closed run or no checkpoint."""
    if view.state == "closed":
        raise RefusedError(
            f"run {view.run_uid} is closed and frozen",
            hint="What is learnt later about a model is appended to the model, not to its run.",
        )
    policy = policy_of(view)
    names = list(result.suites) or policy.evaluation.suites
    return record_evaluation(
        ledger, store, run_uid=view.run_uid, checkpoint=_checkpoint(view, result.checkpoint_id),
        output=result.output, rules=fixed_rules(view), actor=caller.actor, origin=caller.origin,
        extra=Supplement(
            data_set=result.data_set, data_set_digest=result.data_set_digest, definition=result.definition
        ),
        setting=Setting(
            imported=True, suites=suites_of(policy.evaluation, names), group=policy.evaluation.group,
            runs=result.runs, language=policy.language,
        ),
    )  # fmt: skip


def _checkpoint(view: RunView, checkpoint_id: str | None) -> CheckpointRegistered:
    if checkpoint_id is None:
        found = newest_verified(view)
        if found is None:
            raise RefusedError(
                f"run {view.run_uid} has no verified checkpoint", hint="Register a checkpoint first."
            )
        return found[0]
    named = [c for _, c in view.all(CheckpointRegistered) if c.checkpoint_id == checkpoint_id]
    if not named:
        raise RefusedError(f"run {view.run_uid} has no checkpoint {checkpoint_id!r}")
    return named[-1]
