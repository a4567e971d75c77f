"""A process that follows many jobs: by the launch's triggers, or as the peer does, by asking for each job.

Arguments: ``shared`` or ``poll``, and the number of jobs; the cluster is that of the connection ``many``. It prints
``ready`` when all jobs are known; then for every line on standard input one line of JSON: CPU seconds so far, how many
ends were noticed, and the peak of memory in bytes.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from tests.support.memory import peak_bytes

NAMESPACE = "training"
POLL_SECONDS = 10.0
"""The interval at which the Kubernetes provider's trigger of a job asks by default."""


def name_of(number: int) -> str:
    """The name of a job."""
    return f"pa-many-a1-{number:04d}"


async def follow(number: int, known: list[int], ended: list[int]) -> None:
    """One deferred task: a trigger, and the next one after each event that is not the end."""
    from pretrain_archive_operators.launch_trigger import LaunchTrigger

    values: dict[str, Any] = {
        "connection": "many", "namespace": NAMESPACE, "name": name_of(number), "run_uid": f"run{number:04d}",
        "attempt": 1, "origin": {}, "visits": 30, "visit_seconds": 3600.0,
    }  # fmt: skip
    while True:
        event: dict[str, Any] = {}
        async for fired in LaunchTrigger(**values).run():
            event = fired.payload
        known.append(number)
        if event["news"] == "ended":
            ended.append(number)
            return
        values = event["trigger"]


async def poll(number: int, known: list[int], ended: list[int], api: Any) -> None:
    """One deferred task of the peer: it asks for its job at intervals."""
    await asyncio.sleep(POLL_SECONDS * (number % 100) / 100)
    while True:
        job = await api.read_namespaced_job_status(name=name_of(number), namespace=NAMESPACE)
        known.append(number)
        if any(c.type in {"Complete", "Failed"} and c.status == "True" for c in job.status.conditions or ()):
            ended.append(number)
            return
        await asyncio.sleep(POLL_SECONDS)


async def main(mode: str, jobs: int) -> None:
    """Follow, and answer what is asked on standard input."""
    from kubernetes_asyncio import client

    from pretrain_archive_operators.cluster import connect

    known: list[int] = []
    ended: list[int] = []
    async with connect("many") as made:
        api = client.BatchV1Api(made)
        tasks = [
            asyncio.create_task(follow(n, known, ended) if mode == "shared" else poll(n, known, ended, api))
            for n in range(jobs)
        ]
        while len(set(known)) < jobs:
            await asyncio.sleep(0.1)
            for task in tasks:
                if task.done() and (error := task.exception()):
                    raise error
        print("ready", flush=True)  # noqa: T201 (the protocol)
        loop = asyncio.get_running_loop()
        while await loop.run_in_executor(None, sys.stdin.readline):
            facts = {"cpu": time.process_time(), "ended": len(ended), "peak": peak_bytes()}
            print(json.dumps(facts), flush=True)  # noqa: T201 (the protocol)
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
