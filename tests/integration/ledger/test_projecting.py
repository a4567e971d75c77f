"""Very many records are read as plain bodies, and edges by what they end at: the same that the records say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.ledgers import Place, as_owner, draft, edge, run_opened

from pretrain_archive.domain.errors import LedgerError
from pretrain_archive.ledger import projecting
from pretrain_archive.ledger.rows import UNREADABLE

KINDS = ["note.added", "run.opened"]
RUN = "run_019ad000-0000-7000-8000-00000000000"


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rows to a page, four positions to a window: every seam is crossed."""
    monkeypatch.setattr(projecting, "PAGE", 3)
    monkeypatch.setattr(projecting, "WINDOW", 4)


def test_bodies_are_those_of_the_records(place: Place) -> None:
    """Of several kinds, in the order of the log, after any position; nothing for an unknown kind."""
    ledger = place.open()
    for number in range(4):
        ledger.append([run_opened(f"{RUN}{number}"), draft(number, text='odd \x00 "\\ 文 \U0001f600')])

    for after in (-1, 2, 7):
        expected = [(r.position, r.body()) for r in ledger.records(kinds=KINDS, after=after)]
        assert expected == list(ledger.bodies(kinds=KINDS, after=after))
    assert 4 == len(list(ledger.bodies(kinds=["run.opened"])))
    assert [] == list(ledger.bodies(kinds=["nothing"]))


def test_of_a_kind_only_what_is_asked_for_is_read(place: Place) -> None:
    """By path; other kinds come whole."""
    ledger = place.open()
    ledger.append([run_opened(f"{RUN}1"), draft(1)])
    fields = {"run.opened": ("stream", "payload.project", "payload.people.data_owner")}

    opened, noted = [body for _, body in ledger.bodies(kinds=KINDS, fields=fields)]

    whole = next(iter(ledger.records(kinds=["run.opened"]))).body()
    expected = {
        "project": whole["payload"]["project"],
        "people": {"data_owner": "carol"},
    }
    assert {"kind": "run.opened", "stream": f"{RUN}1", "payload": expected} == opened
    assert next(iter(ledger.records(kinds=["note.added"]))).body() == noted


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            {"a": {"files": [{"size": 1, "x": [2]}, {"size": 3.5}, {}], "y": {"z": {"w": None}}}, "b": 1},
            {"a": {"files": [{"size": 1}, {"size": 3.5}, {}], "y": {"z": {"w": None}}}},
            id="lists and whole values below a path",
        ),
        pytest.param({"a": {"files": []}}, {"a": {"files": []}}, id="what is not there is left out"),
        pytest.param({"a": {"files": None}}, None, id="another shape"),
        pytest.param({"a": []}, None, id="another shape above it"),
    ],
)
def test_fields_are_named_by_path(body: dict[str, Any], expected: dict[str, Any] | None) -> None:
    """What does not have the shape is refused, so that it is read whole."""
    parse = projecting.parser(("a.files[].size", "a.y.z"))
    stored = json.dumps(body | {"kind": "k"}).encode()

    if expected is None:
        with pytest.raises(UNREADABLE):
            parse(stored)
    else:
        assert expected | {"kind": "k"} == parse(stored)


def test_links_are_the_edges_to_a_type(place: Place) -> None:
    """With the stream that says so, also the odd names, also many of one record, also only what is new."""
    ledger = place.open()
    names = ["a", "b:c", "d\x00e", "f\\0g", "文", "~", "\x01"]
    for number, name in enumerate(names):
        subjects = [f"evaluation:e{number}", f"run:{RUN}{number}", "evaluation:same"]
        edges = [edge(subject, f"checkpoint:{name}") for subject in subjects]
        others = [
            edge("run:x", f"checkpoints:{name}"),
            edge("run:x", f"check:{name}"),
            edge(f"checkpoint:{name}", "run:x"),
        ]
        ledger.append([draft(number, stream=f"project/{number}", edges=(*edges, *others))])

    for after in (-1, 0, 4):
        expected = sorted(
            (str(e.subject), str(e.object), record.stream)
            for record in ledger.records(after=after)
            for e in record.edges
            if e.object.type == "checkpoint"
        )
        assert expected == sorted(ledger.links("checkpoint", after=after))
        of_runs = [link for link in expected if link[0].startswith("run:")]
        assert of_runs == sorted(ledger.links("checkpoint", subject_type="run", after=after))
    assert [] == list(ledger.links("nothing"))


@pytest.mark.requirement("R005")
def test_an_edited_body_is_not_believed(place: Place) -> None:
    """The row is named; what stands before it was read."""
    ledger = place.open()
    ledger.append([draft(number, text=f"text {number}") for number in range(3)])
    with as_owner(place) as owner:
        [(stored,)] = owner.all("SELECT stored FROM pretrain_archive_record WHERE position = 1")
        owner.run(
            "UPDATE pretrain_archive_record SET stored = ? WHERE position = 1",
            (bytes(stored).replace(b"text 1", b"evil 1"),),
        )

    for fields in (None, {"note.added": ["stream"]}):
        found = ledger.bodies(kinds=["note.added"], fields=fields)
        assert 0 == next(found)[0]
        with pytest.raises(LedgerError, match="at position 1 was edited"):
            next(found)


@pytest.mark.requirement("R005")
def test_a_kind_that_its_column_belies_is_not_believed(place: Place) -> None:
    """A record that is looked for under another kind than it was written in."""
    ledger = place.open()
    ledger.append([draft(0)])
    with as_owner(place) as owner:
        owner.run("UPDATE pretrain_archive_record SET kind = 'run.closed' WHERE position = 0")

    with pytest.raises(LedgerError, match="at position 0 was edited"):
        list(ledger.bodies(kinds=["run.closed"]))
