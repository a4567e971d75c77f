"""Why there are no pods, from the very words of the API server and Kueue."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.compute.kubernetes.objects import condition, workload
from tests.unit.compute.kubernetes.waits import QUEUED, QUOTA, create, said

from pretrain_archive.compute.kubernetes.waiting_queue import quantity

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
