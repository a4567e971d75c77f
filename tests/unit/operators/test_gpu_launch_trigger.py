"""The launch's trigger: small, plain and light, and what a visit is due for."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

from pretrain_archive.compute.kubernetes.follow_news import Seen, Watcher, members_digest
from pretrain_archive.compute.kubernetes.follow_view import Target, View
from pretrain_archive_operators import GpuLaunchOperator
from pretrain_archive_operators.launch_trigger import LaunchTrigger

VALUES: dict[str, Any] = {
    "connection": "c", "namespace": "n", "name": "pa-1", "object_kind": "Job", "queued": False, "run_uid": "run_1",
    "attempt": 1, "origin": {"dag_id": "d", "dag_run_id": "r", "task_id": "t", "map_index": -1, "try_number": 2},
    "seen": {"wait": "quota", "members": "abc"}, "visits": 3, "visit_seconds": 120.0, "start_seconds": 60.0,
    "log_offset": 17, "failing_since": None,
}  # fmt: skip


def test_serialises_to_small_plain_json() -> None:
    """What the triggerer stores makes the same trigger again."""
    path, values = LaunchTrigger(**VALUES).serialize()
    assert path == "pretrain_archive_operators.launch_trigger.LaunchTrigger"
    text = json.dumps(values)
    assert len(text) < 1024
    assert json.loads(text) == VALUES
    assert LaunchTrigger(**json.loads(text)).serialize() == (path, VALUES)


def test_import_is_light() -> None:
    """Neither a DAG file nor the triggerer pays for the cluster's client before it is used."""
    modules = ", ".join(
        f"pretrain_archive_operators.{name}" for name in ("gpu_launch", "launch_trigger", "cluster")
    )
    code = (
        f"import sys, {modules}\n"
        "print(sorted({'kubernetes', 'kubernetes_asyncio', 'aiohttp', 'boto3', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[]" == done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param({"target": "moon"}, "target must be one of", id="target"),
        pytest.param({"visit_seconds": 0}, "visit_seconds must be above 0", id="visit_seconds"),
    ],
)
def test_bad_argument(arguments: dict[str, Any], words: str) -> None:
    """Said where the DAG is written."""
    with pytest.raises(ValueError, match=words):
        GpuLaunchOperator(task_id="t", run_uid="run_1", **arguments)


def pod(name: str = "p", **status: Any) -> dict[str, Any]:
    """A pod with this status."""
    runs = [
        {
            "name": "main",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:01Z"}},
        }
    ]
    whole = {"phase": "Running", "containerStatuses": runs, **status}
    return {"metadata": {"name": name, "uid": name}, "spec": {"nodeName": "node-0"}, "status": whole}


def job(**condition: str) -> dict[str, Any]:
    """A job that was released, with a condition."""
    return {
        "metadata": {"name": "pa-1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"suspend": False, "parallelism": 1, "completions": 1},
        "status": {"conditions": [condition] if condition else [], "active": 1, "ready": 1},
    }


def view(found: dict[str, Any] | None, *pods: dict[str, Any], **more: Any) -> View:
    """What is known of a job that was listed."""
    made = View(
        target=Target(run_uid="run_1", attempt=1, name="pa-1"), job=found, listed={"Job", "Pod"}, **more
    )
    made.pods = {p["metadata"]["name"]: p for p in pods}
    return made


def news(seen: View, *, known: Seen | None = None, **more: Any) -> str:
    """Why a visit is due; the pause is short."""
    watcher = Watcher(
        view=seen, seen=known or Seen(members=members_digest(seen.pods)), start_limit_seconds=1e12,
        **{"visit_seconds": 0.1} | more,
    )  # fmt: skip
    return asyncio.run(watcher.news())[0]


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        pytest.param(lambda: view(job(type="Complete", status="True"), pod()), "ended", id="complete"),
        pytest.param(lambda: view(job(type="Failed", status="True"), pod()), "ended", id="failed"),
        pytest.param(lambda: view(None), "ended", id="the job is gone"),
        pytest.param(lambda: view(job(type="Complete", status="False"), pod()), "visit", id="not complete"),
        pytest.param(lambda: view(job(), pod()), "visit", id="nothing new"),
    ],
)
def test_why_a_visit_is_due(seen: Any, why: str) -> None:
    """The job's own condition is its end, and only if its status says True."""
    assert why == news(seen())


def test_members_and_waits_are_news() -> None:
    """Another phase, a restart or a disruption is a reason to visit; a heartbeat of the kubelet is none."""
    before = view(job(), pod())
    known = Seen(members=members_digest(before.pods))
    assert "members" == news(view(job(), pod(phase="Failed")), known=known, visit_seconds=60)
    disrupted = pod(
        conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
    )
    assert members_digest({"p": disrupted}) != known.members
    beat = pod(conditions=[{"type": "Ready", "status": "True", "lastProbeTime": "2026-01-01T00:00:09Z"}])
    assert members_digest({"p": beat}) == known.members
    waiting = view(job(), pod(phase="Pending", containerStatuses=[]))
    assert "wait" == news(waiting, known=Seen(members=members_digest(waiting.pods)), visit_seconds=60)


def test_what_is_not_listed_yet_is_not_gone() -> None:
    """Before the first list nothing is known of the job: it has not ended."""
    seen = view(None)
    seen.listed = {"Pod"}
    assert "visit" == news(seen)


def test_a_cluster_that_is_away_is_visited_once_in_a_while() -> None:
    """A trigger that begins while the cluster is away does not fire at once: that would be a circle of visits."""
    seen = view(job(), pod())
    seen.away_since = -1e6
    assert "away" == news(seen, visit_seconds=60, away_seconds=0.3)
    fresh = view(job(), pod())
    fresh.away_since = -1e6
    watcher = Watcher(view=fresh, seen=Seen(members=members_digest(fresh.pods)), start_limit_seconds=1e12)
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(watcher.news(), 0.5))


@pytest.mark.parametrize(("visits", "seconds"), [(0, 5), (2, 20), (4, 80), (5, 120), (10_000, 120)])
def test_visits_are_close_together_at_first(visits: int, seconds: float) -> None:
    """Seconds until the next one, if nothing happens."""
    assert seconds == Watcher(view=view(job()), seen=Seen(), start_limit_seconds=1, visits=visits).pause
