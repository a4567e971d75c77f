"""What a recovery is compared with: progress, duplicates, results, members and data, from records alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from pretrain_archive.compute.reconcile import effective, reconcile, unreconciled
from pretrain_archive.domain import kinds
from pretrain_archive.domain.records import Actor, Origin, Record
from pretrain_archive.domain.run_view import RunView

DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
NOW = "2026-11-29T10:00:00.000000Z"
FOLDER = "/runs/x/checkpoints/step_00000160"


@dataclass
class Told:
    """Records of one run, in the order of the calls."""

    records: list[Record] = field(default_factory=list)

    def add(self, payload: kinds.Payload, attempt: int) -> None:
        """Record a payload."""
        number = len(self.records)
        self.records.append(
            Record(
                record_id=f"rec_{number}", position=number, stream="run_x", sequence=number, previous="",
                kind=kinds.BY_MODEL[type(payload)], schema_version=1, attempt=attempt, ordinal=number,
                payload=payload.to_json(), actor=Actor(type="task", name="t"), recorded_at=NOW,
                origin=Origin(dag_id="d", dag_run_id="r", task_id="t"), leaf="", edges=(),
            )
        )  # fmt: skip

    def start(self, attempt: int, resume: int | None = None) -> None:
        """An attempt begins, perhaps from a checkpoint."""
        path = FOLDER if resume is not None else None
        self.add(
            kinds.AttemptStarted(
                attempt=attempt, host="h", resume_from=path, resume_step=resume, requested={}, allocated={}
            ),
            attempt,
        )

    def steps(self, attempt: int, steps: Any, shift: float = 0.0, name: str = "loss") -> None:
        """A metric is reported at these steps."""
        points = [kinds.MetricPoint(name=name, step=s, value=5.0 / s + shift) for s in steps]
        self.add(kinds.MetricsRecorded(attempt=attempt, points=points), attempt)

    def end(self, attempt: int, last: int | None, state: str = "lost") -> None:
        """The attempt ends."""
        self.add(
            kinds.AttemptEnded.model_validate(
                {"attempt": attempt, "state": state, "exit_code": None, "reason": "r", "last_step": last}
            ),
            attempt,
        )

    def saved(self, attempt: int, step: int, digest: str = DIGEST) -> None:
        """A checkpoint is registered."""
        self.add(
            kinds.CheckpointRegistered(
                checkpoint_id=f"ckpt_{attempt}_{step}", step=step, tokens=None, attempt=attempt,
                location=f"file:///runs/x/checkpoints/step_{step:08d}", format="folder", digest=digest, files=[],
                components={}, tensors=None, tensors_digest=None, snapshot="s@1", configuration_digest=DIGEST,
                data_position=None, responsible="alice", artifact_class="recovery", purpose="recovery",
            ),
            attempt,
        )  # fmt: skip

    def said(self, attempt: int, event: str, step: int | None, **data: Any) -> None:
        """The program reports an event."""
        self.add(kinds.EventRecorded(attempt=attempt, event=event, at=NOW, step=step, data=data), attempt)

    def loaded(
        self, attempt: int, workers: Any, *, step: int = 160, size: int = 4, digest: str = DIGEST
    ) -> None:
        """Workers say that they loaded the checkpoint."""
        for worker in workers:
            self.said(attempt, "checkpoint_loaded", step, worker=worker, world_size=size, digest=digest)

    def view(self) -> RunView:
        """The run as told so far."""
        return RunView.of("run_x", self.records)


def recovered(
    *, first: Any = range(10, 211, 10), second: Any = range(170, 301, 10), shift: float = 0.0,
    resume: int | None = 160,
) -> Told:  # fmt: skip
    """Attempt 1 crashes at 210, attempt 2 goes on from 160 to 300; a report every ten steps."""
    told = Told()
    told.start(1)
    told.steps(1, first)
    told.saved(1, 160)
    told.end(1, max(first))
    told.start(2, resume)
    told.steps(2, second, shift)
    told.end(2, max(second, default=None), "completed")
    return told


def verdicts(done: kinds.AttemptReconciled) -> dict[str, str]:
    """Verdict by check."""
    return {check["name"]: check["verdict"] for check in done.checks}


def found(done: kinds.AttemptReconciled, name: str) -> str:
    """What a check found."""
    return next(str(check["found"]) for check in done.checks if check["name"] == name)


@pytest.mark.requirement("R195")
def test_a_clean_recovery_is_verified_and_counted() -> None:
    """Steps lost and repeated are those between the checkpoint and the furthest step of the attempts before."""
    told = recovered()
    told.loaded(2, range(4))
    for worker in range(4):
        told.said(
            2,
            "data_read",
            160,
            worker=worker,
            world_size=4,
            files=7,
            manifest_digest=DIGEST,
            data_digest=OTHER,
        )
    done = reconcile(told.view(), 2)

    assert {"verified"} == set(verdicts(done).values()), done.checks
    assert (50, 50, 4, 4) == (
        done.steps_lost,
        done.steps_repeated,
        done.members_loaded,
        done.members_expected,
    )
    assert (FOLDER, 160) == (done.resumed_from, done.resume_step)


@pytest.mark.requirement("R195")
@pytest.mark.parametrize(
    ("second", "says"),
    [
        pytest.param(range(180, 301, 10), "first step 180 after the resume at 160", id="jump"),
        pytest.param([160, 170, 180], "first step 160 after the resume at 160", id="the same step again"),
        pytest.param([170, 180, 210, 220], "nothing between 180 and 210", id="gap"),
        pytest.param([170, 180, 190, 180, 190], "step 180 after 190", id="back"),
        pytest.param([10, 20, 30], "first step 10 after the resume at 160", id="began anew unsaid"),
    ],
)
def test_progress_names_gap_and_jump(second: Any, says: str) -> None:
    """What does not go on from the checkpoint step by step is named."""
    done = reconcile(recovered(second=second).view(), 2)

    assert "changed" == verdicts(done)["progress"]
    assert says in found(done, "progress")


@pytest.mark.requirement("R195")
def test_nothing_reported_after_the_resume_is_unrecorded() -> None:
    """An attempt that reported no step has no progress, no values and no repeated steps: nothing is assumed."""
    done = reconcile(recovered(second=()).view(), 2)

    seen = verdicts(done)
    assert ["unrecorded"] * 5 == [seen[n] for n in ("progress", "duplicates", "results", "loaded", "data")]
    assert (50, None) == (done.steps_lost, done.steps_repeated)


@pytest.mark.case("E05")
@pytest.mark.requirement("R195")
def test_repeated_steps_count_once_for_the_later_attempt() -> None:
    """Both attempts are kept; from 170 on attempt 2 counts, the end is of step 300, differences are named."""
    told = recovered(shift=1.0)
    done = reconcile(told.view(), 2)
    curve = effective(told.view())

    assert "changed" == verdicts(done)["duplicates"]
    assert "5 steps were done twice, attempt 2 counts" in found(done, "duplicates")
    assert "step 170: 0.0294118 in attempt 1, 1.02941 in attempt 2" in found(done, "duplicates")
    assert "verified" == verdicts(done)["results"]
    assert "30 steps count, 5 reports are set aside; last step 300 of attempt 2" == found(done, "results")
    assert [1] * 16 + [2] * 14 == [number for number, _ in curve.values()]
    assert list(range(10, 301, 10)) == list(curve)


def test_values_within_the_tolerance_are_the_same() -> None:
    """The order of additions changes the last digits: that is no difference."""
    assert "verified" == verdicts(reconcile(recovered(shift=1e-6).view(), 2))["duplicates"]


def test_not_finite_equals_not_finite_only() -> None:
    """A step that was not finite and is now is a difference."""
    told = recovered(first=range(10, 211, 10), second=[170])
    told.add(
        kinds.MetricsRecorded(
            attempt=2, points=[kinds.MetricPoint(name="loss", step=180, value=None, not_finite="nan")]
        ),
        2,
    )
    done = reconcile(told.view(), 2)

    assert "in attempt 1, nan in attempt 2" in found(done, "duplicates")


def test_a_step_told_twice_by_one_attempt_is_named() -> None:
    """Double counting inside an attempt is a finding."""
    told = recovered(second=[170, 180])
    told.steps(2, [190, 190])
    done = reconcile(told.view(), 2)

    assert "attempt 2 reports step 190 2 times" in found(done, "results")
    assert "changed" == verdicts(done)["results"]


@pytest.mark.parametrize(
    ("digest", "verdict"),
    [pytest.param(DIGEST, "verified", id="same bytes"), pytest.param(OTHER, "changed", id="other bytes")],
)
def test_a_step_that_was_saved_twice(digest: str, verdict: str) -> None:
    """Two checkpoints of a step with different bytes are a named difference."""
    told = recovered()
    told.saved(1, 200)
    told.saved(2, 200, digest)
    told.saved(2, 300)
    done = reconcile(told.view(), 2)

    assert verdict == verdicts(done)["checkpoints"]
    assert (verdict == "changed") == ("step 200" in found(done, "checkpoints"))


@pytest.mark.requirement("R235")
@pytest.mark.parametrize(
    ("workers", "more", "verdict", "says"),
    [
        pytest.param(range(4), {}, "verified", "4 of 4 workers loaded step 160", id="all"),
        pytest.param((), {}, "unrecorded", "no worker reported", id="nobody"),
        pytest.param((0, 1, 3), {}, "changed", "worker 2: not reported", id="one is silent"),
        pytest.param((0, 0, 0, 0), {}, "changed", "1 of 4 workers", id="one speaks four times"),
        pytest.param(range(4), {"step": 150}, "changed", "worker 0: loaded step 150", id="other step"),
        pytest.param(range(4), {"digest": OTHER}, "changed", "loaded other bytes", id="other bytes"),
    ],
)
def test_all_members_loaded_the_checkpoint(
    workers: Any, more: dict[str, Any], verdict: str, says: str
) -> None:
    """Every worker has to say it of itself, with the registered bytes."""
    told = recovered()
    told.loaded(2, workers, **more)
    done = reconcile(told.view(), 2)

    assert verdict == verdicts(done)["loaded"]
    assert says in found(done, "loaded")


def test_a_report_without_the_number_of_workers_proves_nothing() -> None:
    """Without a world size nobody knows whether all reported."""
    told = recovered()
    told.said(2, "checkpoint_loaded", 160, worker=0)
    done = reconcile(told.view(), 2)

    assert ("unrecorded", None) == (verdicts(done)["loaded"], done.members_expected)


def test_an_attempt_that_began_anew_had_nothing_to_load() -> None:
    """Without a checkpoint to go on from, all steps before are lost and the first step is the first."""
    done = reconcile(recovered(second=range(10, 221, 10), resume=None).view(), 2)

    assert ("verified", "verified") == (verdicts(done)["loaded"], verdicts(done)["progress"])
    assert (210, 210) == (done.steps_lost, done.steps_repeated)


@pytest.mark.requirement("R236")
@pytest.mark.parametrize("name", ["manifest_digest", "data_digest"])
def test_a_worker_that_read_other_data_is_named(name: str) -> None:
    """One node's cache is not what the others read."""
    told = recovered()
    for worker in range(4):
        digests = {"manifest_digest": DIGEST, "data_digest": DIGEST} | ({name: OTHER} if worker == 2 else {})
        told.said(2, "data_read", 160, worker=worker, world_size=4, files=7, **digests)
    done = reconcile(told.view(), 2)

    assert "changed" == verdicts(done)["data"]
    assert "3 of 4 workers read the same 7 files; worker 2: other" in found(done, "data")


def test_steps_of_several_attempts_are_counted_against_the_furthest() -> None:
    """A third attempt that falls back further repeats what the first did, not only what the second did."""
    told = recovered(second=[170, 180])
    told.start(3, 100)
    told.steps(3, range(110, 301, 10))
    told.end(3, 300, "completed")
    second, third = reconcile(told.view(), 2), reconcile(told.view(), 3)

    assert (50, 20) == (second.steps_lost, second.steps_repeated)
    assert (110, 110) == (third.steps_lost, third.steps_repeated)


def test_only_ended_attempts_that_took_over_wait_to_be_reconciled() -> None:
    """The first attempt never does, a running one not yet, a reconciled one not again."""
    told = recovered()
    told.start(3, 160)
    assert [2] == unreconciled(told.view())

    told.add(reconcile(told.view(), 2), 2)
    assert [] == unreconciled(told.view())

    told.end(3, 170)
    assert [3] == unreconciled(told.view())
