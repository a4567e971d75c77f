"""What a run's records say of its human evaluation now: rules, subject, sample, answers, and who may answer. Pure."""

from __future__ import annotations

from pretrain_archive.domain.candidates import chosen_candidate
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import (
    CheckpointRegistered,
    EvaluationReported,
    HumanEvaluationSampled,
    HumanPageAnswered,
)
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.policy_human import HumanEvaluation
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.services.runs import policy_of


def rules_of(view: RunView) -> HumanEvaluation:
    """The policy's section; ``RefusedError`` where there is none."""
    rules = policy_of(view).human_evaluation
    if rules is None:
        raise RefusedError(
            f"the policy of run {view.run_uid} asks for no human evaluation",
            hint="Add [human_evaluation] to the project's policy, or leave out the task.",
        )
    return rules


def entitled(policy: Policy, rules: HumanEvaluation, submitter: str | None) -> tuple[str, ...]:
    """The named reviewers who may score: without the submitter, and nobody where the submitter is unknown."""
    apart = policy.gates.separation_of_duties == "required"
    if apart and not submitter:
        return ()
    return tuple(name for name in rules.reviewers if not (apart and name == submitter))


def subject_of(view: RunView) -> tuple[CheckpointRegistered, EvaluationReported | None]:
    """The checkpoint whose outputs are read, and the evaluation it was chosen by.

    It is the candidate's, or the one that was evaluated last where none is kept.
    """
    chosen = chosen_candidate(view)
    reports = [report for _, report in view.all(EvaluationReported)]
    if chosen is not None:
        named = chosen[1]
        reports = [report for report in reports if report.evaluation_id == named.evaluation_id]
        wanted = named.checkpoint_id
    elif reports:
        wanted = reports[-1].checkpoint_id
    else:
        raise RefusedError(
            f"run {view.run_uid} has no candidate and no evaluated checkpoint",
            hint="Run the task 'evaluate' first.",
        )
    found = [c for _, c in view.all(CheckpointRegistered) if c.checkpoint_id == wanted]
    if not found:
        raise RefusedError(f"checkpoint {wanted} of run {view.run_uid} is not registered")
    return found[-1], reports[-1] if reports else None


def sample_now(view: RunView) -> HumanEvaluationSampled:
    """The sample of the checkpoint that stands now; ``RefusedError`` if there is none, or it is of another one."""
    sampled = view.latest(HumanEvaluationSampled)
    if sampled is None or sampled.checkpoint_digest != subject_of(view)[0].digest:
        raise RefusedError(
            f"run {view.run_uid} has no sample of its candidate's outputs",
            hint="Run the task that draws it first.",
        )
    return sampled


def may_answer(view: RunView, sampled: HumanEvaluationSampled, page: int, reviewer: int) -> tuple[str, ...]:
    """Who may answer a page: who answered another page as this reviewer, else whoever is none of the others."""
    answers = answers_of(view, sampled)
    mine = {a.person_name for (r, p), a in answers.items() if r == reviewer and p != page}
    others = {a.person_name for (r, _), a in answers.items() if r != reviewer}
    return tuple(name for name in sampled.reviewers if name not in others and (not mine or name in mine))


def answers_of(view: RunView, sampled: HumanEvaluationSampled) -> dict[tuple[int, int], HumanPageAnswered]:
    """The newest answers of this sample by reviewer and page."""
    found = (a for _, a in view.all(HumanPageAnswered) if a.sample_digest == sampled.sample_digest)
    return {(answer.reviewer, answer.page): answer for answer in found}


def evaluation_ref(sampled: HumanEvaluationSampled) -> Ref:
    """``evaluation:human_…``: an evaluation like any other, which keeps no checkpoint alive."""
    return Ref(type="evaluation", id=f"human_{sampled.sample_digest[7:39]}")
