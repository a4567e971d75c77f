"""What an attempt was to reach and what it took: unrecorded time is charged, never free."""

from __future__ import annotations

import pytest

from pretrain_archive.compute.cost import spent_seconds
from pretrain_archive.domain.kinds import BY_MODEL, AttemptEnded, AttemptStarted, LaunchIntended, Payload
from pretrain_archive.domain.records import Actor, Origin, Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.training import charged_seconds, spent_minutes, target_steps

DIGEST = "sha256:" + "0" * 64


def view_of(*facts: tuple[int, int, Payload]) -> RunView:
    """A run from facts, each with its minute and its attempt."""
    records = [
        Record(
            record_id=f"rec_{index}", position=index, stream="run_1", sequence=index, previous="",
            kind=BY_MODEL[type(payload)], schema_version=1, attempt=attempt, ordinal=0, payload=payload.to_json(),
            actor=Actor(type="task", name="t"), origin=Origin(dag_id="d", dag_run_id="r", task_id="t"),
            recorded_at=f"2026-01-01T00:{minute:02d}:00.000000Z",
        )
        for index, (minute, attempt, payload) in enumerate(facts)
    ]  # fmt: skip
    return RunView.of("run_1", records)


def launch(minute: int, attempt: int = 1) -> tuple[int, int, Payload]:
    """A token was consumed."""
    token = {"token_digest": DIGEST, "token": {}, "checkpoint_size": 1, "checkpoint_root": "0", "signer": "s"}
    return minute, attempt, LaunchIntended.model_validate({**token, "target": "local"})


def started(minute: int, accelerators: int, attempt: int = 1) -> tuple[int, int, Payload]:
    """A process began on so many accelerators."""
    requested = {"accelerators": accelerators}
    return minute, attempt, AttemptStarted(attempt=attempt, host="h", requested=requested, allocated={})


def ended(minute: int, seconds: float | None, attempt: int = 1) -> tuple[int, int, Payload]:
    """It ended, with a recorded time or without."""
    return (
        minute,
        attempt,
        AttemptEnded(attempt=attempt, state="lost", exit_code=None, reason="r", seconds=seconds),
    )


@pytest.mark.parametrize(
    ("facts", "charged", "accelerator_seconds"),
    [
        pytest.param([], {}, 0.0, id="nothing"),
        pytest.param([launch(0)], {}, 0.0, id="not ended"),
        pytest.param([launch(0), ended(5, 100.0)], {1: 100.0}, 100.0, id="recorded"),
        pytest.param([launch(2), ended(5, None)], {1: 180.0}, 180.0, id="unrecorded: from launch to end"),
        pytest.param([launch(0), started(1, 4), ended(5, None)], {1: 300.0}, 1200.0, id="unrecorded on four"),
        pytest.param([launch(0), started(1, 4), ended(5, 10.0)], {1: 10.0}, 40.0, id="recorded on four"),
        pytest.param([launch(0), ended(5, 0.0)], {1: 0.0}, 0.0, id="recorded as none"),
        pytest.param([launch(5), ended(2, None)], {1: 0.0}, 0.0, id="clock went back"),
        pytest.param([ended(2, None)], {1: 0.0}, 0.0, id="no launch"),
        pytest.param(
            [launch(0), ended(1, None), launch(3, 2), ended(5, 30.0, 2)], {1: 60.0, 2: 30.0}, 90.0, id="two"
        ),
    ],
)
def test_charged(facts, charged, accelerator_seconds):
    """Recorded time counts as it is; a lost attempt without one costs the time that it was held."""
    view = view_of(*facts)

    assert charged == charged_seconds(view)
    assert sum(charged.values()) / 60 == spent_minutes(view)
    assert accelerator_seconds == spent_seconds(view)


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"steps": 40}, 40, id="steps"),
        pytest.param({"optimisation": {"steps": 40}}, 40, id="nested"),
        pytest.param({"steps": 30, "optimisation": {"steps": 40}}, 30, id="both: the outer one"),
        pytest.param({"steps": True}, None, id="a truth"),
        pytest.param({"steps": "40"}, None, id="text"),
        pytest.param({"steps": 0}, None, id="none"),
        pytest.param({"optimisation": [40]}, None, id="a list"),
    ],
)
def test_target_steps(configuration, expected):
    """One reading of where training ends."""
    assert expected == target_steps(configuration)
