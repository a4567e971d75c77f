"""The example in the documentation is what the account gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.unit.domain.told_run import Told

from pretrain_archive.domain.cost import account
from pretrain_archive.domain.cost_bins import BINS, MICRO
from pretrain_archive.domain.cost_idle import IdleClass

DOCS = (Path(__file__).parents[3] / "docs" / "cost.md").read_text()


def rows(head: str) -> list[list[str]]:
    """The cells of the table with this heading."""
    table = DOCS.partition(f"| {head} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def told_in_docs() -> Told:
    """The records that the example's first table tells."""
    told = Told()
    told.open()
    for second, attempt, what in rows("second | attempt | what"):
        first, number = float(second.split()[0]), int(attempt)
        if what == "launched":
            told.launch(number, first)
        elif what.startswith("started"):
            told.start(number, first, resume=int(what.split()[-1]) if "from step" in what else None)
        elif steps := re.fullmatch(r"steps (\d+) to (\d+)", what):
            low, high = map(int, steps.groups())
            told.steps(number, *[(first + step - low, step) for step in range(low, high + 1)])
        elif saved := re.fullmatch(r"saved step (\d+) in (\d+) s", what):
            told.save(number, first, int(saved[1]), took=float(saved[2]))
        elif ended := re.fullmatch(r"(failed|completed) after ([\d.]+) s", what):
            told.end(number, first, took=float(ended[2]), state=ended[1])
        else:
            pytest.fail(f"what the example tells cannot be read: {what}")
    return told


def test_the_example_adds_up() -> None:
    """Recomputed from its own table of what was recorded."""
    found = account(told_in_docs().view)

    assert {name: float(seconds) for name, seconds, _ in rows("bin | seconds | why")} == {
        name: us / MICRO for name, us in found.bins("machine").items() if us
    }
    assert f"these {found.allocated_us('machine') / MICRO:g} seconds" in DOCS


def test_every_bin_and_class_is_explained() -> None:
    """The documentation names each bin and each class of what is idle."""
    assert list(BINS) == [name.strip("`") for name, _ in rows("bin | what lies in it")]
    told = " ".join(name for name, _ in rows("class | when"))
    assert all(f"`{name}`" in told for name in IdleClass.__args__)  # type: ignore[attr-defined]
