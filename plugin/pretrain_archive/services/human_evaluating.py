"""Human evaluation: draw the sample, put its pages to reviewers, take answers, sum up (R118).

An answer counts by the rules of a gate's answer: a named reviewer gave it, signed in, in time, to exactly the page
that stands now, complete and without denying itself. Of the answers to a page the newest counts; no answer in time
is recorded and never a score. Reviewers are those that the run's recorded policy names, without who triggered the
run under separation of duties.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pretrain_archive.domain.errors import InputError, RefusedError, StreamMovedError
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import (
    HumanAnswerRefused,
    HumanEvaluationReported,
    HumanEvaluationSampled,
    HumanPageAnswered,
    Payload,
)
from pretrain_archive.domain.policy_human import HumanEvaluation
from pretrain_archive.domain.records import Actor, Draft, Edge, Relation
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.form import GateForm
from pretrain_archive.gates.judging import Answer, unsigned
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.ledger.proving import sealed_faults
from pretrain_archive.ledger.rows import VERIFY_HINT
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.human_answers import content_fault, read_answers
from pretrain_archive.services.human_files import kept_items
from pretrain_archive.services.human_form import build_page, items_of, page_digest, pages_of
from pretrain_archive.services.human_sample import sample_of
from pretrain_archive.services.human_state import (
    answers_of,
    entitled,
    evaluation_ref,
    may_answer,
    rules_of,
    sample_now,
    subject_of,
)
from pretrain_archive.services.human_summary import summary
from pretrain_archive.services.runs import opened_of, policy_of, run_of
from pretrain_archive.storage.port import ObjectStore

JUDGED_AGAIN: Final = 5


@dataclass(frozen=True, kw_only=True)
class OutputAsk:
    """A page that is put: its form, who may answer (name, id) and how long; ``answered`` if it already is."""

    form: GateForm
    people: tuple[tuple[str, str], ...]
    deadline_seconds: float
    answered: HumanPageAnswered | None = None


def asked_for(ledger: Ledger, caller: Caller, run_uid: str) -> HumanEvaluation | None:
    """The policy's section on human evaluation as the run recorded it; None where it asks for none."""
    return policy_of(run_of(ledger, caller, run_uid)).human_evaluation


def draw_outputs(ledger: Ledger, store: ObjectStore, caller: Caller, run_uid: str) -> HumanEvaluationSampled:
    """Draw the sample of the candidate's outputs and record it; drawn again it is the same and recorded once."""
    view = run_of(ledger, caller, run_uid)
    rules = rules_of(view)
    people = entitled(policy_of(view), rules, opened_of(view).submitter)
    if len(people) < rules.wanted:
        raise RefusedError(
            f"{rules.wanted} reviewers are wanted and {len(people)} may answer, without who triggered the run",
            hint="Name more reviewers under [human_evaluation] in the project's policy, then trigger a new run.",
        )
    sampled = sample_of(store, view, subject_of(view), rules, people)
    known = view.latest(HumanEvaluationSampled)
    if known == sampled:
        return known
    this = evaluation_ref(sampled)
    edges = (
        Edge(subject=this, relation=Relation.USED, object=Ref(type="checkpoint", id=sampled.checkpoint_id)),
        Edge(subject=this, relation=Relation.WAS_DERIVED_FROM, object=Ref(type="sample", id=sampled.source_digest)),
        Edge(subject=this, relation=Relation.WAS_GENERATED_BY, object=Ref(type="run", id=run_uid)),
    )  # fmt: skip
    _append(ledger, view, caller, sampled, "human_evaluation.sampled", edges=edges)
    return sampled


def ask_outputs(
    ledger: Ledger, store: ObjectStore, caller: Caller, run_uid: str, *, page: int, reviewer: int
) -> OutputAsk:
    """The question of a page to one of the reviewers; ``RefusedError`` if nobody is left to ask."""
    view = run_of(ledger, caller, run_uid)
    sampled, policy = sample_now(view), policy_of(view)
    if not (1 <= page <= pages_of(sampled) and 1 <= reviewer <= sampled.wanted):
        raise InputError(
            "page", page, f"reviewer {reviewer} has no such page: {pages_of(sampled)} of {sampled.wanted} reviewers"
        )  # fmt: skip
    people = may_answer(view, sampled, page, reviewer)
    if not people:
        raise RefusedError(
            f"nobody is left to be reviewer {reviewer}", hint="Name more reviewers in the policy."
        )
    texts = {item.digest: item for item in kept_items(store, run_uid, sampled.items_digest)}
    if missing := [item.digest for item in items_of(sampled, page) if item.digest not in texts]:
        raise InputError("items", missing[0], "is not among the kept items")
    return OutputAsk(
        form=build_page(sampled, page=page, reviewer=reviewer, language=policy.language, texts=texts),
        people=tuple((name, policy.gates.user_ids.get(name, name)) for name in people),
        deadline_seconds=policy.gates.deadline_hours * 3600,
        answered=answers_of(view, sampled).get((reviewer, page)),
    )


def take_outputs(
    ledger: Ledger, caller: Caller, run_uid: str, *, page: int, reviewer: int, answer: Answer
) -> HumanPageAnswered | HumanAnswerRefused:
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
) -> HumanPageAnswered | HumanAnswerRefused:
    page, reviewer = asked
    view = run_of(ledger, caller, run_uid)
    _, changed = sealed_faults(ledger, view.records)
    if changed:
        raise RefusedError("no answer is taken on a changed log", reasons=tuple(changed), hint=VERIFY_HINT)
    sampled = sample_now(view)
    known = answers_of(view, sampled).get((reviewer, page))
    if known and (known.person_name, known.responded_at) == (answer.person_name, answer.responded_at):
        return known  # the same answer, taken again because its acknowledgement was lost
    fault = _fault(view, sampled, page, reviewer, answer)
    kept: HumanPageAnswered | HumanAnswerRefused
    if fault is not None:
        kept = _refusal(sampled, page, reviewer, fault, answer)
        _append(ledger, view, caller, kept, "human_evaluation.refused")
    else:
        kept = _answered(sampled, page, reviewer, answer)
        person = Ref(type="person", id=kept.person_name)
        edge = Edge(subject=evaluation_ref(sampled), relation=Relation.WAS_ASSOCIATED_WITH, object=person)
        actor = Actor(type="person", name=kept.person_name)
        _append(ledger, view, caller, kept, "human_evaluation.answered", edges=(edge,), actor=actor)
    ledger.seal()
    return kept


def let_outputs_expire(
    ledger: Ledger, caller: Caller, run_uid: str, *, page: int, reviewer: int
) -> HumanAnswerRefused:
    """The deadline passed: recorded; the outputs stay without these scores."""
    view = run_of(ledger, caller, run_uid)
    late = ("timed_out", f"not answered within {policy_of(view).gates.deadline_hours:g} hours")
    kept = _refusal(sample_now(view), page, reviewer, late, None)
    _append(ledger, view, caller, kept, "human_evaluation.refused")
    ledger.seal()
    return kept


def report_outputs(ledger: Ledger, caller: Caller, run_uid: str) -> HumanEvaluationReported:
    """Record the result of a complete evaluation; ``RefusedError`` names the pages that are not answered."""
    view = run_of(ledger, caller, run_uid)
    sampled = sample_now(view)
    answers = answers_of(view, sampled)
    wanted = [(r, p) for r in range(1, sampled.wanted + 1) for p in range(1, pages_of(sampled) + 1)]
    missing = [f"page {p} of reviewer {r}" for r, p in wanted if (r, p) not in answers]
    if missing:
        raise RefusedError(f"{len(missing)} pages are not answered: {', '.join(missing[:5])}")
    made = summary(sampled, answers)
    if view.latest(HumanEvaluationReported) != made:
        this = evaluation_ref(sampled)
        people = [Ref(type="person", id=name) for name in made.reviewers]
        edges = (
            Edge(subject=Ref(type="run", id=run_uid), relation=Relation.USED, object=this),
            *(Edge(subject=this, relation=Relation.WAS_ATTRIBUTED_TO, object=person) for person in people),
        )
        _append(ledger, view, caller, made, "human_evaluation.reported", edges=edges)
    return made


def _fault(
    view: RunView, sampled: HumanEvaluationSampled, page: int, reviewer: int, answer: Answer
) -> tuple[str, str] | None:
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
    return content_fault(sampled, page, reviewer, answer)


def _answered(sampled: HumanEvaluationSampled, page: int, reviewer: int, answer: Answer) -> HumanPageAnswered:
    return HumanPageAnswered.model_validate({
        "sample_digest": sampled.sample_digest, "page_digest": page_digest(sampled, page, reviewer), "page": page,
        "reviewer": reviewer, "person_id": answer.person_id, "person_name": answer.person_name,
        "responded_at": answer.responded_at, "authentication": answer.authentication,
        "answers": read_answers(sampled, page, reviewer, answer),
    })  # fmt: skip


def _refusal(
    sampled: HumanEvaluationSampled, page: int, reviewer: int, fault: tuple[str, str], answer: Answer | None
) -> HumanAnswerRefused:
    return HumanAnswerRefused.model_validate({
        "sample_digest": sampled.sample_digest, "page": page, "reviewer": reviewer, "cause": fault[0],
        "detail": fault[1], "person_id": answer.person_id if answer else None,
        "person_name": answer.person_name if answer else None,
    })  # fmt: skip


def _append(
    ledger: Ledger, view: RunView, caller: Caller, payload: Payload, kind: str, *, edges: Iterable[Edge] = (),
    actor: Actor | None = None,
) -> None:  # fmt: skip
    """Append to the run's stream, behind everything that was read: what came between is judged again."""
    ordinal = sum(1 for r in view.records if r.origin == caller.origin and r.kind == kind)
    draft = Draft(
        stream=view.run_uid, kind=kind, payload=payload.to_json(), actor=actor or caller.actor,
        origin=caller.origin, attempt=view.attempts, ordinal=ordinal, edges=tuple(edges), follows=view.newest,
    )  # fmt: skip
    ledger.append([draft])
