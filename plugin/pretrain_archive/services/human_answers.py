"""Read a reviewer's answers to a page of outputs. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pretrain_archive.domain.human_texts import PROBLEMS, SEVERITIES, WHOSE
from pretrain_archive.domain.kinds import HumanEvaluationSampled, OutputSampled
from pretrain_archive.gates.judging import Answer
from pretrain_archive.services.human_form import SCORE, SKIP, SUBMIT, items_of, scores
from pretrain_archive.services.review_answers import MOST_NOTE, is_note

Outcome = Literal["win", "tie", "loss"]
Fault = tuple[Literal["invalid", "contradictory"], str]


def content_fault(sampled: HumanEvaluationSampled, page: int, reviewer: int, answer: Answer) -> Fault | None:
    """Why the content of an answer does not count, or None: every item is answered, and no answer denies itself."""
    if answer.option != SUBMIT:
        return "invalid", f"the answer must be {SUBMIT}, got {answer.option[:40]!r}"
    for number, item in enumerate(items_of(sampled, page), 1):
        if (fault := _fault(sampled, item, number, reviewer, answer)) is not None:
            return fault
    return None


def _fault(
    sampled: HumanEvaluationSampled, item: OutputSampled, number: int, reviewer: int, answer: Answer
) -> Fault | None:
    names = ("score", "problem", "severity", "whose", "note")
    code, problem, severity, whose, note = (answer.values.get(f"{name}_{number:02}") for name in names)
    where = f"item {number} of the page"
    if not isinstance(code, str) or code not in scores(sampled):
        return "invalid", f"{where} is not answered"
    if not (_known(problem, PROBLEMS) and _known(severity, SEVERITIES) and _known(whose, WHOSE)):
        return "invalid", f"{where} names an unknown problem, severity or output"
    if note is not None and not is_note(note):
        return "invalid", f"the note on {where} is no text of at most {MOST_NOTE} characters"
    if not str(note or "").strip() and (code == SKIP or problem is not None):
        return "invalid", f"{where} is skipped or has a problem, and needs a note that says why"
    label = label_of(sampled, item, reviewer, code)
    if sampled.mode == "pairs" and (problem is None) != (whose is None):
        return "contradictory", f"{where} has a problem of no output, or names an output without a problem"
    against = _contradiction(sampled, item, label, problem=problem, severity=severity)
    return ("contradictory", f"{where} {against}") if against else None


def _contradiction(
    sampled: HumanEvaluationSampled,
    item: OutputSampled,
    label: str | None,
    *,
    problem: object,
    severity: object,
) -> str:
    """What in an answer denies the rest of it; empty if nothing does."""
    if (problem is None) != (severity is None):
        return "has a problem without a severity, or a severity without a problem"
    if item.identical and label is not None and outcome_of(sampled, label) != "tie":
        return "shows the same output twice, and one of them is preferred"
    if severity == "critical" and sampled.mode == "single" and label == sampled.scale[0].label:
        return "has the best score and a critical problem"
    return ""


def label_of(sampled: HumanEvaluationSampled, item: OutputSampled, reviewer: int, code: str) -> str | None:
    """The point of the scale from the candidate's side; None for an item that was skipped."""
    if code == SKIP:
        return None
    label = code.removeprefix(SCORE)
    if sampled.mode == "single" or item.candidate_first[reviewer - 1]:
        return label
    labels = [point.label for point in sampled.scale]
    return labels[len(labels) - 1 - labels.index(label)]


def outcome_of(sampled: HumanEvaluationSampled, label: str) -> Outcome:
    """What a label in pairs means for the candidate: the first half of the scale wins, its middle is a tie."""
    place = 2 * [point.label for point in sampled.scale].index(label)
    middle = len(sampled.scale) - 1
    return "win" if place < middle else "loss" if place > middle else "tie"


def read_answers(
    sampled: HumanEvaluationSampled, page: int, reviewer: int, answer: Answer
) -> list[dict[str, object]]:
    """The answers of a page as payloads of :class:`HumanAnswer`; the answer has no :func:`content_fault`."""
    made: list[dict[str, object]] = []
    pairs = sampled.mode == "pairs"
    for number, item in enumerate(items_of(sampled, page), 1):
        label = label_of(sampled, item, reviewer, str(answer.values[f"score_{number:02}"]))
        made.append({
            "digest": item.digest, "line": item.line, "item_id": item.item_id, "label": label,
            "outcome": outcome_of(sampled, label) if pairs and label is not None else "",
            "candidate_first": item.candidate_first[reviewer - 1] if pairs else None,
            "problem": answer.values.get(f"problem_{number:02}"),
            "severity": answer.values.get(f"severity_{number:02}"),
            "whose": _whose(item, reviewer, answer.values.get(f"whose_{number:02}")) if pairs else None,
            "note": str(answer.values.get(f"note_{number:02}") or "").strip(),
        })  # fmt: skip
    return made


def _whose(item: OutputSampled, reviewer: int, code: object) -> str | None:
    """Whose output A or B is, by the order that was drawn."""
    if code is None or code == "both":
        return code
    return "candidate" if (code == "A") is item.candidate_first[reviewer - 1] else "baseline"


def _known(code: object, codes: Mapping[str, object]) -> bool:
    return code is None or (isinstance(code, str) and code in codes)
