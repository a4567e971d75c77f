"""A real MLflow tracking server on SQLite, a process of its own, and a wire that loses answers."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

MLFLOW = Path(__file__).parents[2] / ".venv-peers" / "bin" / "mlflow"
START_SECONDS = 180


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def mlflow_server(folder: Path) -> Iterator[str]:
    """Run ``mlflow server`` in ``folder`` and give its address; it is gone afterwards with all its workers."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [
        str(MLFLOW), "server", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination",
        str(folder / "artifacts"), "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
    ]  # fmt: skip
    # No telemetry, and no processes for jobs that a registry has none of.
    quiet = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, env=quiet, start_new_session=True
        )
    try:
        _wait(process, port, folder)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)


def _wait(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        told = (folder / "server.log").read_text(errors="replace")[-2000:]
        assert process.poll() is None, f"the server ended: {told}"
        assert time.monotonic() < deadline, f"the server never answered: {told}"
        time.sleep(0.2)


@pytest.fixture(scope="session")
def mlflow_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that the session shares; tests use model names of their own."""
    assert MLFLOW.exists(), "the registry that tests talk to is installed by: make peers"
    with mlflow_server(tmp_path_factory.mktemp("mlflow")) as url:
        yield url


def versions(url: str, name: str) -> list[dict[str, Any]]:
    """What the registry itself lists of a model, lowest number first."""
    query = urllib.parse.urlencode({"filter": f"name='{name}'"})
    with urllib.request.urlopen(f"{url}/api/2.0/mlflow/model-versions/search?{query}") as answer:
        rows = json.load(answer).get("model_versions", [])
    return sorted(rows, key=lambda row: int(row["version"]))


def call(url: str, path: str, **fields: Any) -> dict[str, Any]:
    """One POST of the registry's own interface, as anybody may send it."""
    request = urllib.request.Request(
        f"{url}/api/2.0/mlflow/{path}", data=json.dumps(fields).encode(), method="POST",
        headers={"Content-Type": "application/json"},
    )  # fmt: skip
    with urllib.request.urlopen(request) as answer:
        return dict(json.load(answer))


class LossyWire:
    """A proxy before the registry that hands requests on and loses some answers.

    ``lose`` is how many answers to a creation of a version are still to be lost: the connection ends after the
    registry has stored it. ``hold`` lets creations pass only once so many of them are waiting.
    """

    def __init__(self, target: str, *, lose: int = 0, hold: int = 0) -> None:
        self.created = 0
        self._lose = lose
        self._gate = threading.Barrier(hold) if hold else None
        wire = self

        class Handler(http.server.BaseHTTPRequestHandler):
            """Hands on what it gets."""

            def _pass(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                create = self.path.endswith("/model-versions/create")
                if create and wire._gate is not None:
                    wire._gate.wait(60)
                onward = http.client.HTTPConnection(urllib.parse.urlsplit(target).netloc, timeout=60)
                head = {"Content-Type": "application/json"}
                onward.request(self.command, self.path, body=body or None, headers=head)
                answer = onward.getresponse()
                data = answer.read()
                if create:
                    wire.created += 1
                    if wire._lose:
                        wire._lose -= 1
                        self.connection.shutdown(socket.SHUT_RDWR)
                        self.close_connection = True
                        return
                self.send_response(answer.status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = _pass  # noqa: N815 - names of the standard library

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where the wire begins."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
