"""Migrations make what the models say, on both databases, and the database itself refuses changes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from tests.support.ledgers import Place, draft, edge, run_opened
from tests.support.postgres import Server

from pretrain_archive.domain.errors import LedgerError
from pretrain_archive.ledger import migrate, tables
from pretrain_archive.ledger.engine import Database, make_engine

TABLES = [table.name for table in tables.APPEND_ONLY]


def test_migrations_equal_models(place: Place) -> None:
    """Comparing the migrated database with the models finds no difference."""
    with make_engine(place.url).connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": tables.VERSION_TABLE, "compare_type": True}
        )
        assert [] == compare_metadata(context, tables.metadata)


def test_indexes_equal_models(place: Place) -> None:
    """Names and columns of all indexes and unique constraints are those of the models."""
    inspector = sa.inspect(make_engine(place.url))
    for table in tables.metadata.tables.values():
        expected = {index.name: [c.name for c in index.columns] for index in table.indexes}
        found = {
            index["name"]: index["column_names"]
            for index in inspector.get_indexes(table.name)
            if not index.get("duplicates_constraint")
        }
        assert expected == found


STATEMENTS = {
    "both": [
        "UPDATE {table} SET {column} = {column}",
        "DELETE FROM {table}",
        "INSERT INTO {table} SELECT * FROM {table} WHERE 1 = 1 ON CONFLICT ({key}) DO UPDATE SET {column} = 0",
    ],
    "sqlite": ["INSERT OR REPLACE INTO {table} SELECT * FROM {table}"],
    "postgresql": ["TRUNCATE {table} CASCADE"],
}


@pytest.mark.parametrize("table", TABLES)
def test_database_refuses_changes(place: Place, table: str) -> None:
    """Every way to change or remove a row is refused by the database, for every table."""
    ledger = place.open()
    ledger.append([run_opened("run_1"), *(draft(i, edges=(edge("run:a", "run:b"),)) for i in range(300))])
    ledger.seal()
    model = tables.metadata.tables[table]
    key = ", ".join(column.name for column in model.primary_key)
    column = next(c.name for c in model.columns if c.name in {"position", "number", "size"})
    engine = make_engine(place.url)
    with engine.connect() as connection:
        before = connection.execute(sa.select(model).order_by(*model.primary_key)).all()
        for statement in (*STATEMENTS["both"], *STATEMENTS[engine.dialect.name]):
            sql = statement.format(table=table, column=column, key=key)
            with pytest.raises(sa.exc.DBAPIError, match="append-only"):
                connection.exec_driver_sql(sql)
            connection.rollback()
        assert before
        assert before == connection.execute(sa.select(model).order_by(*model.primary_key)).all()
    engine.dispose()


def test_replica_role_is_no_way_around(postgres_server: Server, postgres_template: str) -> None:
    """PostgreSQL's switch for ordinary triggers does not switch these off."""
    import psycopg

    with psycopg.connect(postgres_server.url(postgres_template)) as connection:
        connection.execute("SET session_replication_role = replica")
        with pytest.raises(psycopg.Error, match="append-only"):
            connection.execute("DELETE FROM pretrain_archive_record")


def test_migrate_makes_folder_and_repeats(tmp_path: Path) -> None:
    """A first start makes the folder; a second finds nothing to do."""
    url = f"sqlite:///{tmp_path}/a/b/ledger.db"
    assert None is migrate.current(url)
    assert ["0001", "0001"] == [migrate.migrate(url), migrate.migrate(url)]
    assert "0001" == migrate.current(url)


def test_migrate_at_once(tmp_path: Path, postgres_server: Server) -> None:
    """Several starters on an empty database do not collide."""
    name = postgres_server.create_database()
    for url in (f"sqlite:///{tmp_path}/ledger.db", postgres_server.url(name)):
        with ThreadPoolExecutor(2) as pool:
            assert ["0001"] * 2 == list(pool.map(migrate.migrate, [url] * 2))
    postgres_server.drop_database(name)


def test_unknown_revision_is_refused(tmp_path: Path) -> None:
    """A ledger of a later release is left alone."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    migrate.migrate(url)
    with Database(url).engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE {tables.VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(LedgerError, match="later"):
        migrate.migrate(url)


def test_downgrade_refuses_to_lose_records(place: Place) -> None:
    """Going back is possible only while nothing is recorded."""
    from alembic import command

    ledger = place.open()
    ledger.append([draft(0)])
    with pytest.raises(RuntimeError, match="holds records"):
        command.downgrade(migrate.alembic_config(place.url), "base")
    assert 1 == len(list(ledger.records()))


def test_downgrade_of_an_empty_ledger(place: Place) -> None:
    """An empty ledger goes back to nothing and forth again."""
    from alembic import command

    command.downgrade(migrate.alembic_config(place.url), "base")
    assert None is migrate.current(place.url)
    assert "0001" == migrate.migrate(place.url)
    assert 0 == place.open().append([draft(0)])[0].position
