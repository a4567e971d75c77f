"""The sampled review of labels: draw the sample, put its pages to reviewers, take answers, sum up.

An answer counts by the rules of a gate's answer: a person gave it, who is entitled, to exactly the page that
stands now, complete. Of the answers to a page the newest counts; no answer in time is recorded and never a yes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pretrain_archive import config
from pretrain_archive.domain.errors import InputError, RefusedError, StreamMovedError
from pretrain_archive.domain.gates import eligible_people
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import (
    LabelAnswerRefused,
    LabelPageAnswered,
    LabelsReviewed,
    LabelsSampled,
    Payload,
)
from pretrain_archive.domain.policy import LabelReview, Labels
from pretrain_archive.domain.records import Actor, Draft, Edge, Record, Relation
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.form import GateForm
from pretrain_archive.gates.judging import Answer, Fault, unsigned
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.ledger.proving import sealed_faults
from pretrain_archive.ledger.rows import VERIFY_HINT
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.processing import content
from pretrain_archive.services.review_answers import content_fault, read_answers, summary
from pretrain_archive.services.review_form import build_page, items_of, page_digest, pages_of
from pretrain_archive.services.review_sample import excerpts_of, sample_of
from pretrain_archive.services.runs import opened_of, policy_of, run_of, snapshot_of
from pretrain_archive.storage.port import ObjectStore

JUDGED_AGAIN: Final = 5


@dataclass(frozen=True, kw_only=True)
class PageAsk:
    """A page that is put: its form, who may answer (name, id) and how long; ``answered`` if it already is."""

    form: GateForm
    people: tuple[tuple[str, str], ...]
    deadline_seconds: float
    answered: LabelPageAnswered | None = None


def review_rules(view: RunView) -> tuple[Labels, LabelReview]:
    """The policy's section on labels; ``RefusedError`` where it asks for no review."""
    labels = policy_of(view).data.labels
    if labels is None or labels.review is None:
        raise RefusedError(
            f"the policy of run {view.run_uid} asks for no review of labels",
            hint="Add [data.labels.review] to the project's policy, or leave out the task.",
        )
    return labels, labels.review


def draw_sample(ledger: Ledger, store: ObjectStore, caller: Caller, run_uid: str) -> LabelsSampled:
    """Draw the sample of the run's snapshot and record it; drawn again it is the same and recorded once."""
    view = run_of(ledger, caller, run_uid)
    labels, review = review_rules(view)
    policy = policy_of(view)
    people = eligible_people(policy, "label_reviewers", opened_of(view).submitter)
    if len(people) < review.reviewers:
        raise RefusedError(
            f"{review.reviewers} reviewers are wanted and {len(people)} may answer, without who triggered the run",
            hint="Name more label_reviewers in the project's policy, then trigger a new run.",
        )
    snapshot = snapshot_of(view)
    with content(store, snapshot, caller) as (place, shown):
        sampled = sample_of(
            place, shown, labels, review, people,
            folder=config.policies_folder(), text_field=policy.data.quality.text_field,
        )  # fmt: skip
    known = view.latest(LabelsSampled)
    if known == sampled:
        return known
    subject = sample_ref(sampled)
    edges = (
        Edge(
            subject=subject,
            relation=Relation.WAS_DERIVED_FROM,
            object=Ref(type="snapshot", id=snapshot.name, version=str(snapshot.version)),
        ),
        Edge(subject=Ref(type="run", id=run_uid), relation=Relation.USED, object=subject),
    )
    _append(ledger, view, caller, sampled, "labels.sampled", edges=edges)
    return sampled


def ask_page(
    ledger: Ledger, store: ObjectStore, caller: Caller, run_uid: str, *, page: int, reviewer: int
) -> PageAsk:
    """The question of a page to one of the reviewers; ``RefusedError`` if there is no such page or nobody to ask."""
    view = run_of(ledger, caller, run_uid)
    _, review = review_rules(view)
    sampled = sample_now(view)
    if not (1 <= page <= pages_of(sampled) and 1 <= reviewer <= sampled.wanted):
        raise InputError(
            "page",
            page,
            f"reviewer {reviewer} has no such page: {pages_of(sampled)} of {sampled.wanted} reviewers",
        )
    people = may_answer(view, sampled, page, reviewer)
    if not people:
        raise RefusedError(f"nobody is left to be reviewer {reviewer}", hint="Name more label_reviewers.")
    policy = policy_of(view)
    excerpts = None
    if review.show == "excerpt":
        with content(store, snapshot_of(view), caller) as (place, shown):
            excerpts = excerpts_of(
                place, shown, items_of(sampled, page), field=policy.data.quality.text_field
            )
    return PageAsk(
        form=build_page(sampled, page=page, reviewer=reviewer, language=policy.language, excerpts=excerpts),
        people=tuple((name, policy.gates.user_ids.get(name, name)) for name in people),
        deadline_seconds=policy.gates.deadline_hours * 3600,
        answered=_answers(view, sampled).get((reviewer, page)),
    )


def take_page(
    ledger: Ledger, caller: Caller, run_uid: str, *, page: int, reviewer: int, answer: Answer
) -> LabelPageAnswered | LabelAnswerRefused:
    """Judge and record an answer to a page: the answers, or why it does not count.

    Pages are answered side by side, so another one may be recorded between reading and writing: then the answer
    is judged again, a few times.
    """
    for _ in range(JUDGED_AGAIN):
        try:
            return _take(ledger, caller, run_uid, (page, reviewer), answer)
        except StreamMovedError:
            continue
    return _take(ledger, caller, run_uid, (page, reviewer), answer)


def _take(
    ledger: Ledger, caller: Caller, run_uid: str, asked: tuple[int, int], answer: Answer
) -> LabelPageAnswered | LabelAnswerRefused:
    page, reviewer = asked
    view = run_of(ledger, caller, run_uid)
    _, changed = sealed_faults(ledger, view.records)
    if changed:
        raise RefusedError("no answer is taken on a changed log", reasons=tuple(changed), hint=VERIFY_HINT)
    sampled = sample_now(view)
    known = _answers(view, sampled).get((reviewer, page))
    if known and (known.person_name, known.responded_at) == (answer.person_name, answer.responded_at):
        return known  # the same answer, taken again because its acknowledgement was lost
    fault = _fault(view, sampled, page, reviewer, answer)
    kept: LabelPageAnswered | LabelAnswerRefused
    if fault is not None:
        kept = _refusal(sampled, page, reviewer, fault, answer)
        _append(ledger, view, caller, kept, "labels.refused")
    else:
        kept = _answered(sampled, page, reviewer, answer)
        person = Ref(type="person", id=kept.person_name)
        edge = Edge(subject=sample_ref(sampled), relation=Relation.WAS_ASSOCIATED_WITH, object=person)
        actor = Actor(type="person", name=kept.person_name)
        _append(ledger, view, caller, kept, "labels.answered", edges=(edge,), actor=actor)
    ledger.seal()
    return kept


def let_page_expire(
    ledger: Ledger, caller: Caller, run_uid: str, *, page: int, reviewer: int
) -> LabelAnswerRefused:
    """The deadline passed: recorded; the labels stay unreviewed."""
    view = run_of(ledger, caller, run_uid)
    late: Fault = ("timed_out", f"not answered within {policy_of(view).gates.deadline_hours:g} hours")
    kept = _refusal(sample_now(view), page, reviewer, late, None)
    _append(ledger, view, caller, kept, "labels.refused")
    ledger.seal()
    return kept


def sum_up(ledger: Ledger, caller: Caller, run_uid: str) -> LabelsReviewed:
    """Record the result of a complete review; ``RefusedError`` names the pages that are not answered."""
    view = run_of(ledger, caller, run_uid)
    sampled = sample_now(view)
    answers = _answers(view, sampled)
    wanted = [(r, p) for r in range(1, sampled.wanted + 1) for p in range(1, pages_of(sampled) + 1)]
    missing = [f"page {p} of reviewer {r}" for r, p in wanted if (r, p) not in answers]
    if missing:
        raise RefusedError(f"{len(missing)} pages are not answered: {', '.join(missing[:5])}")
    made = summary(sampled, answers)
    if view.latest(LabelsReviewed) != made:
        subject = Ref(type="review", id=made.sample_digest)
        people = [Ref(type="person", id=name) for name in made.reviewers]
        edges = (
            Edge(subject=subject, relation=Relation.WAS_DERIVED_FROM, object=sample_ref(sampled)),
            Edge(subject=Ref(type="run", id=run_uid), relation=Relation.USED, object=subject),
            *(Edge(subject=subject, relation=Relation.WAS_ATTRIBUTED_TO, object=person) for person in people),
        )
        _append(ledger, view, caller, made, "labels.reviewed", edges=edges)
    return made


def sample_now(view: RunView) -> LabelsSampled:
    """The sample of the run's snapshot; ``RefusedError`` if there is none, or it is of an earlier snapshot."""
    sampled, snapshot = view.latest(LabelsSampled), snapshot_of(view)
    if sampled is None or sampled.snapshot != f"{snapshot.name}@{snapshot.version}":
        raise RefusedError(
            f"run {view.run_uid} has no sample of its snapshot's labels",
            hint="Run the task that draws it first.",
        )
    return sampled


def may_answer(view: RunView, sampled: LabelsSampled, page: int, reviewer: int) -> tuple[str, ...]:
    """Who may answer a page: who answered another page as this reviewer, else whoever is none of the others."""
    answers = _answers(view, sampled)
    mine = {a.person_name for (r, p), a in answers.items() if r == reviewer and p != page}
    others = {a.person_name for (r, _), a in answers.items() if r != reviewer}
    return tuple(name for name in sampled.reviewers if name not in others and (not mine or name in mine))


def sample_ref(sampled: LabelsSampled) -> Ref:
    """``sample:DIGEST``."""
    return Ref(type="sample", id=sampled.sample_digest)


def _answers(view: RunView, sampled: LabelsSampled) -> dict[tuple[int, int], LabelPageAnswered]:
    """The newest answers of this sample by reviewer and page."""
    found = (a for _, a in view.all(LabelPageAnswered) if a.sample_digest == sampled.sample_digest)
    return {(answer.reviewer, answer.page): answer for answer in found}


def _fault(view: RunView, sampled: LabelsSampled, page: int, reviewer: int, answer: Answer) -> Fault | None:
    """Why an answer does not count, or None."""
    if (fault := unsigned(answer, datetime.now(UTC))) is not None:
        return fault
    allowed = may_answer(view, sampled, page, reviewer)
    if answer.person_name not in allowed:
        return "not_entitled", f"{answer.person_name} may not answer; {', '.join(allowed) or 'nobody'} may"
    known = policy_of(view).gates.user_ids.get(str(answer.person_name))
    if known is not None and known != answer.person_id:
        return "not_entitled", f"{answer.person_name} has id {answer.person_id!r}, the policy says {known!r}"
    if answer.values.get("page_digest") != page_digest(sampled, page, reviewer):
        return "stale", "the question was for another sample or page"
    return content_fault(sampled, page, answer)


def _answered(sampled: LabelsSampled, page: int, reviewer: int, answer: Answer) -> LabelPageAnswered:
    return LabelPageAnswered.model_validate({
        "sample_digest": sampled.sample_digest, "page": page, "reviewer": reviewer,
        "person_id": answer.person_id, "person_name": answer.person_name, "responded_at": answer.responded_at,
        "authentication": answer.authentication, "answers": read_answers(sampled, page, answer),
    })  # fmt: skip


def _refusal(
    sampled: LabelsSampled, page: int, reviewer: int, fault: Fault, answer: Answer | None
) -> LabelAnswerRefused:
    return LabelAnswerRefused.model_validate({
        "sample_digest": sampled.sample_digest, "page": page, "reviewer": reviewer, "cause": fault[0],
        "detail": fault[1], "person_id": answer.person_id if answer else None,
        "person_name": answer.person_name if answer else None,
    })  # fmt: skip


def _append(
    ledger: Ledger, view: RunView, caller: Caller, payload: Payload, kind: str, *, edges: Iterable[Edge] = (),
    actor: Actor | None = None,
) -> Record:  # fmt: skip
    """Append to the run's stream, behind everything that was read: what came between is judged again."""
    ordinal = sum(1 for r in view.records if r.origin == caller.origin and r.kind == kind)
    draft = Draft(
        stream=view.run_uid, kind=kind, payload=payload.to_json(), actor=actor or caller.actor,
        origin=caller.origin, attempt=view.attempts, ordinal=ordinal, edges=tuple(edges), follows=view.newest,
    )  # fmt: skip
    return ledger.append([draft])[0]
