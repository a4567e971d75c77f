"""Why a launch waits, from the very words of Kubernetes and Kueue, and when waiting on does not help."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.unit.compute.kubernetes.objects import (
    IMAGE,
    START,
    at,
    condition,
    event,
    job,
    pod,
    unschedulable,
    waiting,
    workload,
)

from pretrain_archive.compute.kubernetes.waiting import Wait, wait_of
from pretrain_archive.compute.kubernetes.waiting_queue import quantity
from pretrain_archive.compute.kubernetes.waiting_schedule import parse

JOB = job()
QUEUED = job(metadata={"labels": {"kueue.x-k8s.io/queue-name": "research"}}, spec={"suspend": True})
NODE = pod(node="gpu-7")


def why(
    pods: list[dict[str, Any]] | None = None, events: list[dict[str, Any]] | None = None, *,
    made: dict[str, Any] = JOB, of: dict[str, Any] | None = None, seconds: float = 60, limit: float = 3600,
    **more: Any,
) -> Wait | None:  # fmt: skip
    """The reason a minute after the start."""
    now = START + timedelta(seconds=seconds)
    return wait_of(made, pods or [], events or [], of, now=now, start_limit_seconds=limit, **more)


def said(*args: Any, **more: Any) -> Wait:
    """The same where there is a reason."""
    found = why(*args, **more)
    assert found is not None
    return found


def image(reason: str, message: str) -> dict[str, Any]:
    """A pod whose container waits for its image."""
    return pod(node="gpu-7", state=waiting(reason, message))


def failed_pull(cause: str) -> dict[str, Any]:
    """The event of a failed pull."""
    return event("Failed", f'Failed to pull image "{IMAGE}": {cause}', pod())


NOT_FOUND = (
    f'rpc error: code = NotFound desc = failed to pull and unpack image "{IMAGE}": failed to resolve reference '
    f'"{IMAGE}": {IMAGE}: not found'
)
RATE = (
    "failed to copy: httpReadSeeker: failed open: unexpected status code 429 Too Many Requests - Server message: "
    "toomanyrequests: You have reached your unauthenticated pull rate limit; access denied"
)
BACKOFF = f'Back-off pulling image "{IMAGE}"'

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


def create(message: str) -> dict[str, Any]:
    """The event of a job controller that cannot make a pod."""
    return event("FailedCreate", f"Error creating: {message}", JOB)


QUOTA = (
    'pods "pa-job-x" is forbidden: exceeded quota: team, requested: requests.nvidia.com/gpu=8, '
    "used: requests.nvidia.com/gpu={used}, limited: requests.nvidia.com/gpu={limit}"
)
CREATED = [
    pytest.param('pods "pa-job-" is forbidden: error looking up service account ml/trainer: serviceaccount "trainer" '
                 "not found", "environment", True, id="no service account"),
    pytest.param(QUOTA.format(used=8, limit=8), "quota", False, id="quota in use"),
    pytest.param(QUOTA.format(used=0, limit=0), "quota", True, id="quota zero"),
    pytest.param(QUOTA.format(used=0, limit=4), "quota", True, id="quota smaller than a member"),
    pytest.param('pods "pa-job-x" is forbidden: exceeded quota: team, requested: limits.memory=64Gi,requests.cpu=500m'
                 ", used: limits.memory=0,requests.cpu=0, limited: limits.memory=8Gi,requests.cpu=4", "quota", True,
                 id="quota of memory"),
    pytest.param('pods "pa-job-x" is forbidden: failed quota: team: must specify limits.cpu for: train', "quota", True,
                 id="quota wants a limit"),
    pytest.param('pods "pa-job-x" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != '
                 'false (container "train" must set securityContext.allowPrivilegeEscalation=false)', "policy", True,
                 id="pod security"),
    pytest.param('admission webhook "validate.kyverno.svc" denied the request: require-labels: team', "policy", True,
                 id="webhook denies"),
    pytest.param('Internal error occurred: failed calling webhook "mutate.x": failed to call webhook: Post "https://x":'
                 " dial tcp 10.0.0.9:443: connect: connection refused", "policy", False, id="webhook out of reach"),
    pytest.param('pods "pa-job-x" is forbidden: no PriorityClass with name gold was found', "policy", True,
                 id="no priority class"),
    pytest.param('pods "pa-job-x" is forbidden: maximum memory usage per Container is 2Gi, but limit is 64Gi', "policy",
                 True, id="limit range"),
    pytest.param('pods "pa-job-x" is forbidden: pod rejected: RuntimeClass "nvidia" not found', "environment", True,
                 id="no runtime class"),
    pytest.param('pods "pa-job-x" is forbidden: unable to create new content in namespace ml because it is being '
                 "terminated", "environment", True, id="namespace ends"),
    pytest.param('Pod "pa-job-x" is invalid: spec.containers[0].volumeMounts[0].name: Not found: "gone"',
                 "environment", True, id="invalid pod"),
    pytest.param("the server was unable to return a response in the time allotted", "environment", False, id="server"),
]  # fmt: skip


@pytest.mark.case("L05")
@pytest.mark.requirement("R086")
@pytest.mark.parametrize(("message", "reason", "hopeless"), CREATED)
def test_pods_that_cannot_be_made(message: str, reason: str, hopeless: bool):
    """The job controller's event says why there is no pod, and whether it stays so."""
    found = said([], [create(message)])

    assert (reason, hopeless, "job/pa-job") == (found.reason, found.hopeless, found.object)
    assert message in found.message


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


PENDING = "couldn't assign flavors to pod set main: "


def reserved(message: str, reason: str = "Pending") -> dict[str, Any]:
    """A workload for which no quota is reserved."""
    return workload(condition("QuotaReserved", "False", reason, message))


KUEUE = [
    pytest.param(reserved(PENDING + "insufficient unused quota for nvidia.com/gpu in flavor h100, 4 more needed"),
                 "quota", False, id="quota in use"),
    pytest.param(reserved(PENDING + "insufficient quota for nvidia.com/gpu in flavor h100, request > maximum capacity "
                          "(16 > 8)"), "quota", True, id="more than there can be"),
    pytest.param(reserved(PENDING + "insufficient quota for nvidia.com/gpu in flavor h100, request > maximum capacity "
                          "(8 > 0)"), "quota", True, id="quota zero"),
    pytest.param(reserved(PENDING + "insufficient quota for nvidia.com/gpu in flavor a, request > maximum capacity "
                          "(16 > 8), insufficient unused quota for nvidia.com/gpu in flavor b, 8 more needed"),
                 "quota", False, id="too much for one flavor, another may fit"),
    pytest.param(reserved("couldn't assign flavors to pod set launcher: insufficient unused quota for cpu in flavor a, "
                          "1 more needed; couldn't assign flavors to pod set worker: insufficient quota for "
                          "nvidia.com/gpu in flavor a, request > maximum capacity (24 > 16)"), "quota", True,
                 id="one of two sets never fits"),
    pytest.param(reserved(PENDING + "insufficient quota for cpu in flavor a, previously considered podsets requests "
                          "(16) + current podset request (8) > maximum capacity (16)"), "quota", True,
                 id="more than there can be, newer words"),
    pytest.param(reserved(PENDING + "resource nvidia.com/gpu unavailable in ClusterQueue"), "quota", True,
                 id="queue has no such resource"),
    pytest.param(reserved(PENDING + "insufficient unused quota for cpu in flavor a, 5 more needed. Pending the "
                          "preemption of 1 workload(s)"), "quota", False, id="others are being preempted"),
    pytest.param(reserved('topology "default" allows to fit only 4 out of 10 pod(s)'), "topology", False,
                 id="topology"),
    pytest.param(reserved("LocalQueue research doesn't exist", "Inadmissible"), "queue", True, id="no such queue"),
    pytest.param(reserved("ClusterQueue team is inactive", "Inadmissible"), "queue", False, id="queue stopped"),
    pytest.param(workload(), "queue", False, id="not looked at yet"),
    pytest.param(workload(condition("Evicted", "True", "Preempted", "Preempted to accommodate a higher priority "
                                    "Workload")), "queue", False, id="put back"),
    pytest.param(workload(condition("Evicted", "True", "Deactivated", "The workload is deactivated"), active=False),
                 "policy", True, id="deactivated"),
    pytest.param(workload(condition("QuotaReserved"), checks=[{"name": "provision", "state": "Pending", "message":
                          "Waiting for nodes"}]), "policy", False, id="admission check pending"),
    pytest.param(workload(condition("QuotaReserved"), checks=[{"name": "provision", "state": "Rejected", "message":
                          "no capacity"}]), "policy", True, id="admission check rejected"),
    pytest.param(None, "queue", False, id="no workload yet"),
]  # fmt: skip


@pytest.mark.requirement("R086", "R188")
@pytest.mark.parametrize(("of", "reason", "hopeless"), KUEUE)
def test_a_queue_s_reasons(of: dict[str, Any] | None, reason: str, hopeless: bool):
    """Kueue's own words say whether it is quota, turn, topology or policy; the queue is named."""
    found = said(made=QUEUED, of=of)

    assert (reason, hopeless) == (found.reason, found.hopeless)
    assert "queue research" in found.message


@pytest.mark.requirement("R188")
def test_the_place_in_the_queue():
    """How many stand before it is told where Kueue's visibility API was asked."""
    place = {"positionInClusterQueue": 3, "positionInLocalQueue": 1, "priority": 0}
    found = said(made=QUEUED, of=workload(), position=place)

    assert "queue research, 3 others before it: not considered yet" == found.message
    assert 3 == found.details["positionInClusterQueue"]


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


@pytest.mark.requirement("R084")
def test_room_that_is_being_made():
    """A member for which others are preempted says where."""
    conditions = unschedulable("0/8 nodes are available: 8 Insufficient nvidia.com/gpu.")
    found = said([pod(conditions=conditions, status={"nominatedNodeName": "gpu-3"})])

    assert "resources" == found.reason
    assert found.message.endswith("others are ended for it on node gpu-3")


# -- time, members, ends ---------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("text", "number"),
    [
        pytest.param("8", 8.0, id="whole"),
        pytest.param("500m", 0.5, id="thousandth"),
        pytest.param("1Gi", 2.0**30, id="binary"),
        pytest.param("2k", 2000.0, id="decimal"),
        pytest.param("1e3", 1000.0, id="exponent"),
        pytest.param("x", None, id="none"),
        pytest.param("1.2.3", None, id="two points"),
    ],
)
def test_quantities(text: str, number: float | None):
    """Quantities are compared as numbers, since one number has many spellings."""
    assert number == quantity(text)
