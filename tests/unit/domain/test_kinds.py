"""Every kind of record has a shape, a track and words; shapes are strict when written, tolerant when read."""

from __future__ import annotations

import inspect

import pytest
from pydantic import ValidationError

from pretrain_archive.domain import kinds
from pretrain_archive.domain.kinds import BY_MODEL, KINDS, UPGRADES, Kind, Payload, read_payload, track_of
from pretrain_archive.domain.records import Actor, Origin, Record, Track


def stored(kind, payload, version=1):
    """A record with a payload."""
    return Record(
        record_id="rec_1", position=0, stream="s", sequence=0, previous="", kind=kind, schema_version=version,
        attempt=0, ordinal=0, payload=payload, actor=Actor(type="cli", name="x"),
        recorded_at="2026-11-29T10:00:00.000000Z",
        origin=Origin(dag_id="d", dag_run_id="r", task_id="t"),
    )  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_every_kind(name):
    """A model with words of its own, a track, a version, and a name of two parts."""
    kind = KINDS[name]

    assert issubclass(kind.model, Payload)
    assert kind.model.__doc__
    assert kind.model.__doc__ != Payload.__doc__
    assert isinstance(kind.track, Track)
    assert kind.version >= 1
    assert name == BY_MODEL[kind.model]
    assert kind.track == track_of(name)
    assert len(name.split(".")) == 2


def test_every_model_is_a_kind_or_a_part():
    """No payload model is left without a kind unless another one holds it."""
    models = {
        m
        for _, m in inspect.getmembers(kinds, inspect.isclass)
        if issubclass(m, Payload) and m is not Payload
    }
    fields = " ".join(str(f.annotation) for model in models for f in model.model_fields.values())
    alone = {model.__name__ for model in models - set(BY_MODEL) if model.__name__ not in fields}

    assert set() == alone


def test_every_older_version_can_be_upgraded():
    """There is a step from each older version to the next."""
    wanted = {(name, version) for name, kind in KINDS.items() for version in range(1, kind.version)}

    assert wanted == set(UPGRADES)


@pytest.mark.parametrize("name", KINDS)
def test_unknown_field_is_refused_on_write(name):
    """A payload with a field that nobody knows is not written."""
    with pytest.raises(ValidationError) as raised:
        KINDS[name].model.model_validate({"a_field_that_nobody_knows": 1})

    assert ("a_field_that_nobody_knows",) in [
        fault["loc"] for fault in raised.value.errors() if fault["type"] == "extra_forbidden"
    ]


@pytest.mark.parametrize("name", KINDS)
def test_frozen(name):
    """A payload cannot be changed once it is made."""
    made = KINDS[name].model.model_construct()
    field = next(iter(KINDS[name].model.model_fields))

    with pytest.raises(ValidationError, match="frozen"):
        setattr(made, field, 1)


def test_nested_unknown_fields_are_ignored_on_read():
    """What a later release adds inside of lists is read over."""
    payload = {"attempt": 1, "points": [{"name": "loss", "step": 1, "value": 2.0, "new": 1}], "newer": {}}

    read = read_payload(stored("metrics.recorded", payload), kinds.MetricsRecorded)

    assert kinds.MetricPoint(name="loss", step=1, value=2.0) == read.points[0]


def test_wrong_kind():
    """A record is not read as another kind."""
    with pytest.raises(ValueError, match=r"record rec_1 is a note\.added, not a run\.failed"):
        read_payload(stored("note.added", {"topic": "note", "text": "x"}), kinds.RunFailed)


def test_payload_that_does_not_fit():
    """A payload without what its kind demands is refused."""
    with pytest.raises(ValueError, match="topic"):
        read_payload(stored("note.added", {"text": "x"}), kinds.NoteAdded)


def test_upgrade_on_read(monkeypatch):
    """An old payload goes through every step; the record keeps what was written."""
    monkeypatch.setitem(KINDS, "note.added", Kind(model=kinds.NoteAdded, track=Track.GATES, version=3))
    monkeypatch.setitem(
        UPGRADES, ("note.added", 1), lambda old: {"subject": old["about"], "text": old["text"]}
    )
    monkeypatch.setitem(
        UPGRADES, ("note.added", 2), lambda old: {"topic": old["subject"], "text": old["text"]}
    )
    record = stored("note.added", {"about": "feedback", "text": "works"})

    assert kinds.NoteAdded(topic="feedback", text="works") == read_payload(record, kinds.NoteAdded)
    assert {"about": "feedback", "text": "works"} == record.payload


def test_unknown_kind_has_a_track():
    """A kind of a later release belongs to the gates."""
    assert Track.GATES == track_of("moon.landed")


@pytest.mark.parametrize(
    "digest", ["", "sha256:", "sha256:" + "A" * 64, "sha256:" + "a" * 63, "md5:" + "a" * 64, "a" * 64]
)
def test_digest(digest):
    """A digest is sha256 in lower-case hex."""
    with pytest.raises(ValidationError, match="package_digest"):
        kinds.RunClosed(outcome="register", reason="x", package_digest=digest)


@pytest.mark.parametrize("minutes", [0, -1, float("nan")])
def test_budget_is_positive(minutes):
    """No launch without a positive budget."""
    with pytest.raises(ValidationError, match="minutes"):
        kinds.Budget(minutes=minutes, owner="bob")
