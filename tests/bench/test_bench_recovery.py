"""Lost and recomputed work against the truth, with kills injected at known steps.

The number to keep is "within 5 % of truth". The truth is the program's own: it writes down how long each of its steps
took, and the test knows at which steps it was killed and which checkpoint was damaged. Compared are steps (exactly,
since they are counted) and the device time that the account puts into the bins *lost* and *recomputed*, each by
itself: once with kills in the middle of a step, once with kills as soon as a step was reported.
"""

# ruff: noqa: T201 - the table is the result

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.main_line import Line
from tests.support.recovering_program import recovering_line

from pretrain_archive.domain import kinds
from pretrain_archive.domain.cost import account

LIMIT = 0.05
KILLS = {"1": 47, "2": 83, "3": 96}
DAMAGED = 80
RESUMES = {2: 40, 3: 70, 4: 90}
"""Attempt 3 falls back to 70: the checkpoint of step 80 is damaged before it starts."""
LOST = {1: range(41, 48), 2: range(71, 84), 3: range(91, 97)}
AGAIN = {2: range(41, 48), 3: range(71, 84), 4: range(91, 97)}


@pytest.mark.bench
@pytest.mark.parametrize(
    "where",
    [pytest.param("kill_at", id="in the middle of a step"), pytest.param("kill_after", id="at a step's end")],
)
def test_lost_and_recomputed_work_is_told_truly(tmp_path: Path, where: str) -> None:
    """Four attempts, three kills, one fall-back by a step more: steps exactly, seconds within five per cent."""
    line = Line(folder=tmp_path)
    truth_file = tmp_path / "truth.txt"
    recovering_line(line, steps=120, seconds=0.08, truth=str(truth_file), **{where: KILLS})
    for attempt in (1, 2, 3, 4):
        if attempt == 3:
            folder = line.runs_folder / line.run_uid / "checkpoints" / f"step_{DAMAGED:08d}"
            (folder / "weights-0.bin").write_bytes(b"damaged")
        ended = line.launch(try_number=attempt)
    assert ("completed", 4) == (ended.state, ended.attempt)

    rows = [line.split() for line in truth_file.read_text().splitlines()]
    took = {(int(a), int(s)): float(t) for a, s, t in rows}
    view = line.view()
    done = {found.attempt: found for _, found in view.all(kinds.AttemptReconciled)}
    bins = account(view).inner("machine")
    told = {name: bins.get(name, 0) / 1e6 for name in ("lost", "recomputed")}
    true = {
        name: sum(took[attempt, step] for attempt, steps in sets.items() for step in steps)
        for name, sets in (("lost", LOST), ("recomputed", AGAIN))
    }
    # A step in the making: the program writes how long it had been in it, and nothing where it was in none.
    true["lost"] += sum(took.get((int(attempt), step + 1), 0.0) for attempt, step in KILLS.items())

    print(f"\nkills {where.removeprefix('kill_')} step {', '.join(map(str, KILLS.values()))}")
    print(f"{'bin':<12}{'steps':>8}{'true s':>10}{'told s':>10}{'off':>8}")
    for name, sets in (("lost", LOST), ("recomputed", AGAIN)):
        off = told[name] / true[name] - 1
        print(f"{name:<12}{sum(map(len, sets.values())):>8}{true[name]:>10.3f}{told[name]:>10.3f}{off:>8.1%}")
    assert RESUMES == {attempt: found.resume_step for attempt, found in done.items()}
    assert {n: len(s) for n, s in AGAIN.items()} == {n: found.steps_repeated for n, found in done.items()}
    assert {n + 1: len(s) for n, s in LOST.items()} == {n: found.steps_lost for n, found in done.items()}
    assert told == pytest.approx(true, rel=LIMIT)
    assert sum(told.values()) == pytest.approx(sum(true.values()), rel=LIMIT)
