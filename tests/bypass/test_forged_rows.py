"""The owner of the database drops the triggers and forges, alters or deletes rows behind the approval.

What he cannot do is sign: whatever he rewrites does not fit the checkpoint that was signed over it. (A row that is
appended in the ledger's own form, by whoever may write to the ledger, is a record like any other: see
docs/launch-control.md.)
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.bypass.ground import Ground, Stages, cached_probe, policy_of
from tests.support.ledgers import Place, as_owner, postgres_server, postgres_template
from tests.support.main_line import Line
from tests.support.postgres import Server

from pretrain_archive.domain.merkle import leaf_hash
from pretrain_archive.ledger.anchors import FileAnchor
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.ledger.engine import Session
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.ledger.sql import SqlLedger

__all__ = ["postgres_server", "postgres_template"]

pytestmark = [pytest.mark.requirement("R005", "R125"), pytest.mark.timeout(120)]

RECORD = "pretrain_archive_record"
Forge = Callable[[Session, Ground], object]
TABLES = ("record", "run", "edge", "node", "checkpoint")


@dataclass(kw_only=True)
class ServedLine(Line):
    """A line whose ledger is a PostgreSQL database."""

    url: str = ""

    def open_ledger(self, *, key: bool = True) -> SqlLedger:
        """See :class:`Line`."""
        from pretrain_archive.ledger.signing import load_signer

        load_signer(self.folder / "ledger.key", create=True)
        return open_ledger(
            self.url, signing_key=self.folder / "ledger.key" if key else None,
            anchors=[FileAnchor(self.folder / "anchors")],
        )  # fmt: skip


@dataclass
class Rejected:
    """A signed run that was rejected afterwards, on one database; every test gets a copy."""

    folder: Path
    uid: str
    database: str = ""


def _row(session: Session, kind: str, nth: int = -1) -> tuple[int, bytes]:
    rows = session.all(f"SELECT position, stored FROM {RECORD} WHERE kind = ? ORDER BY position", (kind,))
    position, stored = rows[nth]
    return int(position), bytes(stored)


def _write(session: Session, position: int, stored: bytes, *, leaf: bool) -> None:
    session.run(f"UPDATE {RECORD} SET stored = ? WHERE position = ?", (stored, position))
    if leaf:
        session.run(f"UPDATE {RECORD} SET leaf = ? WHERE position = ?", (leaf_hash(stored), position))


def edit(kind: str, place: str, value: Any, *, leaf: bool, nth: int = -1) -> Forge:
    """One place of a record's body gets another value."""

    def forge(session: Session, _: Ground) -> None:
        position, stored = _row(session, kind, nth)
        body = json.loads(stored)
        *above, last = place.split(".")
        inside = body
        for name in above:
            inside = inside[name]
        assert inside[last] != value
        inside[last] = value
        _write(session, position, canonical_bytes(body), leaf=leaf)

    return forge


def delete(kind: str, nth: int = -1) -> Forge:
    """A record is deleted."""

    def forge(session: Session, _: Ground) -> None:
        session.run(f"DELETE FROM {RECORD} WHERE position = ?", (_row(session, kind, nth)[0],))

    return forge


def truncate(kind: str, *, checkpoints: bool) -> Forge:
    """Everything from a record on is deleted, the checkpoints over it too."""

    def forge(session: Session, _: Ground) -> None:
        first = _row(session, kind)[0]
        for table, column in (("record", "position"), ("edge", "position")):
            session.run(f"DELETE FROM pretrain_archive_{table} WHERE {column} >= ?", (first,))
        if checkpoints:
            session.run("DELETE FROM pretrain_archive_checkpoint WHERE size > ?", (first,))

    return forge


def column(name: str, value: Any, kind: str = "gate.decision") -> Forge:
    """A searchable column of a row is edited."""

    def forge(session: Session, _: Ground) -> None:
        position = _row(session, kind)[0]
        session.run(f"UPDATE {RECORD} SET {name} = ? WHERE position = ?", (value, position))

    return forge


def swap(one: str, two: str) -> Forge:
    """Two records trade their bytes and leaves."""

    def forge(session: Session, _: Ground) -> None:
        (a, left), (b, right) = _row(session, one), _row(session, two)
        _write(session, a, right, leaf=True)
        _write(session, b, left, leaf=True)

    return forge


def rehash(kind: str, place: str, value: Any) -> Forge:
    """A body is edited, and every link, leaf and node behind it is computed again: all but the signature fits."""

    def forge(session: Session, ground: Ground) -> None:
        edit(kind, place, value, leaf=True)(session, ground)
        heads: dict[str, str] = {}
        rows = session.all(f"SELECT position, stored FROM {RECORD} ORDER BY position")
        for position, raw in rows:
            body = json.loads(bytes(raw))
            body["previous"] = heads.get(body["stream"], "")
            stored = canonical_bytes(body)
            heads[body["stream"]] = leaf_hash(stored).hex()
            _write(session, int(position), stored, leaf=True)
            session.run(f"UPDATE {RECORD} SET previous = ? WHERE position = ?",
                        (bytes.fromhex(body["previous"]), int(position)))  # fmt: skip

    return forge


def insert(**changes: Any) -> Forge:
    """A copy of the approval is put behind the rejection, not in the ledger's own form."""

    def forge(session: Session, _: Ground) -> None:
        names = ("position", "record_id", "stream", "sequence", "kind", "attempt", "recorded_at", "idempotency_key",
                 "unique_key", "leaf", "previous", "stored")  # fmt: skip
        position, stored = _row(session, "gate.decision", 0)
        row = dict(zip(names, session.one(
            f"SELECT {', '.join(names)} FROM {RECORD} WHERE position = ?", (position,)
        ) or (), strict=True))  # fmt: skip
        last = session.one(f"SELECT max(position) FROM {RECORD}")
        head = session.one(f"SELECT max(sequence) FROM {RECORD} WHERE stream = ?", (row["stream"],))
        assert head is not None
        assert last is not None
        body = json.loads(stored) | {"record_id": "rec_forged", "sequence": head[0] + 1}
        forged = canonical_bytes(body)
        row |= {"position": last[0] + 1, "record_id": "rec_forged", "sequence": head[0] + 1, "stored": forged,
                "leaf": leaf_hash(forged), "idempotency_key": b"forged", "unique_key": None} | changes  # fmt: skip
        marks = ", ".join("?" * len(names))
        session.run(f"INSERT INTO {RECORD} ({', '.join(names)}) VALUES ({marks})",
                    tuple(row[name] for name in names))  # fmt: skip

    return forge


DECISION = "gate.decision"
FORGERIES: list[Any] = [
    *(
        pytest.param(edit(DECISION, f"payload.{field}", value, leaf=leaf), id=field + (", leaf too" if leaf else ""))
        for field, value in (
            ("decision", "approve"), ("person_name", "carol"), ("reason", "forged"),
            ("responded_at", "2027-01-01T00:00:00.000000Z"), ("dossier_digest", "sha256:" + "4" * 64),
            ("self_signed", True), ("gate", "run"),
        )
        for leaf in (False, True)
    ),
    pytest.param(edit(DECISION, "actor.name", "carol", leaf=True), id="actor, leaf too"),
    pytest.param(edit(DECISION, "recorded_at", "2027-01-01T00:00:00.000000Z", leaf=True), id="time, leaf too"),
    pytest.param(edit("run.closed", "kind", "note.added", leaf=True), id="the close is made a note"),
    pytest.param(edit("run.opened", "payload.submitter", "zoe", leaf=True), id="another submitter"),
    pytest.param(edit("configuration.declared", "payload.budget.minutes", 900.0, leaf=True), id="another budget"),
    pytest.param(edit("snapshot.created", "payload.version", 9, leaf=True), id="another snapshot"),
    pytest.param(rehash(DECISION, "payload.decision", "approve"), id="approved, all links computed again"),
    pytest.param(rehash("run.closed", "payload.outcome", "continue"), id="closed otherwise, all links again"),
    pytest.param(delete(DECISION), id="the rejection deleted"),
    pytest.param(delete("run.closed"), id="the close deleted"),
    pytest.param(delete("gate.dossier", 0), id="the dossier deleted"),
    pytest.param(truncate(DECISION, checkpoints=False), id="rejection and all behind it deleted"),
    pytest.param(truncate(DECISION, checkpoints=True), id="rejection and checkpoints deleted"),
    pytest.param(truncate("gate.dossier", checkpoints=True), id="last question and checkpoints deleted"),
    pytest.param(column("kind", "note.added", "run.closed"), id="column kind of the close"),
    pytest.param(column("stream", "run_elsewhere", "run.closed"), id="column stream of the close"),
    pytest.param(column("kind", "note.added"), id="column kind of the rejection"),
    pytest.param(swap(DECISION, "run.closed"), id="two records trade places"),
    pytest.param(insert(), id="an approval with the old link"),
    pytest.param(insert(leaf=b"\0" * 32), id="an approval with another leaf"),
    pytest.param(insert(sequence=999), id="an approval far behind"),
]  # fmt: skip


def _rejected(line: Line) -> None:
    """Approved, and then rejected after all: what the forger undoes would let the run go."""
    values = {"configuration": {"steps": 2}, "checkpoint_every": 2}
    line.open(**values)
    line.prepare_data()
    line.sign("prepare")
    line.answer("prepare", line.ask("prepare", try_number=2), option="Reject", person="bob")
    line.ledger.seal()
    line.ledger.close()


@pytest.fixture(scope="session")
def rejected_file(local_stages: Stages, tmp_path_factory: pytest.TempPathFactory) -> Rejected:
    """On SQLite."""
    folder = tmp_path_factory.mktemp("rejected")
    line = local_stages.at("signed", folder / "line")
    line.answer("prepare", line.ask("prepare", try_number=2), option="Reject")
    line.ledger.seal()
    line.ledger.close()
    return Rejected(folder=folder / "line", uid=line.run_uid)


@pytest.fixture(scope="session")
def rejected_served(
    postgres_server: Server, postgres_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Rejected:
    """On PostgreSQL."""
    folder = tmp_path_factory.mktemp("served")
    name = postgres_server.create_database(postgres_template)
    (folder / "source").mkdir()
    for number in range(40):
        (folder / "source" / f"doc{number}.txt").write_text(f"document {number} is served\n" * (number + 2))
    from tests.bypass.ground import PROGRAM
    from tests.support.main_line import EVALUATE, TRAIN

    (folder / "program").mkdir()
    (folder / "program" / "train.py").write_text(PROGRAM + TRAIN)
    (folder / "program" / "evaluate.py").write_text(EVALUATE)
    line = ServedLine(folder=folder, policy=policy_of("local"), url=postgres_server.url(name))
    _rejected(line)
    return Rejected(folder=folder, uid=line.run_uid, database=name)


@pytest.fixture(params=["sqlite", "postgresql"])
def forged(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Ground, Place]]:
    """A ground on the rejected run, and its database as the owner sees it."""
    cached_probe(monkeypatch)
    served = request.param == "postgresql"
    kept: Rejected = request.getfixturevalue("rejected_served" if served else "rejected_file")
    folder = tmp_path / "line"
    shutil.copytree(kept.folder, folder, ignore=shutil.ignore_patterns("program", "source"))
    (folder / "source").mkdir()
    policy = policy_of("local")
    if not served:
        line = Line(folder=folder, policy=policy, run_uid=kept.uid)
        yield (
            Ground(line=line, monkeypatch=monkeypatch),
            Place(url=f"sqlite:///{folder}/ledger.db", folder=folder),
        )
        line.ledger.close()
        return
    server: Server = request.getfixturevalue("postgres_server")
    name = server.create_database(kept.database)
    line = ServedLine(folder=folder, policy=policy, run_uid=kept.uid, url=server.url(name))
    yield Ground(line=line, monkeypatch=monkeypatch), Place(url=line.url, folder=folder)
    line.ledger.close()
    server.drop_database(name)


def test_at_least_twenty() -> None:
    """The class counts with at least twenty forgeries."""
    assert len(FORGERIES) >= 20


@pytest.mark.parametrize("forge", FORGERIES)
def test_forged_row_launches_nothing(forged: tuple[Ground, Place], forge: Forge) -> None:
    """The row is forged, the triggers are put back, the launch is refused and nothing starts."""
    ground, place = forged
    ground.line.ledger.close()
    with as_owner(place) as session:
        forge(session, ground)
    ground.line.ledger = ground.ledger = ground.line.open_ledger()
    ground.refused()
    assert [] == ground.started_unread()
