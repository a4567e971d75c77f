"""A follower goes on whatever the API server does."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.fakes.cluster import FakeCluster
from tests.integration.kubernetes.follow_scene import (
    NAMESPACE,
    PLAYED,
    QUICK,
    away,
    complete,
    connect_to,
    finished,
    job,
    phase_of,
    play,
    target,
    until,
)

from pretrain_archive.compute.kubernetes.follow import Follower

CLUSTER = PLAYED


def test_gone_history_is_listed_anew(cluster: FakeCluster) -> None:
    """410: what was deleted meanwhile is gone from the view, what is new is there."""

    async def scene(cluster: FakeCluster, follower: Follower) -> None:
        await away(lambda: cluster.create("jobs", job("r1"), NAMESPACE))
        async with follower.follow(target("r1")) as view:
            await until(view, lambda: view.job and view.pods)
            [name] = view.pods
            cluster.fail("watch", "pods", status=410, times=1)
            cluster.fail("watching", "pods", drop=True)
            await away(lambda: cluster.set_pod(name, phase="Running", node="node-0"))
            await until(view, lambda: phase_of(view) == "Running")
            cluster.fail("watching", "jobs", drop=True)
            cluster.fail("watch", "jobs", times=3, status=500)
            await away(lambda: cluster.delete("jobs", "job-r1-1", NAMESPACE))
            await away(cluster.forget)
            await until(view, lambda: view.job is None)

    play(cluster, scene)


def test_dropped_connection_resumes_where_it_was(cluster: FakeCluster) -> None:
    """A cut watch goes on after the last version that was seen, without a new list."""

    async def scene(cluster: FakeCluster, follower: Follower) -> None:
        await away(lambda: cluster.create("jobs", job("r1"), NAMESPACE))
        async with follower.follow(target("r1")) as view:
            await until(view, lambda: view.job and view.pods)
            lists = len(cluster.asked("list", "pods"))
            [name] = view.pods
            for phase in ("Running", "Succeeded"):
                cluster.fail("watching", "pods", drop=True)
                await away(
                    lambda p=phase: cluster.set_pod(name, phase=p, exit_code=None if p == "Running" else 0)
                )
                await until(view, lambda p=phase: phase_of(view) == p)
            assert lists == len(cluster.asked("list", "pods"))
            versions = [request.query.get("resourceVersion") for request in cluster.asked("watch", "pods")]
            assert len(versions) >= 2
            assert len(set(versions)) >= 2

    play(cluster, scene)


def test_a_cluster_that_is_away_is_told_once(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    """One line when it stops answering, one when it answers again, and nothing is missed."""
    caplog.set_level(logging.WARNING)

    async def scene(cluster: FakeCluster, follower: Follower) -> None:
        await away(lambda: cluster.create("jobs", job("r1"), NAMESPACE))
        async with follower.follow(target("r1")) as view:
            await until(view, lambda: view.job and view.pods)
            faults = [
                cluster.fail("watch", "*", status=503, times=-1),
                cluster.fail("list", "*", status=503, times=-1),
            ]
            for kind in ("jobs", "pods", "events"):
                cluster.fail("watching", kind, drop=True)
            await away(lambda: complete(cluster, "job-r1-1"))
            await until(view, lambda: view.away_since is not None)
            await asyncio.sleep(0.5)
            assert view.away_seconds > 0.3
            for fault in faults:
                fault.times = 0
            await until(view, lambda: finished(view) and view.away_since is None)

    play(cluster, scene)
    told = [r.getMessage() for r in caplog.records if "answer" in r.getMessage()]
    assert len(told) == 2, told
    assert "does not answer" in told[0]
    assert "answers again" in told[1]


def test_without_the_right_to_watch_it_polls(cluster: FakeCluster) -> None:
    """403 on the watch: lists at intervals find the end all the same."""
    cluster.forbid("watch", "jobs")
    cluster.forbid("watch", "pods")

    async def scene(cluster: FakeCluster, follower: Follower) -> None:
        await away(lambda: cluster.create("jobs", job("r1"), NAMESPACE))
        async with follower.follow(target("r1")) as view:
            await until(view, lambda: view.ready and view.pods)
            await away(lambda: complete(cluster, "job-r1-1"))
            await until(view, lambda: finished(view))
            assert view.away_since is None

    play(cluster, scene)


def test_forbidden_events_are_done_without(cluster: FakeCluster) -> None:
    """Events may be closed to the service account: job and pods are followed all the same."""
    cluster.forbid("list", "events")

    async def scene(cluster: FakeCluster, follower: Follower) -> None:
        await away(lambda: cluster.create("jobs", job("r1"), NAMESPACE))
        async with follower.follow(target("r1")) as view:
            await until(view, lambda: view.ready and view.pods)
            await until(view, follower.streams["Event"].done)
            assert view.away_since is None

    play(cluster, scene)


def test_an_expired_token_is_renewed() -> None:
    """401: the connection is opened anew, with the credentials that hold then."""
    with FakeCluster(kubelet="hand", token="first") as cluster:

        async def scene(cluster: FakeCluster, follower: Follower) -> None:
            await away(lambda: cluster.create("jobs", job("r1"), NAMESPACE))
            async with follower.follow(target("r1")) as view:
                await until(view, lambda: view.ready and view.pods)
                cluster.token = "second"
                follower.connect = connect_to(cluster, "second")
                for kind in ("jobs", "pods"):
                    cluster.fail("watching", kind, drop=True)
                await away(lambda: complete(cluster, "job-r1-1"))
                await until(view, lambda: finished(view))

        play(cluster, scene, token="first")


def test_a_cluster_that_was_never_there(caplog: pytest.LogCaptureFixture) -> None:
    """A wrong address is a cluster that is away: told, with the reason in the view."""

    async def scene() -> None:
        with FakeCluster(kubelet="hand") as cluster:
            gone = connect_to(cluster)
        follower = Follower(gone, namespace=NAMESPACE, pace=QUICK)
        async with follower.follow(target("r1")) as view:
            await until(view, lambda: view.away_since is not None)
            assert view.problem
            assert not view.ready
        await follower.close()

    asyncio.run(scene())
    assert any("does not answer" in record.getMessage() for record in caplog.records)
