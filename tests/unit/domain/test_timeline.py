"""One order of what members, nodes, storage, network, checkpoints and persons did."""

from __future__ import annotations

import pytest
from tests.unit.domain.told_run import DIGEST, Told, at

from pretrain_archive.domain import kinds
from pretrain_archive.domain.timeline import LANES, thinned, timeline


def told_run(clock: float = 0.0) -> Told:
    """Two members that waited, one moved to another node, a stop, a change by hand and a gate."""
    told = Told(accelerators=2, nodes=2, clock=clock)
    told.open()
    told.launch(1, 0, target="kubernetes")
    told.add(kinds.WaitObserved(attempt=1, reason="quota", message="no quota left", at=at(1)), 1, 1)
    told.add(kinds.WaitObserved(attempt=1, reason="quota", message="", at=at(30), ended=True), 30, 1)
    told.member(1, 0, 31, "Running", node="a", started_at=31)
    told.member(1, 1, 32, "Running", node="b", started_at=32)
    told.start(1, 33)
    told.steps(1, (40, 1), (41, 2))
    told.add(
        kinds.EnvironmentObserved(
            moment="start", environment={}, environment_digest=DIGEST,
            differences=[{"field": "driver", "grade": "blocking"}],
        ),
        34,
        1,
    )  # fmt: skip
    told.event(1, 42, "note", text="NCCL warned of a slow link")
    told.save(1, 43, 2, took=1)
    told.member(1, 1, 50, "Failed", node="b", exit_code=137, exit_class="oom")
    told.member(1, 1, 52, "Running", node="c", name="m-1b")
    told.add(
        kinds.ChangeRecorded(
            attempt=1, what="priority", scope="the job", reason="urgent", person="carol", before="low", after="high",
            at=at(45), via="command_line",
        ),
        60,
        1,
    )  # fmt: skip
    told.add(
        kinds.StopFired(attempt=1, rule="nan_loss", observed="nan at step 2", limit="a finite loss"), 61, 1
    )
    told.end(1, 62, took=30, state="stopped")
    return told


@pytest.mark.requirement("R087")
def test_one_order_over_all_clocks() -> None:
    """A worker's clock that is an hour ahead changes nothing in the order."""
    plain = [(e.lane, e.what) for e in timeline(told_run().view)]

    assert plain == [(e.lane, e.what) for e in timeline(told_run(clock=3600.0).view)]
    assert [at(-60), at(0), at(1)] == [e.at for e in timeline(told_run().view)][:3]


@pytest.mark.requirement("R087")
def test_every_lane_has_its_entries() -> None:
    """Waits last, members come to nodes and move, the network is named, persons' acts carry their own moment."""
    entries = timeline(told_run().view)
    said = {(e.lane, e.what): e for e in entries}

    assert {"gates", "operator", "attempts", "waits", "members", "nodes", "network", "environment", "checkpoints",
            "stops"} == {e.lane for e in entries}  # fmt: skip
    assert at(30) == said["waits", "waits for quota: no quota left"].until
    assert ["worker 0 on node a", "worker 1 on node b", "worker 1 on node c, before b"] == [
        e.what for e in entries if e.lane == "nodes"
    ]
    assert "worker 1 Failed, exit code 137, oom" in {e.what for e in entries if e.tone == "bad"}
    assert at(45) == said["operator", "carol changed priority (the job): low → high, urgent"].at


def test_lanes_can_be_chosen() -> None:
    """Only what lies in the named lanes."""
    assert {"nodes", "stops"} == {e.lane for e in timeline(told_run().view, lanes=("nodes", "stops"))}


def test_each_entry_names_its_record() -> None:
    """Every entry leads to the evidence behind it."""
    told = told_run()
    known = {record.record_id for record in told.records}

    assert all(e.record in known and e.lane in LANES for e in timeline(told.view))


@pytest.mark.parametrize("count", [10, 1_000, 20_000])
def test_long_runs_are_thinned(count: int) -> None:
    """However many events, the drawing stays small; counts add up, decisions and bad news stay visible."""
    told = told_run()
    for number in range(count):
        told.event(1, 100 + number, "note", text=f"number {number}")
    told.event(1, 200, "worker_restarted", worker=1)
    entries = timeline(told.view)

    few = thinned(entries, 300)

    assert len(few) <= 300
    assert len(entries) == sum(e.count for e in few)
    assert [e.what for e in entries if e.lane == "stops"] == [e.what for e in few if e.lane == "stops"]
    assert sum(e.tone == "bad" for e in entries) == sum(e.count for e in few if e.tone == "bad")


def test_a_payload_that_does_not_fit_is_told_by_its_kind() -> None:
    """A record of another release does not take the timeline away."""
    told = told_run()
    fired = next(record for record in told.records if record.kind == "stop.fired")
    fired.payload.pop("rule")  # type: ignore[attr-defined]

    assert "stop.fired" in {e.what for e in timeline(told.view)}


def test_nothing_recorded() -> None:
    """An empty run has an empty timeline."""
    assert [] == timeline(Told().view)
