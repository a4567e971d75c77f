"""Which release of a run stands, and what was measured on exactly its bytes.

What was made under an approval that was taken back later was never handed over.
"""

from __future__ import annotations

from pretrain_archive.domain.candidates import named_candidates
from pretrain_archive.domain.kinds import (
    EvaluationReported,
    HumanEvaluationReported,
    ReleaseMade,
    RunClosed,
)
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView


def standing_release(view: RunView) -> tuple[Record, ReleaseMade] | None:
    """The run's release as its close gate left it.

    None where there is none, where the run was closed with another outcome than *register*, or where the newest
    decision, made since, says another one: the release was recorded, and the close that was to hand it over failed.
    """
    found = view.last(ReleaseMade)
    if found is None:
        return None
    closed, decision = view.latest(RunClosed), view.decision("close")
    if closed is not None:
        return found if closed.outcome == "register" else None
    since = decision is not None and decision[0].position > found[0].position
    return None if decision is not None and since and decision[1].outcome != "register" else found


def released_evaluation(view: RunView, made: ReleaseMade) -> EvaluationReported | None:
    """The evaluation by which the released candidate was chosen; what was named since the release changes nothing."""
    if made.account is not None and made.account.evaluation is not None:
        wanted = made.account.evaluation.evaluation_id
    else:
        named = [f for _, f in named_candidates(view) if f.candidate_id == made.candidate_id]
        wanted = named[-1].evaluation_id if named else ""
    return next((r for r in reversed(_measured(view, made)) if r.evaluation_id == wanted), None)


def other_evaluations(view: RunView, made: ReleaseMade) -> list[EvaluationReported]:
    """Every further evaluation of the released bytes: by other programs, and imported ones; the newest of each id."""
    chosen = released_evaluation(view, made)
    known = {r.evaluation_id: r for r in _measured(view, made)}
    return [r for r in known.values() if chosen is None or r.evaluation_id != chosen.evaluation_id]


def human_reports(view: RunView, made: ReleaseMade) -> list[HumanEvaluationReported]:
    """What persons said of outputs of the released bytes, oldest first."""
    found = (report for _, report in view.all(HumanEvaluationReported))
    return [report for report in found if report.checkpoint_digest == made.checkpoint_digest]


def _measured(view: RunView, made: ReleaseMade) -> list[EvaluationReported]:
    found = (report for _, report in view.all(EvaluationReported))
    return [report for report in found if report.checkpoint_digest == made.checkpoint_digest]
