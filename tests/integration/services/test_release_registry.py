"""A release is one version in a real MLflow registry, however often and from wherever it is exported."""

from __future__ import annotations

import dataclasses
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.support.artifact_run import ACTOR, Run
from tests.support.mlflow_server import LossyWire, call, free_port, mlflow_url, versions
from tests.support.released import TERMS, released_run

from pretrain_archive.artifacts.export_mlflow import (
    DIGEST,
    RUN,
    Access,
    MlflowRegistry,
    RegistryUnavailableError,
)
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import ArchiveError, RefusedError
from pretrain_archive.domain.identity import Ref
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.model_life import Told, find_life, record_fact
from pretrain_archive.services.releasing import Releasing, entry_of, export_release, still_listed

__all__ = ["mlflow_url"]

pytestmark = [pytest.mark.requirement("R109", "R113", "R115"), pytest.mark.case("A05")]


@pytest.fixture
def run(tmp_path) -> Run:
    """A released and closed run; the model has a name of its own."""
    made = released_run(tmp_path)
    made.close()
    return made


def name_of(run: Run) -> str:
    """The registered model's name."""
    return load_run(run.ledger, run.uid).latest(kinds.ReleaseMade).name


def export(run: Run, url: str, *, timeout: float = 60):
    """A try of its own, with a connection of its own to the ledger."""
    ledger = open_ledger(f"sqlite:///{run.folder.parent / 'ledger.db'}", signing_key=None, anchors=())
    caller = Caller(origin=run.origin(), actor=ACTOR)
    registry = MlflowRegistry(url, timeout=timeout)
    return export_release(ledger, caller, run.uid, Releasing(registry=registry))


def facts(run: Run, model: type[kinds.Payload]) -> list:
    """What is recorded of a kind."""
    return [fact for _, fact in load_run(run.ledger, run.uid).all(model)]


def test_the_version_leads_back_to_the_archive(run, mlflow_url):
    """Tags name run, checkpoint, data, configuration, evaluation, limits, and where the bytes are."""
    told = export(run, mlflow_url)

    [row] = versions(mlflow_url, name_of(run))
    tags = {tag["key"].removeprefix("pretrain_archive."): tag["value"] for tag in row["tags"]}
    fact = facts(run, kinds.CheckpointRegistered)[-1]
    assert (row["version"], False) == (told.version, told.found)
    assert (run.uid, fact.digest, "stdlib@1", fact.location, "unsigned", "short context") == (
        tags["run"], tags["checkpoint_digest"], tags["snapshot"], tags["location"], tags["signature"],
        tags["known_limits"],
    )  # fmt: skip
    assert tags["evaluation"].startswith("passed on validation")
    entry = Ref(type="registry", id=f"{mlflow_url}/{row['name']}", version=row["version"])
    trace = run.ledger.trace(entry, direction="backward")
    assert {"release", "candidate", "checkpoint", "snapshot", "configuration"} <= {
        ref.type for ref in trace.nodes
    }


def test_a_retry_finds_the_version(run, mlflow_url):
    """Exported again: the record answers; without the record the registry's tags do."""
    first = export(run, mlflow_url)
    again = export(run, mlflow_url)
    entry = entry_of(load_run(run.ledger, run.uid), facts(run, kinds.ReleaseMade)[0])
    found = MlflowRegistry(mlflow_url).register(entry)

    assert first == again
    assert (first.version, True) == (found.version, found.found)
    assert 1 == len(versions(mlflow_url, name_of(run)))
    assert 1 == len(facts(run, kinds.ReleaseExported))


def test_an_answer_that_is_lost_makes_no_second_version(run, mlflow_url):
    """The registry stores the version and the connection ends: the same try finds it."""
    with LossyWire(mlflow_url, lose=1) as wire:
        told = export(run, wire.url)

    assert isinstance(told, kinds.ReleaseExported)
    assert 1 == wire.created
    assert [told.version] == [row["version"] for row in versions(mlflow_url, name_of(run))]


def test_a_killed_try_makes_no_second_version(run, mlflow_url):
    """A try that ends between the registry's store and our record is completed by the next one."""
    entry = entry_of(load_run(run.ledger, run.uid), facts(run, kinds.ReleaseMade)[0])
    MlflowRegistry(mlflow_url).register(entry)

    with LossyWire(mlflow_url) as wire:
        told = export(run, wire.url)

    assert told.found
    assert 0 == wire.created
    assert 1 == len(versions(mlflow_url, name_of(run)))


@pytest.mark.parametrize(
    "lose", [pytest.param(0, id="answers arrive"), pytest.param(2, id="answers are lost")]
)
def test_parallel_exports_leave_one_version(run, mlflow_url, lose):
    """Four tries pass their look at the same moment and all create: the lowest number stays, everybody links it."""
    found, faults = [], []

    def work(url: str) -> None:
        try:
            found.append(export(run, url))
        except Exception as error:  # noqa: BLE001 - every fault of a thread is the test's
            faults.append(error)

    with LossyWire(mlflow_url, hold=4, lose=lose) as wire:
        threads = [threading.Thread(target=work, args=(wire.url,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert [] == faults
    assert 4 == wire.created
    [row] = versions(mlflow_url, name_of(run))
    assert {row["version"]} == {told.version for told in found}
    assert 1 == len(facts(run, kinds.ReleaseExported))


def test_what_a_person_made_use_of_is_left_and_named(run, mlflow_url):
    """A second version of ours that carries an alias stays; so does a copy that somebody else made."""
    view = load_run(run.ledger, run.uid)
    entry = entry_of(view, facts(run, kinds.ReleaseMade)[0])
    registry = MlflowRegistry(mlflow_url)
    first = registry.register(entry)
    tags = [{"key": key, "value": value} for key, value in entry.tags.items()]
    ours = [*tags, {"key": "pretrain_archive.try", "value": "an earlier try"}]
    numbers = [
        call(mlflow_url, "model-versions/create", name=entry.name, source=source, tags=given)["model_version"][
            "version"
        ]
        for source, given in ((entry.source, ours), (entry.source, ours), ("s3://copies/x", tags))
    ]  # fmt: skip
    call(mlflow_url, "registered-models/alias", name=entry.name, alias="champion", version=numbers[0])

    told = registry.register(entry)

    assert (first.version, (numbers[0], numbers[2])) == (told.version, told.duplicates)
    assert [first.version, numbers[0], numbers[2]] == [r["version"] for r in versions(mlflow_url, entry.name)]


def test_a_version_that_only_carries_our_tags_is_never_the_release(run, mlflow_url):
    """Somebody copied the tags to other bytes before the export: ours is made beside it, and it is named."""
    entry = entry_of(load_run(run.ledger, run.uid), facts(run, kinds.ReleaseMade)[0])
    tags = [{"key": key, "value": value} for key, value in entry.tags.items()]
    call(mlflow_url, "registered-models/create", name=entry.name)
    call(mlflow_url, "model-versions/create", name=entry.name, source="s3://other/bytes", tags=tags)

    told = export(run, mlflow_url)

    assert ("2", False, ["1"]) == (told.version, told.found, told.duplicates)
    sources = {row["version"]: row["source"] for row in versions(mlflow_url, entry.name)}
    assert {"1": "s3://other/bytes", "2": entry.source} == sources


def test_versions_of_the_name_that_people_made_are_left_alone(run, mlflow_url):
    """Without our tags they are other models; none is taken for the release and none is removed."""
    name = name_of(run)
    call(mlflow_url, "registered-models/create", name=name)
    for source in ("s3://by/hand", "s3://by/hand"):
        call(mlflow_url, "model-versions/create", name=name, source=source)

    told = export(run, mlflow_url)

    assert ("3", []) == (told.version, told.duplicates)
    assert ["1", "2", "3"] == [row["version"] for row in versions(mlflow_url, name)]


def test_a_version_that_was_removed_there_is_not_made_again(run, mlflow_url):
    """A person removed it: a retried close keeps the record, and whoever asks is told."""
    told = export(run, mlflow_url)
    registry = MlflowRegistry(mlflow_url)
    assert still_listed(run.ledger, run.uid, registry, told)
    entry = entry_of(load_run(run.ledger, run.uid), facts(run, kinds.ReleaseMade)[0])
    registry._call("DELETE", "model-versions/delete", {"name": entry.name, "version": told.version})

    assert told == export(run, mlflow_url)
    assert not still_listed(run.ledger, run.uid, registry, told)
    assert [] == versions(mlflow_url, entry.name)


def test_only_what_was_handed_over_is_exported(tmp_path):
    """A release whose close failed is neither signed nor packaged: no registry gets it."""
    run = released_run(tmp_path)

    with pytest.raises(RefusedError, match="not closed"):
        export(run, f"http://127.0.0.1:{free_port()}")
    assert [] == facts(run, kinds.ReleaseExportPending)


def test_a_release_that_the_gate_took_back_is_exported_nowhere(tmp_path):
    """The newest decision says continue: the recorded release was never handed over."""
    run = released_run(tmp_path)
    run.decide(outcome="continue")

    assert export(run, f"http://127.0.0.1:{free_port()}") is None


@pytest.mark.parametrize("end", ["taken_down", "retired"])
def test_a_model_at_its_end_is_registered_nowhere(run, end):
    """A pending registration is not caught up after the model was taken down."""
    name = f"{name_of(run)}@{TERMS['version']}"
    told = Told(kind=f"model.{end}", text="it leaks", person="bob", authentication="test")
    record_fact(run.ledger, find_life(run.ledger, name), told, origin=run.origin())

    with pytest.raises(RefusedError, match=end.replace("_", " ")):
        export(run, f"http://127.0.0.1:{free_port()}")


def test_another_release_of_the_name_is_another_version(run, mlflow_url):
    """Only run and checkpoint together are the same release."""
    entry = entry_of(load_run(run.ledger, run.uid), facts(run, kinds.ReleaseMade)[0])
    other = dataclasses.replace(entry, tags={**entry.tags, "pretrain_archive.run": "run_other"})
    made = [MlflowRegistry(mlflow_url).register(e) for e in (entry, other, entry)]

    assert ["1", "2", "1"] == [m.version for m in made]


def test_a_registry_that_is_down_is_recorded_and_tried_again(run, mlflow_url):
    """Pending with the reason, once for the same reason; registered when it is back."""
    address = f"http://127.0.0.1:{free_port()}"
    told = [export(run, address) for _ in range(2)]

    assert "does not answer" in told[0].reason
    assert told[0] == told[1]
    assert 1 == len(facts(run, kinds.ReleaseExportPending))
    assert isinstance(export(run, mlflow_url), kinds.ReleaseExported)


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


ROWS = json.dumps({
    "model_versions": [
        5, {"tags": 5}, {"tags": ["x", {"key": 1}]},
        {"name": "NAME", "version": "9" * 5000, "tags": [{"key": k, "value": k} for k in (RUN, DIGEST)]},
    ]
})  # fmt: skip


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
