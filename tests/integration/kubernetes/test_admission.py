"""What the cluster makes of a job before it is on record: freed or changed by its admission, it has to go."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from tests.fakes.cluster import FakeCluster
from tests.integration.kubernetes.playground import Run
from tests.integration.kubernetes.test_fence import Proxy

from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.kinds import AttemptEnded


def webhooked(run: Run, change: Callable[[Any], None]) -> Any:
    """The API of a cluster whose admission changes each job that is created."""
    create = run.api.create

    def admitted(kind: str, namespace: str, body: Any) -> Any:
        changed = copy.deepcopy(body)
        change(changed)
        return create(kind, namespace, changed)

    return Proxy(run.api, create=admitted)


@pytest.mark.requirement("R191")
@pytest.mark.parametrize(
    ("change", "named"),
    [
        pytest.param(
            lambda job: job["metadata"]["labels"].update({"kueue.x-k8s.io/queue-name": "default"}),
            "queue default", id="default queue",
        ),
        pytest.param(lambda job: job["spec"].update(suspend=False), "without its suspension", id="let go"),
        pytest.param(lambda job: job["spec"].update(backoffLimit=6), "backoffLimit", id="retries"),
        pytest.param(lambda job: job["spec"].pop("activeDeadlineSeconds"), "activeDeadlineSeconds", id="no deadline"),
        pytest.param(
            lambda job: job["spec"]["template"]["spec"]["containers"][0].update(image="other@sha256:" + "b" * 64),
            "image", id="another image",
        ),
    ],
)  # fmt: skip
def test_a_job_that_the_cluster_does_not_keep_back(
    run: Run, by_hand: FakeCluster, change: Callable[[Any], None], named: str
) -> None:
    """Admission frees or changes what is created: it is deleted with its pods, nothing is on record, why is said."""
    launch = run.launch(api=webhooked(run, change))
    with pytest.raises(RefusedError, match=named):
        launch.create()

    assert ([], []) == (list(by_hand.list("jobs")), list(by_hand.list("pods")))
    assert [] == run.records("job.created")
    [ended] = run.facts("attempt.ended", AttemptEnded)
    assert "failed" == ended.state
    assert named in ended.reason


def test_a_mirror_of_the_image_and_placement_are_the_clusters_affair(run: Run, by_hand: FakeCluster) -> None:
    """Admission names another registry for the same digest and adds a toleration: the job is launched."""

    def change(job: Any) -> None:
        pod = job["spec"]["template"]["spec"]
        pod["containers"][0]["image"] = "mirror.test/" + pod["containers"][0]["image"]
        pod["tolerations"] = [{"operator": "Exists"}]

    run.launch(api=webhooked(run, change)).create()
    by_hand.wait(lambda: by_hand.list("pods"))


def test_a_lost_answer_of_a_job_that_was_let_go(run: Run, by_hand: FakeCluster) -> None:
    """The creation is asked twice since its answer was lost, and the cluster let the job go: nothing stays."""
    by_hand.fail("create", "jobs", after=True, drop=True)
    launch = run.launch(api=webhooked(run, lambda job: job["spec"].update(suspend=False)))
    with pytest.raises(RefusedError, match="suspension"):
        launch.create()

    assert ([], []) == (list(by_hand.list("jobs")), list(by_hand.list("pods")))
