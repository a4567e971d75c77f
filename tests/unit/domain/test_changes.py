"""Drift between attempts, and the manual changes that explain it."""

from __future__ import annotations

from typing import Any

import pytest

from pretrain_archive.domain.changes import drift_between, told, unexplained_drift
from pretrain_archive.domain.kinds import BY_MODEL, ChangeRecorded, EnvironmentObserved, Payload
from pretrain_archive.domain.records import Actor, Origin, Record
from pretrain_archive.domain.run_view import RunView

TORCH = {"field": "packages.torch", "declared": "1", "observed": "2", "grade": "blocking"}
HOST = {"field": "host", "declared": "a", "observed": "b", "grade": "info"}


def view(*facts: tuple[int, Payload]) -> RunView:
    """A run with these facts of attempts, in order."""
    records = [
        Record(
            record_id=f"rec_{n}", stream="run_x", sequence=n, position=n, kind=BY_MODEL[type(payload)],
            payload=payload.to_json(), actor=Actor(type="task", name="t"),
            origin=Origin(dag_id="d", dag_run_id="r", task_id="t"), attempt=attempt, recorded_at="", leaf="",
            previous="", schema_version=1, ordinal=n,
        )
        for n, (attempt, payload) in enumerate(facts)
    ]  # fmt: skip
    return RunView.of("run_x", records)


def observed(
    moment: str = "start", since: list[Any] | None = None, differences: list[Any] | None = None
) -> Payload:
    """What a worker found."""
    return EnvironmentObserved(
        moment=moment, environment={}, environment_digest="sha256:" + "0" * 64, differences=differences or [],
        since_previous=since,
    )  # fmt: skip


def change(what: str = "patch", attempt: int | None = None) -> Payload:
    """A manual change."""
    return ChangeRecorded(
        attempt=attempt, what=what, scope="node-3", reason="new driver", person="carol", at="", via="page"
    )


@pytest.mark.requirement("R071", "R093")
@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param([(1, observed()), (2, observed("resume", since=[TORCH]))], {2}, id="drift"),
        pytest.param([(1, observed()), (2, observed("resume", since=[HOST]))], set(), id="for information"),
        pytest.param([(1, observed()), (2, observed("resume", since=[]))], set(), id="none"),
        pytest.param([(1, observed()), (2, observed("resume", differences=[TORCH]))], {2}, id="by the declared one"),
        pytest.param([(1, observed(differences=[TORCH])), (2, observed("resume", differences=[TORCH]))], set(),
                     id="as before, though not as declared"),
        pytest.param([(1, observed(differences=[TORCH])), (2, observed("resume"))], {2}, id="gone again"),
        pytest.param([(1, observed()), (1, observed("end", differences=[TORCH])), (2, observed("resume"))], set(),
                     id="what the end saw is no start"),
        pytest.param([(1, observed()), (1, change()), (2, observed("resume", since=[TORCH]))], set(),
                     id="a change of the run"),
        pytest.param([(1, observed()), (1, change(attempt=1)), (2, observed("resume", since=[TORCH]))], set(),
                     id="a change of the attempt before"),
        pytest.param([(1, observed()), (2, change(attempt=2)), (2, observed("resume", since=[TORCH]))], set(),
                     id="a change of the attempt"),
        pytest.param([(1, observed()), (1, change(attempt=1)), (2, observed()), (3, observed(since=[TORCH]))], {3},
                     id="a change of another attempt"),
        pytest.param([(1, observed()), (1, change("quota")), (2, observed("resume", since=[TORCH]))], {2},
                     id="a quota changes no machine"),
    ],
)  # fmt: skip
def test_drift_without_a_recorded_change_is_named(
    facts: list[tuple[int, Payload]], expected: set[int]
) -> None:
    """Only drift that no change explains is named, by attempt and field."""
    named = unexplained_drift(view(*facts))

    assert [f"attempt {n}: packages.torch differ from the attempt before" for n in sorted(expected)] == named


def test_drift_of_any_worker_counts() -> None:
    """Each worker of a group reports its own."""
    facts = [(1, observed()), (2, observed(since=[])), (2, observed(since=[TORCH]))]

    assert {2: {"packages.torch"}} == drift_between(view(*facts))


def test_a_change_in_one_line() -> None:
    """What, where, values, who and why; a value that nobody knew says so."""
    made = ChangeRecorded(
        attempt=1, what="quota", scope="team-a", reason="more", person="carol", after="16", at="", via="page"
    )

    assert "quota, team-a (unrecorded → 16), by carol: more" == told(made)
