"""The drawing of a timeline, and what a run's page tells of its cost."""

from __future__ import annotations

import pytest
from tests.unit.domain.told_run import Told

from pretrain_archive.domain.cost import account
from pretrain_archive.domain.cost_bins import MICRO
from pretrain_archive.web.read_cost import cost_panel
from pretrain_archive.web.read_timeline import Axis, course

DAY = 86_400


def told_run(*, pause: float = 0.0, steps: int = 20, notes: int = 0) -> Told:
    """A run that waits ``pause`` seconds for its launch."""
    told = Told()
    told.open(seconds=-60 - pause)
    told.launch(1, 0)
    told.start(1, 1)
    told.steps(1, *[(1 + step, step) for step in range(1, steps + 1)])
    for number in range(notes):
        told.event(1, 1 + number * steps / max(1, notes), "note", text=f"n {number}")
    told.save(1, steps + 2, steps, took=1)
    told.end(1, steps + 3, took=steps + 3)
    return told


@pytest.mark.requirement("R087")
def test_every_mark_lies_in_the_drawing() -> None:
    """Marks and spans lie between 0 and 100 percent, the first at the left edge and the last at the right one."""
    found = course(told_run().view)

    assert found is not None
    marks = [mark for lane in found.lanes for mark in lane.marks]
    assert (0.0, 100.0) == (min(m.x for m in marks), max(m.x + m.width for m in marks))
    assert found.total == sum(lane.count for lane in found.lanes)


def test_a_long_pause_is_drawn_shorter_and_says_so() -> None:
    """A weekend before the launch does not press everything else into one mark."""
    found = course(told_run(pause=3 * DAY).view)

    assert found is not None
    (gap,) = found.breaks
    assert pytest.approx(3 * DAY + 60) == gap.seconds
    started = next(m.x for lane in found.lanes for m in lane.marks if m.entry.kind == "attempt.started")
    assert started < 25


def test_a_million_seconds_and_many_entries_stay_bounded() -> None:
    """However long the run, some hundred marks."""
    found = course(told_run(steps=50, notes=3_000).view)

    assert found is not None
    assert found.is_thinned
    assert len(found.entries) <= 300
    assert found.total == sum(entry.count for entry in found.entries)


@pytest.mark.parametrize("moments", [[5], [5, 5, 5], [0, 1], [0, 1, 10**15]], ids=str)
def test_an_axis_of_few_moments(moments: list[int]) -> None:
    """One moment, equal ones and a huge gap have places, too, and places lead back to moments."""
    axis = Axis(moments)

    assert all(0 <= axis.x(us) <= 100 for us in moments)
    assert moments[0] <= axis.at(50.0) <= moments[-1]


def test_nothing_to_draw() -> None:
    """A run without records has no drawing."""
    assert None is course(Told().view)


def test_the_panel_is_the_account() -> None:
    """The page shows the account's own numbers, and its parts fill the bar."""
    told = told_run()
    panel = cost_panel(told.view)
    (held,) = panel.devices

    assert {name: us / MICRO for name, us in account(told.view).bins("machine").items() if us} == {
        row.name: row.seconds for row in held.rows
    }
    assert 100 == pytest.approx(held.rows[-1].x + held.rows[-1].percent, abs=0.01)


def test_both_languages_of_the_panel() -> None:
    """Remarks, questions and hints differ between the languages wherever they are sentences."""
    told = told_run()
    told.records.pop()
    panel = cost_panel(told.view)

    texts = [
        *panel.notes,
        *(hint.text for hint in panel.hints),
        *(look.text for look in panel.looks),
        panel.advice,
    ]
    assert panel.notes
    assert [] == [text.en for text in texts if text.en and text.en == text.zh]
