"""The chosen candidate follows from the newest word on each candidate, never from one that was withdrawn."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.domain.checklists.conftest import Whole, whole

from pretrain_archive.domain.candidates import chosen_candidate, chosen_evaluation, named_candidates
from pretrain_archive.domain.kinds import CandidateNamed
from pretrain_archive.domain.run_view import RunView

__all__ = ["whole"]


def said(whole: Whole, *words: tuple[str, bool]) -> RunView:
    """A run whose candidates were named like this, one word after the other."""
    records = [record for record in whole.view.records if record.kind != "candidate.named"]
    [pattern, *_] = [record for record in whole.view.records if record.kind == "candidate.named"]
    end = records[-1].position
    named = [
        replace(pattern, position=end + n, payload={**pattern.payload, "candidate_id": name, "kept": kept})
        for n, (name, kept) in enumerate(words, start=1)
    ]
    return RunView.of(whole.view.run_uid, [*records, *named])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param([], None, id="none"),
        pytest.param([("a", False)], None, id="dropped"),
        pytest.param([("a", True), ("b", False)], "a", id="another one dropped"),
        pytest.param([("a", True), ("b", True)], "b", id="two kept: the newer word"),
        pytest.param([("a", True), ("a", False)], None, id="kept, then dropped"),
        pytest.param([("a", True), ("b", True), ("b", False)], "a", id="the newer one dropped again"),
        pytest.param([("a", True), ("b", True), ("a", True)], "a", id="named again"),
    ],
)
def test_chosen(whole, words, expected):
    """A candidate that was dropped since is not chosen, whatever was said before."""
    view = said(whole, *words)

    chosen = chosen_candidate(view)

    assert expected == (chosen[1].candidate_id if chosen else None)
    assert (expected is None) == (chosen_evaluation(view) is None)
    assert len({name for name, _ in words}) == len(named_candidates(view))


def test_close_item_follows(whole):
    """The close gate does not show a candidate that was dropped after it was kept."""
    name = next(c.candidate_id for _, c in whole.view.all(CandidateNamed) if c.kept)

    item = whole.item("close", "close.candidate", lambda _: said(whole, (name, True), (name, False)))

    assert "unrecorded" == item.verdict
