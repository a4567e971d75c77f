"""The commands about evaluations on the seeded home, and a metric log from a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.cli.conftest import OTHER_RUN, Home


def test_show(seeded: Home) -> None:
    """A run's evaluations in JSON and in words; a run without one is a finding."""
    found = seeded.ask("evaluation", "show", seeded.run_uid, "--json").document
    told = seeded.ask("evaluation", "show", seeded.run_uid)

    assert found["run_uid"] == seeded.run_uid
    [report] = found["evaluations"]
    assert report["evaluation_id"] in told.out
    assert report["metrics"][0]["name"] in told.out
    assert ([], []) == (found["failed"], found["in_use"])
    nothing = seeded.ask("evaluation", "show", OTHER_RUN)
    assert (1, "nothing was evaluated\n") == (nothing.code, nothing.out)


@pytest.mark.requirement("R124")
def test_compare(seeded: Home) -> None:
    """A run against itself is no comparison of two; a run without an evaluation is named."""
    missing = seeded.ask("evaluation", "compare", seeded.run_uid, OTHER_RUN, "--json")

    assert (1, False, [OTHER_RUN]) == (
        missing.code,
        missing.document["uniform"],
        missing.document["unrecorded"],
    )
    alone = seeded.ask("evaluation", "compare", seeded.run_uid, "--json")
    assert (2, "bad_input") == (alone.code, alone.document["error"]["code"])


def test_import_into_a_closed_run_is_refused(home: Callable[[], Home], tmp_path: Path) -> None:
    """What is closed is frozen."""
    place = home()
    (tmp_path / "results.json").write_text('{"acc": 0.5}')

    answer = place.ask("evaluation", "import", place.run_uid, str(tmp_path / "results.json"), "--json")

    assert (4, "refused") == (answer.code, answer.document["error"]["code"])


@pytest.mark.case("E05")
def test_curve(seeded: Home, tmp_path: Path) -> None:
    """The effective curve of a log that goes back: where the later attempt counts, the end, and bad lines."""
    file = tmp_path / "metrics.jsonl"
    rows = [{"attempt": 1, "step": s, "loss": 5 / s} for s in range(10, 211, 10)]
    rows += [{"attempt": 2, "step": s, "loss": 4 / s} for s in range(160, 301, 10)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"attempt": 2, "loss": 1}\n')

    answer = seeded.ask("evaluation", "curve", str(file), "--json")
    curve = answer.document["curves"]["loss"]

    assert 1 == answer.code
    assert [300, 2, 4 / 300] == curve["effective"][-1]
    assert [{"attempt": 2, "from_step": 160, "set_aside": 6}] == curve["taken_over"]
    assert [{"line": 37, "why": "no step"}] == answer.document["bad_lines"]
    told = seeded.ask("evaluation", "curve", str(file)).out
    assert "attempt 2 counts from step 160, 6 set aside" in told


@pytest.mark.case("E03")
def test_a_metric_twice_is_one_clear_line(seeded: Home, tmp_path: Path) -> None:
    """File, name and both values, exit code 2, no traceback."""
    (tmp_path / "dup.json").write_text('{"acc": 0.41, "loss": 2.0, "acc": 0.93}')

    answer = seeded.ask("evaluation", "curve", str(tmp_path / "dup.json"))

    assert (2, "") == (answer.code, answer.out)
    assert "dup.json: acc given twice: 0.41, 0.93" in answer.err


@pytest.mark.requirement("R122")
def test_suites(seeded: Home) -> None:
    """Each shipped suite with its digest; in words, a line per metric."""
    found = seeded.ask("evaluation", "suites", "--json").document["suites"]

    assert {"question answering", "code", "dialogue", "language modelling"} == {s["objective"] for s in found}
    assert all(suite["digest"].startswith("sha256:") for suite in found)
    assert "human_feedback" in seeded.ask("evaluation", "suites").out
