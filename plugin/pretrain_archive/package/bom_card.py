"""The ``modelCard`` of a bill of materials (CycloneDX 1.6): how it was trained and judged, where it may be used."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.candidates import chosen_evaluation
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.package.bom_parts import Json, properties
from pretrain_archive.package.model_card_format import clean

APPROACH = {"pre-training": "self-supervised", "continued pre-training": "self-supervised"}
"""CycloneDX's word for a training type where there is exactly one; other types are left out."""


def model_card(view: RunView, made: kinds.ReleaseMade, data: list[str]) -> Json:
    """The card; ``data`` are the references of the data components."""
    purpose = view.opened.purpose if view.opened else None
    parameters: Json = {"datasets": [{"ref": reference} for reference in data]}
    if purpose and purpose.training_type in APPROACH:
        parameters["approach"] = {"type": APPROACH[purpose.training_type]}
    considerations: Json = {
        "useCases": [clean(text) for text in made.applicable],
        "technicalLimitations": [clean(text) for text in made.known_limits],
        "ethicalConsiderations": [{"name": f"must not be used for: {clean(t)}"} for t in made.not_applicable],
    }
    return {
        "modelParameters": parameters,
        "quantitativeAnalysis": {"performanceMetrics": _metrics(view)},
        "considerations": {name: value for name, value in considerations.items() if value},
        "properties": properties(_facts(view, made)),
    }


def _metrics(view: RunView) -> list[Json]:
    """Values of the candidate's evaluation; one that is not finite is named as it is."""
    found = chosen_evaluation(view)
    metrics: list[Json] = []
    for metric in found[1].metrics if found else ():
        value = metric.not_finite or "unrecorded" if metric.value is None else f"{metric.value!r}"
        entry: Json = {"type": clean(metric.name), "value": value}
        if found:
            entry["slice"] = clean(f"{found[1].data_set} ({found[1].data_set_digest})")
        if metric.low is not None and metric.high is not None:
            entry["confidenceInterval"] = {"lowerBound": repr(metric.low), "upperBound": repr(metric.high)}
        metrics.append(entry)
    return metrics


def _facts(view: RunView, made: kinds.ReleaseMade) -> Json:
    found = chosen_evaluation(view)
    purpose = view.opened.purpose if view.opened else None
    facts: Json = {
        "intended_use": purpose.intended_use if purpose else None,
        "usage_scope": "; ".join(made.usage_scope),
        "evaluation_passed": str(found[1].passed).lower() if found else None,
        "evaluation_report": found[1].report_digest if found else None,
    }
    for check in made.account.serving if made.account else ():
        facts[f"serving:{check.aspect}"] = f"{check.value} ({check.how} by {check.by})"
    return facts
