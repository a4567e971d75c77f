"""What the cluster says in a type that it should not have is left out, and everything else is read as ever."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.compute.kubernetes.objects import START, at, condition, event, job, pod

from pretrain_archive.compute.kubernetes.exits import member_of, verdict_of
from pretrain_archive.compute.kubernetes.exits_pod import INDEX
from pretrain_archive.compute.kubernetes.follow_news import members_digest
from pretrain_archive.compute.kubernetes.launch_compare import edits
from pretrain_archive.compute.kubernetes.launch_facts import allocated_at
from pretrain_archive.compute.kubernetes.sound import sound
from pretrain_archive.compute.kubernetes.waiting import wait_of
from pretrain_archive.ledger.canonical import canonical_bytes

POD = pod(
    index=1, phase="Failed", node="n1",
    state={"terminated": {"exitCode": 137, "signal": 9, "reason": "OOMKilled", "message": "m", "startedAt": at(1),
                          "finishedAt": at(9)}},
    init={"waiting": {"reason": "ErrImagePull", "message": "not found"}},
    conditions=[condition("PodScheduled"), condition("DisruptionTarget", reason="PreemptionByScheduler")],
)  # fmt: skip
POD["metadata"]["deletionTimestamp"] = at(5)
ASCEND = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, 0, 7.5, True, "", "words", [], ["words", 3, None], {}, {"a": 1}, [[]], {"": {}}]
)


def paths(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document."""
    if before:
        yield before
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in pairs:
        yield from paths(part, (*before, key))


def spoiled(document: dict[str, Any], path: tuple[Any, ...], junk: Any) -> dict[str, Any]:
    """The document with something else in one place."""
    made = copy.deepcopy(document)
    inner: Any = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = junk
    return made


def read_all(told_pod: dict[str, Any], told_job: dict[str, Any], told_event: dict[str, Any]) -> None:
    """Everything that a visit and a follower ask of what the cluster shows."""
    member = member_of(told_pod, attempt=1, at=at(10), events=[told_event])
    allocated_at(told_pod)
    verdict_of(told_job, [member])
    members_digest({"p": told_pod})
    wait = wait_of(
        told_job, [told_pod], [told_event], None, now=START + timedelta(seconds=10), start_limit_seconds=60
    )
    canonical_bytes([member.to_json(), [wait.message, wait.object, wait.details] if wait else []])
    edits(job(), told_job)


@pytest.mark.requirement("R086", "R191")
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_no_visit_breaks(data: st.DataObject) -> None:
    """Whatever stands in place of any part of a pod, a job or an event, a visit reads the rest."""
    told = {
        "pod": POD,
        "job": job(status={"conditions": [condition("Failed")]}),
        "event": event("Failed", "x", POD),
    }
    for name in data.draw(st.lists(st.sampled_from(sorted(told)), min_size=1, max_size=2)):
        places = [p for p in paths(told[name]) if p != ("metadata",)]  # without it there is no object at all
        told[name] = spoiled(told[name], data.draw(st.sampled_from(places)), data.draw(JUNK))
    read_all(sound(told["pod"]), sound(told["job"]), sound(told["event"]))


@pytest.mark.parametrize(
    ("part", "path", "junk"),
    [
        pytest.param("pod", ("metadata", "uid"), "\ud800", id="half of a character"),
        pytest.param("pod", ("metadata", "annotations", INDEX), "9" * 5000, id="an index of 5000 digits"),
        pytest.param("pod", ("metadata", "annotations", ASCEND), "[" * 100_000, id="an annotation of brackets"),
        pytest.param(
            "pod", ("metadata", "annotations", ASCEND), '{"devices": [{"device_id": "\\ud800"}]}',
            id="a device that is half a character",
        ),
        pytest.param("pod", ("status", "containerStatuses", 0, "restartCount"), 10**30, id="a count beyond 2^53"),
        pytest.param("pod", ("metadata", "deletionTimestamp"), "9999-12-31T23:59:59-23:00", id="after the last day"),
        pytest.param("job", ("spec", "parallelism"), "many", id="members that are a text"),
        pytest.param("job", ("spec", "trainer"), "x", id="a trainer that is a text"),
        pytest.param("job", ("spec", "template"), {"spec": {"containers": ["x"]}}, id="a container that is a text"),
        pytest.param("event", ("count",), float("inf"), id="a count without end"),
    ],
)  # fmt: skip
def test_hostile_objects_are_read_and_recorded(part: str, path: tuple[Any, ...], junk: Any) -> None:
    """What no type forbids breaks nothing either, and what is read fits into a record."""
    told = {"pod": POD, "job": job(), "event": event("FailedCreate", "exceeded quota", job())}
    told[part] = spoiled(told[part], path, junk)
    read_all(sound(told["pod"]), sound(told["job"]), sound(told["event"]))


@pytest.mark.parametrize(
    ("path", "junk", "field", "expected"),
    [
        pytest.param(("status",), "Running", "phase", "Unknown", id="a status that is a text"),
        pytest.param(("status", "phase"), ["Failed"], "phase", "Unknown", id="a phase that is a list"),
        pytest.param(("spec", "nodeName"), {"n": 1}, "node", None, id="a node that is a table"),
        pytest.param(("status", "containerStatuses"), {}, "exit_code", None, id="containers that are a table"),
        pytest.param(("status", "containerStatuses", 0), "x", "restarts", None, id="a container that is a text"),
        pytest.param(
            ("status", "containerStatuses", 0, "restartCount"), True, "restarts", None, id="a count that is a flag"
        ),
        pytest.param(
            ("status", "containerStatuses", 0, "state", "terminated", "exitCode"), "137", "exit_code", None,
            id="a code that is a text",
        ),
        pytest.param(
            ("status", "containerStatuses", 0, "state", "terminated", "finishedAt"), "soon", "ended_at", None,
            id="a time that is none",
        ),
        pytest.param(("status", "conditions"), "yes", "condition", "", id="conditions that are a text"),
    ],
)  # fmt: skip
def test_the_odd_part_is_unrecorded(
    caplog: pytest.LogCaptureFixture, path: tuple[Any, ...], junk: Any, field: str, expected: Any
) -> None:
    """It is left out and said in the log; what stands beside it is read."""
    caplog.set_level(logging.WARNING)
    good = member_of(POD, attempt=1, at=at(10))
    member = member_of(sound(spoiled(POD, path, junk)), attempt=1, at=at(10))

    assert expected == getattr(member, field)
    assert expected != getattr(good, field)
    assert (good.worker, good.uid) == (member.worker, member.uid)
    assert ".".join(str(part) for part in path if isinstance(part, str)).split(".")[0] in caplog.text


def test_what_is_well_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing of a good object changes, nor what no shape names."""
    caplog.set_level(logging.WARNING)
    odd = {**POD, "spec": {**POD["spec"], "ours": [1, {"x": None}]}, "other": 5}

    assert POD == sound(POD)
    assert odd == sound(odd)
    assert "" == caplog.text


@pytest.mark.requirement("R072", "R093")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param({"labels": {"a": "b"}}, [], id="what it may be given"),
        pytest.param({"parallelism": 4}, ["parallelism is 4 and not 1"], id="members"),
        pytest.param({"activeDeadlineSeconds": 9}, ["activeDeadlineSeconds is 9 and not 60"], id="deadline"),
        pytest.param({"backoffLimit": 6, "completions": 2},
                     ["completions is 2 and not 1", "backoffLimit is 6 and not 0"], id="two at once"),
    ],
)  # fmt: skip
def test_edits_of_a_released_job(change: dict[str, Any], words: list[str]) -> None:
    """What decides how long and how often a job runs is compared field by field; placement is the cluster's affair."""
    limits = {"activeDeadlineSeconds": 60, "backoffLimit": 0}
    released = job(spec=limits)

    assert words == edits(released, job(spec={**limits, **change}))
