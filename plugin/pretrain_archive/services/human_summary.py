"""Sum up what reviewers said of a sample: counts, mean, win rate, agreement, problems, and what speaks against it.

Pure: no I/O. The item is the unit of every interval: two answers to one item are not two trials.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import mean, stdev
from typing import Any, Final

from pretrain_archive.artifacts.intervals import wilson
from pretrain_archive.domain.human_texts import CAVEATS, flag_code
from pretrain_archive.domain.kinds import (
    Disagreement,
    HumanAnswer,
    HumanEvaluationReported,
    HumanEvaluationSampled,
    HumanPageAnswered,
    ProblemFound,
    Skipped,
)
from pretrain_archive.services.review_answers import cohens_kappa

FEWEST_FOR_INTERVAL: Final = 10
"""Items below which no interval of a mean is told."""
CONFIDENCE: Final = 0.95
_STEPS: Final = 2000
_OUTCOMES: Final = {"win": 1, "tie": 0, "loss": -1}

Answers = Mapping[tuple[int, int], HumanPageAnswered]
Said = tuple[str, HumanAnswer]
"""Who said it, and what."""


def summary(sampled: HumanEvaluationSampled, answers: Answers) -> HumanEvaluationReported:
    """The result of an evaluation whose pages (by reviewer and page) are all answered."""
    by_reviewer = [_of(answers, reviewer) for reviewer in range(1, sampled.wanted + 1)]
    said = [one for one_reviewer in by_reviewer for one in one_reviewer]
    scored = [one for one in said if one[1].label is not None]
    by_item: dict[str, list[HumanAnswer]] = {}
    for _, one in scored:
        by_item.setdefault(one.digest, []).append(one)
    counts = Counter(str(one.label) for _, one in scored)
    told: dict[str, Any] = {
        "items": len(sampled.items), "scored": len(by_item), "answers": len(scored),
        "points": {point.label: counts[point.label] for point in sampled.scale},
        "skipped": [
            Skipped(digest=one.digest, line=one.line, note=one.note, by=who) for who, one in said if one.label is None
        ],
        "problems": _problems(said),
        **(_mean(sampled, by_item) if sampled.mode == "single" else _wins(by_item)),
        **_agreement(sampled, by_reviewer),
    }  # fmt: skip
    flags = _flags(sampled, told)
    return HumanEvaluationReported(
        sample_digest=sampled.sample_digest, checkpoint_id=sampled.checkpoint_id,
        checkpoint_digest=sampled.checkpoint_digest, mode=sampled.mode,
        reviewers=[answers[reviewer, 1].person_name for reviewer in range(1, sampled.wanted + 1)],
        flags=flags, passed=all(flag_code(flag) in CAVEATS for flag in flags), **told,
    )  # fmt: skip


def _of(answers: Answers, reviewer: int) -> list[Said]:
    """What one reviewer said, in the order of the sample."""
    pages = sorted(page for who, page in answers if who == reviewer)
    found = (answers[reviewer, page] for page in pages)
    return [(page.person_name, one) for page in found for one in page.answers]


def _problems(said: Sequence[Said]) -> list[ProblemFound]:
    return [
        ProblemFound(
            digest=one.digest, line=one.line, item_id=one.item_id, category=one.problem, severity=one.severity,
            whose=one.whose, note=one.note, by=who,
        )
        for who, one in said
        if one.problem is not None and one.severity is not None
    ]  # fmt: skip


def _mean(sampled: HumanEvaluationSampled, by_item: Mapping[str, Sequence[HumanAnswer]]) -> dict[str, Any]:
    """Mean over items, with Student's interval where counts allow; nothing where the scale has no values."""
    values = {point.label: point.value for point in sampled.scale if point.value is not None}
    if not values or not by_item:
        return {}
    scores = [mean(values[str(one.label)] for one in given) for given in by_item.values()]
    told: dict[str, Any] = {"mean": mean(scores)}
    if len(scores) >= FEWEST_FOR_INTERVAL and (spread := stdev(scores)) > 0:
        half = student_quantile(len(scores) - 1) * spread / math.sqrt(len(scores))
        # An interval beyond the ends of the scale would promise scores that nobody can give.
        told["mean_low"] = max(min(values.values()), told["mean"] - half)
        told["mean_high"] = min(max(values.values()), told["mean"] + half)
    return told


def _wins(by_item: Mapping[str, Sequence[HumanAnswer]]) -> dict[str, Any]:
    """Items won, tied and lost by the sum of their answers; the rate is of those that are decided."""
    sums = [sum(_OUTCOMES[one.outcome or "tie"] for one in given) for given in by_item.values()]
    wins, losses = sum(total > 0 for total in sums), sum(total < 0 for total in sums)
    told: dict[str, Any] = {"wins": wins, "losses": losses, "ties": len(sums) - wins - losses}
    if decided := wins + losses:
        low, high = wilson(wins / decided, decided, confidence=CONFIDENCE)
        told |= {"win_rate": wins / decided, "win_low": low, "win_high": high}
    return told


def _agreement(sampled: HumanEvaluationSampled, by_reviewer: Sequence[Sequence[Said]]) -> dict[str, Any]:
    """Raw agreement and Cohen's kappa over what the first two reviewers both scored."""
    if len(by_reviewer) < 2:
        return {}
    (first, second) = by_reviewer[:2]
    both = [
        (left, right)
        for left, right in zip(first, second, strict=True)
        if left[1].label is not None and right[1].label is not None
    ]
    if not both:
        return {"both_scored": 0}
    pairs = [(str(left.label), str(right.label)) for (_, left), (_, right) in both]
    labels = [point.label for point in sampled.scale]
    apart = [
        Disagreement(
            digest=left.digest, line=left.line, labels={who: str(left.label), other: str(right.label)},
            opposite=_opposite(labels, str(left.label), str(right.label)),
        )
        for (who, left), (other, right) in both
        if left.label != right.label
    ]  # fmt: skip
    return {
        "both_scored": len(both),
        "agreement": sum(left == right for left, right in pairs) / len(pairs),
        "kappa": cohens_kappa([left for left, _ in pairs], [right for _, right in pairs]),
        "disagreements": apart,
    }


def _opposite(labels: Sequence[str], left: str, right: str) -> bool:
    """Whether two points lie on different sides of the scale's middle."""
    middle = len(labels) - 1
    a, b = 2 * labels.index(left) - middle, 2 * labels.index(right) - middle
    return a * b < 0


def _flags(sampled: HumanEvaluationSampled, told: Mapping[str, Any]) -> list[str]:
    """Everything that speaks against the numbers, as ``code: detail``."""
    flags = []
    if told["scored"] < sampled.fewest:
        flags.append(f"too_few_answers: {told['scored']} items have a score, {sampled.fewest} are wanted")
    critical = sum(one.severity == "critical" and one.of_candidate for one in told["problems"])
    if critical > sampled.most_critical:
        flags.append(f"critical_problems: {critical}, at most {sampled.most_critical} are allowed")
    flags += _below("mean", told.get("mean"), sampled.min_mean)
    flags += _below("win_rate", told.get("win_rate"), sampled.min_win_rate)
    if sampled.wanted < 2:
        flags.append("one_reviewer_only: nobody can say whether another person would judge alike")
    else:
        flags += _below("agreement", told.get("agreement"), sampled.min_agreement)
        flags += _below("kappa", told.get("kappa"), sampled.min_kappa)
    if (sampled.min_mean if sampled.mode == "single" else sampled.min_win_rate) is None:
        flags.append("no_threshold: the policy sets no limit for the scores, so that any would do")
    if sampled.subject == "unproven":
        flags.append("subject_unproven: the file does not say which checkpoint made the outputs")
    if sampled.mode == "pairs" and sampled.baseline_name is None:
        flags.append("baseline_unnamed: what the candidate was compared with is unrecorded")
    return flags


def _below(name: str, value: float | None, limit: float | None) -> list[str]:
    if limit is None:
        return []
    if value is None:
        return [f"{name}_unrecorded: no value, at least {limit:g} is wanted"]
    return [f"{name}_below: {value:.3f}, at least {limit:g} is wanted"] if value < limit else []


@cache
def student_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The two-sided quantile of Student's t with ``freedom`` degrees, to about 1e-6.

    "Student", "The probable error of a mean", Biometrika 6 (1908). The density is integrated from 0 by Simpson's
    rule; the half-mass is inverted by bisection. Raises ``ValueError`` for no degree of freedom.
    """
    if freedom < 1 or not 0 < confidence < 1:
        raise ValueError(f"expected at least one degree of freedom, got {freedom}")
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)

    def mass(upper: float) -> float:
        width = upper / _STEPS
        total = 0.0
        for step in range(_STEPS + 1):
            weight = 1 if step in {0, _STEPS} else 4 if step % 2 else 2
            total += weight * (1 + (step * width) ** 2 / freedom) ** (-(freedom + 1) / 2)
        return scale * total * width / 3

    low, high = 0.0, 20.0 if freedom > 1 else 200.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if mass(middle) < confidence / 2 else (low, middle)
    return (low + high) / 2
