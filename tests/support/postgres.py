"""A private PostgreSQL server for a test session: its own data folder, socket and free port."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

START_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running server; ``url`` is the maintenance database of its superuser."""

    port: int
    user: str
    log: Path

    def url(self, database: str = "postgres", *, user: str = "", password: str = "") -> str:
        """A URL for SQLAlchemy and libpq alike."""
        who = user or self.user
        secret = f":{password}" if password else ""
        return f"postgresql://{who}{secret}@127.0.0.1:{self.port}/{database}"

    def execute(self, *statements: str, database: str = "postgres") -> None:
        """Run statements as the superuser, each on its own."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def create_database(self, template: str = "template1") -> str:
        """Create a database and return its name."""
        name = f"t{secrets.token_hex(6)}"
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return name

    def drop_database(self, name: str) -> None:
        """Drop a database with whoever is connected."""
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def binaries() -> Path | None:
    """The folder of PostgreSQL's programs, newest version first, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("postgres")
    return Path(on_path).resolve().parent if on_path else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _unprivileged() -> pwd.struct_passwd | None:
    """The user to run as when we are root, which PostgreSQL refuses."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError("PostgreSQL does not run as root and there is no user postgres or nobody")


@contextlib.contextmanager
def running(programs: Path) -> Iterator[Server]:
    """Start a server, and stop it at the end. Its durability is off: it lives for one session."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    account = _unprivileged()
    if account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)
    ids = {} if account is None else {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    log = folder / "log"
    user = "tester"
    process: subprocess.Popen[bytes] | None = None
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(folder)}
    try:
        subprocess.run(
            [programs / "initdb", "-D", folder / "data", "-U", user, "-A", "trust", "-E", "UTF8", "-N"],
            check=True,
            capture_output=True,
            env=environment,
            cwd=folder,
            **ids,
        )
        port = _free_port()
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": str(folder), "fsync": "off"}
        arguments = [item for name, value in settings.items() for item in ("-c", f"{name}={value}")]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [programs / "postgres", "-D", folder / "data", "-p", str(port), *arguments],
                stdout=output,
                stderr=output,
                env=environment,
                cwd=folder,
                **ids,
            )
        server = Server(port=port, user=user, log=log)
        _wait(server, process)
        yield server
    finally:
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGINT)  # fast shutdown
            process.wait(timeout=START_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(server: Server, process: subprocess.Popen[bytes]) -> None:
    """Wait until the server answers, or say why it does not."""
    import time

    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(server.url(), connect_timeout=2).close()
        except psycopg.OperationalError as problem:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{server.log.read_text()}") from problem
            time.sleep(0.05)  # between two looks at the condition
        else:
            return


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A server for the session; skipped only where none is installed and this is not CI."""
    programs = binaries()
    if programs is None:
        message = "PostgreSQL is not installed (looked in /usr/lib/postgresql/*/bin and PATH)"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with running(programs) as server:
        yield server
