"""Real ledgers for tests: a migrated SQLite file, or a database of the private PostgreSQL server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support.postgres import Server, postgres_server

from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Relation
from pretrain_archive.ledger.anchors import Anchor, FileAnchor
from pretrain_archive.ledger.engine import Database, Session
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.ledger.migrate import migrate
from pretrain_archive.ledger.sql import SqlLedger

__all__ = [
    "Place",
    "as_owner",
    "draft",
    "edge",
    "place",
    "postgres_server",
    "postgres_template",
    "run_opened",
    "sqlite_template",
]


@dataclass(kw_only=True)
class Place:
    """Where a test's ledger is: its URL, and a folder for key and anchors."""

    url: str
    folder: Path
    opened: list[SqlLedger] = field(default_factory=list)

    @property
    def key(self) -> Path:
        """The signing key's file."""
        return self.folder / "ledger.key"

    @property
    def public(self) -> Path:
        """The public key's file."""
        return self.folder / "ledger.pub"

    @property
    def anchor(self) -> FileAnchor:
        """The file anchor."""
        return FileAnchor(self.folder / "anchors")

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is a file."""
        return self.url.startswith("sqlite")

    def open(self, *, auto_seal: bool = False, anchors: tuple[Anchor, ...] | None = None) -> SqlLedger:
        """Open the ledger as a writer with the key; the key is made on first use."""
        from pretrain_archive.ledger.signing import load_signer

        load_signer(self.key, create=True)
        chosen = (self.anchor,) if anchors is None else anchors
        ledger = open_ledger(self.url, signing_key=self.key, anchors=chosen, auto_seal=auto_seal)
        self.opened.append(ledger)
        return ledger


@contextmanager
def as_owner(place: Place, *, restore: bool = True) -> Iterator[Session]:
    """A transaction of the database's owner, who drops every trigger and, with ``restore``, puts them back."""
    with Database(place.url).transaction() as session:
        if place.is_sqlite:
            found = session.all("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
            drop = [f"DROP TRIGGER {name}" for name, _ in found]
            make = [sql for _, sql in found]
        else:
            found = session.all(
                "SELECT tgname, tgrelid::regclass::text, pg_get_triggerdef(oid) FROM pg_trigger "
                "WHERE tgname LIKE 'pretrain%'"
            )
            drop = [f"DROP TRIGGER {name} ON {table}" for name, table, _ in found]
            make = [sql for _, _, sql in found]
            make += [f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}" for name, table, _ in found]
        for statement in drop:
            session.run(statement)
        yield session
        for statement in make if restore else ():
            session.run(statement)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file as the migrations make it."""
    path = tmp_path_factory.mktemp("template") / "ledger.db"
    migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def postgres_template(postgres_server: Server) -> str:
    """The name of a PostgreSQL database as the migrations make it."""
    name = postgres_server.create_database()
    migrate(postgres_server.url(name))
    return name


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """An empty ledger on each database."""
    if request.param == "sqlite":
        path = tmp_path / "ledger.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        found = Place(url=f"sqlite:///{path}", folder=tmp_path)
        yield found
        for ledger in found.opened:
            ledger.close()
        return
    server: Server = request.getfixturevalue("postgres_server")
    name = server.create_database(request.getfixturevalue("postgres_template"))
    found = Place(url=server.url(name), folder=tmp_path)
    yield found
    for ledger in found.opened:
        ledger.close()
    server.drop_database(name)


def draft(ordinal: int = 0, *, stream: str = "project/demo", text: str = "", **changes: Any) -> Draft:
    """A small valid draft; ``changes`` replace its fields."""
    values: dict[str, Any] = {
        "stream": stream,
        "kind": "note.added",
        "payload": {"topic": "note", "text": text or f"note {ordinal}"},
        "actor": Actor(type="task", name="writer"),
        "origin": Origin(dag_id="dag", dag_run_id="manual__1", task_id="write"),
        "ordinal": ordinal,
    }
    return Draft(**values | changes)


def edge(subject: str, target: str, relation: Relation = Relation.USED) -> Edge:
    """An edge between two references given as text."""
    return Edge(subject=Ref.parse(subject), relation=relation, object=Ref.parse(target))


def run_opened(run_uid: str, **changes: Any) -> Draft:
    """The draft that opens a run; ``changes`` replace fields of its payload."""
    payload: dict[str, Any] = {
        "run_uid": run_uid,
        "project": "demo",
        "dag_id": "pretraining_reference",
        "dag_run_id": "manual__2026-11-29",
        "submitter": "alice",
        "purpose": {
            "training_type": "pre-training",
            "objective": "bits per byte below the baseline",
            "origin_class": "public",
            "intended_use": "internal evaluation",
            "acceptance_metric": "bits_per_byte",
        },
        "people": {"data_owner": "carol"},
        "policy_digest": "sha256:" + "1" * 64,
        "policy_name": "demo",
        "conf": {},
        "conf_digest": "sha256:" + "2" * 64,
    }
    return draft(stream=run_uid, kind="run.opened", payload=payload | changes)
