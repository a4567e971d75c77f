"""How results refer to checkpoints: shared by the items, the story and the exam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.candidates import chosen_evaluation
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item


def checkpoint_by_id(view: RunView, checkpoint_id: str) -> tuple[Record, kinds.CheckpointRegistered] | None:
    """The registration of a checkpoint, or None."""
    return next(
        (f for f in view.all(kinds.CheckpointRegistered) if f[1].checkpoint_id == checkpoint_id), None
    )


def results_digest_fault(
    source: tuple[Record, kinds.CheckpointRegistered] | None, digest: str
) -> tuple[str, str] | None:
    """(expected, found) where a result names another checkpoint than was registered, else None."""
    if source is None:
        return digest, "no registered checkpoint"
    return None if source[1].digest == digest else (digest, source[1].digest)


def metric_text(metric: kinds.MetricResult) -> str:
    """A metric with its unit: a value that is not finite is named, not hidden."""
    value = metric.not_finite or "unrecorded" if metric.value is None else f"{metric.value:g}"
    return f"{metric.name} {value} {metric.unit}".strip()


def evaluation_item(
    view: RunView,
    *,
    missing: Callable[..., Item],
    changed: Callable[..., Item],
    verified: Callable[..., Item],
) -> Item:
    """The evaluation: of a registered checkpoint, finite, with a baseline."""
    name, check = "artifact.evaluation", "metrics of the registered checkpoint, finite, beside a baseline"
    found = chosen_evaluation(view) or view.last(kinds.EvaluationReported)
    if found is None:
        return missing(name, "artifact", view, role="acceptance", hint="Evaluate the candidate.")
    record, report = found
    if fault := results_digest_fault(checkpoint_by_id(view, report.checkpoint_id), report.checkpoint_digest):
        return changed(name, "artifact", check, [record], *fault)
    config = view.latest(kinds.ConfigurationDeclared)
    signed = config.evaluate_code_digest if config else None
    if signed is not None and report.evaluator_digest != signed:
        return changed(name, "artifact", check, [record], signed, report.evaluator_digest or "unrecorded")
    gaps: list[Any] = [metric.name for metric in report.metrics if metric.value is None]
    if gaps or not report.metrics or not report.baselines:
        hint = (
            f"No finite value for {', '.join(gaps)}."
            if gaps
            else "Without a baseline no effect can be claimed."
        )
        return missing(name, "artifact", view, role="acceptance", hint=hint, check=check)
    text = ", ".join(metric_text(metric) for metric in report.metrics)
    return verified(name, "artifact", check, [record], text if report.passed else f"not passed: {text}")
