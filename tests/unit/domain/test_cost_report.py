"""Accounts of many runs, and what could be given back."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
from tests.unit.domain.told_run import DIGEST, Told, at

from pretrain_archive.domain import kinds
from pretrain_archive.domain.cost import RunAccount, account
from pretrain_archive.domain.cost_idle import idle_candidates
from pretrain_archive.domain.cost_report import Report


def run(number: int, *, team: str | None, state: str = "completed", project: str = "p") -> Told:
    """A run of ten seconds on two accelerators after five of queueing for quota."""
    told = Told(run_uid=f"run_{number}", accelerators=2)
    told.open(cost={"team": team, "per_device_hour": 1.8, "currency": "CNY"}, project=project)
    told.launch(1, 0)
    told.add(kinds.WaitObserved(attempt=1, reason="quota", message="", at=at(0)), 0, 1)
    told.start(1, 5)
    told.steps(1, *[(5 + s, s) for s in range(1, 11)])
    told.save(1, 15, 10, took=0)
    told.end(1, 15, took=10, state=state)
    return told


def report(by: str, *told: Told) -> dict[str, dict[str, object]]:
    """Groups by name."""
    found = Report(by=by).add_all(account(one.view) for one in told).to_dict()  # type: ignore[arg-type]
    return {group["group"]: group for group in found["groups"]}


@pytest.mark.requirement("R245")
def test_fair_share_by_team() -> None:
    """Each team's share is of all that was held; a run without a team is its own group."""
    found = report("team", run(1, team="a"), run(2, team="a"), run(3, team="b"), run(4, team=None))

    assert {"a": 0.5, "b": 0.25, "unrecorded": 0.25} == {
        name: group["devices"][0]["share"]  # type: ignore[index]
        for name, group in found.items()
    }
    assert {"CNY": 0.02} == found["a"]["money"]


@pytest.mark.requirement("R223")
def test_trends_by_month() -> None:
    """A month tells queue time, its reasons, success and failure."""
    found = report(
        "month", run(1, team="a"), run(2, team="a", state="failed"), run(3, team="a", state="interrupted")
    )

    month = found["2026-11"]
    assert (3, 1, 1) == (month["attempts"], month["succeeded"], month["failed"])
    assert (15.0, 5.0, 5.0) == (
        month["queue_seconds"], month["mean_queue_seconds"], month["longest_queue_seconds"]
    )  # fmt: skip
    assert {"quota": 15.0} == month["waits"]


def test_no_run_is_kept() -> None:
    """When a run is counted nothing holds it any more: memory grows with groups alone."""
    known: list[weakref.ref[RunAccount]] = []

    def many() -> Iterator[RunAccount]:
        for number in range(6):
            found = account(run(number, team="ab"[number % 2]).view)
            known.append(weakref.ref(found))
            yield found
            del found
            gc.collect()
            assert sum(one() is not None for one in known) <= 1

    assert 6 == Report(by="team").add_all(many()).total.runs


def job(told: Told, *, removed: bool) -> None:
    """The attempt was a job, whose absence was proven or not."""
    told.add(
        kinds.JobCreated(
            attempt=1,
            object_kind="Job",
            name="j",
            namespace="n",
            uid=None,
            manifest={},
            manifest_digest=DIGEST,
        ),
        1,
        1,
    )
    if removed:
        gone = kinds.JobRemoved(
            attempt=1, name="j", namespace="n", reason="", pods_before=1, verified_absent=True, at=at(20)
        )
        told.add(gone, 20, 1)


@pytest.mark.requirement("R226")
@pytest.mark.parametrize(
    ("state", "removed", "expected"),
    [
        pytest.param("completed", False, ["finished"], id="finished"),
        pytest.param("failed", False, ["failed"], id="failed"),
        pytest.param("completed", True, [], id="gone"),
    ],
)
def test_a_job_that_nobody_proved_gone(state: str, removed: bool, expected: list[str]) -> None:
    """Finished and failed are told apart by the attempt's own end, and only while nothing proves the job gone."""
    told = run(1, team="a", state=state)
    job(told, removed=removed)

    found = list(idle_candidates(told.view, at(3600)))

    assert expected == [candidate.idle_class for candidate in found]
    assert all((2, "alice") == (candidate.devices, candidate.ask) for candidate in found)


@pytest.mark.parametrize(
    ("now", "expected"), [(16 + 299, []), (16 + 300, ["idle"])], ids=["in time", "silent"]
)
def test_idle_is_no_step_for_its_limit(now: float, expected: list[str]) -> None:
    """An attempt without an end is idle where no step came for as long as its own stop condition allows."""
    told = run(1, team="a")
    told.records.pop()
    told.steps(1, (16, 11))

    assert expected == [c.idle_class for c in idle_candidates(told.view, at(now))]


@pytest.mark.requirement("R227")
def test_long_retained_and_its_exception() -> None:
    """Checkpoints of an unclosed run are told with their bytes; a gate that waits is the exception."""
    told = run(1, team="a")
    told.add(
        kinds.CheckpointRegistered(
            checkpoint_id="c", step=10, tokens=None, attempt=1, location="", format="f", digest=DIGEST,
            files=[kinds.FileDigest(path="w", size=7, sha256="0" * 64)], components={}, tensors=None,
            tensors_digest=None, snapshot="s@1", configuration_digest=DIGEST, data_position=None,
            responsible="alice", artifact_class="recovery", purpose="",
        ),
        16,
        1,
    )  # fmt: skip
    told.add(kinds.GateDossier(gate="run", digest=DIGEST, document={}, eligible=["bob"]), 17)

    assert [] == list(idle_candidates(told.view, at(13 * 86_400)))
    (found,) = idle_candidates(told.view, at(15 * 86_400))
    assert ("long_retained", 7, "the run gate waits for a person") == (
        found.idle_class,
        found.bytes,
        found.exception,
    )
