"""Alembic environment: one transaction under the ledger's lock, so that two starters cannot collide."""

from __future__ import annotations

from alembic import context

from pretrain_archive.ledger import tables
from pretrain_archive.ledger.engine import APPEND_LOCK, make_engine


def run() -> None:
    """Migrate the database that the configuration's ``sqlalchemy.url`` names."""
    url = context.config.attributes.get("url") or context.config.get_main_option("sqlalchemy.url")
    engine = make_engine(str(url))
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({APPEND_LOCK})")
        context.configure(
            connection=connection,
            target_metadata=tables.metadata,
            version_table=tables.VERSION_TABLE,
            transactional_ddl=True,
        )
        with context.begin_transaction():
            context.run_migrations()
        connection.commit()
    engine.dispose()


run()
