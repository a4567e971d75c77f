"""ro-crate-metadata.json: read by the RO-Crate library, and checked by its validator where that is installed."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.packages import Built


@pytest.mark.requirement("R144", "R146")
def test_crate_describes_every_file(built: Built) -> None:
    """Each listed file is an entity with its true size and digest; none is invented."""
    graph = json.loads((built.folder / "ro-crate-metadata.json").read_bytes())["@graph"]
    entities = {entity["@id"]: entity for entity in graph}
    files = {name: entity for name, entity in entities.items() if entity["@type"] == "File"}
    manifest = json.loads((built.folder / "manifest.json").read_bytes())

    assert len(graph) == len(entities)
    listed = {entry["path"] for entry in manifest["files"]} - {"ro-crate-metadata.json"}
    assert listed == set(files)
    for name, entity in files.items():
        data = (built.folder / name).read_bytes()
        assert (str(len(data)), hashlib.sha256(data).hexdigest()) == (entity["contentSize"], entity["sha256"])


def test_every_reference_resolves(built: Built) -> None:
    """No entity points to one that is not there."""
    document = json.loads((built.folder / "ro-crate-metadata.json").read_bytes())
    known = {entity["@id"] for entity in document["@graph"]} | {"https://w3id.org/ro/crate/1.2"}
    dangling = []

    def walk(value: object, where: str) -> None:
        if isinstance(value, dict):
            if (
                value.keys() == {"@id"}
                and value["@id"] not in known
                and not value["@id"].startswith("http://schema")
            ):
                dangling.append((where, value["@id"]))
            for name, inner in value.items():
                walk(inner, name)
        elif isinstance(value, list):
            for inner in value:
                walk(inner, where)

    walk(document["@graph"], "")
    assert [] == dangling


def test_attempts_are_actions_with_their_results(built: Built) -> None:
    """Who did what with which data: one action per attempt, failed ones with the error."""
    graph = json.loads((built.folder / "ro-crate-metadata.json").read_bytes())["@graph"]
    actions = {entity["@id"]: entity for entity in graph if entity["@type"] == "CreateAction"}

    assert {"#attempt-1", "#attempt-2"} == set(actions)
    assert "worker was killed (signal 9)" == actions["#attempt-1"]["error"]
    assert actions["#attempt-2"]["actionStatus"].endswith("CompletedActionStatus")
    assert 2 == len(actions["#attempt-1"]["result"])
    assert 3 == len(actions["#attempt-2"]["result"])
    assert {"@id": "#person-alice"} == actions["#attempt-1"]["agent"]


@pytest.mark.skipif(not importlib.util.find_spec("rocrate"), reason="the rocrate library is not installed")
def test_library_reads_the_crate(built: Built) -> None:
    """The reference implementation finds the same root and parts."""
    from rocrate.rocrate import ROCrate

    crate = ROCrate(built.folder)

    assert f"Training run {built.run_uid}" == crate.root_dataset["name"]
    assert "PSF-2.0" == crate.root_dataset["license"]["name"]
    assert {"index.html", "verify.py"} <= {part.id for part in crate.data_entities}


@pytest.mark.skipif(
    not importlib.util.find_spec("rocrate_validator"), reason="roc-validator is not installed"
)
@pytest.mark.parametrize("profile", ["ro-crate-1.2", "process-run-crate-0.5"])
def test_validator_accepts_the_crate(
    copy: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, profile: str
) -> None:
    """All required checks pass. The context is the one that the library carries: tests use no network.

    The run profile is defined on RO-Crate 1.1, so it is checked on a copy that states that version.
    """
    from rocrate_validator import services
    from rocrate_validator.models import Severity

    serve_contexts(monkeypatch)
    folder = copy()
    if profile.startswith("process"):
        path = folder / "ro-crate-metadata.json"
        path.write_text(
            path.read_text().replace("https://w3id.org/ro/crate/1.2", "https://w3id.org/ro/crate/1.1")
        )
    settings = services.ValidationSettings(
        rocrate_uri=str(folder), profile_identifier=profile, requirement_severity=Severity.REQUIRED
    )

    result = services.validate(settings)

    assert [] == [f"{issue.check.identifier}: {issue.message}" for issue in result.get_issues()]


def serve_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer the validator's requests for a JSON-LD context with the file of the rocrate library."""
    import requests
    import rocrate
    from rdflib.plugins.shared.jsonld import context
    from rocrate_validator.utils.http import HttpRequester

    data = (Path(rocrate.__file__).parent / "data/ro-crate.jsonld").read_bytes()

    def answer(_: object, url: str, **__: object) -> requests.Response:
        response = requests.Response()
        response.status_code, response.url = 200, url
        response._content = data
        response.headers["Content-Type"] = "application/ld+json"
        return response

    monkeypatch.setattr(HttpRequester, "get", answer, raising=False)
    monkeypatch.setattr(HttpRequester, "head", answer, raising=False)
    monkeypatch.setattr(context, "source_to_json", lambda *_, **__: (json.loads(data), None))
