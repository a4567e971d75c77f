"""Items of the artifact track: checkpoints, candidate, evaluation, limits, retention."""

from __future__ import annotations

from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.candidates import chosen_candidate, chosen_evaluation
from pretrain_archive.domain.evaluations import last_deciding
from pretrain_archive.domain.releases import standing_release
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item
from pretrain_archive.package.findings import changed, missing, verified
from pretrain_archive.package.outcomes import checkpoint_by_id, metric_text, results_digest_fault


def checkpoints(view: RunView) -> Item:
    """The checkpoints that were registered."""
    found = list(view.all(kinds.CheckpointRegistered))
    if not found:
        return missing(
            "artifact.checkpoints", "artifact", view, role="restore_owner", hint="Register a checkpoint."
        )
    check = "every file was read and hashed when the checkpoint was registered"
    deleted = {p.ref.partition(":")[2] for _, p in view.all(kinds.TombstoneWritten) if not p.parts}
    kept = [p for _, p in found if p.checkpoint_id not in deleted]
    text = f"{len(kept)} kept, {len(found) - len(kept)} deleted with a tombstone"
    return verified("artifact.checkpoints", "artifact", check, [record for record, _ in found], text)


def candidate(view: RunView) -> Item:
    """The checkpoint that may become the model."""
    name, check = "artifact.candidate", "the candidate names a registered checkpoint with its digest"
    found = chosen_candidate(view)
    if found is None:
        return missing(
            name, "artifact", view, role="model_owner", hint="Name the checkpoint that may become the model."
        )
    source = checkpoint_by_id(view, found[1].checkpoint_id)
    if fault := results_digest_fault(source, found[1].checkpoint_digest):
        return changed(name, "artifact", check, [found[0]], *fault)
    return verified(name, "artifact", check, [found[0]], f"{found[1].checkpoint_id}: {found[1].reason}")


def evaluation(view: RunView) -> Item:
    """The evaluation: of a registered checkpoint, finite, with a baseline."""
    name, check = "artifact.evaluation", "metrics of the registered checkpoint, finite, beside a baseline"
    found = chosen_evaluation(view) or last_deciding(view)
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


def limits(view: RunView) -> Item:
    """What the model cannot do, as stated at the release."""
    found = standing_release(view)
    evaluation = chosen_evaluation(view) or last_deciding(view)
    if found is None or not found[1].known_limits or evaluation is None:
        return missing(
            "artifact.limits",
            "artifact",
            view,
            role="acceptance",
            hint="State known limits at the close gate.",
        )
    check = "limits are stated, with the data set that they were found on"
    text = "; ".join(found[1].known_limits) + f" (evaluated on {evaluation[1].data_set})"
    return verified("artifact.limits", "artifact", check, [found[0]], text)


def retention(view: RunView) -> Item:
    """How long what is kept."""
    declared = view.last(kinds.ConfigurationDeclared)
    if declared is None or not declared[1].checkpoints.retention_rule:
        return missing(
            "artifact.retention",
            "artifact",
            view,
            role="data_owner",
            hint="Give the retention rule in the policy.",
        )
    check = "a rule per artifact class stands in the policy whose digest the run carries"
    return verified(
        "artifact.retention", "artifact", check, [declared[0]], declared[1].checkpoints.retention_rule
    )
