"""What a program says of the time of a save."""

from __future__ import annotations

import json

import pytest

from pretrain_archive.compute.events import CheckpointEvent, parse_line, read_event


def event(**more: object) -> CheckpointEvent:
    """A checkpoint event as it is read."""
    raw = json.dumps({"event": "checkpoint", "path": "/c/1", "step": 1, **more}).encode()
    (found,) = read_event(parse_line(raw, 0), attempt=1)
    assert isinstance(found, CheckpointEvent)
    return found


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        pytest.param(2.5, 2.5, id="seconds"),
        pytest.param(0, 0.0, id="at once"),
        pytest.param(-1, None, id="negative"),
        pytest.param(float("nan"), None, id="not a number"),
        pytest.param(float("inf"), None, id="without end"),
        pytest.param("2", None, id="text"),
        pytest.param(True, None, id="truth"),
    ],
)
def test_seconds(told: object, expected: float | None) -> None:
    """Only a finite number of seconds says something; anything else leaves it unrecorded."""
    assert expected == event(seconds=told).seconds


def test_moment() -> None:
    """The moment is the program's own; without one it is unrecorded."""
    assert ("2026-11-29T10:00:00Z", None) == (event(at="2026-11-29T10:00:00Z").at, event().at)
