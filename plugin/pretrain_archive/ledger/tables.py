"""Tables of the ledger, in a metadata of their own so that they never register with Airflow's.

Stored bytes are the truth; every other column is a copy of what they hold, for look-ups, and is compared with
them by the audit. Texts go through :func:`column_text`, since names are bytes and PostgreSQL has no NUL.
Keys are stored as SHA-256 so that their length never meets the limit of an index.
"""

from __future__ import annotations

import hashlib

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
)

PREFIX = "pretrain_archive_"
VERSION_TABLE = PREFIX + "alembic_version"

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite gives a rowid table only to INTEGER; everywhere else 64 bits are needed.
Big = BigInteger().with_variant(Integer, "sqlite")

record = Table(
    PREFIX + "record",
    metadata,
    Column("position", Big, primary_key=True, autoincrement=False),
    Column("record_id", String, nullable=False, unique=True),
    Column("stream", String, nullable=False),
    Column("sequence", Big, nullable=False),
    Column("kind", String, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("recorded_at", String, nullable=False),
    Column("idempotency_key", LargeBinary, nullable=False, unique=True),
    Column("unique_key", LargeBinary, nullable=True, unique=True),
    Column("leaf", LargeBinary, nullable=False),
    Column("previous", LargeBinary, nullable=False),
    # Last, because long bytes go to overflow pages and nothing before them should.
    Column("stored", LargeBinary, nullable=False),
    UniqueConstraint("stream", "sequence"),
    Index(None, "kind", "position"),
)

run = Table(
    PREFIX + "run",
    metadata,
    Column("run_uid", String, primary_key=True),
    Column("position", Big, nullable=False, unique=True),
    Column("project", String, nullable=False),
    Column("dag_id", String, nullable=False),
    Column("dag_run_id", String, nullable=False),
    Column("submitter", String, nullable=False),
    Column("objective", String, nullable=False),
    Column("opened_at", String, nullable=False),
    Column("search", String, nullable=False),
    Index(None, "dag_id", "dag_run_id"),
)

edge = Table(
    PREFIX + "edge",
    metadata,
    Column("position", Big, primary_key=True, autoincrement=False),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    Column("subject", String, nullable=False),
    Column("relation", String, nullable=False),
    Column("object", String, nullable=False),
    Column("recorded_at", String, nullable=False),
    # Both ways, with the other end in the index: a trace reads the next node without visiting the table.
    Index(None, "subject", "object"),
    Index(None, "object", "subject"),
)

node = Table(
    PREFIX + "node",
    metadata,
    # Root over 256**level leaves: few rows, and any root or proof needs only a handful of reads.
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("number", Big, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, nullable=False),
)

checkpoint = Table(
    PREFIX + "checkpoint",
    metadata,
    Column("number", Big, primary_key=True, autoincrement=False),
    Column("size", Big, nullable=False),
    Column("root", String, nullable=False),
    Column("signed_at", String, nullable=False),
    Column("note", String, nullable=False),
)

APPEND_ONLY = (record, run, edge, node, checkpoint)
"""The tables on which the database refuses UPDATE and DELETE."""


def column_text(value: str) -> str:
    """Return ``value`` as a text every database holds; different values stay different.

    Only NUL, which PostgreSQL refuses, and the backslash that escapes it are rewritten.
    """
    return value.replace("\\", "\\\\").replace("\0", "\\0")


def from_column(text: str) -> str:
    """Undo :func:`column_text`."""
    if "\\" not in text:
        return text
    return "\\".join(part.replace("\\0", "\0") for part in text.split("\\\\"))


def key_hash(key: str) -> bytes:
    """The SHA-256 under which an idempotency or unique key is stored."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
