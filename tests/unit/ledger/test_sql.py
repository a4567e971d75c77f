"""The ledger's promises to its callers, on both databases."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.ledgers import Place, draft, edge, run_opened

from pretrain_archive.domain import merkle
from pretrain_archive.domain.errors import (
    AlreadyRecordedError,
    IdempotencyConflictError,
    InputError,
    LedgerError,
    LedgerUnavailableError,
)
from pretrain_archive.domain.identity import Ref, new_id
from pretrain_archive.domain.records import Origin
from pretrain_archive.ledger import tree
from pretrain_archive.ledger.engine import Database
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.ledger.port import Ledger, RunQuery
from pretrain_archive.ledger.sql import SqlLedger


def test_append_chains_a_stream(place: Place) -> None:
    """Each record of a stream names the leaf of the one before it, and positions have no gap."""
    ledger: Ledger = place.open()
    first = ledger.append([draft(0), draft(0, stream="project/other")])
    second = ledger.append([draft(1)])

    assert [0, 1, 2] == [record.position for record in (*first, *second)]
    assert [0, 0, 1] == [record.sequence for record in (*first, *second)]
    assert ["", "", first[0].leaf] == [record.previous for record in (*first, *second)]
    assert [*first, *second] == list(ledger.records())
    assert first[0].leaf == merkle.leaf_hash(first[0].stored).hex()


def test_append_again_is_the_same_record(place: Place) -> None:
    """A retried write returns the record that is known, also in the middle of new ones and within a batch."""
    ledger = place.open()
    (known,) = ledger.append([draft(1)])
    records = ledger.append([draft(0), draft(1), draft(2), draft(2)])

    assert known == records[1]
    assert records[2] == records[3]
    assert 3 == len(list(ledger.records()))


def test_append_other_content_is_refused(place: Place) -> None:
    """Other content under the same key raises, names what differs, and writes nothing of the batch."""
    ledger = place.open()
    ledger.append([draft(1, text="before")])

    with pytest.raises(IdempotencyConflictError, match="with other payload"):
        ledger.append([draft(0), draft(1, text="after")])
    with pytest.raises(IdempotencyConflictError, match="with other payload"):
        ledger.append([draft(5, text="before"), draft(5, text="after")])
    assert ["before"] == [record.payload["text"] for record in ledger.records()]


@pytest.mark.parametrize("together", [pytest.param(True, id="in one batch"), pytest.param(False, id="later")])
def test_unique_key_is_taken_once(place: Place, together: bool) -> None:
    """A unique key is taken once in the whole ledger and the error names its owner."""
    ledger = place.open()
    one, two = draft(0, unique="launch/run_1/1"), draft(0, stream="project/x", unique="launch/run_1/1")
    owner = None if together else ledger.append([one])[0].record_id

    with pytest.raises(AlreadyRecordedError, match="launch/run_1/1") as refused:
        ledger.append([one, two] if together else [draft(7), two])
    assert (0 if together else 1) == len(list(ledger.records()))
    assert together or refused.value.record_id == owner


def test_run_opens_once(place: Place) -> None:
    """A second opening of a run by another step is refused."""
    ledger = place.open()
    run_uid = new_id("run")
    (first,) = ledger.append([run_opened(run_uid)])

    with pytest.raises(AlreadyRecordedError) as refused:
        ledger.append([replace(run_opened(run_uid), ordinal=1)])
    assert first.record_id == refused.value.record_id


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        pytest.param({"kind": "no.such"}, "kind", id="unknown kind"),
        pytest.param({"schema_version": 7}, "schema_version", id="unknown version"),
        pytest.param({"payload": {"topic": "note"}}, "note.added.text", id="field missing"),
        pytest.param(
            {"payload": {"topic": "note", "text": "x", "extra": 1}}, "note.added.extra", id="unknown field"
        ),
        pytest.param({"payload": {"topic": "note", "text": "\ud800"}}, "payload", id="lone surrogate"),
        pytest.param({"stream": "x" * 3000}, "name", id="endless stream"),
        pytest.param({"edges": (edge("run:" + "x" * 3000, "run:a"),)}, "name", id="endless reference"),
    ],
)
def test_append_checks_its_input(place: Place, bad: dict[str, object], named: str) -> None:
    """A draft that does not fit its kind is refused, and the field is named."""
    with pytest.raises(InputError) as refused:
        place.open().append([draft(0), draft(1, **bad)])
    assert named in refused.value.field
    assert [] == list(place.open().records())


def test_names_are_bytes(place: Place) -> None:
    """NUL, backslash, newline, percent and astral letters survive in streams, runs and references."""
    ledger = place.open()
    odd = "a\0b\\0c\n%_'\"😀"
    origin = Origin(dag_id=odd, dag_run_id=odd, task_id=odd)
    opened = run_opened(odd, project=odd, dag_id=odd, dag_run_id=odd, submitter=odd)
    ledger.append(
        [
            opened,
            draft(1, stream=odd, origin=origin, unique=odd, edges=(edge(f"run:{odd}", f"source:{odd}@1"),)),
        ]
    )

    row = ledger.runs(RunQuery(project=odd, dag_ids=[odd], dag_run_id=odd))[0]
    assert (odd, odd, odd, odd) == (row.run_uid, row.project, row.dag_id, row.submitter)
    assert 2 == len(list(ledger.records(streams=[odd])))
    assert (Ref(type="source", id=odd, version="1"),) == ledger.trace(
        Ref(type="run", id=odd), direction="backward"
    ).nodes
    assert [] == list(ledger.records(streams=["a"]))
    assert "verified" == ledger.audit().verdict if ledger.seal() else False


def test_records_filters_and_pages(place: Place) -> None:
    """Streams, kinds, after and limit cut the log; reading crosses pages and allows appending meanwhile."""
    ledger = place.open()
    ledger.append([draft(i, stream=f"project/{i % 2}") for i in range(450)])

    assert list(range(1, 450, 2)) == [r.position for r in ledger.records(streams=["project/1"])]
    assert [11, 13, 15] == [r.position for r in ledger.records(streams=["project/1"], after=10, limit=3)]
    assert [] == list(ledger.records(streams=[]))
    assert [] == list(ledger.records(kinds=["run.opened"]))
    assert 450 == len(list(ledger.records(kinds=["note.added", "run.opened"])))
    for record in ledger.records(limit=250):
        if record.position % 50 == 0:
            ledger.append([draft(1000 + record.position)])
    assert 455 == len(list(ledger.records()))


def test_runs_search_and_page(place: Place) -> None:
    """Runs are listed newest first; words are looked for as they are written, in any case."""
    ledger = place.open()
    for name in ("alpha 1000", "Alpha 100%", "beta_x", "betaÄx", "gamma"):
        ledger.append([run_opened(new_id("run"), purpose=_purpose(name), submitter=name[0])])

    def found(**query: object) -> list[str]:
        return [row.objective for row in ledger.runs(RunQuery(**query))]  # type: ignore[arg-type]

    assert ["gamma", "betaÄx", "beta_x", "Alpha 100%", "alpha 1000"] == found()
    assert ["Alpha 100%"] == found(text="100%")
    assert ["Alpha 100%", "alpha 1000"] == found(text="alpha demo")
    assert ["beta_x"] == found(text="a_x")
    assert ["betaÄx"] == found(text="BETAäX")
    assert [] == found(text="\ud800")
    assert [] == found(dag_ids=[])
    assert [] == found(dag_ids=["another"])
    assert ["gamma", "betaÄx"] == found(limit=2)
    third = ledger.runs(RunQuery(limit=2))[-1].position
    assert ["beta_x", "Alpha 100%", "alpha 1000"] == found(before=third)


def _purpose(objective: str) -> dict[str, str]:
    return dict(run_opened("x").payload["purpose"]) | {"objective": objective}


def test_trace_both_ways_with_cycle(place: Place) -> None:
    """A trace goes breadth first, ends in a cycle, and every edge names its evidence and distance."""
    ledger = place.open()
    pairs = [
        ("run:c", "snapshot:b@1"),
        ("snapshot:b@1", "source:a"),
        ("run:c", "source:a"),
        ("source:a", "run:c"),
    ]
    written = ledger.append([draft(i, edges=(edge(*pair),)) for i, pair in enumerate(pairs)])

    back = ledger.trace(Ref.parse("run:c"), direction="backward")
    assert ["snapshot:b@1", "source:a"] == sorted(map(str, back.nodes))
    assert {
        (written[0].record_id, 1),
        (written[1].record_id, 2),
        (written[2].record_id, 1),
        (written[3].record_id, 2),
    } == {(found.record_id, found.depth) for found in back.edges}
    forward = ledger.trace(Ref.parse("source:a"), direction="forward")
    assert ["run:c", "snapshot:b@1"] == sorted(map(str, forward.nodes))
    assert not back.truncated
    assert () == ledger.trace(Ref.parse("run:unknown"), direction="forward").nodes


def test_trace_as_of_and_cut(place: Place) -> None:
    """A trace can be asked as of a time, and says when a limit cut it."""
    ledger = place.open()
    (first,) = ledger.append([draft(0, edges=(edge("run:n0", "run:n1"),))])
    ledger.append([draft(i, edges=(edge(f"run:n{i}", f"run:n{i + 1}"),)) for i in range(1, 40)])
    start = Ref.parse("run:n0")

    assert 40 == len(ledger.trace(start, direction="backward").nodes)
    assert [1] == [len(ledger.trace(start, direction="backward", as_of=first.recorded_at).nodes)]
    cut = ledger.trace(start, direction="backward", max_nodes=5)
    assert (5, True) == (len(cut.nodes), cut.truncated)
    whole = ledger.trace(start, direction="backward", max_nodes=40)
    assert (40, False) == (len(whole.nodes), whole.truncated)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 255, 256, 257, 700])
def test_seal_and_proofs_agree_with_the_standard(place: Place, count: int) -> None:
    """The signed root is that of RFC 6962 over the leaves, and every proof leads to it, at every size."""
    ledger = place.open()
    records = ledger.append([draft(i) for i in range(count)])
    leaves = [bytes.fromhex(record.leaf) for record in records]
    checkpoint = ledger.seal()

    assert (count, merkle.root_of(leaves).hex()) == (checkpoint.size, checkpoint.root)
    for size in {1, 2, 255, 256, 300, count} & set(range(1, count + 1)):
        root = merkle.root_of(leaves[:size])
        for position, path in ledger.proofs(range(size), size=size).items():
            siblings = [bytes.fromhex(sibling) for sibling in path]
            assert root == merkle.root_from_inclusion(leaves[position], position, size, siblings)


def test_two_levels_of_tiles(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Roots stay right where the stored tree has several levels (tiles made small, so that they do)."""
    monkeypatch.setattr(tree, "TILE", 4)
    monkeypatch.setattr(tree, "TILE_BITS", 2)
    monkeypatch.setattr("pretrain_archive.ledger.audit.TILE", 4)
    ledger = place.open()
    leaves: list[bytes] = []
    for start in range(0, 150, 7):
        leaves += [bytes.fromhex(r.leaf) for r in ledger.append([draft(start + i) for i in range(7)])]
        assert merkle.root_of(leaves).hex() == ledger.seal().root
    assert "verified" == ledger.audit().verdict


def test_seal_is_idempotent_and_anchored(place: Place) -> None:
    """Without new records the same checkpoint stands, and an anchor that missed it gets it."""
    ledger = place.open()
    ledger.append([draft(0)])
    first = ledger.seal()
    place.anchor._path.unlink()

    assert first == ledger.seal()
    assert first == place.anchor.latest()


def test_without_key_the_newest_checkpoint_stands(place: Place) -> None:
    """A ledger that cannot sign returns the newest valid checkpoint, or says what is missing."""
    writer = place.open()
    reader = open_ledger(place.url, signing_key=None, anchors=[], public_keys=[place.public])
    with pytest.raises(LedgerError, match="no valid signed checkpoint"):
        reader.seal()
    writer.append([draft(0)])
    sealed = writer.seal()
    reader.append([draft(1)])

    assert sealed == reader.seal()
    assert "verified" == reader.audit().verdict
    stranger = open_ledger(place.url, signing_key=place.folder / "other.key", anchors=[], create=True)
    with pytest.raises(LedgerError, match="not signed by a known key"):
        stranger.seal()
    reader.close()
    stranger.close()


def test_auto_seal_after_hundred_records(place: Place) -> None:
    """The hundredth unsealed record is sealed at once; before that the window is open."""
    ledger = place.open(auto_seal=True)
    ledger.append([draft(i) for i in range(99)])
    assert None is place.anchor.latest()
    ledger.append([draft(99)])

    newest = place.anchor.latest()
    assert newest is not None
    assert 100 == newest.size
    assert None is ledger.seal_if_due()


def test_threads_share_a_ledger(place: Place) -> None:
    """Threads of one process append without gap or fork."""
    ledger = place.open()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: ledger.append([draft(i, stream=f"project/{i % 3}")]), range(40)))

    assert list(range(40)) == [record.position for record in ledger.records()]
    ledger.seal()
    assert "verified" == ledger.audit().verdict


def test_child_process_uses_its_own_connection(place: Place) -> None:
    """After a fork parent and child both go on writing."""
    ledger = place.open()
    ledger.append([draft(0)])
    child = os.fork()
    if child == 0:
        try:
            ledger.append([draft(i) for i in (1, 2)])
            os._exit(0)
        finally:
            os._exit(1)
    ledger.append([draft(3)])

    assert 0 == os.waitpid(child, 0)[1]
    assert 4 == len(list(ledger.records()))


def test_missing_tables_name_the_remedy(tmp_path: Path) -> None:
    """A database without the ledger's tables says which command makes them."""
    url = f"sqlite:///{tmp_path}/empty.db"
    with pytest.raises(LedgerError, match="airflow db migrate"):
        open_ledger(url, signing_key=None, anchors=[])
    with pytest.raises(LedgerError, match="airflow db migrate"):
        SqlLedger(Database(url)).append([draft(0)])


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("postgresql://writer:s3cret@127.0.0.1:1/ledger", id="no server"),
        pytest.param("sqlite:////nowhere/at/all/ledger.db", id="no folder"),
    ],
)
def test_unreachable_database_is_named_without_password(url: str) -> None:
    """The error names the connection and never its password."""
    with pytest.raises(LedgerUnavailableError) as refused:
        open_ledger(url, signing_key=None, anchors=[]).append([draft(0)])
    assert url.split(":", maxsplit=1)[0] in str(refused.value)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("url", ["mysql://x/y", "not a url", "sqlserver://x"])
def test_unusable_url_is_refused(url: str) -> None:
    """A URL of no known database is an error of the option."""
    with pytest.raises(InputError, match="database_url"):
        open_ledger(url, signing_key=None, anchors=[])
