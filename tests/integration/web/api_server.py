"""Starts Airflow's real API server with our plugin in a home of its own, over a ledger that a test seeded."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.ledger.sql import SqlLedger
from pretrain_archive.storage.files import FileStore

ROOT = Path(__file__).parents[3]
USERS = {"alice": "user", "bob": "user", "carol": "viewer", "dave": "user", "admin": "admin"}
START_SECONDS = 180
PASSWORD = "open sesame"


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class ApiServer:
    """A running API server; ``base`` is its base path, empty or like ``/af``."""

    home: Path
    base: str = ""
    url: str = ""
    process: subprocess.Popen[bytes] | None = None
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def pages(self) -> str:
        """Where our pages stand."""
        return f"{self.url}/pretrain-archive"

    def environment(self, port: int) -> dict[str, str]:
        """Everything the server's processes need; nothing of this process's Airflow."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "PRETRAIN_ARCHIVE"))}
        options: Mapping[str, str] = {
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__DAGS_FOLDER": str(self.home / "dags"),
            "CORE__AUTH_MANAGER": "tests.integration.web.per_dag_auth.PerDagAuthManager",
            "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{n}:{r}" for n, r in USERS.items()),
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.home / "passwords.json"),
            "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home}/airflow.db",
            "API__BASE_URL": self.url,
            "API__HOST": "127.0.0.1",
            "API__PORT": str(port),
            "API__WORKERS": "1",
            "API_AUTH__JWT_SECRET": "a secret of the test only, long enough for sixty-four bytes, here it is",
            "PRETRAIN_ARCHIVE__POLICIES_FOLDER": str(ROOT / "dags" / "policies"),
            "PRETRAIN_ARCHIVE__DATABASE_URL": f"sqlite:///{self.home}/ledger.db",
            "PRETRAIN_ARCHIVE__SIGNING_KEY": str(self.home / "ledger.key"),
            "PRETRAIN_ARCHIVE__STORE_URL": (self.home / "store").as_uri(),
        }
        settings = {f"AIRFLOW__{name}": value for name, value in options.items()}
        return {**kept, **settings, "AIRFLOW_HOME": str(self.home), "PYTHONPATH": str(ROOT)}

    def start(self) -> ApiServer:
        """Migrate a fresh database, start, and wait until the server answers."""
        port = free_port()
        self.url = f"http://127.0.0.1:{port}{self.base}"
        (self.home / "dags").mkdir(parents=True, exist_ok=True)
        (self.home / "passwords.json").write_text(json.dumps(dict.fromkeys(USERS, PASSWORD)))
        environment = self.environment(port)
        with (self.home / "server.log").open("ab") as log:
            for words in (["db", "migrate"], ["api-server", "--apps", "core"]):
                command = [sys.executable, "-m", "airflow", *words]
                if words[0] == "db":
                    subprocess.run(
                        command, env=environment, cwd=self.home, stdout=log, stderr=log, check=True
                    )
                    continue
                self.process = subprocess.Popen(
                    command, env=environment, cwd=self.home, stdout=log, stderr=log, start_new_session=True
                )
        self._wait()
        return self

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process is None or self.process.poll() is not None:
                break
            try:
                if httpx.get(f"{self.url}/api/v2/version", timeout=5).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.3)
        self.stop()
        raise RuntimeError((self.home / "server.log").read_text()[-4000:])

    def stop(self) -> None:
        """End the server and its workers."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait(timeout=10)

    def token(self, name: str) -> str:
        """A real token of a person, from Airflow's own login."""
        if name not in self.tokens:
            answer = httpx.post(
                f"{self.url}/auth/token", json={"username": name, "password": PASSWORD}, timeout=30
            )
            answer.raise_for_status()
            self.tokens[name] = str(answer.json()["access_token"])
        return self.tokens[name]

    def client(self, name: str | None) -> httpx.Client:
        """A client logged in as ``name`` by cookie, as the browser is; None for nobody."""
        cookies = {"_token": self.token(name)} if name else {}
        return httpx.Client(base_url=self.pages, cookies=cookies, timeout=30)


def ledger_in(home: Path) -> SqlLedger:
    """The ledger that the server will read."""
    home.mkdir(parents=True, exist_ok=True)
    return open_ledger(
        f"sqlite:///{home}/ledger.db", signing_key=home / "ledger.key", anchors=[], create=True
    )


def store_in(home: Path) -> FileStore:
    """The store that the server will read."""
    return FileStore(home / "store")
