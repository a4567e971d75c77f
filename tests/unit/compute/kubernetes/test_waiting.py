"""When a launch waits, since when, and for how long that makes sense."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.compute.kubernetes.objects import at, condition, event, job, pod, unschedulable, waiting
from tests.unit.compute.kubernetes.waits import (
    BACKOFF,
    JOB,
    NOT_FOUND,
    QUOTA,
    RATE,
    create,
    failed_pull,
    image,
    said,
    why,
)


def running(index: int) -> dict[str, Any]:
    """A member that runs."""
    return pod(f"p-{index}", index=index, phase="Running", node="n", state={"running": {"startedAt": at(10)}})


@pytest.mark.parametrize(
    ("made", "pods"),
    [
        pytest.param(JOB, [running(0)], id="running"),
        pytest.param(job(spec={"parallelism": 2}), [running(0), running(1)], id="all members run"),
        pytest.param(JOB, [pod(phase="Failed")], id="its member ended"),
        pytest.param({**JOB, "status": {"conditions": [condition("Complete")]}}, [], id="complete"),
        pytest.param({**JOB, "status": {"conditions": [condition("Failed")]}}, [pod()], id="failed"),
    ],
)
def test_who_does_not_wait(made: dict[str, Any], pods: list[dict[str, Any]]):
    """Members that run or ended, and jobs that are over, wait for nothing."""
    assert why(pods, made=made) is None


@pytest.mark.case("L05")
@pytest.mark.requirement("R191")
def test_an_endless_wait_ends():
    """Beyond the start limit every reason is hopeless, with the scheduler's words and how long it took."""
    message = "0/8 nodes are available: 8 Insufficient nvidia.com/gpu."
    pods = [pod(conditions=unschedulable(message))]

    assert said(pods, seconds=600, limit=600).hopeless is False
    found = said(pods, seconds=660, limit=600)
    assert found.hopeless is True
    assert "Insufficient nvidia.com/gpu on 8 (waited 11 min, the limit is 10 min)" in found.message
    assert 660 == found.details["waited_seconds"]


@pytest.mark.case("L05")
def test_a_backed_off_pull_that_works_after_all():
    """What backed off and then runs no longer waits."""
    assert said([image("ImagePullBackOff", BACKOFF)], [failed_pull(RATE)]).hopeless is False
    assert why([running(0)], [failed_pull(RATE)]) is None


def test_the_limit_counts_from_the_release():
    """Time in a queue is not time without nodes: the clock starts anew when the job is let go."""
    made = job(status={
        "startTime": at(5000),
        "conditions": [{**condition("Suspended", "False", "JobResumed"), "lastTransitionTime": at(5000)}],
    })  # fmt: skip

    assert said([pod()], made=made, seconds=5600, limit=3600).details["waited_seconds"] == 600
    assert said([pod()], made=made, seconds=5600, limit=3600).hopeless is False


def test_what_was_said_before_the_release_counts_no_more():
    """A refusal of an earlier admission is over; one that has no time is taken."""
    made = job(status={"startTime": at(5000)})
    old = create('admission webhook "x" denied the request: no')

    assert "start" == said([], [old], made=made, seconds=5010).reason
    assert "policy" == said([], [{**old, "lastTimestamp": None}], made=made, seconds=5010).reason


def test_a_job_that_is_held_back():
    """Before its release a job without a queue is held back by us, and says so."""
    found = said(made=job(spec={"suspend": True}))

    assert ("start", False) == (found.reason, found.hopeless)
    assert "held back" in found.message


def test_no_pods_yet():
    """A job that was let go and has no pods waits for its controller."""
    assert "the cluster has made 0 of 1 pods" == said().message


def test_the_newest_event_of_the_right_pod():
    """Events of other pods, and older ones of this, are not told."""
    other, mine = pod("other"), pod("mine", node="n")
    events = [
        event("FailedMount", "of another", other, seconds=50), event("FailedMount", "older", mine, seconds=10),
        event("FailedMount", "newer", mine, seconds=20),
    ]  # fmt: skip

    assert "newer" == said([mine], events).message


@pytest.mark.requirement("R086")
def test_what_can_be_mended_is_told_of_many_members():
    """Of several waiting members the lasting reason is told, with how many wait."""
    gpus = pod(
        "a", index=0, conditions=unschedulable("0/8 nodes are available: 8 Insufficient nvidia.com/gpu.")
    )
    wrong = pod("b", index=1, node="n", state=waiting("ErrImagePull", NOT_FOUND))
    found = said([gpus, wrong, running(2)], made=job(spec={"parallelism": 3}))

    assert ("image", True, "pod/b") == (found.reason, found.hopeless, found.object)
    assert found.message.startswith("2 of 3 members wait: ")
    assert (2, 3) == (found.details["waiting"], found.details["members"])


def test_a_missing_member_of_several_is_explained():
    """Quota that lets one of two members in is told of the other."""
    found = said([running(0)], [create(QUOTA.format(used=8, limit=8))], made=job(spec={"parallelism": 2}))

    assert "quota" == found.reason


def test_the_job_behind_a_train_job_says_why():
    """The pods of a TrainJob are made by the runtime's own job: its events count."""
    made = {**JOB, "kind": "TrainJob", "spec": {"trainer": {"numNodes": 2}}}
    child = {"metadata": {"name": "pa-job-node-0", "uid": "child"}}
    told = event("FailedCreate", 'Error creating: pods "x" is forbidden: exceeded quota: team', child)

    assert "quota" == said([], [told], made=made).reason
    assert "start" == said([], [told]).reason


def test_members_of_a_train_job_are_counted():
    """The number of nodes stands elsewhere in a TrainJob."""
    made = {**JOB, "spec": {"trainer": {"numNodes": 2}}}

    assert "the cluster has made 1 of 2 pods" == said([running(0)], made=made).message


def test_a_pod_on_its_way_out_is_not_waited_for():
    """A pod that is deleted counts as missing."""
    gone = pod(metadata={"deletionTimestamp": at(50)})

    assert "the cluster has made 0 of 1 pods" == said([gone]).message
