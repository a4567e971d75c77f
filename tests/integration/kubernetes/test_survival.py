"""A job goes on, and its record stays right, whatever breaks around it: launchers, ledger, API server, nodes."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.cluster import FakeCluster
from tests.fakes.cluster_processes import marked
from tests.integration.kubernetes.playground import ASSETS, Run, origin

from pretrain_archive.compute.kubernetes.launch import KubernetesLaunch
from pretrain_archive.domain.errors import ClusterUnavailableError, LedgerUnavailableError, StillRunningError
from pretrain_archive.domain.kinds import AttemptEnded, JobRemoved, MemberObserved, MetricsRecorded

LONG = {"steps": 100_000, "step_seconds": 0.01}
STEADY = {"steps": 120, "step_seconds": 0.02}


class Unreachable:
    """A ledger that cannot be reached while ``away`` is set."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.away = inner, threading.Event()

    def __getattr__(self, name: str) -> Any:
        if self.away.is_set() and name in ("append", "records"):
            raise LedgerUnavailableError("the database cannot be reached")
        return getattr(self.inner, name)


def follow(launch: KubernetesLaunch) -> tuple[threading.Thread, list[AttemptEnded | BaseException]]:
    """Run a launch in a thread; the list gets how it ended."""
    found: list[AttemptEnded | BaseException] = []

    def work() -> None:
        try:
            found.append(launch.run())
        except BaseException as error:  # noqa: BLE001 (the test looks at it)
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, found


def some_steps(run: Run, cluster: FakeCluster, size: int = 4000) -> None:
    """Wait until the program wrote some steps."""
    events = run.spec().work_folder / "events.jsonl"
    cluster.wait(lambda: events.exists() and events.stat().st_size > size)


def steps_of(run: Run) -> list[int]:
    """The steps of the loss on record, in order."""
    return [
        point.step
        for batch in run.facts("metrics.recorded", MetricsRecorded)
        for point in batch.points
        if point.name == "train_loss"
    ]


def launcher(run: Run, cluster: FakeCluster, number: int, config: dict[str, Any]) -> subprocess.Popen[str]:
    """A launcher in a process of its own."""
    words = [
        run.root / "ledger.db", cluster.kubeconfig(run.root / "child.kubeconfig"), run.run_uid, run.root, number,
        json.dumps(config),
    ]  # fmt: skip
    return subprocess.Popen(
        [sys.executable, str(ASSETS / "launch.py"), *map(str, words)], cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )  # fmt: skip


@pytest.mark.requirement("R188", "R191")
@pytest.mark.parametrize("seed", [1])
def test_launchers_are_killed_at_random(run: Run, cluster: FakeCluster, seed: int) -> None:
    """SIGKILL to one launcher after another: the same job goes on, its evidence is whole and written once."""
    luck = random.Random(seed)
    run.intend()
    first = launcher(run, cluster, 1, STEADY)
    try:
        cluster.wait(lambda: run.records("job.created"), 60)
        cluster.wait(lambda: cluster.started, 60)
        threading.Event().wait(luck.random() * 0.5)
    finally:
        first.kill()
        first.wait(10)
    for number in (2, 3):
        second = launcher(run, cluster, number, STEADY)
        try:
            second.wait(1.0 + luck.random())
        except subprocess.TimeoutExpired:
            pass
        finally:
            second.kill()
            second.communicate(timeout=10)
    last = launcher(run, cluster, 4, STEADY)
    assert "completed" == last.communicate(timeout=60)[0]

    [ended] = run.facts("attempt.ended", AttemptEnded)
    assert ("completed", 120) == (ended.state, ended.last_step)
    assert list(range(1, 121)) == steps_of(run)
    assert (1, 1) == (len(cluster.ever("jobs")), len(cluster.started))
    assert ([], {}) == (list(cluster.list("jobs")), marked(f"{cluster.kubelet.cluster_id}/"))


def test_two_follow_the_same_job(run: Run, cluster: FakeCluster) -> None:
    """A worker that was given up goes on beside its successor: one end, nothing is written twice."""
    first = run.launch(run.spec(config=STEADY))
    first.create()
    second = run.launch(run.spec(config=STEADY), task=origin(2))
    pairs = [follow(first), follow(second)]
    for thread, _ in pairs:
        thread.join(60)

    assert [1] == sorted({len(found) for _, found in pairs})
    assert pairs[0][1] == pairs[1][1]
    assert (1, 1) == (len(cluster.ever("jobs")), len(cluster.started))
    [ended] = run.facts("attempt.ended", AttemptEnded)
    assert ("completed", 120) == (ended.state, ended.last_step)
    assert 120 == len(set(steps_of(run)))
    members = run.facts("member.observed", MemberObserved)
    assert len(members) == len({(m.phase, m.node, m.started_at, m.exit_class, m.ended_at) for m in members})


def test_the_api_server_limps(run: Run, cluster: FakeCluster) -> None:
    """Throttled, dropped, erroring and slow answers all the time: one job, completed."""
    luck = random.Random(3)
    kinds: list[dict[str, Any]] = [
        {"status": 429, "retry_after": 0.1}, {"drop": True}, {"drop": True, "after": True}, {"status": 500},
        {"status": 503, "after": True}, {"delay": 0.2},
    ]  # fmt: skip
    done = threading.Event()

    def limp() -> None:
        while not done.wait(0.2):
            verb, resource = (
                luck.choice(["get", "list", "create", "patch", "delete"]),
                luck.choice(["jobs", "pods"]),
            )
            cluster.fail(verb, resource, **luck.choice(kinds))

    thread = threading.Thread(target=limp)
    thread.start()
    try:
        ended = run.launch(run.spec(config=STEADY)).run()
    finally:
        done.set()
        thread.join()
    assert ("completed", 120) == (ended.state, ended.last_step), ended
    assert (1, 1) == (len(cluster.ever("jobs")), len(cluster.started))


def test_the_api_server_is_away_for_a_while(run: Run, cluster: FakeCluster) -> None:
    """Nobody answers: the job goes on by itself, its evidence is read on, and the end is right once it is back."""
    launch = run.launch(run.spec(config=STEADY))
    thread, found = follow(launch)
    some_steps(run, cluster)
    launch.api._patience = 0.2  # type: ignore[attr-defined]
    cluster.fail("*", "*", times=-1, status=503)
    cluster.wait(lambda: any("does not answer" in line for line in run.lines))
    before = len(steps_of(run))
    cluster.wait(lambda: len(steps_of(run)) > before)
    cluster.faults.clear()
    thread.join(60)

    assert isinstance(found[0], AttemptEnded)
    assert ("completed", 120) == (found[0].state, found[0].last_step)


def test_a_stop_rule_fires_while_the_api_server_is_away(run: Run, cluster: FakeCluster) -> None:
    """The stop is found in the files and on record; the end waits for the cluster, since absence must be proved."""
    launch = run.launch(run.spec(config=LONG | {"nan_at": 120, "every": 10}))
    launch.create()
    some_steps(run, cluster)
    launch.visit()
    launch.api._patience = 0.2  # type: ignore[attr-defined]
    cluster.fail("*", "*", times=-1, status=503)
    cluster.wait(lambda: _ended(launch))
    with pytest.raises(ClusterUnavailableError):
        launch.end()
    assert [] == run.records("attempt.ended")
    cluster.faults.clear()
    ended = launch.end()

    assert ("stopped", "stopped") == (ended.state, ended.exit_class), ended
    assert 120 <= (ended.last_step or 0) < 1000
    assert 1 == len(run.records("stop.fired"))


def _ended(launch: KubernetesLaunch) -> bool:
    try:
        return launch.visit().state == "ended"
    except ClusterUnavailableError:
        return False


def test_the_ledger_is_away_for_a_while(run: Run, cluster: FakeCluster) -> None:
    """Training goes on without the ledger; all that happened meanwhile is on record once it is back."""
    ledger = Unreachable(run.ledger)
    thread, found = follow(run.launch(run.spec(config=STEADY), ledger=ledger))
    some_steps(run, cluster)
    ledger.away.set()
    some_steps(run, cluster, 7_000)
    ledger.away.clear()
    thread.join(60)

    assert isinstance(found[0], AttemptEnded)
    assert ("completed", 120) == (found[0].state, found[0].last_step)
    assert list(range(1, 121)) == steps_of(run)


@pytest.mark.requirement("R096")
def test_a_ledger_that_stays_away_stops_the_job(run: Run, cluster: FakeCluster) -> None:
    """Evidence that cannot be written stops the job; it is on record as soon as the ledger is back."""
    ledger = Unreachable(run.ledger)
    launch = run.launch(run.spec(config=LONG), ledger=ledger, evidence_seconds=1.0)
    launch.create()
    some_steps(run, cluster)
    launch.visit()
    ledger.away.set()
    cluster.wait(lambda: launch.visit().state == "ended")
    with pytest.raises(LedgerUnavailableError):
        launch.end()
    assert {} == marked(f"{cluster.kubelet.cluster_id}/")
    ledger.away.clear()
    ended = launch.end()

    assert ("stopped", "stopped") == (ended.state, ended.exit_class)
    assert "evidence" == run.records("stop.fired")[0].payload["rule"]


@pytest.mark.requirement("R189")
@pytest.mark.parametrize(
    ("happens", "state", "expected", "counted"),
    [
        pytest.param(lambda c, p: c.oom(p), "failed", "oom", True, id="out of memory"),
        pytest.param(lambda c, p: c.kill(p), "interrupted", "killed", True, id="killed on the node"),
        pytest.param(lambda c, p: c.preempt(p), "interrupted", "preempted", False, id="preempted"),
        pytest.param(lambda c, p: c.evict(p), "interrupted", "evicted", True, id="evicted"),
        pytest.param(
            lambda c, p: c.evict_by_api("training", p), "interrupted", "evicted", True, id="drained"
        ),
        pytest.param(lambda c, _: c.node_lost("node-0"), "lost", "node_lost", True, id="node lost"),
    ],
)
def test_what_happens_to_a_member(
    run: Run, cluster: FakeCluster, happens: Callable[[FakeCluster, str], None], state: str, expected: str,
    counted: bool,
) -> None:  # fmt: skip
    """A real program is taken from its node in every way: told apart, nothing left, the last checkpoint kept."""
    thread, found = follow(run.launch(run.spec(config=LONG)))
    some_steps(run, cluster)
    happens(cluster, cluster.started[0])
    thread.join(60)

    ended = found[0]
    assert isinstance(ended, AttemptEnded), ended
    assert (state, expected, counted) == (ended.state, ended.exit_class, ended.counted), ended
    assert (ended.last_checkpoint_step or 0) >= 10
    assert run.facts("job.removed", JobRemoved)[0].verified_absent
    assert {} == marked(f"{cluster.kubelet.cluster_id}/")


def test_a_pod_that_does_not_go(run: Run, by_hand: FakeCluster) -> None:
    """A pod stays, as on a node that nobody hears of: it is named, the attempt stays open, a later call ends it."""
    launch = run.launch(absence_seconds=0.5)
    launch.create()
    [pod] = by_hand.wait(lambda: by_hand.list("pods"))
    name = pod["metadata"]["name"]
    by_hand.wait(lambda: by_hand.list("pods")[0]["spec"].get("nodeName"))
    by_hand.set_pod(name, phase="Running")
    by_hand.kubelet.lost.add("node-0")
    launch.kill()
    with pytest.raises(StillRunningError, match=name):
        launch.end()
    assert [] == run.records("attempt.ended")
    [removed] = run.facts("job.removed", JobRemoved)
    assert (False, [name]) == (removed.verified_absent, removed.pods_left)

    by_hand.kubelet.lost.clear()
    again = run.launch(task=origin(2), absence_seconds=10)
    again.kill("the next try")
    assert "interrupted" == again.end().state
    assert [False, True] == [r.verified_absent for r in run.facts("job.removed", JobRemoved)]
