"""A private Airflow: `airflow standalone` in a folder of its own, on free ports, with users of its own.

Used by ``make up``, ``make demo`` and the end-to-end tests. SQLite, LocalExecutor and SimpleAuthManager: good
for one machine and one user, no deployment (docker/compose.yaml is that).
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import processes
from airflow_client import AirflowClient, AirflowFailedError, tail, wait_for

USERS: Mapping[str, str] = {"alice": "user", "bob": "user", "carol": "viewer", "admin": "admin"}
"""Who exists and in which of SimpleAuthManager's roles: alice submits, bob approves, carol reads."""

HEALTH_SECONDS = 240.0
"""A cold start takes 25 s on an idle machine; a loaded one is granted ten times as much."""

AUTH_MANAGER = "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"


def clean_environment() -> dict[str, str]:
    """The environment of this process without settings of another Airflow or of Python's start."""
    dropped = ("AIRFLOW_", "PRETRAIN_ARCHIVE_", "_AIRFLOW")
    names = {"PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV"}
    return {k: v for k, v in os.environ.items() if not k.startswith(dropped) and k not in names}


def common_options(
    *, url: str, dags_folder: Path, users: Mapping[str, str], passwords: Path
) -> dict[str, str]:
    """The Airflow settings that every local installation shares, as environment variables."""
    options = {
        "CORE__PARALLELISM": "4",
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__DAGS_FOLDER": str(dags_folder),
        "CORE__AUTH_MANAGER": AUTH_MANAGER,
        "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{n}:{r}" for n, r in users.items()),
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "API__HOST": "127.0.0.1",
        "API__PORT": url.rpartition(":")[2],
        "API__BASE_URL": url,
        "API__WORKERS": "1",
        "DAG_PROCESSOR__REFRESH_INTERVAL": "10",
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "30",
        "DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "LOGGING__WORKER_LOG_SERVER_PORT": str(processes.free_port()),
        "LOGGING__TRIGGER_LOG_SERVER_PORT": str(processes.free_port()),
    }
    return {f"AIRFLOW__{name}": value for name, value in options.items()}


def archive_options(home: Path, *, dags_folder: Path) -> dict[str, str]:
    """The settings of ``[pretrain_archive]`` for one machine, as environment variables: its own defaults.

    They are named so that the command line finds them without loading Airflow.
    """
    folder = home / "pretrain_archive"
    options = {
        "DATABASE_URL": f"sqlite:///{folder / 'ledger.db'}",
        "SIGNING_KEY": str(folder / "ledger.key"),
        "PUBLIC_KEYS": str(folder / "ledger.pub"),
        "ANCHORS": (folder / "anchors").as_uri(),
        "STORE_URL": (folder / "store").as_uri(),
        "WORK_FOLDER": str(folder / "work"),
        "POLICIES_FOLDER": str(dags_folder / "policies"),
        "LANGUAGE": "en",
    }
    return {f"AIRFLOW__PRETRAIN_ARCHIVE__{name}": value for name, value in options.items()}


def write_passwords(path: Path, users: Mapping[str, str]) -> dict[str, str]:
    """Write a random password per user where SimpleAuthManager reads them; known ones are kept."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    passwords = {name: str(kept.get(name) or secrets.token_urlsafe(12)) for name in users}
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        json.dump(passwords, stream)
    return passwords


class PrivateAirflow(AirflowClient):
    """One private installation and a client of it; a context manager that starts and stops it.

    ``home`` is AIRFLOW_HOME and must be new or from an earlier private start. ``users`` maps names to roles
    of SimpleAuthManager and must hold an ``admin``. ``env`` is added to the environment of every process and
    wins over the defaults; ``python`` is the interpreter of the environment that has Airflow.
    """

    def __init__(
        self,
        home: Path | str,
        *,
        dags_folder: Path | str,
        users: Mapping[str, str] = USERS,
        env: Mapping[str, str] | None = None,
        python: str = sys.executable,
    ) -> None:
        self.home = Path(home).resolve()
        self.dags_folder = Path(dags_folder).resolve()
        self.users = dict(users)
        self.python = python
        self.log_file = self.home / "airflow.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._first_pid: int | None = None
        self._restarted: list[int] = []
        self._extra = dict(env or {})
        self._options: dict[str, str] = {}
        super().__init__("", passwords={}, scheduler_log=self.log_file)

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *_error: object) -> None:
        """Stop."""
        self.stop()

    def environment(self) -> dict[str, str]:
        """The environment of every process of the installation; also right for ``airflow`` commands."""
        environment = {**clean_environment(), **self._options}
        environment.update(archive_options(self.home, dags_folder=self.dags_folder))
        environment["AIRFLOW__CORE__EXECUTOR"] = "LocalExecutor"
        environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{self.home / 'airflow.db'}"
        environment["AIRFLOW_HOME"] = str(self.home)
        environment["PATH"] = os.pathsep.join([str(Path(self.python).parent), environment.get("PATH", "")])
        environment["NO_COLOR"] = "1"
        environment["PYTHONUNBUFFERED"] = "1"
        environment.update(self._extra)
        return environment

    def start(self, *, timeout: float = HEALTH_SECONDS) -> Self:
        """Start every component and return when all report healthy; on failure nothing is left running."""
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._configure(processes.free_port())
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [self.python, "-m", "airflow", "standalone"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment(),
                cwd=self.home,
                start_new_session=True,
            )
        self._first_pid = self.process.pid
        try:
            wait_for("a healthy Airflow", self._healthy, timeout=timeout)
        except BaseException as error:
            self.stop()
            if isinstance(error, AirflowFailedError):
                raise AirflowFailedError(f"{error}\n{tail(self.log_file)}") from None
            raise
        return self

    def attach(self, *, port: int, pid: int) -> Self:
        """Use the installation that another process started in ``home``: its port and first process."""
        self._configure(port)
        self._first_pid = pid
        return self

    @property
    def first_pid(self) -> int | None:
        """The process id of the installation's first process, or None before the start."""
        return self._first_pid

    def family(self) -> list[int]:
        """The ids of all living processes of the installation, jobs of its tasks among them."""
        return sorted(p.pid for p in processes.family(self._first_pid, self.home))

    def restart(self, component: str) -> None:
        """Start a component (``scheduler``, ``triggerer``) again that was killed; it ends with all the others."""
        with self.log_file.open("ab") as log:
            again = subprocess.Popen(
                [self.python, "-m", "airflow", component],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=self.environment(), cwd=self.home,
                start_new_session=True,
            )  # fmt: skip
        self._restarted.append(again.pid)

    def stop(self) -> None:
        """End every process; :class:`AirflowFailedError` names any that the system would not end."""
        left = processes.end(self._first_pid, self.home)
        for session in self._restarted:  # workers of a scheduler that was killed again hide their environment
            left += processes.end(session, self.home)
        if self.process is not None:
            self.process.wait(timeout=10)
        if left:
            raise AirflowFailedError(f"processes that would not end: {'; '.join(left)}")

    def _configure(self, port: int) -> None:
        file = self.home / "passwords.json"
        self.url = f"http://127.0.0.1:{port}"
        self.passwords = write_passwords(file, self.users)
        self._options = common_options(
            url=self.url, dags_folder=self.dags_folder, users=self.users, passwords=file
        )

    def _healthy(self) -> bool:
        if self.process is not None and self.process.poll() is not None:
            raise AirflowFailedError(f"airflow standalone ended with exit status {self.process.returncode}")
        return self.healthy()
