"""Which checkpoint a run puts forward as its model, by its newest words on each candidate."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.exploration import is_exploration
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView

Named = tuple[Record, kinds.CandidateNamed]


def named_candidates(view: RunView) -> list[Named]:
    """The newest fact about each candidate, in the order of those facts: a later word replaces the earlier one."""
    newest = {fact.candidate_id: (record, fact) for record, fact in view.all(kinds.CandidateNamed)}
    return sorted(newest.values(), key=lambda found: found[0].position)


def chosen_candidate(view: RunView) -> Named | None:
    """The candidate that is kept, by the newest fact about it; None if there is none, or it was dropped since.

    An exploration has none, whatever is recorded in it.
    """
    if is_exploration(view):
        return None
    return next((found for found in reversed(named_candidates(view)) if found[1].kept), None)


def chosen_evaluation(view: RunView) -> tuple[Record, kinds.EvaluationReported] | None:
    """The evaluation by which the chosen candidate was chosen."""
    chosen = chosen_candidate(view)
    if chosen is None:
        return None
    wanted = chosen[1].evaluation_id
    return next((f for f in view.all(kinds.EvaluationReported) if f[1].evaluation_id == wanted), None)
