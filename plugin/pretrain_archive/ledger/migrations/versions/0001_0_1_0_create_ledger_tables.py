"""Create the ledger's tables and let the database itself refuse every change of a row."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

PREFIX = "pretrain_archive_"
BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")

# What makes a row taken, for SQLite's INSERT OR REPLACE, which removes rows without any delete trigger.
TAKEN = {
    "record": "position = NEW.position OR record_id = NEW.record_id OR idempotency_key = NEW.idempotency_key"
    " OR unique_key = NEW.unique_key OR (stream = NEW.stream AND sequence = NEW.sequence)",
    "run": "run_uid = NEW.run_uid OR position = NEW.position",
    "edge": "position = NEW.position AND ordinal = NEW.ordinal",
    "node": "level = NEW.level AND number = NEW.number",
    "checkpoint": "number = NEW.number",
}


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String(), nullable=False)


def _create_record() -> None:
    name = PREFIX + "record"
    op.create_table(
        name,
        sa.Column("position", BIG, autoincrement=False, nullable=False),
        _text("record_id"),
        _text("stream"),
        sa.Column("sequence", BIG, nullable=False),
        _text("kind"),
        sa.Column("attempt", sa.Integer(), nullable=False),
        _text("recorded_at"),
        sa.Column("idempotency_key", sa.LargeBinary(), nullable=False),
        sa.Column("unique_key", sa.LargeBinary(), nullable=True),
        sa.Column("leaf", sa.LargeBinary(), nullable=False),
        sa.Column("previous", sa.LargeBinary(), nullable=False),
        sa.Column("stored", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("position", name=f"pk_{name}"),
        sa.UniqueConstraint("record_id", name=f"uq_{name}_record_id"),
        sa.UniqueConstraint("idempotency_key", name=f"uq_{name}_idempotency_key"),
        sa.UniqueConstraint("unique_key", name=f"uq_{name}_unique_key"),
        sa.UniqueConstraint("stream", "sequence", name=f"uq_{name}_stream_sequence"),
    )
    op.create_index(f"ix_{name}_kind_position", name, ["kind", "position"])


def _create_run() -> None:
    name = PREFIX + "run"
    op.create_table(
        name,
        _text("run_uid"),
        sa.Column("position", BIG, nullable=False),
        *map(_text, ("project", "dag_id", "dag_run_id", "submitter", "objective", "opened_at", "search")),
        sa.PrimaryKeyConstraint("run_uid", name=f"pk_{name}"),
        sa.UniqueConstraint("position", name=f"uq_{name}_position"),
    )
    op.create_index(f"ix_{name}_dag_id_dag_run_id", name, ["dag_id", "dag_run_id"])


def _create_edge() -> None:
    name = PREFIX + "edge"
    op.create_table(
        name,
        sa.Column("position", BIG, autoincrement=False, nullable=False),
        sa.Column("ordinal", sa.Integer(), autoincrement=False, nullable=False),
        *map(_text, ("subject", "relation", "object", "recorded_at")),
        sa.PrimaryKeyConstraint("position", "ordinal", name=f"pk_{name}"),
    )
    op.create_index(f"ix_{name}_subject_object", name, ["subject", "object"])
    op.create_index(f"ix_{name}_object_subject", name, ["object", "subject"])


def _create_tree() -> None:
    op.create_table(
        PREFIX + "node",
        sa.Column("level", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", BIG, autoincrement=False, nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("level", "number", name=f"pk_{PREFIX}node"),
    )
    op.create_table(
        PREFIX + "checkpoint",
        sa.Column("number", BIG, autoincrement=False, nullable=False),
        sa.Column("size", BIG, nullable=False),
        *map(_text, ("root", "signed_at", "note")),
        sa.PrimaryKeyConstraint("number", name=f"pk_{PREFIX}checkpoint"),
    )


def _refuse_on_sqlite(table: str) -> None:
    name = PREFIX + table
    refuse = f"BEGIN SELECT RAISE(ABORT, '{name} is append-only'); END"
    op.execute(f"CREATE TRIGGER {name}_no_update BEFORE UPDATE ON {name} {refuse}")
    op.execute(f"CREATE TRIGGER {name}_no_delete BEFORE DELETE ON {name} {refuse}")
    op.execute(
        f"CREATE TRIGGER {name}_no_replace BEFORE INSERT ON {name} "  # noqa: S608 - constants only
        f"WHEN EXISTS (SELECT 1 FROM {name} WHERE {TAKEN[table]}) {refuse}"
    )


def _refuse_on_postgresql(table: str) -> None:
    name = PREFIX + table
    op.execute(
        f"CREATE TRIGGER {name}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {name} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {PREFIX}refuse()"
    )
    # Also under session_replication_role = replica, which switches ordinary triggers off.
    op.execute(f"ALTER TABLE {name} ENABLE ALWAYS TRIGGER {name}_append_only")


def upgrade() -> None:
    """Create the tables and their triggers."""
    _create_record()
    _create_run()
    _create_edge()
    _create_tree()
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            f"CREATE FUNCTION {PREFIX}refuse() RETURNS trigger LANGUAGE plpgsql AS $$ "
            "BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege'; "
            "END $$"
        )
    for table in TAKEN:
        if op.get_bind().dialect.name == "postgresql":
            _refuse_on_postgresql(table)
        else:
            _refuse_on_sqlite(table)


def downgrade() -> None:
    """Refuse while there are records: they cannot be made again."""
    if op.get_bind().execute(sa.text(f"SELECT 1 FROM {PREFIX}record LIMIT 1")).first():  # noqa: S608 - constant
        raise RuntimeError(
            "The ledger holds records; a downgrade would destroy them. Keep this database and point "
            "[pretrain_archive] database_url to a new one."
        )
    for table in TAKEN:
        op.drop_table(PREFIX + table)
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"DROP FUNCTION {PREFIX}refuse()")
