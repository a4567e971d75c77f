"""What the members' ends and the job's own condition mean for an attempt."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.compute.kubernetes.ends import deleted, disrupted, seen
from tests.unit.compute.kubernetes.objects import condition, job, pod, terminated

from pretrain_archive.compute.kubernetes.exits import JobVerdict, verdict_of
from pretrain_archive.domain.kinds import MemberObserved


def over(kind: str, reason: str = "", message: str = "", status: Any = "True", **spec: Any) -> dict[str, Any]:
    """A job with this condition."""
    made = job(spec=spec)
    made["status"]["conditions"] = [condition(kind, status, reason, message)]
    return made


def member(
    worker: int, code: int, reason: str = "Error", *, seconds: float = 60, **more: Any
) -> MemberObserved:
    """A member that ended."""
    conditions = [disrupted(more.pop("disruption"))] if "disruption" in more else []
    made = pod(
        f"pa-job-{worker}", index=worker, phase="Failed", node=f"gpu-{worker}", conditions=conditions,
        state=terminated(code, reason, seconds=seconds),
    )  # fmt: skip
    return seen(made, **more)


LIMIT = over("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
DISRUPTED = over(
    "Failed",
    "PodFailurePolicy",
    "Pod ns/pa-job-0 has condition DisruptionTarget matching FailJob rule at index 0",
)


@pytest.mark.case("L03")
@pytest.mark.parametrize(
    ("made", "members", "expected"),
    [
        pytest.param(LIMIT, [member(0, 137, "OOMKilled")], ("oom", True, False), id="out of memory"),
        pytest.param(
            DISRUPTED, [member(0, 137, disruption="PreemptionByScheduler")], ("preempted", False, True), id="preempted"
        ),
        pytest.param(LIMIT, [member(0, 137)], ("killed", True, True), id="killed by somebody"),
        pytest.param(LIMIT, [member(0, 1)], ("user_error", True, False), id="user error"),
        pytest.param(
            DISRUPTED, [member(0, 137, disruption="EvictionByEvictionAPI")], ("evicted", True, True), id="drained"
        ),
        pytest.param(
            DISRUPTED, [member(0, 137, disruption="DeletionByPodGC")], ("node_lost", True, True), id="node lost"
        ),
        pytest.param(over("Failed", "DeadlineExceeded"), [member(0, 143)], ("deadline", True, False), id="deadline"),
        pytest.param(DISRUPTED, [], ("evicted", True, True), id="disrupted, its pod is gone"),
        pytest.param(LIMIT, [], ("unknown", True, True), id="failed, its pods are gone"),
        pytest.param(
            LIMIT, [member(0, 1, seconds=50), member(1, 137, seconds=80)], ("user_error", True, False),
            id="exit 1, and a peer that did not end in time",
        ),
        pytest.param(
            LIMIT, [member(0, 1, seconds=61), member(1, 137, seconds=60)], ("killed", True, True),
            id="a peer of a killed member fails a second later",
        ),
        pytest.param(
            LIMIT, [member(0, 1, seconds=60), member(1, 137, "OOMKilled", seconds=60)], ("oom", True, False),
            id="a peer of a member out of memory",
        ),
        pytest.param(
            DISRUPTED, [member(0, 1, seconds=50), member(1, 137, seconds=80, disruption="PreemptionByScheduler")],
            ("preempted", False, True), id="a peer of a preempted member fails first",
        ),
        pytest.param(
            LIMIT, [member(0, 143, suspended=True), member(0, 1)], ("user_error", True, False),
            id="requeued once, then an error",
        ),
    ],
)  # fmt: skip
def test_why_a_job_failed(
    made: dict[str, Any], members: list[MemberObserved], expected: tuple[str, bool, bool]
):
    """The member that explains the end decides about class, counting and retry."""
    verdict = verdict_of(made, members)

    assert verdict.terminal
    assert not verdict.succeeded
    assert expected == (verdict.exit_class, verdict.counted, verdict.retry)


def test_the_reason_names_the_member():
    """Worker, pod, node, code and reason can be read in one line."""
    verdict = verdict_of(LIMIT, [member(0, 143), member(1, 137, "OOMKilled")])

    assert "worker 1 (pod pa-job-1 on gpu-1): oom, exit code 137, signal 9, OOMKilled" == verdict.reason
    assert 1 == verdict.worker


@pytest.mark.parametrize(
    ("made", "terminal", "succeeded"),
    [
        pytest.param(over("Complete"), True, True, id="complete"),
        pytest.param(over("Complete", status="False"), False, False, id="text False"),
        pytest.param(over("Complete", status="Unknown"), False, False, id="unknown"),
        pytest.param(over("Complete", status=True), False, False, id="no text"),
        pytest.param(over("Complete", status="true"), False, False, id="lower case"),
        pytest.param(over("SuccessCriteriaMet"), False, False, id="criteria met, pods still end"),
        pytest.param(over("FailureTarget"), False, False, id="will fail, pods still end"),
        pytest.param(over("Failed", status="False"), False, False, id="failed False"),
        pytest.param(job(), False, False, id="no condition"),
        pytest.param({}, False, False, id="nothing"),
    ],
)
def test_success_is_the_job_s_own_condition(made: dict[str, Any], terminal: bool, succeeded: bool):
    """Only Complete with the status "True" is a success; all members done is none."""
    done = [seen(pod(phase="Succeeded", state=terminated(0, "Completed")))]
    verdict = verdict_of(made, done)

    assert (terminal, succeeded) == (verdict.terminal, verdict.succeeded)


def test_complete_and_failed_is_failed():
    """Two ends that contradict each other are no success."""
    made = over("Complete")
    made["status"]["conditions"].append(condition("Failed", reason="BackoffLimitExceeded"))

    assert verdict_of(made, []).succeeded is False


@pytest.mark.case("L03")
def test_a_suspended_job_keeps_waiting():
    """What Kueue took back is requeued: no end, no attempt used up."""
    members = [member(0, 143, suspended=True), member(1, 143, suspended=True)]

    assert JobVerdict(
        terminal=False, succeeded=False, exit_class="requeued", counted=False, retry=False,
        reason="the job was suspended and waits to be admitted again",
    ) == verdict_of(job(spec={"suspend": True}), members)  # fmt: skip


def test_a_job_that_was_never_let_go_is_not_requeued():
    """Suspended without a member is the state of every new job."""
    verdict = verdict_of(job(spec={"suspend": True}), [])

    assert (False, None) == (verdict.terminal, verdict.exit_class)


def test_a_lost_node_ends_a_job_that_does_not_end_by_itself():
    """The job's controller may wait for days for a pod of a dead node; the attempt is over at once."""
    gone = deleted(
        pod(phase="Running", node="gpu-7", state={"running": {}}, conditions=[disrupted("DeletionByTaintManager")]),
        10,
    )  # fmt: skip
    verdict = verdict_of(job(), [seen(gone)])

    assert (True, False, "node_lost", True) == (
        verdict.terminal, verdict.succeeded, verdict.exit_class, verdict.retry,
    )  # fmt: skip


def test_a_member_that_was_replaced_explains_nothing():
    """A lost node of an earlier admission neither ends the job nor explains a later failure."""
    before = member(0, 137, disruption="DeletionByPodGC")
    now = seen(pod("pa-job-0-new", index=0, phase="Running", state={"running": {}}))

    assert verdict_of(job(), [before, now]).terminal is False
    assert "user_error" == verdict_of(LIMIT, [before, member(0, 1)]).exit_class
