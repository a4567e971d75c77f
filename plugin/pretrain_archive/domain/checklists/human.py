"""Items of the close gate about the evaluation by persons, shown where the policy asks for one (R118)."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.candidates import chosen_candidate
from pretrain_archive.domain.checklists.common import item, last, short
from pretrain_archive.domain.human_texts import CAVEATS, flag_code, told
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item

Reported = tuple[Record | None, kinds.HumanEvaluationReported | None]


def human_evaluation(view: RunView, policy: Policy) -> Item | None:
    """Persons read outputs of exactly the candidate, and nothing speaks against their numbers; None if not asked."""
    if policy.human_evaluation is None:
        return None
    sample_record, sampled = last(view, kinds.HumanEvaluationSampled)
    record, report = report_of(view, sampled)
    chosen = chosen_candidate(view)
    holds: bool | None = None
    found = ""
    if sampled is not None and report is not None:
        about = chosen is None or chosen[1].checkpoint_digest == report.checkpoint_digest
        later = answered_after(view, sampled, record)
        holds = report.passed and about and not later
        found = told(report) if about else f"it is about {short(report.checkpoint_digest)}, not the candidate"
        found += f"; {later} pages were answered after it was summed up" if later else ""
    return item(
        "close.human_evaluation",
        "artifact",
        evidence=(sample_record, record, chosen[0] if chosen else None),
        holds=holds,
        found=found,
        expected=expected(policy),
        check="named reviewers read a recorded sample of the candidate's outputs; nothing speaks against it",
        blocking=False,
        owner=policy.people.acceptance,
        requirement="R118",
        hint="Answer the questions of the human evaluation; without it nothing can be registered.",
    )


def human_caveats(view: RunView, policy: Policy) -> Item | None:
    """What weakens an evaluation by persons without overturning it: seen, and acknowledged by name."""
    if policy.human_evaluation is None:
        return None
    _, sampled = last(view, kinds.HumanEvaluationSampled)
    record, report = report_of(view, sampled)
    caveats = [flag for flag in report.flags if flag_code(flag) in CAVEATS] if report else []
    if sampled is not None and (earlier := scored_before(view, sampled)):
        caveats.append(
            f"sampled_again: {earlier} other samples of this checkpoint were scored before this one"
        )
    return item(
        "close.human_caveats",
        "artifact",
        evidence=(record,),
        holds=None if report is None else not caveats,
        found="; ".join(caveats) if caveats else "two reviewers, a limit; the outputs are the checkpoint's",
        expected="two reviewers, a limit for the scores, outputs and baseline known, one sample",
        check="two persons scored the only sample, a limit decides, and who made the outputs is known",
        blocking=False,
        owner=policy.people.acceptance,
        requirement="R118",
        hint="Name two reviewers and a limit in the policy, and let the evaluation program write the outputs.",
    )


def report_of(view: RunView, sampled: kinds.HumanEvaluationSampled | None) -> Reported:
    """The newest report about this sample, with its record; two Nones if there is none."""
    found: Reported = (None, None)
    for record, report in view.all(kinds.HumanEvaluationReported):
        if sampled is not None and report.sample_digest == sampled.sample_digest:
            found = record, report
    return found


def answered_after(view: RunView, sampled: kinds.HumanEvaluationSampled, reported: Record | None) -> int:
    """How many pages of this sample were answered after the report, which therefore does not tell them."""
    return sum(
        reported is not None and record.position > reported.position
        for record, answer in view.all(kinds.HumanPageAnswered)
        if answer.sample_digest == sampled.sample_digest
    )


def scored_before(view: RunView, sampled: kinds.HumanEvaluationSampled) -> int:
    """How many other samples of the same checkpoint persons scored, wholly or in part: whoever draws again chooses."""
    about = {
        one.sample_digest
        for _, one in view.all(kinds.HumanEvaluationSampled)
        if one.checkpoint_digest == sampled.checkpoint_digest
    }
    scored = {answer.sample_digest for _, answer in view.all(kinds.HumanPageAnswered)}
    return len((about & scored) - {sampled.sample_digest})


def expected(policy: Policy) -> str:
    """What the policy demands, in one line."""
    rules = policy.human_evaluation
    if rules is None:
        return ""
    limits = [f"{rules.fewest} items", f"agreement of at least {rules.min_agreement:g}"]
    for name, limit in (
        ("kappa", rules.min_kappa),
        ("mean", rules.min_mean),
        ("win rate", rules.min_win_rate),
    ):
        limits += [f"{name} of at least {limit:g}"] if limit is not None else []
    return ", ".join(limits)
