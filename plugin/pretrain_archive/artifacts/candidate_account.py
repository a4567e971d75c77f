"""What a candidate states of itself: data, configuration, evaluations, and why not the lowest loss (R103)."""

from __future__ import annotations

from collections.abc import Sequence

from pretrain_archive.domain.kinds import (
    CandidateAccount,
    CheckpointRegistered,
    EvaluationReported,
    EvaluationStated,
    MetricsRecorded,
    SplitCreated,
)
from pretrain_archive.domain.run_view import RunView

LOSSES = ("loss", "train_loss", "training_loss")
"""Names under which programs report the training loss; the first that a run has counts."""


def stated(report: EvaluationReported) -> EvaluationStated:
    """An evaluation as a candidate states it."""
    return EvaluationStated(
        evaluation_id=report.evaluation_id, data_set=report.data_set, data_set_digest=report.data_set_digest,
        passed=report.passed, flags=report.flags,
        metrics={metric.name: metric.value for metric in report.metrics if metric.value is not None},
    )  # fmt: skip


def candidate_account(
    view: RunView, checkpoint: CheckpointRegistered, evaluated: Sequence[CheckpointRegistered], *, metric: str
) -> CandidateAccount:
    """The account of ``checkpoint`` among the ``evaluated`` ones; ``metric`` is the one that decides."""
    losses = training_losses(view)
    own = losses.get((checkpoint.attempt, checkpoint.step))
    known = {c.step: value for c in evaluated if (value := losses.get((c.attempt, c.step))) is not None}
    lowest = min(known, key=lambda step: (known[step], -step), default=None)
    reason = None
    if lowest is not None and lowest != checkpoint.step and own is not None and known[lowest] < own:
        reason = (
            f"step {lowest} had the lower training loss ({known[lowest]:g} against {own:g}); "
            f"{metric or 'the acceptance metric'} of the evaluation decides, not the training loss"
        )
    split = view.latest(SplitCreated)
    return CandidateAccount(
        snapshot=checkpoint.snapshot,
        split_digest=split.split_digest if split else None,
        configuration_digest=checkpoint.configuration_digest,
        evaluations=[
            stated(report)
            for _, report in view.all(EvaluationReported)
            if report.checkpoint_digest == checkpoint.digest
        ],
        loss_at=own,
        lowest_loss_step=lowest,
        not_lowest_loss=reason,
    )


def training_losses(view: RunView) -> dict[tuple[int, int], float]:
    """(attempt, step) → training loss, of the first name that the run reported; only finite values."""
    found: dict[str, dict[tuple[int, int], float]] = {}
    for _, batch in view.all(MetricsRecorded):
        for point in batch.points:
            if point.name in LOSSES and point.value is not None:
                found.setdefault(point.name, {})[batch.attempt, point.step] = point.value
    return next((found[name] for name in LOSSES if name in found), {})
