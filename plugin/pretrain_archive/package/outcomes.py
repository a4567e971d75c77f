"""How results refer to checkpoints: shared by the items, the story and the exam."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView


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
