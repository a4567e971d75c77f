"""What a candidate states of itself: data, configuration, evaluations, and why not the lowest loss (R103)."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from pretrain_archive.domain.kinds import (
    CandidateAccount,
    CheckpointRegistered,
    EvaluationReported,
    EvaluationStated,
    SplitCreated,
)
from pretrain_archive.domain.run_view import RunView

METRICS = "metrics.recorded"
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
    view: RunView,
    checkpoint: CheckpointRegistered,
    evaluated: Sequence[CheckpointRegistered],
    *,
    metric: str,
    kept: bool,
) -> CandidateAccount:
    """The account of ``checkpoint`` among the ``evaluated`` ones; ``metric`` is the one that decides.

    Training losses are compared for the one that is kept only: the reason of a dropped one is another.
    """
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
        **(_losses(view, checkpoint, evaluated, metric=metric) if kept else {}),
    )


def _losses(
    view: RunView, checkpoint: CheckpointRegistered, evaluated: Sequence[CheckpointRegistered], *, metric: str
) -> dict[str, Any]:
    """Which evaluated checkpoint had the lowest training loss, and why it was not taken where it is another one."""
    places = {(c.attempt, c.step) for c in evaluated}
    losses = training_losses(view, places)
    own = losses.get((checkpoint.attempt, checkpoint.step))
    known = {step: value for (_, step), value in sorted(losses.items())}
    lowest = min(known, key=lambda step: (known[step], -step), default=None)
    reason = None
    if lowest is not None and lowest != checkpoint.step and own is not None and known[lowest] < own:
        reason = (
            f"step {lowest} had the lower training loss ({known[lowest]:g} against {own:g}); "
            f"{metric or 'the acceptance metric'} of the evaluation decides, not the training loss"
        )
    return {"loss_at": own, "lowest_loss_step": lowest, "not_lowest_loss": reason}


def training_losses(view: RunView, places: AbstractSet[tuple[int, int]]) -> dict[tuple[int, int], float]:
    """(attempt, step) → training loss at each of ``places``, of the first name that the run reported; finite only.

    The payloads are read as they stand: a long run reports millions of points, of which a handful is wanted.
    """
    found: dict[str, dict[tuple[int, int], float]] = {}
    for record in view.records:
        if record.kind != METRICS:
            continue
        attempt = record.payload["attempt"]
        for point in record.payload["points"]:
            place, value = (attempt, point["step"]), point["value"]
            if place in places and value is not None and point["name"] in LOSSES:
                found.setdefault(point["name"], {})[place] = value
    return next((found[name] for name in LOSSES if name in found), {})
