"""A source is withdrawn: what rests on it is found, and whom to tell is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.main_line import Line
from tests.support.source_facts import (
    dana,
    pool,
    prepare_with_sample,
    refusal,
    take_back,
    walk,
)

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.withdrawal import Touched
from pretrain_archive.services.withdrawing import find_source, record_access, what_rests_on, withdraw


@pytest.fixture
def line(tmp_path: Path) -> Line:
    """A line of its own."""
    return Line(folder=tmp_path)


@pytest.mark.requirement("R037", "R058")
def test_withdrawing_a_source_behind_a_derived_snapshot_stops_the_launch(line: Line) -> None:
    """The chain is followed both ways: from the run to the source, and from the source to the run."""
    line.open()
    pool(line)
    prepare_with_sample(line)
    line.sign("prepare")
    source, _ = withdraw(line.ledger, dana(), find_source(line.ledger, "pool"), reason="contract ended")

    assert "source pool was withdrawn" in refusal(line)
    report = what_rests_on(line.ledger, source)
    assert [line.run_uid] == [entry["run"] for entry in report.lists["runs"]]
    assert ["snapshot:pool-raw@1", "snapshot:sample@1"] == sorted(e["id"] for e in report.lists["snapshots"])
    assert (["olga"], ["rita"]) == (report.people["owner"], report.people["responsible"])


def numbers(report: Touched) -> dict[str, int]:
    """How many of each are listed."""
    return {name: len(entries) for name, entries in report.lists.items()}


@pytest.mark.requirement("R037", "R058", "R060")
def test_all_that_rests_on_a_source_is_listed_with_the_people_to_tell(line: Line) -> None:
    """Snapshot, split, run, checkpoints, evaluation, candidate, release, package and three sign-offs, by name."""
    walk(line)
    report = what_rests_on(line.ledger, find_source(line.ledger, "corpus"))

    assert {
        "snapshots": 1, "splits": 1, "runs": 1, "checkpoints": 4, "evaluations": 1, "candidates": 1, "releases": 1,
        "packages": 1, "decisions": 3,
    } == numbers(report)  # fmt: skip
    document = report.to_json(dry_run=True)
    assert json.loads(json.dumps(document)) == document
    assert {
        "source", "snapshots", "splits", "runs", "checkpoints", "evaluations", "candidates", "releases", "packages",
        "decisions", "people", "withdrawn", "same_address", "truncated", "dry_run",
    } == document.keys()  # fmt: skip
    policy = line.policy.policy.people
    assert (["olga"], ["rita"]) == (report.people["owner"], report.people["responsible"])
    assert (["alice"], ["bob"]) == (report.people["submitter"], report.people["approver"])
    assert [policy.platform_owner] == report.people["platform_owner"]
    assert {"alice", "bob", "olga", "rita"} <= set(report.everybody())
    [release], [package] = document["releases"], document["packages"]
    assert ("line", "1", line.run_uid) == (release["name"], release["version"], release["run"])
    assert package["digest"].startswith("sha256:")
    assert ["close", "prepare", "run"] == sorted(entry["gate"] for entry in document["decisions"])
    assert all(entry["because"] for entries in report.lists.values() for entry in entries)


def test_another_source_s_data_is_not_listed(line: Line) -> None:
    """A later version of the same name, made from another source, does not rest on the first one."""
    line.open()
    line.prepare_data()
    first = find_source(line.ledger, "corpus")
    other = Line(folder=line.folder, dag_run_id="manual__other")
    folder = line.folder / "others"
    folder.mkdir()
    for number in range(20):
        (folder / f"doc{number}.txt").write_text(f"other words {number}\n" * 9)
    other.open(source=str(folder))
    other.prepare_data()

    report = what_rests_on(line.ledger, first)

    assert ["snapshot:corpus@1"] == [entry["id"] for entry in report.lists["snapshots"]]
    assert [line.run_uid] == [entry["run"] for entry in report.lists["runs"]]
    assert "snapshot:corpus@1" == other.view().latest(kinds.SnapshotCreated).parent  # type: ignore[union-attr]
    with pytest.raises(InputError, match="names 2 sources") as several:
        find_source(line.ledger, "corpus")
    assert first.source_id in several.value.hint


def test_a_run_triggered_again_counts_by_its_own_data(line: Line) -> None:
    """Being derived from a run that used the source is no use of the source."""
    line.open()
    line.prepare_data()
    first = find_source(line.ledger, "corpus")
    before = line.run_uid
    again = line.open(objective="Something else, decided after a look at the first data")

    assert before == again.derived_from
    assert [before] == [entry["run"] for entry in what_rests_on(line.ledger, first).lists["runs"]]


def test_a_snapshot_of_the_same_address_counts(line: Line) -> None:
    """Whoever made a snapshot by hand, without naming the source, is found by the address."""
    from pretrain_archive.data.snapshots import create_snapshot

    line.open()
    line.prepare_data()
    source = find_source(line.ledger, "corpus")
    caller = dana("snapshot_create")
    create_snapshot(line.store, line.ledger, name="by-hand", source_root=str(line.folder / "source"), mode="reference",
                    actor=caller.actor, origin=caller.origin, exclude=("doc00.txt",))  # fmt: skip

    listed = {
        entry["id"]: entry["because"] for entry in what_rests_on(line.ledger, source).lists["snapshots"]
    }

    assert {"snapshot:corpus@1", "snapshot:by-hand@1"} == listed.keys()
    assert f"source:{source.source_id}" == listed["snapshot:by-hand@1"]


@pytest.mark.requirement("R037")
def test_withdrawing_twice_records_once(line: Line) -> None:
    """The second call finds what the first one said."""
    line.open()
    line.prepare_data()
    take_back(line, "first word")
    source, done = withdraw(line.ledger, dana(), find_source(line.ledger, "corpus"), reason="second word")

    assert not done
    assert source.withdrawal is not None
    assert ("first word", "dana") == (source.withdrawal[1].reason, source.withdrawal[1].by)
    assert 1 == len(list(line.ledger.records(kinds=["source.withdrawn"])))


def test_two_who_withdraw_at_once_record_once(line: Line) -> None:
    """Whoever read the source before the other's word was written finds it afterwards."""
    line.open()
    line.prepare_data()
    read_before = find_source(line.ledger, "corpus")
    take_back(line, "first word")
    source, done = withdraw(line.ledger, dana(), read_before, reason="second word")

    assert (False, "first word") == (done, source.withdrawal and source.withdrawal[1].reason)


def test_a_withdrawal_needs_a_reason(line: Line) -> None:
    """Nothing is recorded without one."""
    line.open()
    line.prepare_data()
    with pytest.raises(InputError, match="--reason"):
        withdraw(line.ledger, dana(), find_source(line.ledger, "corpus"), reason=" ")

    assert [] == list(line.ledger.records(kinds=["source.withdrawn"]))


@pytest.mark.parametrize(
    ("values", "named"),
    [
        pytest.param({"identity": " "}, "--identity", id="no identity"),
        pytest.param({"at": "yesterday"}, "--at", id="no moment"),
        pytest.param({"at": "2026-11-29T10:00:00"}, "--at", id="no zone"),
        pytest.param({"at": "9999-01-01T00:00:00Z"}, "future", id="ahead"),
    ],
)
def test_access_facts_are_checked(line: Line, values: dict[str, str], named: str) -> None:
    """A wrong fact is refused and named."""
    line.open()
    line.prepare_data()
    facts = {"action": "revoked", "identity": "svc", "at": "", "reason": ""} | values
    with pytest.raises(InputError, match=named):
        record_access(line.ledger, dana(), find_source(line.ledger, "corpus"), **facts)
