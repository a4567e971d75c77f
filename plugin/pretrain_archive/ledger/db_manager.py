"""``airflow db migrate`` also brings the ledger's own database to this release.

Airflow's base class would work in Airflow's database; the ledger lives where its own URL says, so every method
that touches a database is replaced.
"""

from __future__ import annotations

from typing import Any

from airflow.utils.db_manager import BaseDBManager
from alembic.config import Config

from pretrain_archive import config
from pretrain_archive.domain.errors import LedgerError
from pretrain_archive.ledger import migrate, tables


class LedgerDBManager(BaseDBManager):
    """Creates and upgrades the ledger; never drops it, since it must outlive ``airflow db reset``."""

    metadata = tables.metadata
    version_table_name = tables.VERSION_TABLE
    migration_dir = str(migrate.MIGRATIONS)
    alembic_file = ""  # the configuration is made in memory
    supports_table_dropping = False
    revision_heads_map = {"0.1.0": "0001"}  # noqa: RUF012 - the base class declares it so

    def get_alembic_config(self) -> Config:
        """Alembic's configuration for the ledger's own database."""
        return migrate.alembic_config(config.database_url())

    def get_current_revision(self) -> str | None:
        """The ledger's revision, not that of Airflow's database."""
        return migrate.current(config.database_url())

    def create_db_from_orm(self) -> None:
        """Run the migrations: only they make the triggers that keep the log append-only."""
        migrate.migrate(config.database_url())

    def initdb(self, use_migration_files: bool = False) -> None:  # noqa: ARG002
        """Create or upgrade the ledger."""
        migrate.migrate(config.database_url())

    def upgradedb(
        self,
        to_revision: str | None = None,
        from_revision: str | None = None,  # noqa: ARG002
        show_sql_only: bool = False,
        use_migration_files: bool = False,  # noqa: ARG002
    ) -> None:
        """Upgrade the ledger to ``to_revision`` or to this release."""
        if show_sql_only:
            raise LedgerError(
                "The ledger's migrations are not shown as SQL: its database is not Airflow's.",
                hint="Leave out --show-sql-only, or read the files in pretrain_archive/ledger/migrations.",
            )
        migrate.migrate(config.database_url(), to=to_revision or "head")

    def downgrade(
        self,
        to_revision: str,
        from_revision: str | None = None,  # noqa: ARG002
        show_sql_only: bool = False,  # noqa: ARG002
    ) -> None:
        """Refuse: a release that needs an older ledger is installed with a database of its own."""
        raise LedgerError(
            f"The ledger is not downgraded (asked for {to_revision}).",
            hint="Restore a copy made before the upgrade, or point [pretrain_archive] database_url elsewhere.",
        )

    def drop_tables(self, connection: Any) -> None:
        """Do nothing: ``airflow db reset`` empties Airflow, the ledger outlives it (its own database)."""

    def resetdb(self, skip_init: bool = False, use_migration_files: bool = False) -> None:  # noqa: ARG002
        """Keep every record and bring the ledger to this release."""
        if not skip_init:
            migrate.migrate(config.database_url())
