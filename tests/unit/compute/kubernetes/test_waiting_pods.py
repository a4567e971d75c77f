"""Why pods do not run, from the very words of scheduler, kubelet and registries."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.compute.kubernetes.objects import event, pod, unschedulable, waiting
from tests.unit.compute.kubernetes.waits import BACKOFF, IMAGE, NOT_FOUND, RATE, failed_pull, image, said

from pretrain_archive.compute.kubernetes.waiting_schedule import parse

NODE = pod(node="gpu-7")

IMAGES = [
    pytest.param([image("InvalidImageName", 'Failed to apply default image tag "Not//valid": couldn\'t parse image '
                        'name "Not//valid": invalid reference format')], [], True, id="invalid name"),
    pytest.param([image("ErrImagePull", NOT_FOUND)], [], True, id="not found"),
    pytest.param([image("ErrImagePull", "pull access denied for x, repository does not exist or may require "
                        "'docker login': denied: requested access to the resource is denied")], [], True, id="denied"),
    pytest.param([image("ErrImagePull", "failed to authorize: failed to fetch oauth token: unexpected status: 401 "
                        "Unauthorized")], [], True, id="unauthorised"),
    pytest.param([image("ErrImagePull", "no match for platform in manifest: not found")], [], True, id="platform"),
    pytest.param([image("ErrImageNeverPull", f'Container image "{IMAGE}" is not present with pull policy of Never')],
                 [], True, id="never pulled"),
    pytest.param([image("ImagePullBackOff", f"{BACKOFF}: ErrImagePull: {NOT_FOUND}")], [], True,
                 id="backing off from a mistake"),
    pytest.param([image("ImagePullBackOff", BACKOFF)], [failed_pull(NOT_FOUND)], True,
                 id="backing off from a mistake, older kubelet"),
    pytest.param([image("ErrImagePull", "pull QPS exceeded")], [], False, id="pull QPS exceeded"),
    pytest.param([image("ErrImagePull", RATE)], [], False, id="rate limit"),
    pytest.param([image("ErrImagePull", 'Head "https://r/v2/x": dial tcp 10.0.0.1:443: i/o timeout')], [], False,
                 id="timeout"),
    pytest.param([image("ErrImagePull", 'Head "https://r/v2/x": dial tcp: lookup r: no such host')], [], False,
                 id="name service"),
    pytest.param([image("ErrImagePull", "unexpected status code 503 Service Unavailable")], [], False, id="503"),
    pytest.param([image("ImagePullBackOff", BACKOFF)], [failed_pull(RATE)], False, id="backing off from a rate limit"),
    pytest.param([image("ImagePullBackOff", BACKOFF)], [], False, id="backing off, nobody says from what"),
    pytest.param([pod(init=waiting("ErrImagePull", "fetch:1: not found"), state=waiting("PodInitializing"))], [], True,
                 id="image of an init container"),
]  # fmt: skip


@pytest.mark.case("L05")
@pytest.mark.requirement("R086", "R191")
@pytest.mark.parametrize(("pods", "events", "hopeless"), IMAGES)
def test_images(pods: list[dict[str, Any]], events: list[dict[str, Any]], hopeless: bool):
    """A mistake ends the launch at once with image and message; a fault that passes is waited for."""
    found = said(pods, events)

    assert ("image", hopeless) == (found.reason, found.hopeless)
    assert str(found.details["image"]) in found.message
    assert str(found.details["cause"]) in found.message
    assert "image" == found.exit_class


PREEMPTION = ". preemption: 0/8 nodes are available: 8 Preemption is not helpful for scheduling."
SCHEDULED = [
    pytest.param(f"0/8 nodes are available: 8 Insufficient nvidia.com/gpu{PREEMPTION}", "resources", False, id="total"),
    pytest.param("0/8 nodes are available: 3 Insufficient nvidia.com/gpu, 5 node(s) had untolerated taint "
                 f"{{node-role.kubernetes.io/control-plane: }}{PREEMPTION}", "resources", False,
                 id="accelerators on the nodes that are open"),
    pytest.param("0/8 nodes are available: 3 Insufficient nvidia.com/gpu, 5 Insufficient memory.", "fragmentation",
                 False, id="each is there, on different nodes"),
    pytest.param("0/8 nodes are available: 8 Insufficient nvidia.com/gpu, 3 Insufficient memory.", "resources", False,
                 id="one is short everywhere"),
    pytest.param("0/8 nodes are available: 8 node(s) didn't match Pod's node affinity/selector.", "topology", False,
                 id="selector"),
    pytest.param("0/3 nodes are available: 3 node(s) had untolerated taint {gpu: true}.", "topology", False,
                 id="taint"),
    pytest.param("0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints.", "topology", False,
                 id="topology spread"),
    pytest.param("0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.", "topology", False,
                 id="anti-affinity"),
    pytest.param("0/3 nodes are available: 3 node(s) were unschedulable.", "resources", False, id="cordoned"),
    pytest.param('0/3 nodes are available: persistentvolumeclaim "archive" not found.' + PREEMPTION, "data", True,
                 id="no claim"),
    pytest.param('persistentvolumeclaim "archive" not found', "data", True, id="no claim, older scheduler"),
    pytest.param("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.", "data", False,
                 id="claim pending"),
    pytest.param("0/3 nodes are available: 3 node(s) had volume node affinity conflict.", "data", False,
                 id="volume elsewhere"),
    pytest.param("0/3 nodes are available: 3 node(s) exceed max volume count.", "data", False, id="volumes full"),
    pytest.param("0/3 nodes are available: 3 Too many pods.", "resources", False, id="too many pods"),
    pytest.param("", "resources", False, id="no message"),
]  # fmt: skip


@pytest.mark.case("L05")
@pytest.mark.requirement("R086", "R224")
@pytest.mark.parametrize(("message", "reason", "hopeless"), SCHEDULED)
def test_pods_that_have_no_place(message: str, reason: str, hopeless: bool):
    """The scheduler's message is told apart and kept whole."""
    found = said([pod(conditions=unschedulable(message))])

    assert (reason, hopeless, message) == (found.reason, found.hopeless, found.details["scheduler"])
    assert "unschedulable" == found.exit_class


def test_the_scheduler_s_counts_are_read():
    """Reasons with commas and braces in them are one reason."""
    message = (
        "0/6 nodes are available: 3 node(s) had taint {node-role.kubernetes.io/master: }, that the pod didn't "
        "tolerate, 2 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector. preemption: 0/6 nodes "
        "are available: 6 Preemption is not helpful for scheduling."
    )

    assert {
        "total": 6,
        "node(s) had taint {node-role.kubernetes.io/master: }, that the pod didn't tolerate": 3,
        "Insufficient cpu": 2,
        "node(s) didn't match Pod's node affinity/selector": 1,
    } == parse(message)


NODE_SIDE = [
    pytest.param(pod(node="n", state=waiting("CreateContainerConfigError", 'secret "hub" not found')), [],
                 "environment", True, id="no secret"),
    pytest.param(pod(node="n", state=waiting("CreateContainerConfigError", 'configmap "settings" not found')), [],
                 "environment", True, id="no config map"),
    pytest.param(pod(node="n", state=waiting("CreateContainerConfigError", "couldn't find key token in Secret ml/hub")),
                 [], "environment", True, id="no such key"),
    pytest.param(pod(node="n", state=waiting("CreateContainerConfigError", "failed to sync secret cache: timed out "
                     "waiting for the condition")), [], "environment", False, id="cache not in sync"),
    pytest.param(pod(node="n", state=waiting("CreateContainerConfigError", "container has runAsNonRoot and image will "
                     "run as root")), [], "policy", True, id="root is not allowed"),
    pytest.param(pod(node="n", state=waiting("PodInitializing"), init=waiting("CrashLoopBackOff", "back-off 40s")), [],
                 "environment", False, id="init container fails"),
    pytest.param(NODE, [event("FailedMount", 'MountVolume.SetUp failed for volume "archive" : mount failed: exit '
                              "status 32", NODE)], "data", False, id="mount"),
    pytest.param(NODE, [event("FailedMount", 'MountVolume.SetUp failed for volume "s" : secret "hub" not found',
                              NODE)], "environment", True, id="secret to mount is missing"),
    pytest.param(NODE, [event("FailedMount", 'MountVolume.SetUp failed for volume "k" : object "ml"/"hub" not '
                              "registered", NODE)], "data", False, id="kubelet has not seen it yet"),
    pytest.param(NODE, [event("FailedAttachVolume", 'Multi-Attach error for volume "pvc-1" Volume is already '
                              "exclusively attached to one node", NODE)], "data", False, id="attached elsewhere"),
    pytest.param(NODE, [event("FailedCreatePodSandBox", 'Failed to create pod sandbox: plugin type="calico" failed',
                              NODE)], "environment", False, id="network of the pod"),
    pytest.param(NODE, [event("Pulling", f'Pulling image "{IMAGE}"', NODE)], "start", False, id="pulling"),
    pytest.param(NODE, [], "start", False, id="node prepares"),
    pytest.param(pod(), [], "start", False, id="nobody looked at it yet"),
    pytest.param(pod(conditions=unschedulable("Scheduling is blocked due to non-empty scheduling gates",
                     "SchedulingGated")), [], "policy", False, id="gated"),
]  # fmt: skip


@pytest.mark.requirement("R086", "R191")
@pytest.mark.parametrize(("made", "events", "reason", "hopeless"), NODE_SIDE)
def test_pods_on_their_node(made: dict[str, Any], events: list[dict[str, Any]], reason: str, hopeless: bool):
    """Configuration, volumes, network and the start itself are told apart."""
    found = said([made], events)

    assert (reason, hopeless, f"pod/{made['metadata']['name']}") == (
        found.reason,
        found.hopeless,
        found.object,
    )
    for told in events:
        assert told["message"] in found.message


def test_a_gate_is_named():
    """A gate that Kueue holds for the topology is no other gate."""
    conditions = unschedulable("Scheduling is blocked due to non-empty scheduling gates", "SchedulingGated")
    gate = {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]}
    found = said([pod(conditions=conditions, spec=gate)])

    assert "topology" == found.reason
    assert "kueue.x-k8s.io/topology" in found.message


def test_room_that_is_being_made():
    """A member for which others are preempted says where."""
    conditions = unschedulable("0/8 nodes are available: 8 Insufficient nvidia.com/gpu.")
    found = said([pod(conditions=conditions, status={"nominatedNodeName": "gpu-3"})])

    assert "resources" == found.reason
    assert found.message.endswith("others are ended for it on node gpu-3")
