"""OpenLineage events: a lineage run per try, ends that stay ends, exports that only grow."""

from __future__ import annotations

import itertools
import json
import random
import uuid
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from tests.support.packages import build
from tests.support.seeded_run import SNAPSHOT

from pretrain_archive.domain.kinds import (
    EvaluationReported,
    RunFailed,
    SnapshotCreated,
)
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.package.openlineage import lineage_events, lineage_lines
from pretrain_archive.package.tries import AirflowTry

ENDS = {"COMPLETE", "FAIL", "ABORT"}
Event = dict[str, Any]


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    """The seeded run with its close."""
    built = build(tmp_path_factory.mktemp("run"))
    return RunView.of(built.run_uid, built.ledger.records(streams=[built.run_uid]))


@pytest.fixture
def before(closed: RunView) -> RunView:
    """The run as its package sees it: signed, not yet closed."""
    return RunView.of(
        closed.run_uid, [r for r in closed.records if r.kind not in {"package.written", "run.closed"}]
    )


def with_try(record: Record, number: int, **changes: Any) -> Record:
    """The same fact as another try of its task wrote it."""
    return replace(record, origin=replace(record.origin, try_number=number), **changes)


def scenario(view: RunView) -> tuple[RunView, RunView]:
    """Snapshot try 1 fails and try 2 works; closed; then evaluate is cleared and runs again: before and after that."""
    found: list[Record] = []
    for record in view.records:
        if record.origin.task_id == "snapshot":
            if record.kind == "snapshot.created":
                failed = RunFailed(task_id="snapshot", reason="disk full", error_code="storage")
                found.append(
                    replace(
                        record, kind="run.failed", payload=failed.to_json(), edges=(), record_id="rec_failed"
                    )
                )
            found.append(with_try(record, 2))
        else:
            found.append(record)
    again = next(record for record in view.records if record.kind == "evaluation.reported")
    later = with_try(again, 2, record_id="rec_again", recorded_at="2026-11-29T11:00:00.000000Z")
    first = [replace(r, position=number, sequence=number) for number, r in enumerate(found)]
    second = replace(later, position=len(first), sequence=len(first))
    return RunView.of(view.run_uid, first), RunView.of(view.run_uid, [*first, second])


def by_try(events: list[Event]) -> dict[str, list[str]]:
    """The event types of each lineage run, in the order of the export."""
    found: dict[str, list[str]] = {}
    for event in events:
        found.setdefault(event["run"]["runId"], []).append(event["eventType"])
    return found


def of_task(events: list[Event], task: str) -> list[Event]:
    """The events of one task's tries."""
    return [event for event in events if event["job"]["name"].endswith(f".{task}")]


@pytest.mark.case("A07")
def test_each_try_is_a_lineage_run_of_its_own(closed: RunView) -> None:
    """Try 1 of the snapshot failed, try 2 made it: the output hangs on try 2 alone, and both name the DAG run."""
    first, _ = scenario(closed)
    events = lineage_events(first)
    tries = of_task(events, "snapshot")

    assert [["START", "FAIL"], ["START", "COMPLETE"]] == sorted(by_try(tries).values(), reverse=True)
    failed = next(e for e in tries if e["eventType"] == "FAIL")
    made = next(e for e in tries if e["eventType"] == "COMPLETE")
    assert ([], "disk full") == (failed["outputs"], failed["run"]["facets"]["errorMessage"]["message"])
    assert f"snapshot/{SNAPSHOT}@1" in [data["name"] for data in made["outputs"]]
    [dag_run] = {e["run"]["runId"] for e in events if e["job"]["name"] == "pretraining_reference"}
    assert {dag_run} == {e["run"]["facets"]["parent"]["run"]["runId"] for e in tries}


@pytest.mark.case("A07")
def test_an_export_after_a_clear_adds_and_replaces_nothing(closed: RunView) -> None:
    """What was exported after the first close stands unchanged in the second export; an end is followed by nothing."""
    first, second = scenario(closed)
    one, two = lineage_lines(first).splitlines(), lineage_lines(second).splitlines()

    assert set(one) < set(two)
    added = [json.loads(line) for line in set(two) - set(one)]
    assert {"pretraining_reference.evaluate"} == {event["job"]["name"] for event in added}
    assert not {e["run"]["runId"] for e in added} & {json.loads(line)["run"]["runId"] for line in one}
    for types in by_try([json.loads(line) for line in two]).values():
        assert types in (["START"], *(["START", end] for end in sorted(ENDS)))


@pytest.mark.case("A07")
def test_every_later_export_holds_the_earlier_ones(closed: RunView) -> None:
    """At any moment of a run, with retries drawn at random: no event of an export is missing from a later one."""
    rng = random.Random(7)
    _, view = scenario(closed)
    for _ in range(30):
        tries: dict[str, int] = {}
        records = []
        for number, record in enumerate(view.records):
            task = record.origin.task_id
            tries[task] = max(tries.get(task, 1), record.origin.try_number) + (rng.random() < 0.3)
            at = f"2026-11-29T10:{number // 60:02d}:{number % 60:02d}.000000Z"
            records.append(with_try(record, tries[task], recorded_at=at))
        cuts = sorted(rng.sample(range(1, len(records) + 1), 6))
        exports = [lineage_lines(RunView.of(view.run_uid, records[:cut])).splitlines() for cut in cuts]
        for earlier, later in itertools.pairwise(exports):
            assert set(earlier) <= set(later)
            assert all(len(types) <= 2 for types in by_try([json.loads(line) for line in later]).values())


def test_the_export_of_the_package_is_part_of_the_one_after_the_close(
    before: RunView, closed: RunView
) -> None:
    """While a run is being closed every other task is over: the file in the package says what holds afterwards."""
    packaged = lineage_lines(before, closing=True).splitlines()

    assert set(packaged) <= set(lineage_lines(closed).splitlines())
    assert "COMPLETE" in {json.loads(line)["eventType"] for line in packaged}
    assert packaged == lineage_lines(before, closing=True).splitlines()


@pytest.mark.case("A07")
def test_versions_are_digests_that_records_name(closed: RunView) -> None:
    """A snapshot's version is its manifest digest, a checkpoint's its own; what no record pins has no version."""
    events = lineage_events(closed)
    data = {d["name"]: d["facets"] for e in events for d in (*e["inputs"], *e["outputs"])}
    snapshot = closed.latest(SnapshotCreated)
    assert snapshot is not None

    assert snapshot.manifest_digest == data[f"snapshot/{SNAPSHOT}@1"]["version"]["datasetVersion"]
    assert {} == data["source/py-stdlib"]
    report = closed.latest(EvaluationReported)
    assert report is not None
    assert report.checkpoint_digest == data[f"checkpoint/{report.checkpoint_id}"]["version"]["datasetVersion"]


def test_events_have_the_shape_of_the_specification(closed: RunView) -> None:
    """What OpenLineage.json 2-0-2 requires: run id, job, time, producer, schema; facets with producer and schema."""
    for event in lineage_events(closed):
        assert {"START", *ENDS} >= {event["eventType"]}
        assert uuid.UUID(event["run"]["runId"]).version == 5
        assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
        assert event["schemaURL"].endswith("OpenLineage.json#/$defs/RunEvent")
        assert event["job"]["namespace"]
        facets = [
            *event["run"]["facets"].values(),
            *(f for d in event["inputs"] for f in d["facets"].values()),
        ]
        assert all(facet["_producer"] and facet["_schemaURL"].startswith("https://") for facet in facets)


def test_a_try_that_may_still_write_has_no_end(before: RunView) -> None:
    """In an open run only what failed or was tried again is over."""
    types = by_try(lineage_events(before))

    assert {("START",)} == {tuple(found) for found in types.values()}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param("completed", "COMPLETE", id="completed"),
        pytest.param("stopped", "FAIL", id="stopped by a rule"),
    ],
)
def test_a_launch_ends_as_its_attempt_did(closed: RunView, state: str, expected: str) -> None:
    """The task may have ended well: what counts is how the training ended."""
    last = [record for record in closed.records if record.kind == "attempt.ended"][-1]
    records = [
        replace(r, payload={**r.payload, "state": state}) if r.record_id == last.record_id else r
        for r in closed.records
    ]
    events = of_task(lineage_events(RunView.of(closed.run_uid, records)), "gpu_launch")

    assert expected == events[-1]["eventType"]


def test_a_try_without_a_result_is_aborted(closed: RunView) -> None:
    """A launch that began and was tried again before its end left no result."""
    records = [r for r in closed.records if r.kind != "attempt.ended"]
    launch = next(r for r in records if r.kind == "launch.intended")
    later = [r for r in records if r.origin.task_id == "gpu_launch" and r.attempt == 2]
    records = [with_try(r, 2) if r in later else r for r in records]
    events = of_task(lineage_events(RunView.of(closed.run_uid, records)), "gpu_launch")

    assert "launch.intended" == launch.kind
    assert ["ABORT", "ABORT"] == [e["eventType"] for e in events if e["eventType"] != "START"]


def test_airflow_tells_of_tries_that_left_nothing_here(closed: RunView) -> None:
    """A try that failed before it wrote anything comes from Airflow's list, and one that never started is no run."""
    history = [
        AirflowTry(task_id="train", map_index=-1, try_number=1, state="failed"),
        AirflowTry(
            task_id="train", map_index=-1, try_number=2, state="failed",
            started="2026-11-29T10:00:00Z", ended="2026-11-29T10:00:09Z",
        ),
    ]  # fmt: skip
    events = of_task(lineage_events(closed, history=history), "train")

    assert ["START", "FAIL"] == [event["eventType"] for event in events]


def test_run_that_was_never_opened_has_no_lineage() -> None:
    """Nothing is known of it."""
    assert b"" == lineage_lines(RunView.of("run_x", []))


def test_an_evaluation_that_gave_no_numbers_failed(closed: RunView) -> None:
    """Its try says why; a later try that measured is another lineage run."""
    report = next(record for record in closed.records if record.kind == "evaluation.reported")
    failed = replace(
        report, kind="evaluation.failed", payload={"detail": "exit code 3"}, edges=(), record_id="rec_f"
    )
    records: list[Record] = []
    for record in closed.records:
        if record.record_id == report.record_id:
            records.append(failed)
        records.append(with_try(record, 2) if record.origin.task_id == "evaluate" else record)
    records = [replace(record, position=n, sequence=n) for n, record in enumerate(records)]
    events = [
        e
        for e in of_task(lineage_events(RunView.of(closed.run_uid, records)), "evaluate")
        if e["eventType"] in ENDS
    ]

    assert ["FAIL", "COMPLETE"] == [event["eventType"] for event in events]
    assert "exit code 3" == events[0]["run"]["facets"]["errorMessage"]["message"]
