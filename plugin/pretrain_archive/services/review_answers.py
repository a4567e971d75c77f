"""Read a reviewer's answers to a page, and sum up a whole review. Pure: no I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from pretrain_archive.domain.kinds import ItemAnswer, LabelPageAnswered, LabelsReviewed, LabelsSampled
from pretrain_archive.gates.judging import Answer, Fault
from pretrain_archive.services.review_form import SUBMIT, choices, items_of

MOST_NOTE: Final = 1000
"""Characters of a note."""


def content_fault(sampled: LabelsSampled, page: int, answer: Answer) -> Fault | None:
    """Why the content of an answer does not count, or None: every document is answered, objections say why."""
    if answer.option != SUBMIT:
        return "invalid", f"the answer must be {SUBMIT}, got {answer.option[:40]!r}"
    for number, item in enumerate(items_of(sampled, page), 1):
        code, note = answer.values.get(f"answer_{number:02}"), answer.values.get(f"note_{number:02}")
        if not isinstance(code, str) or code not in choices(sampled, item):
            return "invalid", f"document {number} of the page is not answered"
        if note is not None and not is_note(note):
            return "invalid", f"the note on document {number} is no text of at most {MOST_NOTE} characters"
        if code in ("wrong", "problem") and not (note and str(note).strip()):
            return "invalid", f"document {number} of the page needs a note that says what is wrong"
    return None


def read_answers(sampled: LabelsSampled, page: int, answer: Answer) -> list[dict[str, object]]:
    """The answers of a page as payloads of :class:`ItemAnswer`; the answer has no :func:`content_fault`."""
    made: list[dict[str, object]] = []
    for number, item in enumerate(items_of(sampled, page), 1):
        code, _, label = str(answer.values[f"answer_{number:02}"]).partition(":")
        note = answer.values.get(f"note_{number:02}")
        made.append({
            "digest": item.digest, "path": item.path, "line": item.line, "given": item.label, "answer": code,
            "label": label or None, "note": str(note or "").strip(),
        })  # fmt: skip
    return made


def summary(sampled: LabelsSampled, answers: Mapping[tuple[int, int], LabelPageAnswered]) -> LabelsReviewed:
    """The result of a review whose pages (by reviewer and page) are all answered."""
    by_reviewer = [
        [one for _, page in sorted(answers.items()) if page.reviewer == reviewer for one in page.answers]
        for reviewer in range(1, sampled.wanted + 1)
    ]
    everything = [one for answered in by_reviewer for one in answered]
    counts = Counter(one.answer for one in everything)
    given, agreed = (
        Counter(one.given for one in everything),
        Counter(one.given for one in everything if one.answer == "agree"),
    )
    agreement = counts["agree"] / len(everything)
    people = [answers[reviewer, 1].person_name for reviewer in range(1, sampled.wanted + 1)]
    return LabelsReviewed(
        snapshot=sampled.snapshot,
        sample_digest=sampled.sample_digest,
        definition_digest=sampled.definition_digest,
        reviewers=people,
        items=len(sampled.items),
        answers=len(everything),
        agreed=counts["agree"],
        wrong=counts["wrong"],
        problems=counts["problem"],
        agreement=agreement,
        agreement_by_label={label: agreed[label] / count for label, count in sorted(given.items())},
        kappa=_kappa_of(by_reviewer),
        min_agreement=sampled.min_agreement,
        passed=agreement >= sampled.min_agreement,
        objections=[one for one in everything if one.answer != "agree"],
    )


def cohens_kappa(left: Sequence[str], right: Sequence[str]) -> float | None:
    """Agreement of two raters beyond chance: (p_o - p_e) / (1 - p_e), p_e by each rater's own frequencies.

    Cohen 1960, "A coefficient of agreement for nominal scales", Educational and Psychological Measurement 20(1).
    None where chance alone would always agree (both use one category), or there is nothing rated.
    """
    if not left or len(left) != len(right):
        return None
    number = len(left)
    observed = sum(a == b for a, b in zip(left, right, strict=True)) / number
    a, b = Counter(left), Counter(right)
    expected = sum(a[category] * b[category] for category in a) / number**2
    return None if expected == 1 else (observed - expected) / (1 - expected)


def _kappa_of(by_reviewer: Sequence[Sequence[ItemAnswer]]) -> float | None:
    if len(by_reviewer) < 2:
        return None
    first, second = ([_category(one) for one in answered] for answered in by_reviewer[:2])
    return cohens_kappa(first, second)


def _category(one: ItemAnswer) -> str:
    """The label that a reviewer would give, or that there is none to give."""
    if one.answer == "agree":
        return f"label {one.given}"
    return f"label {one.label}" if one.label else one.answer


def is_note(note: object) -> bool:
    """Whether what came back for a note is text of at most :data:`MOST_NOTE` characters that can be stored."""
    if not isinstance(note, str) or len(note) > MOST_NOTE or "\0" in note:
        return False
    try:
        note.encode()
    except UnicodeEncodeError:
        return False
    return True
