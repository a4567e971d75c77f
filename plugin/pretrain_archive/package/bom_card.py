"""The ``modelCard`` of a bill of materials (CycloneDX 1.6): how it was trained and judged, where it may be used."""

from __future__ import annotations

from collections.abc import Iterator

from pretrain_archive.domain import kinds
from pretrain_archive.domain.human_texts import told
from pretrain_archive.domain.releases import human_reports, released_evaluation
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
        "quantitativeAnalysis": {"performanceMetrics": _metrics(view, made)},
        "considerations": {name: value for name, value in considerations.items() if value},
        "properties": properties(_facts(view, made)),
    }


def _metrics(view: RunView, made: kinds.ReleaseMade) -> list[Json]:
    """Values of the candidate's evaluation, of its baselines, and what persons said, each with its interval."""
    report = released_evaluation(view, made)
    found: list[Json] = []
    if report is not None:
        where = f"{report.data_set} ({report.data_set_digest})"
        found += [_metric(metric, where) for metric in report.metrics]
        for baseline in report.baselines:
            counted = "" if baseline.counted else f", not counted: {baseline.reason}"
            of = f"{where}; measured on {baseline.subject_digest}{counted}"
            found += [_metric(m, of, who=f"baseline {baseline.name}: ") for m in baseline.metrics]
    return [*found, *_by_persons(view, made)]


def _metric(metric: kinds.MetricResult, where: str, *, who: str = "") -> Json:
    """One value of the model, or of ``who``; one that is not finite is named as it is."""
    value = metric.not_finite or "unrecorded" if metric.value is None else f"{metric.value!r}"
    return {"type": clean(who + metric.name), "value": value, "slice": clean(where)} | _interval(
        metric.low, metric.high
    )


def _interval(low: float | None, high: float | None) -> Json:
    if low is None or high is None:
        return {}
    return {"confidenceInterval": {"lowerBound": repr(low), "upperBound": repr(high)}}


def _by_persons(view: RunView, made: kinds.ReleaseMade) -> Iterator[Json]:
    reports = human_reports(view, made)
    if not reports:
        return
    report = reports[-1]
    where = f"{report.items} sampled outputs ({report.sample_digest})"
    for name, value, low, high in (
        ("mean", report.mean, report.mean_low, report.mean_high),
        ("win rate", report.win_rate, report.win_low, report.win_high),
        ("agreement", report.agreement, None, None),
        ("kappa", report.kappa, None, None),
    ):
        if value is not None:
            yield {"type": f"human evaluation: {name}", "value": repr(value), "slice": where} | _interval(
                low, high
            )


def _facts(view: RunView, made: kinds.ReleaseMade) -> Json:
    report, persons = released_evaluation(view, made), human_reports(view, made)
    purpose = view.opened.purpose if view.opened else None
    facts: Json = {
        "intended_use": purpose.intended_use if purpose else None,
        "usage_scope": "; ".join(made.usage_scope),
        "evaluation_passed": str(report.passed).lower() if report else None,
        "evaluation_flags": ("; ".join(report.flags) or "none") if report else None,
        "evaluation_report": report.report_digest if report else None,
        "human_evaluation": told(persons[-1]) if persons else None,
        "human_evaluation_passed": str(persons[-1].passed).lower() if persons else None,
        "human_evaluation_flags": ("; ".join(persons[-1].flags) or "none") if persons else None,
    }
    for check in made.account.serving if made.account else ():
        facts[f"serving:{check.aspect}"] = f"{check.value} ({check.how} by {check.by})"
    return facts
