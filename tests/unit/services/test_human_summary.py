"""What reviewers said, summed up: numbers against ones worked out by hand or by published tables, and flags."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrain_archive.artifacts.intervals import wilson
from pretrain_archive.domain import kinds
from pretrain_archive.domain.human_texts import CAVEATS, FLAGS, flag_code, told
from pretrain_archive.services.human_answers import outcome_of
from pretrain_archive.services.human_summary import FEWEST_FOR_INTERVAL, student_quantile, summary

DIGEST = "sha256:" + "ab" * 32
SCALES = {
    "single": (("3", 3.0), ("2", 2.0), ("1", 1.0)),
    "pairs": (("better", None), ("same", None), ("worse", None)),
}


def sampled(mode: Any, items: int, **changes: Any) -> kinds.HumanEvaluationSampled:
    """A sample of ``items``."""
    fields: dict[str, Any] = {
        "sample_digest": DIGEST, "checkpoint_id": "c", "checkpoint_digest": DIGEST, "subject": "evaluation_program",
        "source_uri": "file:///x", "source_digest": DIGEST, "source_items": items, "items_uri": "file:///y",
        "items_digest": DIGEST, "seed": 1, "method": "m", "mode": mode, "standard_en": "s", "standard_zh": "s",
        "scale": [{"label": label, "value": value, "en": label, "zh": label} for label, value in SCALES[mode]],
        "page_size": 1000, "show_characters": 100, "reviewers": ["bob", "carol"], "wanted": 2, "fewest": 1,
        "min_agreement": 0, "baseline_name": "base",
        **({"min_mean": 1.0} if mode == "single" else {"min_win_rate": 0.0}),
        "items": [{"digest": f"sha256:{n:064x}", "line": n + 1} for n in range(items)],
    }  # fmt: skip
    return kinds.HumanEvaluationSampled.model_validate(fields | changes)


def page(
    sample: kinds.HumanEvaluationSampled, reviewer: int, labels: Sequence[str | None], **problems: Any
) -> Any:
    """A reviewer's answers to all items; ``problems`` by ``pN`` are (category, severity)."""
    answers = []
    for number, (item, label) in enumerate(zip(sample.items, labels, strict=True)):
        problem, severity, *whose = problems.get(f"p{number}", (None, None))
        outcome = outcome_of(sample, label) if label is not None and sample.mode == "pairs" else ""
        answers.append({
            "digest": item.digest, "line": item.line, "label": label, "outcome": outcome, "problem": problem,
            "severity": severity, "note": "why", **({"whose": whose[0]} if whose else {}),
        })  # fmt: skip
    return kinds.HumanPageAnswered.model_validate({
        "sample_digest": DIGEST, "page_digest": DIGEST, "page": 1, "reviewer": reviewer, "answers": answers,
        "person_id": "x", "person_name": ("bob", "carol")[reviewer - 1], "responded_at": "2026-11-29T10:00:00Z",
    })  # fmt: skip


def result(
    mode: Any, *labels: Sequence[str | None], problems: dict[str, Any] | None = None, **changes: Any
) -> kinds.HumanEvaluationReported:
    """The summary of what one or two reviewers said."""
    sample = sampled(mode, len(labels[0]), wanted=len(labels), **changes)
    answers = {
        (who, 1): page(sample, who, given, **(problems or {} if who == 1 else {}))
        for who, given in enumerate(labels, 1)
    }
    return summary(sample, answers)


def codes(report: kinds.HumanEvaluationReported) -> list[str]:
    """The codes of its flags."""
    return [flag_code(flag) for flag in report.flags]


@pytest.mark.requirement("R118")
def test_scores() -> None:
    """Counts per point, mean over items, raw agreement and kappa, worked out by hand."""
    report = result("single", ["3", "3", "2", "1"], ["3", "2", "2", None])

    assert {"3": 3, "2": 3, "1": 1} == report.points
    assert (4, 7, 4) == (report.items, report.answers, report.scored)
    assert (3 + 2.5 + 2 + 1) / 4 == report.mean
    assert (None, None) == (report.mean_low, report.mean_high)  # four items allow no interval
    assert (3, 2 / 3) == (report.both_scored, report.agreement)
    # both: (3,3) (3,2) (2,2); chance = (2/3)(1/3) + (1/3)(2/3) = 4/9
    assert report.kappa == pytest.approx((2 / 3 - 4 / 9) / (1 - 4 / 9))
    assert [("carol", 4)] == [(one.by, one.line) for one in report.skipped]
    assert [({"bob": "3", "carol": "2"}, False)] == [(d.labels, d.opposite) for d in report.disagreements]


def test_opposite_answers_are_named() -> None:
    """One says the best, the other the worst: named as opposite."""
    report = result("single", ["3", "3"], ["1", "2"])

    assert [(1, True), (2, False)] == [(d.line, d.opposite) for d in report.disagreements]


@pytest.mark.requirement("R118", "R119")
def test_wins() -> None:
    """An item is won by the sum of its answers; the interval is over decided items, not over answers."""
    report = result("pairs", ["better"] * 6 + ["worse", "same"], ["better"] * 5 + ["same", "worse", "better"])

    assert (7, 0, 1) == (report.wins, report.ties, report.losses)
    assert 7 / 8 == report.win_rate
    assert wilson(7 / 8, 8) == (report.win_low, report.win_high)
    assert report.mean is None


def test_a_win_against_a_loss_is_a_tie() -> None:
    """Two reviewers who say the opposite decide nothing."""
    report = result("pairs", ["better"], ["worse"], min_win_rate=0.5)

    assert (0, 1, 0, None) == (report.wins, report.ties, report.losses, report.win_rate)
    assert ["win_rate_unrecorded"] == codes(report)
    assert not report.passed


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(1, 12.7062), (2, 4.3027), (9, 2.2622), (29, 2.0452), (120, 1.9799)],
)
def test_quantiles_of_student(freedom: int, expected: float) -> None:
    """The two-sided 95 % quantiles are those of the printed tables."""
    assert student_quantile(freedom) == pytest.approx(expected, abs=6e-5)


def test_interval_of_a_mean() -> None:
    """Ten items allow an interval: mean and half-width by the formula, kept within the scale."""
    report = result("single", ["3"] * 5 + ["2"] * 5, ["3"] * 5 + ["2"] * 5)
    half = student_quantile(9) * math.sqrt(10 * 0.25 / 9) / math.sqrt(10)

    assert report.mean == 2.5
    assert (report.mean_low, report.mean_high) == pytest.approx((2.5 - half, 2.5 + half))
    top = result("single", ["3"] * 10 + ["1"], ["3"] * 10 + ["1"])
    assert 3 == top.mean_high


@pytest.mark.parametrize("labels", [["3"] * 20, ["3", "1"] * ((FEWEST_FOR_INTERVAL - 1) // 2)])
def test_no_interval(labels: list[str]) -> None:
    """No spread, or fewer than ten items, allows none: a point would promise certainty."""
    report = result("single", labels, labels)

    assert report.mean is not None
    assert report.mean_low is None


@pytest.mark.parametrize(
    ("labels", "changes", "expected"),
    [
        pytest.param([["3", None], ["3", None]], {"fewest": 2}, "too_few_answers", id="too few"),
        pytest.param([["3", "2"], ["3", "1"]], {"min_agreement": 0.8}, "agreement_below", id="agreement"),
        pytest.param(
            [["3", None], [None, "3"]], {"fewest": 1}, "agreement_unrecorded", id="nothing in common"
        ),
        pytest.param([["3", "2"], ["3", "1"]], {"min_kappa": 0.9}, "kappa_below", id="kappa"),
        pytest.param([["3", "3"], ["3", "3"]], {"min_kappa": 0.9}, "kappa_unrecorded", id="no kappa"),
        pytest.param([["1", "2"], ["1", "2"]], {"min_mean": 2}, "mean_below", id="mean"),
        pytest.param([["3", "3"]], {}, "one_reviewer_only", id="one reviewer"),
        pytest.param([["1"], ["1"]], {"min_mean": None}, "no_threshold", id="any scores would do"),
        pytest.param([["3"], ["3"]], {"subject": "unproven"}, "subject_unproven", id="whose outputs"),
    ],
)
def test_flags(labels: list[list[str | None]], changes: dict[str, Any], expected: str) -> None:
    """Each is named with its code, has words, and passes only where a person may acknowledge it."""
    report = result("single", *labels, **changes)

    assert [expected] == codes(report)
    assert expected in FLAGS
    assert (expected in CAVEATS) is report.passed


def test_critical_problems() -> None:
    """A critical problem speaks against the numbers unless the policy allows so many; minor ones are only logged."""
    problems = {"p0": ("unsafe", "critical"), "p1": ("form", "minor")}
    report = result("single", ["1", "2"], ["1", "2"], problems=problems)

    assert ["critical_problems"] == codes(report)
    assert [("unsafe", "critical", "bob", "why"), ("form", "minor", "bob", "why")] == [
        (p.category, p.severity, p.by, p.note) for p in report.problems
    ]
    assert [] == codes(result("single", ["1", "2"], ["1", "2"], problems=problems, most_critical=1))


@pytest.mark.parametrize(("whose", "passed"), [("candidate", False), ("both", False), ("baseline", True)])
def test_critical_problem_of_an_output(whose: str, passed: bool) -> None:
    """What only the baseline's output has is in the log and does not speak against the candidate."""
    report = result("pairs", ["better"], ["better"], problems={"p0": ("unsafe", "critical", whose)})

    assert passed is report.passed
    assert [whose] == [problem.whose for problem in report.problems]
    assert ("1 problems of the baseline" in told(report)) is passed


def test_unnamed_baseline() -> None:
    """What the candidate was compared with is unrecorded: a caveat."""
    report = result("pairs", ["better"], ["better"], baseline_name=None)

    assert (["baseline_unnamed"], True) == (codes(report), report.passed)


LABELS = st.lists(
    st.tuples(*[st.sampled_from(["better", "same", "worse", None])] * 2), min_size=1, max_size=30
)


@given(LABELS)
@settings(max_examples=60, deadline=None)
def test_numbers_belong_together(given_labels: list[tuple[str | None, str | None]]) -> None:
    """Whatever is said: counts add up, shares lie in their intervals, nothing is scored twice or lost."""
    first, second = ([pair[who] for pair in given_labels] for who in (0, 1))
    report = result("pairs", first, second)
    answers = [label for label in (*first, *second) if label is not None]

    assert len(answers) == report.answers == sum(report.points.values())
    assert len(first) + len(second) == report.answers + len(report.skipped)
    assert report.scored == sum(any(pair) for pair in given_labels)
    assert report.scored == (report.wins or 0) + (report.ties or 0) + (report.losses or 0)
    assert report.both_scored == sum(all(pair) for pair in given_labels)
    if report.win_rate is not None and report.win_low is not None and report.win_high is not None:
        assert 0 <= report.win_low <= report.win_rate <= report.win_high <= 1
    if report.agreement is not None:
        equal = sum(a == b is not None for a, b in given_labels if a and b)
        assert report.agreement == equal / report.both_scored
        assert len(report.disagreements) == report.both_scored - equal
