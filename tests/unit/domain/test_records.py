"""Drafts, records, edges and actors; verdicts and items."""

from __future__ import annotations

import json

import pytest

from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import NoteAdded, read_payload
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Record, Relation
from pretrain_archive.domain.verdicts import Item, Verdict, counts, worst_first

ORIGIN = Origin(dag_id="dag", dag_run_id="manual__1", task_id="task", map_index=3, try_number=2)
ACTOR = Actor(type="task", name="dag.task")


def record(**changes):
    """A record with an edge and a payload field that no release knows."""
    values = {
        "record_id": "rec_1", "position": 4, "stream": "project/demo", "sequence": 2, "previous": "ab",
        "kind": "note.added", "schema_version": 1, "attempt": 1, "ordinal": 0, "actor": ACTOR, "origin": ORIGIN,
        "payload": {"topic": "note", "text": "x", "later": {"a": [1, None]}}, "unique": "u",
        "recorded_at": "2026-11-29T10:00:00.000000Z",
        "edges": (Edge(subject=Ref(type="run", id="r"), relation=Relation.USED,
                       object=Ref(type="person", id="a@b.org")),),
    }  # fmt: skip
    return Record(**values | changes)


def test_body_round_trip():
    """What is stored is read back as the same record, unknown payload fields and all."""
    made = record(stored=b"{}", leaf="cd")

    read = Record.from_body(json.loads(json.dumps(made.body())), position=4, stored=b"{}", leaf="cd")

    assert made == read
    assert made.body() == read.body()
    assert {"a": [1, None]} == read.payload["later"]


def test_body_holds_no_position():
    """Position and hashes stand outside the bytes that are hashed."""
    assert record().body() == record(position=9, leaf="ff", stored=b"x").body()


def test_unknown_fields_are_ignored_on_read():
    """A reader of this release reads over what a later one wrote."""
    assert NoteAdded(topic="note", text="x") == read_payload(record(), NoteAdded)


def test_unknown_format():
    """A body of another format is refused."""
    with pytest.raises(ValueError, match="unknown record format 'x'"):
        Record.from_body({**record().body(), "format": "x"}, position=0, stored=b"", leaf="")


@pytest.mark.parametrize("name", ["payload", "actor", "edges", "recorded_at", "unique", "format"])
def test_missing_part(name):
    """A body without one of its parts is refused."""
    body = record().body()
    del body[name]

    with pytest.raises(KeyError, match=name):
        Record.from_body(body, position=0, stored=b"", leaf="")


def draft(**changes):
    """A draft."""
    values = {"stream": "s", "kind": "note.added", "payload": {}, "actor": ACTOR, "origin": ORIGIN}
    return Draft(**values | changes)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"stream": "t"}, id="stream"),
        pytest.param({"attempt": 1}, id="attempt"),
        pytest.param({"kind": "run.failed"}, id="kind"),
        pytest.param({"ordinal": 1}, id="ordinal"),
        *(
            pytest.param({"origin": Origin(**{name: getattr(ORIGIN, name) for name in ORIGIN.__slots__} | change)},
                         id=f"origin {next(iter(change))}")
            for change in ({"dag_id": "x"}, {"dag_run_id": "x"}, {"task_id": "x"}, {"map_index": 4}, {"try_number": 3})
        ),
    ],
)  # fmt: skip
def test_idempotency_key(changes):
    """Each part that makes a step another step changes the key."""
    assert draft().idempotency_key() != draft(**changes).idempotency_key()


def test_idempotency_key_is_not_of_the_content():
    """The key is of the step, not of what it says."""
    assert draft().idempotency_key() == draft(payload={"x": 1}, unique="u").idempotency_key()


@pytest.mark.parametrize("changes", [{"stream": ""}, {"kind": ""}, {"attempt": -1}, {"ordinal": -1}])
def test_bad_draft(changes):
    """A draft that could not serve as evidence is refused."""
    with pytest.raises(ValueError, match="a draft needs stream and kind"):
        draft(**changes)


@pytest.mark.parametrize(("kind", "name"), [("robot", "x"), ("", "x"), ("person", "")])
def test_bad_actor(kind, name):
    """An actor has a known type and a name."""
    with pytest.raises(ValueError, match="an actor is a named person"):
        Actor(type=kind, name=name)


def test_unknown_relation():
    """An edge speaks PROV."""
    with pytest.raises(ValueError, match="likes"):
        Edge.from_dict({"subject": "run:a", "relation": "likes", "object": "run:b"})


def item(item_id, verdict, *, blocking=True):
    """An item with a check."""
    return Item(id=item_id, track="data", verdict=verdict, check="looked", blocking=blocking)


def test_worst_first():
    """Changed, unrecorded, verified; blocking before advisory; else in the given order."""
    given = [
        item("v", Verdict.VERIFIED), item("u-advisory", Verdict.UNRECORDED, blocking=False),
        item("u", Verdict.UNRECORDED), item("c-advisory", Verdict.CHANGED, blocking=False),
        item("c1", Verdict.CHANGED), item("c2", Verdict.CHANGED),
    ]  # fmt: skip

    assert ["c1", "c2", "c-advisory", "u", "u-advisory", "v"] == [found.id for found in worst_first(given)]


def test_counts():
    """Every verdict is counted, also one that does not occur."""
    assert {"changed": 0, "unrecorded": 1, "verified": 2} == counts(
        [item("a", Verdict.VERIFIED), item("b", Verdict.UNRECORDED), item("c", Verdict.VERIFIED)]
    )


def test_verified_needs_a_check():
    """Nothing is verified by no check."""
    with pytest.raises(ValueError, match="item x: verified needs the check"):
        Item(id="x", track="data", verdict=Verdict.VERIFIED, check="")
