"""Model registries: what they name is in use, and one that cannot be asked stops the deletions of its projects."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.unit.retention.subjects import policy_with, subject

from pretrain_archive.domain.errors import StorageError
from pretrain_archive.retention.registries import MlflowRegistry, Registered


@pytest.fixture
def server():
    """An HTTP server that speaks MLflow's search of model versions, two to a page."""
    versions: list[dict] = []

    class Handler(BaseHTTPRequestHandler):
        answer: bytes | None = None

        def do_GET(self) -> None:
            made.asked.append(self.headers["Authorization"])
            parts = urlsplit(self.path)
            assert parts.path == "/api/2.0/mlflow/model-versions/search"
            start = int(parse_qs(parts.query).get("page_token", ["0"])[0])
            page = {"model_versions": versions[start : start + 2]}
            if start + 2 < len(versions):
                page["next_page_token"] = str(start + 2)
            body = Handler.answer if Handler.answer is not None else json.dumps(page).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            del args

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        made.versions, made.handler, made.asked = versions, Handler, []
        made.url = f"http://127.0.0.1:{made.server_port}"
        yield made
        made.shutdown()
        thread.join()


def version(**fields: object) -> dict:
    """A model version as the registry lists it."""
    return {"name": "model", "version": "1", "tags": [], **fields}


@pytest.mark.case("R03")
def test_what_a_registry_names_is_kept(server):
    """By id in a tag, by address as source, by a path below it, by digest; on whatever page."""
    known = [subject(step, digest=f"sha256:{step:064x}") for step in (100, 200, 300, 400, 500)]
    server.versions += [
        version(tags=[{"key": "pretrain_archive.checkpoint", "value": "checkpoint:ckpt_100"}]),
        version(source="file:///checkpoints/step_200/"),
        version(source="/checkpoints/step_300/model"),
        version(description=known[3].digest),
    ]

    answers = Registered.ask(policy_with(registries=[server.url]))

    assert {} == answers.faults
    assert [True, True, True, True, False] == [answers.keeps(each) is not None for each in known]


@pytest.mark.parametrize(
    ("variables", "header"),
    [
        pytest.param({}, None, id="nobody"),
        pytest.param({"TOKEN": "t"}, "Bearer t", id="a token"),
        pytest.param({"USERNAME": "u", "PASSWORD": "p"}, "Basic dTpw", id="a user"),
    ],
)
def test_credentials_come_from_the_environment(server, monkeypatch, variables, header):
    """As MLflow's own client takes them."""
    for name in ("TOKEN", "USERNAME", "PASSWORD"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(f"MLFLOW_TRACKING_{name}", value)

    assert [] == list(MlflowRegistry(url=server.url).texts())
    assert [header] == server.asked


def test_credentials_in_an_address_are_refused_and_not_repeated():
    """A policy's address is recorded with every fault: it must hold no secret."""
    gap = Registered.ask(policy_with(registries=["http://user:secret@registry"])).gap("demo")

    assert "holds credentials" in gap
    assert "secret" not in gap


@pytest.mark.case("R03")
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"not json", id="no JSON"),
        pytest.param(b"[]", id="another shape"),
        pytest.param(b'{"model_versions": 3}', id="no list"),
    ],
)
def test_an_answer_that_is_none_is_a_fault(server, answer):
    """Nothing is concluded from it."""
    server.handler.answer = answer

    with pytest.raises(StorageError, match="cannot be asked"):
        list(MlflowRegistry(url=server.url).texts())


@pytest.mark.case("R03")
@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "ftp://registry", "nowhere"])
def test_a_registry_out_of_reach_stops_its_projects(url):
    """The fault is the project's gap, and no other project's."""
    answers = Registered.ask(policy_with(registries=[url]))

    assert answers.gap("demo")
    assert answers.gap("other") is None
