"""Reading event files, whatever is in them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrain_archive.compute import events
from pretrain_archive.compute.events import (
    CheckpointEvent,
    Line,
    Metric,
    Note,
    Place,
    Unusable,
    parse_line,
    plain,
    read_event,
    read_lines,
)
from pretrain_archive.ledger.canonical import canonical_bytes


def read(text: str) -> list[Any]:
    """The events of one line."""
    return list(read_event(parse_line(text.encode(), 0), attempt=1))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("NaN", math.nan, id="NaN"),
        pytest.param("Infinity", math.inf, id="Infinity"),
        pytest.param("-Infinity", -math.inf, id="minus Infinity"),
        pytest.param("1e999", math.inf, id="overflow"),
        pytest.param("9" * 400, math.inf, id="huge integer"),
        pytest.param("0.5", 0.5, id="number"),
    ],
)
def test_numbers_as_python_writes_them_are_accepted(value: str, expected: float) -> None:
    """Bare NaN and Infinity are values of a metric, not garbage and not large numbers."""
    (metric,) = read(f'{{"event": "metric", "name": "train_loss", "step": 3, "value": {value}}}')

    assert isinstance(metric, Metric)
    assert repr(expected) == repr(metric.value)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        pytest.param(b"\xff\xfe", "not UTF-8", id="not UTF-8"),
        pytest.param(b"{", "not JSON", id="cut"),
        pytest.param(b"[1]", "not a JSON object", id="array"),
        pytest.param(b"", "empty", id="empty"),
        pytest.param(b"\0\0", "not JSON", id="NUL"),
        pytest.param(b"[" * 100_000, "not JSON", id="too deep"),
        pytest.param(b"{}", "no event name", id="no event"),
        pytest.param(b'{"event": 3}', "no event name", id="event is a number"),
        pytest.param(b'{"event":"metric","name":"l","value":1}', "whole step", id="no step"),
        pytest.param(b'{"event":"metric","name":"l","value":1,"step":-5}', "whole step", id="negative step"),
        pytest.param(
            b'{"event":"metric","name":"l","value":1,"step":"310"}', "whole step", id="step as text"
        ),
        pytest.param(b'{"event":"metric","name":"l","value":1,"step":true}', "whole step", id="step true"),
        pytest.param(
            b'{"event":"metric","name":"l","value":1,"step":1e300}', "whole step", id="step too large"
        ),
        pytest.param(
            b'{"event":"metric","name":"l","value":"x","step":1}', "not a number", id="value as text"
        ),
        pytest.param(b'{"event":"metric","name":"","value":1,"step":1}', "without a name", id="no name"),
        pytest.param(b'{"event":"checkpoint","step":1}', "without a path", id="no path"),
        pytest.param(
            b'{"event":"checkpoint","step":1,"path":"a\\u0000b"}', "without a path", id="NUL in path"
        ),
    ],
)
def test_what_cannot_be_used_is_named(line: bytes, problem: str) -> None:
    """A line that is no event says why, and never raises."""
    (found,) = read_event(parse_line(line, 7), attempt=1)

    assert isinstance(found, Unusable)
    assert 7 == found.position
    assert problem in found.problem


def test_the_end_marker_is_a_note_that_says_so() -> None:
    """Only ``complete: true`` in a note is the end marker."""
    marks = [
        read(json.dumps(event))[0].complete
        for event in (
            {"event": "note", "text": "training complete", "complete": True, "step": 9},
            {"event": "note", "text": "training complete", "complete": "true"},
            {"event": "note", "text": "training complete"},
            {"event": "other", "complete": True},
        )
    ]

    assert [True, False, False, False] == marks


def test_a_line_is_read_once_and_only_whole(tmp_path: Path) -> None:
    """A partial last line waits for its end; positions are bytes."""
    file = tmp_path / "events"
    file.write_bytes(b'{"a":1}\n{"b"')
    first, place = read_lines(file, Place())
    file.open("ab").write(b":2}\n{}")
    second, place = read_lines(file, place)
    last, place = read_lines(file, place, final=True)

    assert [0] == [line.position for line in first]
    assert [(8, {"b": 2})] == [(line.position, line.data) for line in second]
    assert [(16, {})] == [(line.position, line.data) for line in last]
    assert ([], place) == read_lines(file, place, final=True)


def test_a_missing_file_has_no_lines(tmp_path: Path) -> None:
    """A program that wrote nothing is no error."""
    assert ([], Place()) == read_lines(tmp_path / "none", Place(), final=True)


def test_a_file_that_was_cut_goes_on_with_new_positions(tmp_path: Path) -> None:
    """After a truncation the loss is reported and no position is used twice."""
    file = tmp_path / "events"
    file.write_bytes(b'{"a":1}\n{"b":2}\n')
    first, place = read_lines(file, Place())
    file.write_bytes(b'{"c":3}\n')
    second, _ = read_lines(file, place)

    assert "cut from 16 to 8" in second[0].problem
    assert {"c": 3} == second[1].data
    positions = [line.position for line in (*first, *second)]
    assert len(positions) == len(set(positions))


@pytest.mark.parametrize("ending", [b"\n", b""], ids=["with end", "without end"])
def test_a_huge_line_is_skipped_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: bytes
) -> None:
    """A line beyond the limit is one problem; the next line is read."""
    monkeypatch.setattr(events, "MAX_LINE", 1000)
    monkeypatch.setattr(events, "MAX_READ", 4000)
    file = tmp_path / "events"
    file.write_bytes(b'{"a":1}\n' + b"z" * 50_000 + ending)
    found: list[Line] = []
    place = Place()
    for _ in range(20):
        lines, place = read_lines(file, place)
        found += lines
    file.open("ab").write((b"" if ending else b"\n") + b'{"b":2}\n')
    lines, place = read_lines(file, place)
    found += lines

    assert [{"a": 1}, None, {"b": 2}] == [line.data for line in found]
    assert "longer than" in found[1].problem


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(VALUES)
def test_whatever_a_note_holds_becomes_strict_json(value: Any) -> None:
    """Surrogates, NUL, NaN and huge integers fit canonical JSON afterwards."""
    cleaned = plain(value)

    assert canonical_bytes(cleaned)
    assert "\\u0000" not in json.dumps(cleaned)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_no_line_raises(raw: bytes) -> None:
    """Any bytes are an event or a problem."""
    for event in read_event(parse_line(raw, 0), attempt=1):
        assert isinstance(event, Metric | CheckpointEvent | Note | Unusable)


def test_lines_do_not_depend_on_how_the_file_grew(tmp_path: Path) -> None:
    """Read at once, or byte by byte while it is written: the same lines at the same positions."""
    content = b'{"a":1}\ngarbage\n\n{"b":2}\n\xff\xff\n{"c":3}'
    whole, growing = tmp_path / "whole", tmp_path / "growing"
    whole.write_bytes(content)
    expected, _ = read_lines(whole, Place(), final=True)
    found: list[Line] = []
    place = Place()
    with growing.open("ab", buffering=0) as file:
        for index in range(len(content)):
            file.write(content[index : index + 1])
            lines, place = read_lines(growing, place)
            found += lines
    lines, place = read_lines(growing, place, final=True)

    assert expected == found + lines
