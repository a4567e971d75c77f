"""One released job for a token at most, and never a pod for a closed attempt, wherever a launcher is cut off."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.fakes.cluster import FakeCluster
from tests.integration.kubernetes.playground import NAMESPACE, Run, origin

from pretrain_archive.compute.kubernetes.standing import RELEASED
from pretrain_archive.domain.errors import (
    ArchiveError,
    ClusterUnavailableError,
    RefusedError,
    StillRunningError,
)
from pretrain_archive.domain.kinds import AttemptEnded, JobCreated, JobRemoved
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.timeline import timeline

CALLS = ("create", "read", "list", "patch", "delete", "append")


class CutOffError(BaseException):
    """The process was killed here."""


class Cut:
    """Stands before an API or a ledger and ends the process at the ``at``-th call, before it or after it."""

    def __init__(self, inner: Any, count: Iterator[int], *, at: int, after: bool) -> None:
        self.inner, self.count, self.at, self.after = inner, count, at, after

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self.inner, name)
        if name not in CALLS:
            return inner

        def call(*args: Any, **options: Any) -> Any:
            number = next(self.count)
            if number == self.at and not self.after:
                raise CutOffError
            answer = inner(*args, **options)
            if number == self.at:
                raise CutOffError
            return answer

        return call


def numbers() -> Iterator[int]:
    """Zero, one, two and so on."""
    number = 0
    while True:
        yield number
        number += 1


def cut_launch(run: Run, *, at: int, after: bool) -> bool:
    """Create and follow for two visits in a process that is killed at a call; False if it never came so far."""
    count = numbers()
    cuts = {
        "api": Cut(run.api, count, at=at, after=after),
        "ledger": Cut(run.ledger, count, at=at, after=after),
    }
    try:
        launch = run.launch(**cuts)
        launch.create()
        launch.visit()
    except CutOffError:
        return True
    return False


def recover(run: Run) -> str:
    """What the next task try does: adopt what is on record, close what is not and take its job away."""
    records = run.records("job.created")
    launch = run.launch(task=origin(2))
    if records:
        launch.adopt(records[0])
        launch.visit()
        return "adopted"
    run.close_lost()
    for job in run.api.list("Job", NAMESPACE):
        run.api.delete("Job", NAMESPACE, job["metadata"]["name"])
    return "closed"


@pytest.mark.requirement("R188", "R191")
@pytest.mark.parametrize("after", [pytest.param(False, id="before"), pytest.param(True, id="after")])
def test_cut_off_at_every_call(run: Run, by_hand: FakeCluster, after: bool) -> None:
    """Killed before or after each call to cluster and ledger: one job, released at most once, right state."""
    run_uid, ways = run.run_uid, set()
    for at in range(40):
        run.run_uid = f"{run_uid}-{at}"
        before = len(by_hand.ever("jobs"))
        if not cut_launch(run, at=at, after=after):
            break
        by_hand.wait(lambda: settled(by_hand))
        ways.add(recover(run))
        by_hand.wait(lambda: settled(by_hand))
        made = by_hand.ever("jobs")[before:]
        ended = run.facts("attempt.ended", AttemptEnded)
        created = run.facts("job.created", JobCreated)
        assert len(made) <= 1, f"at call {at}"
        ever = [pod for pod in by_hand.ever("pods") if made and pod.startswith(made[0])]
        assert len(ever) == len(created), f"at call {at}: a closed attempt has a pod, or an open one has none"
        assert len(created) + len(ended) == 1, f"at call {at}: {created} {ended}"
        there = [job for job in by_hand.list("jobs") if job["metadata"]["name"] in made]
        pods = [pod for name in made for pod in by_hand.pods_of(name)]
        assert (1, 1) == (len(there), len(pods)) if created else (0, 0) == (len(there), len(pods)), (
            f"at call {at}"
        )
    else:
        pytest.fail("the launch never ended by itself")
    assert {"adopted", "closed"} == ways
    assert at >= 7


@pytest.mark.parametrize("after", [pytest.param(False, id="before"), pytest.param(True, id="after")])
def test_cut_off_at_every_call_of_the_end(run: Run, by_hand: FakeCluster, after: bool) -> None:
    """Killed before or after each call of the end: the next one goes on, there is one end and nothing is left."""
    run_uid = run.run_uid
    for at in range(40):
        run.run_uid = f"{run_uid}-{at}"
        run.launch().create()
        by_hand.wait(lambda: by_hand.list("pods"))
        count = numbers()
        cuts = {
            "api": Cut(run.api, count, at=at, after=after),
            "ledger": Cut(run.ledger, count, at=at, after=after),
        }
        launch = run.launch(task=origin(2), **cuts)
        try:
            launch.killed = "the test asks for the end"
            launch.end()
        except CutOffError:
            again = run.launch(task=origin(3))
            again.kill("the next try asks for the end")
            again.end()
            done = False
        else:
            done = True
        assert ([], []) == (list(by_hand.list("jobs")), list(by_hand.list("pods"))), f"at call {at}"
        [ended] = run.facts("attempt.ended", AttemptEnded)
        assert ended.state in ("interrupted", "lost"), f"at call {at}"
        assert 1 == sum(removed.verified_absent for removed in run.facts("job.removed", JobRemoved)), (
            f"at call {at}"
        )
        if done:
            break
    else:
        pytest.fail("the end never came")
    assert at >= 8


def settled(cluster: FakeCluster) -> bool:
    """Whether the controllers have nothing to do."""
    jobs = list(cluster.list("jobs"))
    return all(bool(cluster.pods_of(j["metadata"]["name"])) != j["spec"]["suspend"] for j in jobs)


def test_a_closed_attempt_gets_no_pod(run: Run, by_hand: FakeCluster) -> None:
    """The attempt is closed between creation and record: the job is taken away, the launch refused."""
    launch = run.launch()
    create = run.api.create

    def create_and_close(kind: str, *args: Any) -> Any:
        made = create(kind, *args)
        run.close_lost()
        return made

    launch.api = Proxy(run.api, create=create_and_close)
    with pytest.raises(RefusedError, match="closed meanwhile"):
        launch.create()

    assert ([], []) == (list(by_hand.list("jobs")), by_hand.ever("pods"))
    assert [] == run.records("job.created")


def test_an_attempt_that_gets_its_job_is_not_closed(run: Run, by_hand: FakeCluster) -> None:
    """The job is recorded after a recovery read the run: the recovery is refused, the job goes on."""
    run.intend()
    stale = run.view()
    run.launch().create()
    run.view = lambda: stale  # type: ignore[method-assign]
    with pytest.raises(StillRunningError, match=r"job\.created"):
        run.close_lost()
    assert [] == run.records("attempt.ended")
    by_hand.wait(lambda: by_hand.list("pods"))


class Proxy:
    """An API with some calls replaced."""

    def __init__(self, inner: Any, **calls: Callable[..., Any]) -> None:
        self.inner, self.calls = inner, calls

    def __getattr__(self, name: str) -> Any:
        return self.calls.get(name) or getattr(self.inner, name)


@pytest.mark.parametrize(
    "same_task", [pytest.param(True, id="one task try"), pytest.param(False, id="two tries")]
)
def test_two_launchers_at_once(run: Run, by_hand: FakeCluster, same_task: bool) -> None:
    """A worker that was given up and its successor create the same job: there is one, released once."""
    run_uid = run.run_uid
    for round_ in range(10):
        run.run_uid = f"{run_uid}-{round_}"
        intent = run.intend()
        gate = threading.Barrier(2)
        found: list[Any] = []

        def start(number: int, intent: Any = intent, gate: Any = gate, found: Any = found) -> None:
            launch = run.launch(intent=intent, task=origin(1 if same_task else number))
            gate.wait()
            try:
                found.append(launch.create().record_id)
                launch.visit()
            except ArchiveError as error:
                found.append(error)

        threads = [threading.Thread(target=start, args=(number,)) for number in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert 1 == len(run.records("job.created"))
        assert 1 == len(set(map(str, found))), found
    assert 10 == len(by_hand.ever("jobs"))
    by_hand.wait(lambda: 10 == len(by_hand.ever("pods")))


def test_a_creator_and_a_closer_at_once(run: Run, by_hand: FakeCluster) -> None:
    """One creates while another closes: either the job is on record and runs, or the attempt is closed without."""
    run_uid, seen = run.run_uid, set()
    luck = random.Random(4)
    for round_ in range(12):
        run.run_uid = f"{run_uid}-{round_}"
        launch, gate = run.launch(), threading.Barrier(2)
        pause = 30.0 if round_ % 4 == 1 else luck.random() * 0.05
        there = threading.Event()  # in every fourth round the creator is sure to come first

        def close(gate: Any = gate, pause: float = pause, there: threading.Event = there) -> None:
            gate.wait()
            there.wait(pause)
            try:
                run.close_lost()
            except StillRunningError:
                return

        thread = threading.Thread(target=close)
        thread.start()
        gate.wait()
        if round_ % 4 == 0:  # the closer is sure to come first
            thread.join(30)
        with suppress(RefusedError):
            launch.create()
        there.set()
        thread.join(30)
        created, ended = run.records("job.created"), run.records("attempt.ended")
        assert 1 == len(created) + len(ended)
        name = launch.job.name if launch.job else ""
        seen.add("created" if created else "closed")
        if created:
            by_hand.wait(lambda name=name: by_hand.pods_of(name))
        else:
            assert [] == [
                j
                for j in by_hand.list("jobs")
                if j["metadata"]["labels"]["pretrain-archive/run"] == run.run_uid
            ]
    assert {"created", "closed"} == seen


@pytest.mark.parametrize("verb", ["create", "patch"])
@pytest.mark.parametrize("status", [pytest.param(0, id="dropped"), pytest.param(503, id="503")])
def test_an_answer_that_is_lost(run: Run, by_hand: FakeCluster, verb: str, status: int) -> None:
    """The cluster did it and the answer was lost: the same call again finds it, there is one job and one pod."""
    by_hand.fail(verb, "jobs", after=True, drop=not status, status=status)
    run.launch().create()

    assert 1 == len(by_hand.ever("jobs"))
    by_hand.wait(lambda: 1 == len(by_hand.ever("pods")))
    assert 1 == len(run.records("job.created"))


def test_a_cluster_that_does_not_answer_leaves_the_attempt_open(run: Run, by_hand: FakeCluster) -> None:
    """No answer to the creation within the bound: an error that is retried, no end, and the try after it recovers."""
    by_hand.fail("create", "jobs", times=-1, status=503)
    with pytest.raises(ClusterUnavailableError, match=by_hand.url):
        run.launch().create()
    assert [] == run.records("attempt.ended", "job.created")
    by_hand.faults.clear()
    run.close_lost()

    assert [] == by_hand.ever("jobs")
    assert "lost" == run.facts("attempt.ended", AttemptEnded)[0].state


@pytest.mark.parametrize(
    ("change", "named"),
    [
        pytest.param(
            lambda job: job["spec"]["template"]["spec"]["containers"][0].update(image="evil"), "image", id="image"
        ),
        pytest.param(lambda job: job["spec"].update(suspend=False), "suspension", id="released"),
        pytest.param(lambda job: job["spec"].update(backoffLimit=3), "backoffLimit", id="retries"),
        pytest.param(
            lambda job: job["spec"]["template"]["spec"]["containers"].append({"name": "x", "image": "y"}),
            "containers", id="second container",
        ),
    ],
)  # fmt: skip
def test_a_job_of_that_name_that_is_another(
    run: Run, by_hand: FakeCluster, change: Callable[[Any], None], named: str
) -> None:
    """Somebody made a job of the very name beforehand: it is not adopted, and the difference is named."""
    launch = run.launch()
    create = run.api.create

    def create_forged(kind: str, namespace: str, body: Any) -> Any:
        import copy

        forged = copy.deepcopy(body)
        change(forged)
        create(kind, namespace, forged)
        return create(kind, namespace, body)

    launch.api = Proxy(run.api, create=create_forged)
    with pytest.raises(RefusedError, match=named):
        launch.create()

    assert [] == run.records("job.created")
    assert "failed" == run.facts("attempt.ended", AttemptEnded)[0].state
    assert not any(RELEASED in job["metadata"].get("annotations", {}) for job in by_hand.list("jobs"))


def test_the_manifest_applied_again_starts_nothing(run: Run, by_hand: FakeCluster) -> None:
    """The recorded manifest, applied by hand after the end, is a suspended job without a pod."""
    launch = run.launch()
    record = launch.create()
    by_hand.wait(lambda: by_hand.ever("pods"))
    launch.kill()
    launch.end()
    before = by_hand.ever("pods")
    run.api.create("Job", NAMESPACE, record.payload["manifest"])
    by_hand.wait(lambda: by_hand.list("jobs")[0]["status"].get("conditions"))

    assert before == by_hand.ever("pods")
    with pytest.raises(RefusedError):
        run.launch(task=origin(3)).create()
    assert before == by_hand.ever("pods")


@pytest.mark.requirement("R191")
def test_a_job_that_a_person_suspended_is_not_released(run: Run, by_hand: FakeCluster) -> None:
    """Released once, then suspended by hand: neither a visit nor a successor lets it go against that."""
    record = run.launch().create()
    by_hand.wait(lambda: by_hand.ever("pods"))
    by_hand.patch("jobs", record.payload["name"], {"spec": {"suspend": True}}, NAMESPACE)
    by_hand.wait(lambda: not by_hand.list("pods"))
    again = run.launch(task=origin(2))
    again.adopt(record)

    assert "waiting" == again.visit().state
    assert True is by_hand.list("jobs")[0]["spec"]["suspend"]
    assert 1 == len(by_hand.ever("pods"))


def test_another_job_of_the_name_is_never_released_or_ended(run: Run, by_hand: FakeCluster) -> None:
    """The job was deleted and somebody made one of the same name: ours is lost, theirs is left alone."""
    launch = run.launch()
    record = launch.create()
    by_hand.wait(lambda: by_hand.ever("pods"))
    by_hand.delete("jobs", record.payload["name"], NAMESPACE, policy="Background")
    by_hand.wait(lambda: not by_hand.list("pods"))
    other = by_hand.create("jobs", record.payload["manifest"], NAMESPACE)
    again = run.launch(task=origin(2))
    again.adopt(record)
    assert again.visit().gone
    ended = again.end()

    assert "lost" == ended.state
    [left] = by_hand.list("jobs")
    assert other["metadata"]["uid"] == left["metadata"]["uid"]
    assert True is left["spec"]["suspend"]


@pytest.mark.requirement("R072", "R093")
def test_an_edit_after_the_release_is_reported(run: Run, by_hand: FakeCluster) -> None:
    """Deadline and members that somebody changes in the cluster are on record once, whoever visits, and in the log."""
    record = run.launch().create()
    by_hand.wait(lambda: by_hand.ever("pods"))
    first = run.launch(task=origin(2))
    first.adopt(record)
    first.visit()
    assert [] == [r for r in run.records("event.recorded") if r.payload["event"] == "job_edited"]
    by_hand.patch("jobs", record.payload["name"], {"spec": {"activeDeadlineSeconds": 999_999}}, NAMESPACE)
    for visitor in (first, first, run.launch(task=origin(3))):
        visitor.adopt(record)
        visitor.visit()
    told = [r for r in run.records("event.recorded") if r.payload["event"] == "job_edited"]

    assert ["activeDeadlineSeconds is 999999"] == [
        r.payload["data"]["reason"].partition(" and ")[0] for r in told
    ]
    assert any("was changed after its release: activeDeadlineSeconds" in line for line in run.lines)
    [entry] = [e for e in timeline(RunView.of(run.run_uid, run.ledger.records())) if e.name == "job_edited"]
    assert ("bad", True) == (entry.tone, "999999" in entry.what)


@pytest.mark.requirement("R191")
def test_a_status_of_another_type_does_not_end_a_visit(run: Run, by_hand: FakeCluster) -> None:
    """A pod whose containers' states are no list is a member of which these are unrecorded; the attempt goes on."""
    launch = run.launch()
    launch.create()
    [name] = by_hand.wait(lambda: [pod["metadata"]["name"] for pod in by_hand.list("pods")])
    space = by_hand.list("pods")[0]["metadata"]["namespace"]
    odd = {"containerStatuses": "broken", "reason": ["x"], "startTime": "soon"}
    by_hand.store.update("pods", space, name, lambda old: {**old, "status": {**old["status"], **odd}})

    assert "ended" != launch.visit().state
    [member] = run.records("member.observed")
    assert (None, name) == (member.payload["restarts"], member.payload["name"])
