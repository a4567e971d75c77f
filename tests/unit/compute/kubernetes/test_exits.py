"""What a pod's end means, told apart by reason, condition, events and the wrapper's own words."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.compute.kubernetes.objects import IMAGE, at, condition, event, job, pod, terminated

from pretrain_archive.compute.kubernetes.exits import (
    JobVerdict,
    member_of,
    verdict_of,
    with_replacements,
)
from pretrain_archive.domain.kinds import MemberObserved

TORCHRUN = """\
E1130 torch/distributed/elastic/multiprocessing/api.py:984] failed (exitcode: -9) local_rank: 3 (pid: 77) of binary
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  rank      : 5 (local_rank: 5)
  exitcode  : 1 (pid: 80)
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-30_08:01:00
  host      : pa-job-0
  rank      : 3 (local_rank: 3)
  exitcode  : -9 (pid: 77)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 77
"""


def failed(state: dict[str, Any] | None, *conditions: dict[str, Any], **status: Any) -> dict[str, Any]:
    """A pod that failed."""
    return pod(
        phase="Failed", node="gpu-7", state=state, conditions=list(conditions), status={**status}
    )  # fmt: skip


def disrupted(reason: str) -> dict[str, Any]:
    """The condition of a pod that somebody takes away."""
    return condition("DisruptionTarget", reason=reason, message=f"said by {reason}")


def deleted(made: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The same pod, to be gone at this moment."""
    return {**made, "metadata": {**made["metadata"], "deletionTimestamp": at(seconds)}}


def seen(made: dict[str, Any], *, seconds: float = 100, **more: Any) -> MemberObserved:
    """What is seen of a pod."""
    return member_of(made, attempt=1, at=at(seconds), **more)


KILLED = terminated(137)
PREEMPTED_EVENT = event("Preempted", "Preempted by pod 9f0 on node gpu-7", pod())
CASES = [
    pytest.param(failed(terminated(137, "OOMKilled")), {}, "oom", id="137 and OOMKilled"),
    pytest.param(failed(terminated(1, "OOMKilled")), {}, "oom", id="a child out of memory, exit 1"),
    pytest.param(failed(KILLED, disrupted("PreemptionByScheduler")), {}, "preempted", id="137 and preempted"),
    pytest.param(failed(KILLED), {}, "killed", id="137 and nothing else"),
    pytest.param(failed(terminated(143)), {"suspended": True}, "requeued", id="143 while suspended"),
    pytest.param(failed(KILLED), {"suspended": True}, "requeued", id="137 while suspended: grace was over"),
    pytest.param(failed(terminated(1)), {"suspended": True}, "user_error", id="exit 1 while suspended"),
    pytest.param(failed(terminated(143)), {}, "interrupted", id="143 alone"),
    pytest.param(failed(terminated(1)), {}, "user_error", id="exit 1"),
    pytest.param(failed(terminated(139)), {}, "user_error", id="segmentation fault"),
    pytest.param(failed(terminated(1, message=TORCHRUN)), {}, "killed", id="torchrun's report names -9"),
    pytest.param(
        failed(terminated(1)),
        {"ended": {"reason": "exited", "hidden_failures": [{"pid": 7, "signal": 9, "exit_code": None}]}},
        "killed",
        id="the wrapper saw a child end with 9",
    ),
    pytest.param(
        failed(terminated(1, message=TORCHRUN)), {"ended": {"oom_kills": 1}}, "oom", id="a child out of memory"
    ),
    pytest.param(
        failed(terminated(137, "OOMKilled"), disrupted("PreemptionByScheduler")),
        {},
        "preempted",
        id="preempted while its memory ran out",
    ),
    pytest.param(failed(KILLED, disrupted("EvictionByEvictionAPI")), {}, "evicted", id="drained"),
    pytest.param(failed(KILLED, disrupted("DeletionByTaintManager")), {}, "node_lost", id="node tainted"),
    pytest.param(failed(KILLED, disrupted("DeletionByPodGC")), {}, "node_lost", id="node removed"),
    pytest.param(
        failed(KILLED, disrupted("TerminationByKubelet"), reason="Evicted", message="The node was low on memory"),
        {},
        "evicted",
        id="node pressure",
    ),
    pytest.param(
        failed(KILLED, disrupted("TerminationByKubelet"), reason="Terminated",
               message="Pod was terminated in response to imminent node shutdown."),
        {},
        "node_lost",
        id="node shutdown",
    ),
    pytest.param(
        failed(KILLED, disrupted("TerminationByKubelet"), reason="Preempting",
               message="Preempted in order to admit critical pod"),
        {},
        "preempted",
        id="room for a critical pod",
    ),
    pytest.param(failed(None, reason="Evicted", message="low on ephemeral-storage"), {}, "evicted", id="no status"),
    pytest.param(failed(None, reason="NodeLost"), {}, "node_lost", id="node lost, older cluster"),
    pytest.param(failed(KILLED), {"events": [PREEMPTED_EVENT]}, "preempted", id="only an event says it"),
    pytest.param(
        failed(KILLED), {"events": [event("TaintManagerEviction", "Marking for deletion", pod())]}, "node_lost",
        id="only an event says that the node is gone",
    ),
    pytest.param(failed(terminated(137, "ContainerStatusUnknown")), {}, "node_lost", id="status unknown"),
    pytest.param(failed(terminated(127, "ContainerCannotRun")), {}, "user_error", id="no such command"),
    pytest.param(failed(terminated(128, "StartError")), {}, "user_error", id="cannot start"),
    pytest.param(failed(None, reason="OutOfnvidia.com/gpu"), {}, "unschedulable", id="node had less"),
    pytest.param(failed(None, reason="UnexpectedAdmissionError"), {}, "unschedulable", id="device not allocated"),
    pytest.param(failed(KILLED, reason="DeadlineExceeded"), {}, "deadline", id="pod's deadline"),
    pytest.param(failed(terminated(143)), {"ended": {"reason": "stop_rule"}}, "stopped", id="wrapper's stop rule"),
    pytest.param(failed(terminated(143)), {"ended": {"reason": "deadline"}}, "deadline", id="wrapper's deadline"),
    pytest.param(failed(None), {}, "unknown", id="failed and nothing is known"),
    pytest.param(
        pod(phase="Succeeded", state=terminated(0, "Completed")), {}, "completed", id="succeeded"
    ),
    pytest.param(
        pod(phase="Succeeded", state=terminated(0, "Completed"), conditions=[disrupted("PreemptionByScheduler")]),
        {},
        "completed",
        id="done before it was preempted",
    ),
    pytest.param(pod(phase="Running", state={"running": {"startedAt": at(10)}}), {}, None, id="running"),
    pytest.param(pod(), {}, None, id="pending"),
    pytest.param(
        pod(phase="Running", state={"running": {}}, conditions=[disrupted("PreemptionByScheduler")]), {}, None,
        id="preempted and not ended yet",
    ),
    pytest.param(
        deleted(pod(phase="Running", state={"running": {}}, conditions=[disrupted("DeletionByTaintManager")]), 10),
        {},
        "node_lost",
        id="its node answers no more",
    ),
    pytest.param(
        deleted(pod(phase="Running", state={"running": {}}, conditions=[disrupted("DeletionByTaintManager")]), 70),
        {},
        None,
        id="its node may still answer",
    ),
    pytest.param(deleted(pod(phase="Unknown", state={"running": {}}), 10), {}, "node_lost", id="unknown and deleted"),
    pytest.param(pod(phase="Unknown", state={"running": {}}), {}, None, id="unknown, it may come back"),
    pytest.param(
        failed(KILLED, {"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}),
        {},
        "killed",
        id="a condition that is False",
    ),
]  # fmt: skip


@pytest.mark.case("L03")
@pytest.mark.requirement("R075")
@pytest.mark.parametrize(("made", "more", "expected"), CASES)
def test_the_class_of_an_end(made: dict[str, Any], more: dict[str, Any], expected: str | None):
    """SIGKILL has many meanings; what tells them apart is read, and an end that is none has no class."""
    assert expected == seen(made, **more).exit_class


@pytest.mark.case("L03")
@pytest.mark.requirement("R073", "R075")
def test_everything_that_is_known_is_kept():
    """Class, code, signal, reason, condition, restarts, place, image and times stand side by side."""
    made = pod(
        "pa-job-3-xyz", index=3, phase="Failed", node="gpu-7", state=terminated(137, seconds=42),
        conditions=[disrupted("PreemptionByScheduler")],
    )  # fmt: skip
    made["status"]["containerStatuses"][0]["restartCount"] = 2
    member = seen(made)

    assert (3, "pa-job-3-xyz", "uid-pa-job-3-xyz", "Failed", "gpu-7") == (
        member.worker, member.name, member.uid, member.phase, member.node,
    )  # fmt: skip
    assert (137, 9, "Error", "DisruptionTarget: PreemptionByScheduler", 2) == (
        member.exit_code, member.signal, member.reason, member.condition, member.restarts,
    )  # fmt: skip
    assert (IMAGE, "sha256:" + "a" * 64) == (member.image, member.image_digest)
    assert (at(100), at(10), at(42)) == (member.at, member.started_at, member.ended_at)
    assert "said by PreemptionByScheduler" == member.message


@pytest.mark.case("L03")
def test_torchrun_s_child_is_told_and_its_log_is_not_kept():
    """The signal of the child is in the message; the program's log, which may hold secrets, is not."""
    member = seen(failed(terminated(1, message="HF_TOKEN=hf_secret\n" + TORCHRUN)))

    assert "a child of the program ended with signal 9 (SIGKILL)" == member.message
    assert "hf_secret" not in str(member.to_json())


def test_nothing_known_is_unrecorded():
    """A pod that has only a name leaves every field empty, and none is guessed."""
    member = seen({"metadata": {"name": "p"}})

    assert "Unknown" == member.phase
    fields = ("uid", "node", "image", "image_digest", "devices", "restarts", "exit_code", "exit_class")
    assert [None] * len(fields) == [getattr(member, name) for name in fields]


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        pytest.param("docker-pullable://r/x@sha256:" + "b" * 64, "sha256:" + "b" * 64, id="docker"),
        pytest.param("r/x@sha256:" + "b" * 64, "sha256:" + "b" * 64, id="containerd"),
        pytest.param("sha256:" + "b" * 64, None, id="the runtime's own id"),
        pytest.param("", None, id="not pulled yet"),
    ],
)
def test_the_image_s_digest(identity: str, expected: str | None):
    """Only the digest of a repository is comparable with the signed one."""
    made = failed(KILLED)
    made["status"]["containerStatuses"][0]["imageID"] = identity

    assert expected == seen(made).image_digest


@pytest.mark.requirement("R075")
@pytest.mark.parametrize(
    ("annotations", "status", "expected"),
    [
        pytest.param(
            {}, [{"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-1"}, {"resourceID": "GPU-2"}]}],
            ["GPU-1", "GPU-2"], id="container status",
        ),
        pytest.param({"huawei.com/Ascend910": "Ascend910-0,Ascend910-3"}, None, ["Ascend910-0", "Ascend910-3"],
                     id="Ascend"),
        pytest.param(
            {"huawei.com/Ascend910": "Ascend910-0", "huawei.com/AscendReal": "Ascend910-5"}, None, ["Ascend910-5"],
            id="Ascend, what was really given",
        ),
        pytest.param(
            {"ascend.kubectl.kubernetes.io/ascend-910-configuration":
             '{"pod_name":"p","devices":[{"device_id":"2","device_ip":"10.0.0.2"}]}'}, None, ["Ascend910-2"],
            id="Ascend's rank table",
        ),
        pytest.param({"ascend.kubectl.kubernetes.io/ascend-910-configuration": "{broken"}, None, None, id="broken"),
        pytest.param(
            {"hami.io/vgpu-devices-allocated": "GPU-85,NVIDIA,4000,0:GPU-86,NVIDIA,4000,0:;"}, None,
            ["GPU-85", "GPU-86"], id="HAMi",
        ),
        pytest.param({"hami.io/node-nvidia-register": "GPU-1,1,2:"}, None, None, id="a node's annotation"),
        pytest.param({}, None, None, id="nobody says"),
    ],
)  # fmt: skip
def test_device_ids(annotations: dict[str, str], status: Any, expected: list[str] | None):
    """Devices are named where the cluster names them, and unrecorded elsewhere."""
    made = failed(KILLED)
    made["metadata"]["annotations"] |= annotations
    if status:
        made["status"]["containerStatuses"][0]["allocatedResourcesStatus"] = status

    assert expected == seen(made).devices


@pytest.mark.requirement("R074")
def test_a_replacement_names_the_pod_before_it():
    """After a requeue another pod carries the same index."""
    members = [
        seen(pod("a-0-x", index=0)), seen(pod("a-1-y", index=1)), seen(pod("a-0-x", index=0, phase="Failed")),
        seen(pod("a-0-z", index=0)),
    ]  # fmt: skip

    assert [None, None, None, "a-0-x"] == [member.replaces for member in with_replacements(members)]


# -- the job ---------------------------------------------------------------------------------------------


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
