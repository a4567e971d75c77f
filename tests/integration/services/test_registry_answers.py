"""A registry that misbehaves or means harm: bounded in time, bytes and words, and told nothing that is kept."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.integration.services.test_release_registry import export, facts, run
from tests.support.artifact_run import ACTOR
from tests.support.mlflow_server import free_port

from pretrain_archive.artifacts.export_mlflow import MlflowRegistry
from pretrain_archive.artifacts.mlflow_rest import Access, RegistryUnavailableError
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.gates.service import load_run
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.releasing import Releasing, entry_of, export_release

__all__ = ["run"]

pytestmark = [pytest.mark.requirement("R113"), pytest.mark.case("A05")]


@contextmanager
def answering(answer: Callable[[http.server.BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """A server that gives one answer to everything."""

    class Handler(http.server.BaseHTTPRequestHandler):
        """Answers."""

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer(self)

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - names of the standard library

        def log_message(self, *_) -> None:
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def send(status: int, body: bytes = b"", **head: str) -> Callable[[http.server.BaseHTTPRequestHandler], None]:
    """An answer of that status."""

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **head}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@pytest.mark.parametrize(
    ("answer", "later", "words"),
    [
        pytest.param(send(503), True, "503", id="overloaded"),
        pytest.param(send(429), True, "429", id="throttled"),
        pytest.param(lambda h: h.connection.close(), True, "does not answer", id="ends the connection"),
        pytest.param(send(401, b'{"message": "who are you"}'), False, "401 who are you", id="not allowed"),
        pytest.param(send(302, Location="http://127.0.0.1:1/"), False, "302", id="sends us elsewhere"),
        pytest.param(send(200, b"<html>"), False, "not valid JSON", id="another kind of server"),
        pytest.param(send(200, b"[1]"), False, "no JSON object", id="a list"),
        pytest.param(send(200, b"[" * 100_000), False, "nested too deeply", id="deep"),
        pytest.param(
            send(200, b'{"model_versions": [], "next_page_token": "x"}'),
            False,
            "without end",
            id="endless pages",
        ),
    ],
)
def test_a_registry_that_misbehaves(run, answer, later, words, monkeypatch):
    """Each ends as pending with what was answered; none is a traceback, none carries credentials on."""
    monkeypatch.setattr("pretrain_archive.artifacts.export_mlflow.MOST_PAGES", 3)
    entry = entry_of(load_run(run.ledger, run.uid), facts(run, kinds.ReleaseMade)[0])
    with answering(answer) as url:
        access = Access(token="a secret token")
        registry = MlflowRegistry(url, access=access, timeout=5)
        with pytest.raises(ArchiveError, match=words) as raised:
            registry.register(entry)
        assert later == isinstance(raised.value, RegistryUnavailableError)
        assert "secret" not in f"{raised.value} {registry!r} {access!r}"

        told = export(run, url, timeout=5)
    assert words in told.reason


def echo(handler: http.server.BaseHTTPRequestHandler) -> None:
    """A debugging server: repeats what it was shown."""
    told = json.dumps({"message": f"what is {handler.headers['Authorization']}?\ud800\x1b[2J"}).encode()
    send(400, told)(handler)


def drip(handler: http.server.BaseHTTPRequestHandler) -> None:
    """An answer without end, a byte now and then: no single read ever times out."""
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.1)
    except OSError:
        return


ROWS = json.dumps({"model_versions": [5, {"tags": 5}, {"tags": ["x", {"key": 1}]}, {"version": None}]})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(echo, "what is", id="repeats the credentials"),
        pytest.param(drip, "no whole answer in 2 s", id="drips"),
        pytest.param(send(400, b"[" * 4096), "400", id="deep refusal"),
        pytest.param(send(200, b" " * (17 << 20)), "more than", id="huge"),
        pytest.param(send(200, b"{" + b'"%s": 1,' % (b"k" * 9000) * 2 + b"}"), "not valid JSON", id="long words"),
        pytest.param(send(200, b'{"model_versions": 5}'), "does not list it", id="versions are a number"),
        pytest.param(send(200, b'{"next_page_token": "' + b"x" * 9000 + b'"}'), "without end", id="long token"),
        pytest.param(send(200, ROWS.encode()), "does not list it", id="rows of other forms"),
    ],
)  # fmt: skip
def test_a_registry_that_means_harm(run, answer, words):
    """Bounded in time, bytes and words; credentials that it repeats stand in no record."""
    access = Access(user="archive", password="a secret")
    with answering(answer) as url:
        registry = MlflowRegistry(url, access=access, timeout=2)
        caller = Caller(origin=run.origin(), actor=ACTOR)
        told = export_release(run.ledger, caller, run.uid, Releasing(registry=registry))

    assert isinstance(told, kinds.ReleaseExportPending)
    assert words in told.reason
    assert len(told.reason) < 1000
    assert told.reason.isprintable()
    pair = access.header()["Authorization"].partition(" ")[2]
    assert [] == [secret for secret in ("a secret", pair) if secret in told.reason]


@pytest.mark.parametrize("number", ["9" * 5000, "٣", "-1", "1e3", ""])
def test_a_number_that_is_none_names_no_version(run, number):
    """Tags and source are ours, the number is none that MLflow gives: nothing is linked."""
    entry = entry_of(load_run(run.ledger, run.uid), facts(run, kinds.ReleaseMade)[0])
    tags = [{"key": key, "value": value} for key, value in entry.tags.items()]
    row = {"name": entry.name, "version": number, "source": entry.source, "tags": tags}
    with answering(send(200, json.dumps({"model_versions": [row]}).encode())) as url:
        told = export(run, url, timeout=5)

    assert isinstance(told, kinds.ReleaseExportPending)
    assert "does not list it" in told.reason


@pytest.mark.parametrize("token", ["a\nsecret", "sécret"])
def test_a_token_that_no_header_carries_is_refused_unseen(run, token):
    """The library's own words would repeat it."""
    registry = MlflowRegistry(f"http://127.0.0.1:{free_port()}", access=Access(token=token))
    told = export_release(
        run.ledger, Caller(origin=run.origin(), actor=ACTOR), run.uid, Releasing(registry=registry)
    )

    assert "MLFLOW_TRACKING_TOKEN" in told.reason
    assert "cret" not in told.reason


def test_credentials_are_shown_as_mlflow_s_own_client_shows_them():
    """A token first, else user and password."""
    assert {"Authorization": "Bearer t"} == Access(token="t", user="u").header()
    assert {"Authorization": "Basic dTpw"} == Access(user="u", password="p").header()
    assert {} == Access().header()
