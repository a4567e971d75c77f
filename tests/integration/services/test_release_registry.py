"""A release is one version in a real MLflow registry, however often and from wherever it is exported."""

from __future__ import annotations

import dataclasses
import json
import threading

import pytest
from tests.support.artifact_run import ACTOR, Run
from tests.support.mlflow_server import LossyWire, call, free_port, mlflow_url, versions
from tests.support.released import TERMS, released_run

from pretrain_archive.artifacts.export_mlflow import (
    MlflowRegistry,
)
from pretrain_archive.cli import run_command
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import RefusedError
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


def exported_by_command(run, url, monkeypatch, capfd) -> tuple[int, dict]:
    """The exit code and the document of ``release export``."""
    settings = {"DATABASE_URL": f"sqlite:///{run.folder.parent / 'ledger.db'}", "MLFLOW_URL": url}
    for name, value in settings.items():
        monkeypatch.setenv(f"AIRFLOW__PRETRAIN_ARCHIVE__{name}", value)
    code = run_command(["release", "export", run.uid, "--json"])
    return code, json.loads(capfd.readouterr().out)


def test_a_version_that_was_removed_there_is_not_made_again(run, mlflow_url, monkeypatch, capfd):
    """A person removed it: a retried close keeps the record, and whoever asks is told."""
    told = export(run, mlflow_url)
    registry = MlflowRegistry(mlflow_url)
    assert still_listed(run.ledger, run.uid, registry, told)
    code, document = exported_by_command(run, mlflow_url, monkeypatch, capfd)
    assert (0, "registered", told.version) == (code, document["state"], document["version"])
    entry = entry_of(load_run(run.ledger, run.uid), facts(run, kinds.ReleaseMade)[0])
    registry._call("DELETE", "model-versions/delete", {"name": entry.name, "version": told.version})

    assert told == export(run, mlflow_url)
    assert not still_listed(run.ledger, run.uid, registry, told)
    assert [] == versions(mlflow_url, entry.name)
    code, document = exported_by_command(run, mlflow_url, monkeypatch, capfd)
    assert (1, "missing") == (code, document["state"])


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
