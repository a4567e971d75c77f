"""Jobs to follow, and a follower in a scene with a fake cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.fakes.cluster import FakeCluster

from pretrain_archive.compute.kubernetes.follow import Connect, Follower, Pace, Target, View
from pretrain_archive.compute.kubernetes.names import ATTEMPT_LABEL, RUN_LABEL

NAMESPACE = "training"
PLAYED: dict[str, Any] = {"kubelet": "hand", "bookmark_seconds": 0.3}
"""A cluster whose pods the tests play by hand; what a module calls CLUSTER is what its fixture is made with."""
QUICK = Pace(watch=60, poll=0.2, first_pause=0.05, longest_pause=0.3, linger=0.3)


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
