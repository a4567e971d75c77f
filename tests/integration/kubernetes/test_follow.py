"""One process follows many jobs over one watch per kind."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

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
    watches,
)

from pretrain_archive.compute.kubernetes.follow import Follower, Target, follower_for

CLUSTER = PLAYED


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
        await away(lambda: cluster.create("jobs", job("mine", 2), NAMESPACE))  # the run's other attempt
        await away(lambda: cluster.create("jobs", job("mine"), NAMESPACE))
        await away(lambda: cluster.wait(lambda: len(cluster.list("pods", NAMESPACE)) == 22))
        async with follower.follow(target("mine")) as view:
            await until(view, lambda: view.ready and view.pods and view.job)  # from a list of all
            await away(lambda: cluster.create("jobs", job("late"), NAMESPACE))
            await away(lambda: cluster.wait(lambda: cluster.pods_of("job-late-1")))
            await away(lambda: complete(cluster, "job-mine-1"))
            await until(view, lambda: finished(view))  # and what the watch told before it
            assert [pod["metadata"]["name"] for pod in cluster.pods_of("job-mine-1")] == list(view.pods)
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
