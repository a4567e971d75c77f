"""Runs are found by what is known of them, and a run's lineage and tries are told from its records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.integration.cli.conftest import OTHER_RUN, Home
from tests.support.seeded_run import SNAPSHOT, SOURCE


def found(home: Home, *conditions: str) -> list[str]:
    """The uids that ``run list`` gives."""
    return [run["run_uid"] for run in home.ask("run", "list", *conditions, "--json").document["runs"]]


@pytest.mark.requirement("R157")
@pytest.mark.parametrize(
    ("conditions", "closed", "other"),
    [
        pytest.param([], True, True, id="everything"),
        pytest.param(["--project", "demo"], True, True, id="project"),
        pytest.param(["--person", "Bob Approver"], True, None, id="who signed"),
        pytest.param(["--person", "ALICE"], True, True, id="submitter, in any case"),
        pytest.param(["--person", "nobody"], False, False, id="a stranger"),
        pytest.param(["--data", SNAPSHOT], True, None, id="snapshot"),
        pytest.param(["--data", f"{SNAPSHOT}@1"], True, None, id="snapshot and version"),
        pytest.param(["--data", f"{SNAPSHOT}@9"], False, False, id="another version"),
        pytest.param(["--data", SOURCE], True, None, id="source"),
        pytest.param(["--state", "closed"], True, False, id="state"),
        pytest.param(["--verdict", "verified"], True, False, id="verdict"),
        pytest.param(["--verdict", "changed"], False, False, id="no such verdict"),
        pytest.param(["--since", "2020-01-01", "--until", "2100-01-01"], True, True, id="a long time"),
        pytest.param(["--until", "2020-01-01"], False, False, id="long ago"),
        pytest.param(["--since", "2100-01-01T00:00:00Z"], False, False, id="far ahead"),
        pytest.param(["--state", "closed", "--person", "nobody"], False, False, id="both must hold"),
    ],
)
def test_conditions_narrow_each_other(
    seeded: Home, conditions: list[str], closed: bool, other: bool | None
) -> None:
    """Project, person, date, data, verdict and state are asked of the records."""
    uids = found(seeded, *conditions)

    assert closed == (seeded.run_uid in uids)
    assert other is None or other == (OTHER_RUN in uids)


@pytest.mark.requirement("R157")
def test_a_release_leads_to_its_run(seeded: Home) -> None:
    """A name with or without its version names the one run that made it."""
    records = [json.loads(p.read_bytes()) for p in (seeded.package / "records").glob("*release.made.json")]
    release = records[0]["payload"]

    assert [seeded.run_uid] == found(seeded, "--release", release["name"])
    assert [seeded.run_uid] == found(seeded, "--release", f"{release['name']}@{release['version']}")
    assert [] == found(seeded, "--release", f"{release['name']}@none")


def test_a_limit_counts_what_is_found(seeded: Home) -> None:
    """Runs that a condition leaves out do not use up the limit."""
    assert [seeded.run_uid] == found(seeded, "--state", "closed", "--limit", "1")


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "2026-02-30", "9999-12-31"])
def test_a_date_that_is_none_is_refused(seeded: Home, text: str) -> None:
    """One clear line, exit 2."""
    answer = seeded.ask("run", "list", "--until", text)

    assert (2, True) == (answer.code, "--until" in answer.err)


@pytest.mark.case("A07")
def test_lineage_is_exported_once_and_again(seeded: Home, tmp_path: Path) -> None:
    """Lines on standard output, in a file that must be new, and as one document: the same events."""
    lines = seeded.ask("run", "lineage", seeded.run_uid).out
    events = [json.loads(line) for line in lines.splitlines()]
    target = tmp_path / "events.jsonl"

    assert events == seeded.ask("run", "lineage", seeded.run_uid, "--json").document["events"]
    assert 0 == seeded.ask("run", "lineage", seeded.run_uid, "--output", str(target)).code
    assert lines == target.read_text()
    assert 2 == seeded.ask("run", "lineage", seeded.run_uid, "--output", str(target)).code
    packaged = (seeded.package / "evidence/lineage.jsonl").read_text().splitlines()
    assert set(packaged) <= set(lines.splitlines())


@pytest.mark.case("A09")
def test_tries_are_joined_with_airflows_list(seeded: Home, tmp_path: Path) -> None:
    """A list from a file or standard input; a gap in it is named, and a broken one refused."""
    listed = tmp_path / "tries.json"
    listed.write_text(
        json.dumps({"task_instances": [{"task_id": "gpu_launch", "try_number": 2, "state": "success"}]})
    )

    tries = seeded.ask("run", "attempts", seeded.run_uid, "--history", str(listed), "--json").document[
        "tries"
    ]
    launch = [(t["try_number"], t["ours"], t["airflow"]) for t in tries if t["task_id"] == "gpu_launch"]
    assert [(1, "recorded", "no record in Airflow"), (2, "nothing recorded", "success")] == launch
    assert (
        "no record in Airflow" in seeded.ask("run", "attempts", seeded.run_uid, "--history", str(listed)).out
    )
    listed.write_text("{")
    assert 2 == seeded.ask("run", "attempts", seeded.run_uid, "--history", str(listed)).code


def test_a_folder_that_is_no_package_is_said_to_be_none(seeded: Home, tmp_path: Path) -> None:
    """Exit 2 and one line, not a list of everything in it as changed; a package without its manifest is changed."""
    (tmp_path / "holiday.jpg").write_bytes(b"x")
    answer = seeded.ask("package", "verify", str(tmp_path), "--json")
    assert (2, "bad_input") == (answer.code, answer.document["error"]["code"])
    assert "is no package" in answer.document["error"]["message"]
    (tmp_path / "records").mkdir()
    assert 1 == seeded.ask("package", "verify", str(tmp_path)).code
