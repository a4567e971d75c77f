"""One process follows many jobs over one watch per kind, whatever the API server does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from tests.fakes.cluster import FakeCluster

from pretrain_archive.compute.kubernetes.follow import Connect, Follower, Pace, Target, View, follower_for
from pretrain_archive.compute.kubernetes.names import ATTEMPT_LABEL, RUN_LABEL

NAMESPACE = "training"
QUICK = Pace(watch=60, poll=0.2, first_pause=0.05, longest_pause=0.3, linger=0.3)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """A cluster whose pods the tests play by hand."""
    with FakeCluster(kubelet="hand", bookmark_seconds=0.3) as made:
        yield made


def connect_to(cluster: FakeCluster, token: str = "") -> Connect:
    """Opens the asynchronous client, as a hook would."""

    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        from kubernetes_asyncio import client

        configuration = client.Configuration(host=cluster.url)
        if token:
            configuration.api_key = {"BearerToken": f"Bearer {token}"}
        async with client.ApiClient(configuration) as made:
            yield made

    return connect


def job(run: str, attempt: int = 1, **spec: Any) -> dict[str, Any]:
    """A job of one pod."""
    labels = {RUN_LABEL: run, ATTEMPT_LABEL: str(attempt)}
    template = {"metadata": {"labels": labels}, "spec": {"restartPolicy": "Never", "containers": [
        {"name": "main", "image": "trainer", "command": ["true"]}
    ]}}  # fmt: skip
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"job-{run}-{attempt}", "labels": labels},
        "spec": {"backoffLimit": 0, "template": template, **spec},
    }  # fmt: skip


def target(run: str, attempt: int = 1) -> Target:
    """The target of :func:`job`."""
    return Target(run_uid=run, attempt=attempt, name=f"job-{run}-{attempt}")


async def until(view: View, condition: Callable[[], Any], seconds: float = 10) -> Any:
    """Wait until what is known of the job fulfils the condition."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not (found := condition()):
        assert loop.time() < end, f"not within {seconds} s; known are {view.job} and {list(view.pods)}"
        await view.changed(0.2)
    return found


async def away(act: Callable[[], Any]) -> Any:
    """Do something with the cluster, which lives in threads, without holding up the loop."""
    return await asyncio.to_thread(act)


def phase_of(view: View) -> str:
    """The phase of the job's only pod; empty without one."""
    return next((str(pod["status"].get("phase")) for pod in view.pods.values()), "")


def finished(view: View) -> bool:
    """Whether the job's own condition says that it is over."""
    conditions = ((view.job or {}).get("status") or {}).get("conditions") or ()
    return any(c["type"] in {"Complete", "Failed"} and c["status"] == "True" for c in conditions)


def complete(cluster: FakeCluster, name: str) -> None:
    """Let the only pod of a job end well."""
    [pod] = cluster.wait(lambda: cluster.pods_of(name))
    cluster.set_pod(pod["metadata"]["name"], phase="Succeeded", exit_code=0)


Scene = Callable[[FakeCluster, Follower], Awaitable[None]]


def play(cluster: FakeCluster, scene: Scene, *, pace: Pace = QUICK, token: str = "") -> None:
    """Run a scene with a follower, and close it."""

    async def run() -> None:
        follower = Follower(connect_to(cluster, token), namespace=NAMESPACE, pace=pace)
        try:
            await asyncio.wait_for(scene(cluster, follower), 60)
        finally:
            await follower.close()

    asyncio.run(run())


def watches(cluster: FakeCluster, resource: str) -> int:
    """How many watches of a kind were opened."""
    return len(cluster.asked("watch", resource))


def test_end_of_a_job_is_noticed(cluster: FakeCluster) -> None:
    """Job, pod, events and the job's end arrive; what is large and unread is dropped."""

    async def scene(cluster: FakeCluster, follower: Follower) -> None:
        await away(lambda: cluster.create("jobs", job("r1"), NAMESPACE))
        async with follower.follow(target("r1")) as view:
            await until(view, lambda: view.ready and view.job and view.pods)
            assert view.job is not None
            assert "template" not in view.job["spec"]
            await until(view, lambda: any(e["reason"] == "SuccessfulCreate" for e in view.events))
            await away(lambda: complete(cluster, "job-r1-1"))
            await until(view, lambda: finished(view) and phase_of(view) == "Succeeded")

    play(cluster, scene)


def test_only_followed_jobs_are_kept(cluster: FakeCluster) -> None:
    """Other jobs of the namespace leave nothing behind, and a job that is left is forgotten."""

    async def scene(cluster: FakeCluster, follower: Follower) -> None:
        for number in range(20):
            await away(lambda n=number: cluster.create("jobs", job(f"other{n}"), NAMESPACE))
        await away(lambda: cluster.create("jobs", job("mine"), NAMESPACE))
        async with follower.follow(target("mine")) as view:
            await until(view, lambda: view.pods and view.job)
            assert [view.target.name] == [str((view.job or {})["metadata"]["name"])]
            assert follower.jobs == 1
        assert follower.jobs == 0
        async with follower.follow(target("mine")) as again:  # back from a visit: nothing is asked for again
            assert again is view
        await asyncio.sleep(0.5)
        assert not follower.views

    play(cluster, scene)


def test_many_jobs_share_the_watches(cluster: FakeCluster) -> None:
    """Forty jobs that begin to be followed at different moments open one watch per kind."""

    async def scene(cluster: FakeCluster, follower: Follower) -> None:
        runs = [f"r{n}" for n in range(40)]
        async with AsyncExitStack() as stack:
            views = []
            for number, run in enumerate(runs):
                await away(lambda r=run: cluster.create("jobs", job(r), NAMESPACE))
                views.append(await stack.enter_async_context(follower.follow(target(run))))
                if number % 8 == 0:
                    await asyncio.sleep(0.15)
            for view in views:
                await until(view, lambda v=view: v.ready and v.job and v.pods)
            for run in runs:
                await away(lambda r=run: complete(cluster, f"job-{r}-1"))
            for view in views:
                await until(view, lambda v=view: finished(v))
        assert [1, 1, 1] == [watches(cluster, kind) for kind in ("jobs", "pods", "events")]
        assert len(cluster.asked("list", "jobs")) < 12

    play(cluster, scene)


def test_a_job_that_is_followed_late_is_known_at_once(cluster: FakeCluster) -> None:
    """The watch began long before, and nothing of the job changes any more: it is looked up."""

    async def scene(cluster: FakeCluster, follower: Follower) -> None:
        await away(lambda: cluster.create("jobs", job("old"), NAMESPACE))
        await away(lambda: complete(cluster, "job-old-1"))
        async with follower.follow(target("none")) as view:
            await until(view, lambda: view.ready)
            assert view.job is None
            async with follower.follow(target("old")) as late:
                await until(late, lambda: finished(late) and phase_of(late) == "Succeeded")

    play(cluster, scene)


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


def test_all_users_of_a_loop_share_one_follower(cluster: FakeCluster) -> None:
    """The second user gets the first one's follower; it is closed a while after the last one left."""

    def make() -> Follower:
        return Follower(connect_to(cluster), namespace=NAMESPACE, pace=QUICK)

    async def scene() -> None:
        async with follower_for(("c", NAMESPACE), make) as first:
            async with follower_for(("c", NAMESPACE), make) as second:
                assert first is second
                async with second.follow(target("r1")) as view:
                    await until(view, lambda: view.ready)
            await asyncio.sleep(0.3)
            assert first.streams
        end = asyncio.get_running_loop().time() + 5
        while first.streams:
            assert asyncio.get_running_loop().time() < end
            await asyncio.sleep(0.05)
        async with follower_for(("c", NAMESPACE), make) as third:
            assert third is not first
        await third.close()

    asyncio.run(scene())


def test_train_job_and_its_workload() -> None:
    """A TrainJob is followed by its own conditions, and Kueue's workload by its owner."""

    async def scene(cluster: FakeCluster, follower: Follower) -> None:
        made = job("t1")
        body = {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": made["metadata"],
            "spec": {},
        }
        await away(lambda: cluster.create("trainjobs", body, NAMESPACE))
        owner = {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "name": "job-t1-1",
            "uid": "u",
        }
        workload = {"metadata": {"name": "w", "ownerReferences": [owner]}, "spec": {}, "status": {}}
        await away(lambda: cluster.store.create("workloads", NAMESPACE, workload))
        goal = Target(run_uid="t1", attempt=1, name="job-t1-1", object_kind="TrainJob", queued=True)
        async with follower.follow(goal) as view:
            await until(view, lambda: view.ready and view.job and view.workload)
            done = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
            await away(lambda: cluster.patch("trainjobs", "job-t1-1", done, NAMESPACE))
            await until(view, lambda: finished(view))

    with FakeCluster(kubelet="hand", controllers=False, bookmark_seconds=0.3) as cluster:
        play(cluster, scene)
