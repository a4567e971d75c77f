"""Tampering by the owner of the database is reported at the right row, or refused at the next append."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.ledgers import Place, as_owner, draft, edge, run_opened

from pretrain_archive.domain.errors import BehindAnchorError, LedgerError
from pretrain_archive.domain.merkle import leaf_hash
from pretrain_archive.ledger.anchors import FileAnchor
from pretrain_archive.ledger.audit import audit
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.ledger.engine import Database, Session
from pretrain_archive.ledger.port import Audit
from pretrain_archive.ledger.recovery import recover
from pretrain_archive.ledger.rows import edge_rows, read_record, record_row
from pretrain_archive.ledger.signing import Signer
from pretrain_archive.ledger.sql import SqlLedger
from pretrain_archive.ledger.tree import store_nodes

COUNT = 330
"""Records of the log: more than one tile, and the last 30 are newer than the last checkpoint."""


@pytest.fixture
def filled(place: Place) -> SqlLedger:
    """A sealed log of two streams with edges and a run, and a window of unsealed records."""
    ledger = place.open()
    ledger.append([run_opened("run_1"), *map(note, range(1, 100))])
    ledger.seal()
    ledger.append([note(i) for i in range(100, 300)])
    ledger.seal()
    ledger.append([note(i) for i in range(300, COUNT)])
    return ledger


def note(i: int) -> Any:
    """A note in one of two streams with an edge."""
    return draft(i, stream=f"project/{i % 2}", edges=(edge(f"run:r{i}", f"snapshot:s{i}@1"),))


def test_untouched_log_is_verified(filled: SqlLedger) -> None:
    """A whole log is verified, and says how much of it no anchor has seen."""
    result = filled.audit()
    assert ("verified", COUNT, ()) == (result.verdict, result.records, result.findings)
    assert COUNT - 300 == result.unanchored_records
    assert 0 < result.unanchored_seconds < 60
    filled.seal()
    assert (0, 0.0) == (filled.audit().unanchored_records, filled.audit().unanchored_seconds)


def test_without_known_key_nothing_is_verified(filled: SqlLedger) -> None:
    """No key, no verdict; a stranger's key, a finding."""
    assert "unrecorded" == audit(filled.database, anchors=filled.anchors, keys=()).verdict
    stranger = audit(filled.database, anchors=filled.anchors, keys=[Signer.new().verify_key])
    assert "changed" == stranger.verdict
    assert "not signed by a known key" in stranger.findings[0].problem


def test_empty_log_is_unrecorded(place: Place) -> None:
    """Nothing recorded, nothing vouched for."""
    assert Audit(verdict="unrecorded", records=0, anchors=(place.anchor.name,)) == place.open().audit()


def change(column: str, value: object, position: int = 150) -> Callable[[Session], None]:
    """Change one column of one record."""

    def act(session: Session) -> None:
        session.run(
            f"UPDATE pretrain_archive_record SET {column} = ? WHERE position = ?",
            (value, position),
        )

    return act


def edit(position: int, *, rehash: bool, text: str = "forged") -> Callable[[Session], None]:
    """Change a record's body, with or without a fitting leaf hash."""

    def act(session: Session) -> None:
        body = json.loads(stored_of(session, position))
        body["payload"]["text"] = text
        stored = canonical_bytes(body)
        leaf = leaf_hash(stored) if rehash else None
        session.run(
            "UPDATE pretrain_archive_record SET stored = ?, leaf = COALESCE(?, leaf) WHERE position = ?",
            (stored, leaf, position),
        )

    return act


def stored_of(session: Session, position: int) -> bytes:
    """The stored bytes of a record."""
    row = session.one("SELECT stored FROM pretrain_archive_record WHERE position = ?", (position,))
    assert row is not None
    return bytes(row[0])


def delete(table: str, where: str) -> Callable[[Session], None]:
    """Delete rows."""
    return lambda session: session.run(f"DELETE FROM pretrain_archive_{table} WHERE {where}")


def swap(one: int, two: int) -> Callable[[Session], None]:
    """Exchange the places of two records."""

    def act(session: Session) -> None:
        for old, new in ((one, -1), (two, one), (-1, two)):
            session.run("UPDATE pretrain_archive_record SET position = ? WHERE position = ?", (new, old))

    return act


def rewrite_from(start: int, end: int = COUNT, *, insert: bool = False) -> Callable[[Session], None]:
    """Forge a record and hash the whole log anew after it: leaves, chains, tree and projections all fit."""

    def act(session: Session) -> None:
        bodies = [json.loads(stored_of(session, position)) for position in range(end)]
        bodies[start]["payload"]["text"] = "forged"
        if insert:
            extra = json.loads(json.dumps(bodies[start]))
            bodies.insert(start, extra | {"record_id": "rec_forged", "ordinal": 9999, "edges": []})
        keys = {
            row[0]: (row[1], row[2])
            for row in session.all(
                "SELECT record_id, idempotency_key, unique_key FROM pretrain_archive_record"
            )
        }
        for table in ("record", "edge", "node"):
            session.run(f"DELETE FROM pretrain_archive_{table}")
        write_log(session, bodies, keys)

    return act


def write_log(session: Session, bodies: list[dict[str, Any]], keys: dict[str, tuple[Any, Any]]) -> None:
    """Insert bodies as a fresh log that fits itself."""
    heads: dict[str, tuple[int, str]] = {}
    leaves: dict[int, bytes] = {}
    for position, body in enumerate(bodies):
        sequence, previous = heads.get(body["stream"], (-1, ""))
        body |= {"sequence": sequence + 1, "previous": previous}
        stored = canonical_bytes(body)
        leaf = leaves[position] = leaf_hash(stored)
        record = read_record(position, stored, leaf)
        heads[record.stream] = (record.sequence, leaf.hex())
        key, unique = keys.get(record.record_id, (key_of(record), None))
        marks = ", ".join("?" * 12)
        session.run(
            f"INSERT INTO pretrain_archive_record VALUES ({marks})",
            (*record_row(record), key, unique, leaf, bytes.fromhex(previous), stored),
        )
        session.many("INSERT INTO pretrain_archive_edge VALUES (?, ?, ?, ?, ?, ?)", edge_rows(record))
    store_nodes(session, leaves)


def key_of(record: Any) -> bytes:
    """The idempotency key of a record, as a forger who read the source would compute it."""
    from pretrain_archive.domain.records import Draft
    from pretrain_archive.ledger.tables import key_hash

    return key_hash(
        Draft(
            **{
                name: getattr(record, name)
                for name in Draft.__dataclass_fields__
                if name not in {"follows", "beside"}
            }
        ).idempotency_key()
    )


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What the owner does, the position that must be named and words of the finding."""

    act: Callable[[Session], None]
    position: int | None
    says: str


FAULTS = {
    "update body": Fault(act=edit(150, rehash=False), position=150, says="was edited"),
    "update body and leaf": Fault(act=edit(150, rehash=True), position=152, says="does not continue"),
    "update unsealed body": Fault(act=edit(310, rehash=False), position=310, says="was edited"),
    "update unsealed body and leaf": Fault(
        act=edit(310, rehash=True), position=312, says="does not continue"
    ),
    "update last sealed body and leaf": Fault(
        act=edit(298, rehash=True), position=300, says="does not continue"
    ),
    "body is not JSON": Fault(act=change("stored", b"{"), position=150, says="not a record"),
    "update column kind": Fault(act=change("kind", "run.closed"), position=150, says="column kind"),
    "update column stream": Fault(act=change("stream", "project/x"), position=150, says="column stream"),
    "update column record_id": Fault(act=change("record_id", "rec_x"), position=150, says="column record_id"),
    "update column recorded_at": Fault(
        act=change("recorded_at", "2020-01-01T00:00:00.000000Z"), position=150, says="column recorded_at"
    ),
    "update column attempt": Fault(act=change("attempt", 9), position=150, says="column attempt"),
    "update idempotency key": Fault(
        act=change("idempotency_key", b"x"), position=150, says="idempotency_key"
    ),
    "take a unique key": Fault(act=change("unique_key", b"x"), position=150, says="unique_key"),
    "delete a record": Fault(act=delete("record", "position = 150"), position=151, says="position 150"),
    "delete several records": Fault(
        act=delete("record", "position BETWEEN 150 AND 153"), position=154, says="150 to 153"
    ),
    "delete the first record": Fault(
        act=delete("record", "position = 0"), position=1, says="before this one is missing"
    ),
    "swap two records": Fault(act=swap(150, 152), position=150, says="it is number"),
    "delete an edge": Fault(act=delete("edge", "position = 150"), position=150, says="row in edge"),
    "add an edge": Fault(
        act=lambda s: s.run(
            "INSERT INTO pretrain_archive_edge VALUES (150, 7, 'run:a', 'used', 'run:b', 'x')"
        ),
        position=150,
        says="not of its stored body",
    ),
    "add an edge beyond the log": Fault(
        act=lambda s: s.run(
            "INSERT INTO pretrain_archive_edge VALUES (9999, 0, 'run:a', 'used', 'run:b', 'x')"
        ),
        position=9999,
        says="not of its stored body",
    ),
    "change a run row": Fault(
        act=lambda s: s.run("UPDATE pretrain_archive_run SET submitter = 'mallory'"),
        position=0,
        says="row in run",
    ),
    "change a tree node": Fault(
        act=lambda s: s.run("UPDATE pretrain_archive_node SET hash = ?", (b"x" * 32,)),
        position=0,
        says="stored hash",
    ),
    "re-hash from a sealed record": Fault(act=rewrite_from(150), position=100, says="were rewritten"),
    "re-hash from the first note": Fault(act=rewrite_from(1), position=0, says="were rewritten"),
    "insert a record and re-hash": Fault(
        act=rewrite_from(150, insert=True), position=100, says="were rewritten"
    ),
    "truncate below a checkpoint": Fault(
        act=lambda s: [delete(t, "position >= 290")(s) for t in ("record", "edge")],
        position=290,
        says="were removed",
    ),
    "remove a checkpoint row": Fault(
        act=delete("checkpoint", "number = 1"), position=None, says="one was removed"
    ),
    "change a checkpoint row": Fault(
        act=lambda s: s.run("UPDATE pretrain_archive_checkpoint SET size = 200 WHERE number = 2"),
        position=None,
        says="signed text",
    ),
    "forge a checkpoint row": Fault(
        act=lambda s: s.run(
            "UPDATE pretrain_archive_checkpoint SET note = ? WHERE number = 2",
            (Signer.new().sign(origin="x", size=300, root=b"x" * 32).text,),
        ),
        position=300,
        says="not signed by a known key",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_tampering_is_reported_at_its_row(place: Place, filled: SqlLedger, name: str) -> None:
    """Every single fault makes the verdict changed and is named at the row where it is."""
    fault = FAULTS[name]
    with as_owner(place) as session:
        fault.act(session)
    result = filled.audit()

    assert "changed" == result.verdict
    assert [fault.position] == [f.position for f in result.findings if fault.says in f.problem][:1], (
        result.findings
    )


@pytest.mark.parametrize(
    "name", ["re-hash from a sealed record", "re-hash from the first note", "truncate below a checkpoint"]
)
def test_rewritten_history_is_refused_at_the_next_append(place: Place, filled: SqlLedger, name: str) -> None:
    """A writer that starts after the fact compares with the anchor and refuses."""
    filled.close()
    with as_owner(place) as session:
        FAULTS[name].act(session)
    with pytest.raises(BehindAnchorError):
        place.open().append([draft(5000)])
    with pytest.raises(LedgerError):
        place.open().seal()


@pytest.mark.parametrize("fault", ["update unsealed body", "update unsealed body and leaf"])
def test_unsealed_faults_are_never_signed(place: Place, filled: SqlLedger, fault: str) -> None:
    """Sealing hashes every new row again and signs nothing over a fault."""
    with as_owner(place) as session:
        FAULTS[fault].act(session)
    with pytest.raises(LedgerError, match=r"rec_\S+ at position 3\d\d was not sealed"):
        filled.seal()
    newest = place.anchor.latest()
    assert newest is not None
    assert 300 == newest.size


def test_truncation_is_refused_by_a_running_writer(place: Place, filled: SqlLedger) -> None:
    """Also a writer that has long been open, and knows no anchor, sees rows missing below the last checkpoint."""
    blind = place.open(anchors=())
    blind.append([draft(7000)])
    with as_owner(place) as session:
        FAULTS["truncate below a checkpoint"].act(session)
    for ledger in (blind, filled):
        with pytest.raises(BehindAnchorError, match="290 records"):
            ledger.append([draft(7001)])


def restore_old_copy(place: Place, filled: SqlLedger) -> None:
    """Put back the database as it was at 100 records, checkpoint rows included."""
    filled.close()
    with as_owner(place) as session:
        for table in ("record", "edge"):
            delete(table, "position >= 100")(session)
        delete("node", "1 = 1")(session)
        delete("checkpoint", "number >= 2")(session)


def test_restored_old_copy_is_reported_and_refused(place: Place, filled: SqlLedger) -> None:
    """An old copy fits itself; only the anchor knows better, and says from where records are missing."""
    restore_old_copy(place, filled)
    ledger = place.open()
    with pytest.raises(BehindAnchorError, match="knows 300"):
        ledger.append([draft(8000)])
    result = ledger.audit()

    assert "changed" == result.verdict
    assert [100] == [finding.position for finding in result.findings]
    assert place.anchor.name == result.findings[0].record_id


def test_restored_file_is_refused(tmp_path: Path, sqlite_template: Path) -> None:
    """The same with a real copy of a SQLite file, under a writer that stays open."""
    shutil.copy(sqlite_template, tmp_path / "ledger.db")
    place = Place(url=f"sqlite:///{tmp_path}/ledger.db", folder=tmp_path)
    ledger = place.open()
    ledger.append([draft(0)])
    shutil.copy(tmp_path / "ledger.db", tmp_path / "old.db")
    ledger.append([draft(1)])
    ledger.seal()
    with sqlite3.connect(tmp_path / "old.db") as old, sqlite3.connect(tmp_path / "ledger.db") as live:
        old.backup(live)
    with pytest.raises(BehindAnchorError, match="removed"):
        place.open().append([draft(2)])
    with pytest.raises(BehindAnchorError, match="2 were seen here"):
        ledger.append([draft(3)])
    with pytest.raises(BehindAnchorError, match="removed"):
        ledger.seal()
    recover(ledger, person="carol", reason="old copy")
    assert 2 == ledger.append([draft(4)])[0].position


def test_recovery_goes_on_and_stays_visible(place: Place, filled: SqlLedger) -> None:
    """After a signed recovery appending goes on, the audit is clean, and the loss stands in the log."""
    restore_old_copy(place, filled)
    ledger = place.open()
    (record,) = recover(ledger, person="carol", reason="disk lost, copy of Sunday restored")
    ledger.append([draft(8000)])
    ledger.seal()

    assert (300, 100, "carol") == tuple(
        record.payload[name] for name in ("anchored_size", "database_size", "person")
    )
    result = ledger.audit()
    assert ("verified", ()) == (result.verdict, result.findings)
    with pytest.raises(LedgerError, match="nothing to recover"):
        recover(ledger, person="carol", reason="again")
    restore_old_copy(place, ledger)
    with pytest.raises(BehindAnchorError):
        place.open().append([draft(8001)])


def test_recovery_after_rows_were_cut_under_their_checkpoints(place: Place, filled: SqlLedger) -> None:
    """Also where the database's own checkpoints know more than its records."""
    filled.close()
    with as_owner(place) as session:
        FAULTS["truncate below a checkpoint"].act(session)
        delete("node", "1 = 1")(session)
        store_nodes(session, dict(leaves_of(session, 290)))
    ledger = place.open()
    recover(ledger, person="carol", reason="rows lost")
    ledger.append([draft(8000)])

    assert ("verified", ()) == (ledger.audit().verdict, ledger.audit().findings)


def leaves_of(session: Session, size: int) -> Iterator[tuple[int, bytes]]:
    """Leaves by position."""
    for position in range(size):
        yield position, leaf_hash(stored_of(session, position))


def test_recovery_forgives_nothing_afterwards(place: Place, filled: SqlLedger) -> None:
    """Records that are rewritten after a recovery are reported, although their size was once forgiven."""
    restore_old_copy(place, filled)
    ledger = place.open()
    recover(ledger, person="carol", reason="old copy")
    ledger.append([note(i) for i in range(5000, 5050)])
    ledger.seal()
    with as_owner(place) as session:
        rewrite_from(120, 151)(session)
    result = ledger.audit()

    assert "changed" == result.verdict
    assert [101, 101] == [f.position for f in result.findings if "rewritten" in f.problem]


def test_recovery_needs_key_and_cause(place: Place, filled: SqlLedger) -> None:
    """Nobody recovers a whole log, or without the key."""
    with pytest.raises(LedgerError, match="nothing to recover"):
        recover(filled, person="carol", reason="x")
    with pytest.raises(LedgerError, match="must be signed"):
        recover(SqlLedger(Database(place.url)), person="carol", reason="x")


@pytest.mark.usefixtures("filled")
def test_anchor_that_is_gone_is_reported(place: Place, tmp_path: Path) -> None:
    """An anchor without entries, or unreachable, is reported and proves no change; appending goes on."""
    empty, broken = FileAnchor(tmp_path / "empty"), FileAnchor(tmp_path / "broken")
    (tmp_path / "broken" / "checkpoints.jsonl").mkdir(parents=True)
    ledger = place.open(anchors=(place.anchor, empty, broken))
    result = ledger.audit()

    assert "verified" == result.verdict
    assert ["holds no checkpoint, the database does", "cannot be reached"] == [
        f.problem.partition(":")[0] for f in result.findings
    ]
    ledger.append([draft(9000)])
    assert COUNT + 1 == ledger.seal().size
    assert empty.latest() == place.anchor.latest()


def test_clock_that_went_back_is_reported(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that went back by more than hosts may differ is named and proves no change."""
    ledger = place.open()
    ledger.append([draft(0)])
    monkeypatch.setattr("pretrain_archive.ledger.writing.utc_now", lambda: "2020-01-01T00:00:00.000000Z")
    ledger.append([draft(1)])
    ledger.seal()
    result = ledger.audit()

    assert ("verified", [1]) == (result.verdict, [f.position for f in result.findings])
    assert result.findings[0].problem.startswith("clock: recorded ")


def test_removed_checkpoint_rows_are_reported_and_the_origin_stays(place: Place, filled: SqlLedger) -> None:
    """Without its checkpoint rows the log keeps its name, and the anchor's entries say what is missing."""
    origin = filled.seal().origin
    with as_owner(place) as session:
        delete("checkpoint", "1 = 1")(session)
    for _ in range(2):
        removed = [f for f in filled.audit().findings if "is not among those in the database" in f.problem]
        assert [100, 300, COUNT] == [finding.position for finding in removed]
        filled.append([draft(9000)])
        assert origin == place.open().seal().origin


def test_origin_follows_from_the_first_record(place: Place) -> None:
    """Also where no anchor remembers it, removed rows bring no new name."""
    ledger = place.open(anchors=())
    ledger.append([draft(0)])
    origin = ledger.seal().origin
    with as_owner(place) as session:
        delete("checkpoint", "1 = 1")(session)
    ledger.append([draft(1)])
    assert origin == ledger.seal().origin


def test_last_checkpoint_row_that_was_removed_is_reported(place: Place, filled: SqlLedger) -> None:
    """The numbers of what is left fit; only the anchor knows of the last."""
    with as_owner(place) as session:
        delete("checkpoint", "number = 2")(session)
    (finding,) = filled.audit().findings
    assert (300, place.anchor.name) == (finding.position, finding.record_id)


def test_copied_checkpoint_row_is_reported(place: Place, filled: SqlLedger) -> None:
    """A row that repeats an older one is named."""
    with as_owner(place) as session:
        session.run(
            "INSERT INTO pretrain_archive_checkpoint "
            "SELECT 3, size, root, signed_at, note FROM pretrain_archive_checkpoint WHERE number = 1"
        )
    assert ["it is a copy of checkpoint 1"] == [f.problem for f in filled.audit().findings]


def test_missing_triggers_are_reported(place: Place, filled: SqlLedger) -> None:
    """A database that no longer refuses changes is named table by table, also where a trigger does nothing."""
    with as_owner(place, restore=False):
        pass
    found = filled.audit()
    tables = ["record", "run", "edge", "node", "checkpoint"]
    assert ("changed", [f"table {name}" for name in tables]) == (
        found.verdict,
        [finding.record_id for finding in found.findings],
    )


def test_disarmed_trigger_is_reported(place: Place, filled: SqlLedger) -> None:
    """The right name alone refuses nothing."""
    table = "pretrain_archive_run"
    with Database(place.url).transaction() as session:
        if place.is_sqlite:
            session.run(f"DROP TRIGGER {table}_no_update")
            session.run(f"CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table} BEGIN SELECT 1; END")
        else:
            session.run(f"ALTER TABLE {table} DISABLE TRIGGER {table}_append_only")
    assert ["table run"] == [finding.record_id for finding in filled.audit().findings]
