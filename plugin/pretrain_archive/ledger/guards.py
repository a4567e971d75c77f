"""The triggers by which the database itself refuses to change the log, and whether they are all there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pretrain_archive.ledger.engine import Session
from pretrain_archive.ledger.port import Finding
from pretrain_archive.ledger.tables import APPEND_ONLY, PREFIX

_ACTS = ("no_update", "no_delete", "no_replace")
_SQLITE = "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger'"
_POSTGRES = (
    "SELECT t.tgname, c.relname, t.tgenabled::text, p.prosrc FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
    "JOIN pg_proc p ON p.oid = t.tgfoid WHERE c.oid = to_regclass(?)"
)


def missing_guards(session: Session) -> list[Finding]:
    """A finding for every table whose rows the database would let its users change or delete."""
    return list(_on_postgres(session) if session.postgres else _on_sqlite(session))


def _on_sqlite(session: Session) -> Iterator[Finding]:
    refusing = {
        (str(table), str(name)) for name, table, sql in session.all(_SQLITE) if "RAISE(ABORT" in str(sql)
    }
    for table in APPEND_ONLY:
        gone = [act for act in _ACTS if (table.name, f"{table.name}_{act}") not in refusing]
        if gone:
            yield _finding(table.name, ", ".join(f"{table.name}_{act}" for act in gone))


def _on_postgres(session: Session) -> Iterator[Finding]:
    for table in APPEND_ONLY:
        name = f"{table.name}_append_only"
        rows: list[tuple[Any, ...]] = session.all(_POSTGRES, (table.name,))
        refusing = [
            found
            for found, _, enabled, source in rows
            if enabled == "A" and "RAISE EXCEPTION" in str(source).upper()
        ]
        if name not in refusing:
            yield _finding(table.name, name)


def _finding(table: str, names: str) -> Finding:
    return Finding(
        record_id=f"table {table.removeprefix(PREFIX)}",
        problem=f"the database does not refuse to change it: the trigger {names} is missing or does nothing",
    )
