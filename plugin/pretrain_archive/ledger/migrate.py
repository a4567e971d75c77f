"""Bring the ledger's database to this release; the same with and without Airflow."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from pretrain_archive.domain.errors import LedgerError
from pretrain_archive.ledger.engine import Database, sqlite_path
from pretrain_archive.ledger.tables import VERSION_TABLE

log = logging.getLogger(__name__)

# Alembic keeps its environment in module globals: one migration at a time in a process.
_ONE_AT_A_TIME = threading.Lock()
MIGRATIONS = Path(__file__).parent / "migrations"


def alembic_config(url: str) -> Config:
    """Alembic's configuration for the ledger at ``url``, made in memory: there is no ini file to lose."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["url"] = url
    return config


def head() -> str:
    """The newest revision of this release."""
    return str(ScriptDirectory.from_config(alembic_config("")).get_current_head())


def current(url: str) -> str | None:
    """The revision of the database at ``url``, None if it has no ledger."""
    database = Database(url)
    path = sqlite_path(database.engine)
    if path is not None and not path.exists():
        return None

    def read() -> str | None:
        with database.engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
            return context.get_current_revision()

    try:
        return database.attempt(read)
    finally:
        database.engine.dispose()


def migrate(url: str, *, to: str = "head") -> str:
    """Create or upgrade the ledger at ``url`` and return its revision. A SQLite file's folder is made.

    Raises ``LedgerUnavailableError`` where the database cannot be reached, ``LedgerError`` where it was made
    by a later release.
    """
    database = Database(url)
    path = sqlite_path(database.engine)
    database.engine.dispose()
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    before = current(url)
    known = {script.revision for script in ScriptDirectory.from_config(alembic_config(url)).walk_revisions()}
    if before is not None and before not in known:
        raise LedgerError(
            f"The ledger {database.name} is at revision {before}, which this release does not know.",
            hint="Install the release that made it, or a later one.",
        )
    if before != to and not (to == "head" and before == head()):
        with _ONE_AT_A_TIME:
            database.attempt(lambda: command.upgrade(alembic_config(url), to))
        log.info("Migrated the ledger %s from %s to %s", database.name, before or "nothing", head())
    return head() if to == "head" else to
