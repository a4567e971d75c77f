"""Connections to the ledger's database: settings that make commits durable, locks, and clear errors.

SQLite before 3.51.3 can corrupt a WAL file with several writers (https://sqlite.org/wal.html, "the WAL-reset
bug"): there a rollback journal is used, with ``synchronous=EXTRA`` so that the removal of the journal is
durable too. No memory map: a fault of the disk must be an error and never a signal.
"""

from __future__ import annotations

import functools
import os
import random
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from pretrain_archive.domain.errors import InputError, LedgerError, LedgerUnavailableError

BUSY_SECONDS = 30.0
CONNECT_SECONDS = 10
APPEND_LOCK = 0x7072_6574_7261_696E  # "pretrain" in ASCII: any constant of our own serves
SEAL_LOCK = APPEND_LOCK + 1
WAL_SAFE = (3, 51, 3)
_RETRIES = 6
_RETRY_STATES = {"40001", "40P01", "55P03"}  # serialization failure, deadlock, lock not available
_FULL = ("full", "No space left")

Result = TypeVar("Result")


@functools.lru_cache(maxsize=512)
def _pyformat(sql: str) -> str:
    """The same statement in the placeholder style of psycopg."""
    return sql.replace("%", "%%").replace("?", "%s")


class Session:
    """One transaction on a DBAPI connection. Statements use ``?`` on both databases.

    The append path goes without SQLAlchemy's statement layer: its cost per statement is of the order of
    the commit itself.
    """

    def __init__(self, connection: Any, *, postgres: bool) -> None:
        self._cursor = connection.cursor()
        self.postgres = postgres

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Execute a statement without a result."""
        self._cursor.execute(_pyformat(sql) if self.postgres else sql, tuple(parameters))

    def all(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute and return all rows."""
        self.run(sql, parameters)
        rows: list[tuple[Any, ...]] = self._cursor.fetchall()
        return rows

    def one(self, sql: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """Execute and return the first row, or None."""
        self.run(sql, parameters)
        row: tuple[Any, ...] | None = self._cursor.fetchone()
        return row

    def many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Execute once per row."""
        if rows:
            self._cursor.executemany(_pyformat(sql) if self.postgres else sql, rows)


class Database:
    """The ledger's database: transactions, locks and errors that name the connection without password.

    Without ``create`` connecting to a SQLite file that is not there fails and makes none.
    """

    def __init__(self, url: str, *, create: bool = True) -> None:
        self.engine = make_engine(url)
        path = sqlite_path(self.engine)
        if path is not None and not create:
            event.listen(self.engine, "do_connect", functools.partial(_require_file, path))
        self.name = self.engine.url.render_as_string(hide_password=True)
        self.postgres = self.engine.dialect.name == "postgresql"

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Session]:
        """One transaction; ``write`` takes the append lock first. Driver errors pass unchanged."""
        pooled = self.engine.raw_connection()
        try:
            session = Session(pooled, postgres=self.postgres)
            if not self.postgres:
                session.run("BEGIN IMMEDIATE" if write else "BEGIN")
            elif write:
                session.run("SELECT pg_advisory_xact_lock(?)", (APPEND_LOCK,))
            yield session
            pooled.commit()
        except BaseException as problem:
            if isinstance(problem, self._driver_error()):
                pooled.invalidate(problem)
            else:
                pooled.rollback()
            raise
        finally:
            pooled.close()

    def _driver_error(self) -> type[Exception]:
        error: type[Exception] = self.engine.dialect.dbapi.Error  # type: ignore[union-attr]
        return error

    def attempt(self, work: Callable[[], Result], *, needs: Callable[[], int] = int) -> Result:
        """Run ``work``, again where the database asks for it, and translate what remains.

        ``work`` must be safe to repeat after a commit whose answer was lost. ``needs`` gives the
        number of bytes it writes, for the message when the disk is full.
        """
        for left in range(_RETRIES, -1, -1):
            try:
                return work()
            except (DBAPIError, self._driver_error()) as problem:
                cause = problem.orig if isinstance(problem, DBAPIError) and problem.orig else problem
                if not left or not _is_transient(cause):
                    raise self._translated(cause, needs()) from problem
                time.sleep(random.uniform(0.01, 0.05) * 2 ** (_RETRIES - left))  # noqa: S311 - only spreads retries
        raise AssertionError  # the loop returns or raises

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Translate driver errors of a block that is not repeated."""
        try:
            yield
        except (DBAPIError, self._driver_error()) as problem:
            cause = problem.orig if isinstance(problem, DBAPIError) and problem.orig else problem
            raise self._translated(cause, 0) from problem

    def _translated(self, problem: BaseException, needs: int) -> LedgerError:
        state = getattr(problem, "sqlstate", None) or ""
        text = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
        if "no such table" in text or state == "42P01":
            return LedgerError(
                f"The ledger's tables are missing in {self.name}.",
                hint="Run 'airflow db migrate' or 'pretrain-archive ledger migrate'.",
            )
        if any(word in text for word in _FULL):
            return LedgerUnavailableError(
                f"The disk of {self.name} is full; {needs} bytes were to be written and nothing was.",
                hint="Free space and try again.",
            )
        if "append-only" in text or "constraint" in text or state[:2] in {"23", "42"}:
            return LedgerError(f"The database {self.name} refused the write: {text}.")
        return LedgerUnavailableError(
            f"The ledger's database {self.name} cannot be used: {text}.",
            hint="Check [pretrain_archive] database_url and that the server is up; the step can be retried.",
        )


def _is_transient(problem: BaseException) -> bool:
    """Whether the same work may succeed at once: busy, serialization failure, or a lost connection."""
    if isinstance(problem, sqlite3.Error):
        return getattr(problem, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
    state = getattr(problem, "sqlstate", None)
    if state is not None:
        return state in _RETRY_STATES or state[:3] == "57P"  # 57P: server shut down or crashed
    # A connection that was never made has no state either; asking again a few times costs a second.
    return type(problem).__name__ in {"OperationalError", "InterfaceError"}


def make_engine(url: str) -> Engine:
    """An engine for ``url`` (SQLite or PostgreSQL through psycopg 3), safe across ``fork``."""
    try:
        parsed = make_url(url)
    except ArgumentError as problem:
        raise InputError("database_url", "(hidden)", "is not a database URL") from problem
    if parsed.drivername in {"postgresql", "postgres"}:
        parsed = parsed.set(drivername="postgresql+psycopg")
    try:
        if parsed.get_backend_name() == "sqlite":
            engine = create_engine(parsed, connect_args={"timeout": BUSY_SECONDS})
            event.listen(engine, "connect", _prepare_sqlite)
        else:
            engine = create_engine(
                parsed,
                pool_pre_ping=True,
                pool_size=2,
                max_overflow=8,
                # What is read under the lock must be what is committed now, whatever the server's default.
                isolation_level="READ COMMITTED",
                connect_args={"connect_timeout": CONNECT_SECONDS},
            )
            event.listen(engine, "connect", _prepare_postgres)
    except (NoSuchModuleError, ImportError) as problem:
        raise InputError("database_url", parsed.drivername, "names an unknown database") from problem
    if engine.dialect.name not in {"sqlite", "postgresql"}:
        raise InputError("database_url", parsed.drivername, "must be sqlite or postgresql")
    _forget_after_fork(engine)
    return engine


def _require_file(path: Path, *_: Any) -> None:
    if not path.exists():
        raise sqlite3.OperationalError(f"there is no file {path}")


def _prepare_sqlite(connection: sqlite3.Connection, _: Any) -> None:
    connection.isolation_level = None
    if sqlite3.sqlite_version_info >= WAL_SAFE:
        connection.execute("PRAGMA journal_mode=WAL").fetchall()
        connection.execute("PRAGMA synchronous=FULL")
    else:
        connection.execute("PRAGMA journal_mode=DELETE").fetchall()
        connection.execute("PRAGMA synchronous=EXTRA")
    connection.execute("PRAGMA mmap_size=0").fetchall()


def _prepare_postgres(connection: Any, _: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = {int(BUSY_SECONDS * 1000)}")
    connection.commit()


def _forget_after_fork(engine: Engine) -> None:
    """A child must never speak on its parent's connections."""
    reference = weakref.ref(engine)

    def forget() -> None:
        alive = reference()
        if alive is not None:
            alive.dispose(close=False)

    os.register_at_fork(after_in_child=forget)


def sqlite_path(engine: Engine) -> Path | None:
    """The file of a SQLite engine, None for PostgreSQL or a database in memory."""
    name = engine.url.database
    if engine.dialect.name != "sqlite" or not name or name == ":memory:" or name.startswith("file:"):
        return None
    return Path(name)
