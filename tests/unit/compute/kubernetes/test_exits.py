"""What a pod's end means, told apart by reason, condition, events and the wrapper's own words."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.compute.kubernetes.ends import KILLED, deleted, disrupted, failed, seen
from tests.unit.compute.kubernetes.objects import IMAGE, at, event, pod, terminated

from pretrain_archive.compute.kubernetes.exits import with_replacements

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
