"""The bill of materials against the published schema of CycloneDX, and against the records."""

from __future__ import annotations

import json

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from tests.support.released import released_view
from tests.unit.package.test_model_card import edited, without

from pretrain_archive.domain import kinds
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.package.bom import bom_document, write_bom
from pretrain_archive.package.bom_parts import purl

IMAGE = "registry.example/train@sha256:" + "7" * 64


@pytest.fixture(scope="module")
def view(tmp_path_factory) -> RunView:
    """A released run whose worker told its packages."""
    packages = {"torch": "2.13.0+cpu", "Some_Package": "1.0"}
    return released_view(tmp_path_factory.mktemp("released"), packages=packages)


@pytest.fixture(scope="module")
def validator() -> JsonStrictValidator:
    """The published schema of version 1.6."""
    return JsonStrictValidator(SchemaVersion.V1_6)


def with_account(view: RunView, **changes) -> RunView:
    """The run with its release's account changed."""
    made = view.latest(kinds.ReleaseMade)
    account = made.account.model_copy(update=changes)
    return edited(view, kinds.ReleaseMade, account=account.model_dump(mode="json"))


def odd(view: RunView) -> list[pytest.param]:
    """Runs with odd values."""
    dependencies = view.latest(kinds.ReleaseMade).account.dependencies
    more = {"image": IMAGE, "base_model": "org/base", "packages": {"a b": "1/2 ~", "x": ""}}
    return [
        view,
        with_account(view, dependencies=dependencies.model_copy(update=more)),
        edited(view, kinds.ReleaseMade, account=None, applicable=[], known_limits=[], not_applicable=[]),
        edited(view, kinds.ReleaseMade, name="a\nb\x00\udc80", known_limits=["<x>\n"]),
        edited(view, kinds.SourceRegistered, licence="contract: 2026/7 ä", licence_spdx=None),
        without(view, kinds.EvaluationReported),
        without(view, kinds.SnapshotCreated),
        without(view, kinds.SourceRegistered),
        without(view, kinds.ConfigurationDeclared),
    ]


@pytest.mark.requirement("R105", "R112", "R113")
@pytest.mark.parametrize("number", range(9))
def test_it_fits_the_published_schema(view, validator, number):
    """Whole, bare and odd runs alike."""
    data = write_bom(odd(view)[number])["bom.cdx.json"].decode()

    assert None is validator.validate_str(data)


def test_the_schema_finds_a_fault(view, validator):
    """The validation is not blind: a component without a name is refused."""
    document = bom_document(view)
    del document["components"][0]["name"]

    assert validator.validate_str(json.dumps(document)) is not None


def test_every_reference_is_of_a_component(view):
    """Data sets and dependencies point to components that are there, each once."""
    document = bom_document(view)
    known = [part["bom-ref"] for part in document["components"]]
    model = document["metadata"]["component"]
    data = {entry["ref"] for entry in model["modelCard"]["modelParameters"]["datasets"]}

    assert len(known) == len(set(known))
    assert data <= set(known)
    [needs] = document["dependencies"]
    assert model["bom-ref"] == needs["ref"]
    assert set(known) == set(needs["dependsOn"])


@pytest.mark.requirement("R105", "R107", "R110", "R112")
def test_model_data_files_and_dependencies_carry_their_digests(view):
    """Every released file and every snapshot by SHA-256; packages by package URL."""
    document = bom_document(view)
    made = view.latest(kinds.ReleaseMade)
    hashes = {h["content"] for part in document["components"] for h in part.get("hashes", ())}

    assert {file.sha256 for file in made.account.files} <= hashes
    snapshots = {s.manifest_digest.removeprefix("sha256:") for _, s in view.all(kinds.SnapshotCreated)}
    assert snapshots <= hashes
    urls = {part["purl"] for part in document["components"] if "purl" in part}
    assert {"pkg:pypi/torch@2.13.0%2Bcpu", "pkg:pypi/some-package@1.0"} == urls


def test_limits_uses_and_values_stand_in_the_model_card(view):
    """What a person reads in the card a program reads here."""
    card = bom_document(view)["metadata"]["component"]["modelCard"]
    report = view.latest(kinds.EvaluationReported)

    assert ["research"] == card["considerations"]["useCases"]
    assert ["short context"] == card["considerations"]["technicalLimitations"]
    values = {m["type"]: m["value"] for m in card["quantitativeAnalysis"]["performanceMetrics"]}
    told = {m.name: repr(m.value) for m in report.metrics}
    told |= {f"baseline {b.name}: {m.name}": repr(m.value) for b in report.baselines for m in b.metrics}
    assert told == values


def test_gaps_are_named(view):
    """What nobody recorded is a property with its reason."""
    facts = {p["name"]: p["value"] for p in bom_document(view)["metadata"]["component"]["properties"]}

    assert "trained from the beginning" in facts["pretrain-archive:unrecorded:dependencies.base_model"]
    assert facts["pretrain-archive:unrecorded:signature"].startswith("unsigned: ")


def test_the_same_records_give_the_same_bytes(view):
    """A retried close writes the same bill."""
    assert write_bom(view) == write_bom(view)


def test_nothing_without_a_release(view):
    """A run that released nothing has no bill."""
    assert {} == write_bom(without(view, kinds.ReleaseMade))


def test_package_url():
    """Names are normal, versions are encoded."""
    assert "pkg:pypi/a-b@1%2Bx" == purl("A_b", "1+x")
