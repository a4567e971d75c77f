"""What persons said of a released run's outputs, as records beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.run_view import RunView

SAMPLE = "sha256:" + "5" * 64
SCALE = [
    {"label": "3", "en": "right", "zh": "正确", "value": 3.0},
    {"label": "1", "en": "wrong", "zh": "错误", "value": 1.0},
]


def beside(view: RunView, *payloads: kinds.Payload) -> RunView:
    """The run with further records at its end."""
    last = view.records[-1]
    more = [
        replace(
            last, kind=kinds.BY_MODEL[type(payload)], payload=payload.to_json(), record_id=f"rec_more{number}",
            position=last.position + number, sequence=last.sequence + number,
        )
        for number, payload in enumerate(payloads, 1)
    ]  # fmt: skip
    return RunView.of(view.run_uid, [*view.records, *more], view.around)


def judged_by_persons(view: RunView, **changes: Any) -> RunView:
    """The run with a sample of the released checkpoint's outputs and its report; ``changes`` are of the report."""
    made = view.latest(kinds.ReleaseMade)
    assert made is not None
    assert made.account is not None
    about = {
        "sample_digest": SAMPLE,
        "checkpoint_id": made.account.checkpoint_id,
        "checkpoint_digest": made.checkpoint_digest,
    }
    sampled = kinds.HumanEvaluationSampled.model_validate({
        **about, "subject": "evaluation_program", "source_uri": "file:///x", "source_digest": SAMPLE,
        "source_items": 9, "items_uri": "file:///y", "items_digest": SAMPLE, "seed": 1, "method": "seeded",
        "mode": changes.get("mode", "single"), "baseline_name": "untrained", "standard_en": "Judge content.",
        "standard_zh": "评判内容。", "scale": SCALE, "page_size": 5, "show_characters": 10, "wanted": 2, "fewest": 5,
        "min_agreement": 0.5, "items": [{"digest": SAMPLE, "line": 1}],
    })  # fmt: skip
    problem = {
        "digest": SAMPLE,
        "line": 1,
        "category": "invented",
        "severity": "major",
        "note": "n",
        "by": "bob",
    }
    report = kinds.HumanEvaluationReported.model_validate({
        **about, "mode": "single", "reviewers": ["bob", "carol"], "items": 12, "scored": 11, "answers": 22,
        "points": {"3": 20, "1": 2}, "mean": 2.75, "mean_low": 2.5, "mean_high": 3.0, "both_scored": 11,
        "agreement": 0.9, "kappa": 0.8, "problems": [problem], "flags": ["no_threshold: no limit"], "passed": True,
        **changes,
    })  # fmt: skip
    return beside(view, sampled, report)
