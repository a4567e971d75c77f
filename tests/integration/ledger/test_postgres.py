"""What only a server shows: the writer's role, a lost connection, a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.support.ledgers import Place, draft, edge, run_opened
from tests.support.postgres import Server

from pretrain_archive.domain.errors import LedgerUnavailableError
from pretrain_archive.domain.identity import Ref
from pretrain_archive.ledger.engine import Session
from pretrain_archive.ledger.port import RunQuery


@pytest.fixture
def name(postgres_server: Server, postgres_template: str) -> Iterator[str]:
    """A migrated database."""
    made = postgres_server.create_database(postgres_template)
    yield made
    postgres_server.drop_database(made)


def test_writer_needs_insert_and_select_only(postgres_server: Server, name: str, tmp_path: Path) -> None:
    """A role with no more than INSERT and SELECT appends, reads, seals and audits, and can change nothing."""
    postgres_server.execute(
        f"CREATE ROLE writer_{name} LOGIN",
        f"GRANT USAGE ON SCHEMA public TO writer_{name}",
        f"GRANT INSERT, SELECT ON ALL TABLES IN SCHEMA public TO writer_{name}",
        database=name,
    )
    place = Place(url=postgres_server.url(name, user=f"writer_{name}"), folder=tmp_path)
    ledger = place.open(auto_seal=True)
    ledger.append([run_opened("run_1"), *(draft(i, edges=(edge("run:a", "source:b"),)) for i in range(300))])

    assert 301 == ledger.seal().size
    assert 1 == len(ledger.runs(RunQuery()))
    assert 1 == len(ledger.trace(Ref.parse("run:a"), direction="backward").nodes)
    assert "verified" == ledger.audit().verdict
    with psycopg.connect(place.url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("UPDATE pretrain_archive_record SET kind = 'x'")
    ledger.close()
    postgres_server.execute(f"DROP OWNED BY writer_{name}", f"DROP ROLE writer_{name}", database=name)


def test_lost_connections_are_made_again(postgres_server: Server, name: str, tmp_path: Path) -> None:
    """After the server ended all sessions the next append goes through."""
    ledger = Place(url=postgres_server.url(name), folder=tmp_path).open()
    ledger.append([draft(0)])
    postgres_server.execute(
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    )
    assert 1 == ledger.append([draft(1)])[0].position
    ledger.close()


@pytest.mark.parametrize("committed", [True, False])
def test_commit_without_answer_is_found_again(
    postgres_server: Server, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """The session ends right before or right after its commit: either way the fact is there once."""
    ledger = Place(url=postgres_server.url(name), folder=tmp_path).open()
    ledger.append([draft(0)])
    _lose_one_connection(ledger.database, postgres_server, committed=committed, monkeypatch=monkeypatch)
    (record,) = ledger.append([draft(1)])

    assert [0, 1] == [found.ordinal for found in ledger.records()]
    assert record == list(ledger.records())[-1]
    ledger.close()


def _lose_one_connection(
    database: object, server: Server, *, committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let the server end the session of the first insert, before its commit or after it."""
    many = Session.many
    lost: list[int] = []

    def insert_and_lose(self: Session, sql: str, rows: list[object]) -> None:
        many(self, sql, rows)  # type: ignore[arg-type]
        if "pretrain_archive_record" in sql and not lost:
            row = self.one("SELECT pg_backend_pid()")
            assert row is not None
            lost.append(row[0])
            if committed:
                self.run("COMMIT")
            server.execute(f"SELECT pg_terminate_backend({row[0]})")

    assert database is not None
    monkeypatch.setattr(Session, "many", insert_and_lose)


def test_server_that_is_down_is_named(postgres_server: Server, tmp_path: Path) -> None:
    """A database that does not exist is named, with what to check."""
    place = Place(url=postgres_server.url("nowhere"), folder=tmp_path)
    with pytest.raises(LedgerUnavailableError, match="database_url"):
        place.open().append([draft(0)])
