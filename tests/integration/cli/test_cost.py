"""The cost, timeline and diagnosis commands on the seeded home."""

from __future__ import annotations

import pytest
from tests.integration.cli.conftest import Home


@pytest.mark.requirement("R225")
def test_show_adds_up(seeded: Home) -> None:
    """The bins of the account are what the attempts were recorded to have taken."""
    answer = seeded.ask("cost", "show", seeded.run_uid, "--json")
    held = answer.document["devices"]

    assert 0 == answer.code
    assert ["machine"] == [one["device"] for one in held]
    assert 31.5 + 44.25 == held[0]["allocated_seconds"] == pytest.approx(sum(held[0]["bins"].values()))
    assert answer.document["advice"]["missing"]


def test_show_in_words(seeded: Home) -> None:
    """Without --json a person reads bins, attempts, what is stored and that no price is known."""
    answer = seeded.ask("cost", "show", seeded.run_uid)

    assert 0 == answer.code
    for part in (
        "machine-seconds: 75.750",
        "attempt 1: interrupted",
        "the policy names no price",
        "no advice on",
    ):
        assert part in answer.out


@pytest.mark.requirement("R245")
@pytest.mark.parametrize("by", ["project", "team", "person", "budget", "priority", "training_type", "month"])
def test_report_by(seeded: Home, by: str) -> None:
    """Each grouping holds every run once, and its shares add up to one."""
    found = seeded.ask("cost", "report", "--by", by, "--json").document

    assert 2 == sum(group["runs"] for group in found["groups"]) == found["total"]["runs"]
    assert 1 == pytest.approx(sum(d["share"] for group in found["groups"] for d in group["devices"]))
    assert (1, 0) == (found["total"]["succeeded"], found["total"]["failed"])


def test_report_of_a_period(seeded: Home) -> None:
    """A period without runs is empty, and said to be."""
    assert "no runs\n" == seeded.ask("cost", "report", "--until", "2020-01-01").out
    assert 2 == seeded.ask("cost", "report", "--since", "2020-01-01", "--json").document["total"]["runs"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(("cost", "report", "--since", "soon"), 2, id="no moment"),
        pytest.param(("cost", "report", "--by", "mood"), 2, id="no grouping"),
        pytest.param(("cost", "show", "run_nobody"), 2, id="no run"),
        pytest.param(("run", "timeline", "{run}", "--lane", "mood"), 2, id="no lane"),
    ],
)
def test_wrong_use(seeded: Home, arguments: tuple[str, ...], code: int) -> None:
    """A wrong value is one line with what to write instead."""
    answer = seeded.ask(*(part.format(run=seeded.run_uid) for part in arguments))

    assert code == answer.code
    assert "" == answer.out
    assert 1 <= len(answer.err.strip().splitlines()) <= 2


def test_nothing_is_idle(seeded: Home) -> None:
    """Closed runs and runs without an attempt hold nothing."""
    answer = seeded.ask("cost", "idle", "--json")

    assert (0, []) == (answer.code, answer.document["candidates"])


@pytest.mark.requirement("R087")
def test_timeline(seeded: Home) -> None:
    """Every lane that the run has, in order; a lane can be chosen."""
    entries = seeded.ask("run", "timeline", seeded.run_uid, "--json").document["entries"]
    few = seeded.ask("run", "timeline", seeded.run_uid, "--lane", "checkpoints", "--json").document["entries"]

    assert sorted(entry["at"] for entry in entries) == [entry["at"] for entry in entries]
    assert {"gates", "attempts", "environment", "checkpoints", "storage", "nodes"} <= {
        e["lane"] for e in entries
    }
    assert [entry for entry in entries if entry["lane"] == "checkpoints"] == few


@pytest.mark.requirement("R090")
def test_diagnose(seeded: Home) -> None:
    """The three questions in their order; a hint is a finding for the exit code."""
    answer = seeded.ask("run", "diagnose", seeded.run_uid, "--json")

    assert ["alive", "resources", "metrics"] == [look["question"] for look in answer.document["inspection"]]
    assert (1 if answer.document["hints"] else 0) == answer.code
    assert all(hint["records"] or hint["code"] for hint in answer.document["hints"])
