"""Croissant: what is easily said wrong of derived versions, single files, compressed files and narrower terms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.integration.data.test_croissant import ENTRIES, SNAPSHOT, described, record, standing, validated
from tests.support.data_track import ACTOR, origin, write_tree

from pretrain_archive.data.croissant import locate_in
from pretrain_archive.data.manifest import Entry
from pretrain_archive.data.snapshots import create_snapshot
from pretrain_archive.domain.kinds import SourceRegistered
from pretrain_archive.storage.files import FileStore

DERIVED = SNAPSHOT.model_copy(
    update={
        "source_uri": "snapshot:raw@3", "derived_from": "snapshot:raw@3", "rule": "rule:clean@abc",
        "check": "made by the rule",
    }
)  # fmt: skip


def test_a_derived_version_names_its_input_and_its_rule() -> None:
    """What it was made from is told apart from the version before it; nobody who read the source made it."""
    document = described(standing(), snapshot=DERIVED)

    validated(document)
    assert [
        {"@id": "urn:pretrain-archive:snapshot:raw@3"}, {"@id": "urn:pretrain-archive:source:source_x"},
    ] == document["prov:wasDerivedFrom"]  # fmt: skip
    assert {"@id": "urn:pretrain-archive:snapshot:corpus@1"} == document["prov:wasRevisionOf"]
    assert {"@type": "prov:Activity", "prov:label": "rule:clean@abc: made by the rule"} == (
        document["prov:wasGeneratedBy"]
    )
    assert SNAPSHOT.manifest_uri == document["url"]


def test_what_a_recipe_makes_lies_nowhere(tmp_path: Path) -> None:
    """Its address is the recipe: the input holds no such file."""
    made = DERIVED.model_copy(update={"mode": "recipe", "recipe_uri": "s3://bucket/recipes/r.json"})

    assert "s3://bucket/recipes/r.json#a.txt" == locate_in(FileStore(tmp_path), made)(ENTRIES[0])


def test_the_address_of_a_source_that_is_one_file(tmp_path: Path) -> None:
    """It is the file's own, in a folder as in a bucket."""
    place = write_tree(tmp_path / "in", {b"a b.txt": b"one"}) / "a b.txt"
    store = FileStore(tmp_path / "store")
    made = create_snapshot(
        store, None, name="x", source_root=place, mode="reference", actor=ACTOR, origin=origin()
    )
    one = SNAPSHOT.model_copy(update={"mode": "reference", "source_uri": "s3://bucket/raw/a.txt"})
    many = one.model_copy(update={"source_uri": "s3://bucket/raw/"})

    assert place.as_uri() == locate_in(store, made)(Entry(path="a b.txt", size=3, sha256="0"))
    assert "s3://bucket/raw/a.txt?versionId=7" == locate_in(store, one)(replace(ENTRIES[0], version="7"))
    assert "s3://bucket/raw/a.txt" == locate_in(store, many)(ENTRIES[0])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.txt", "text/plain"),
        ("a.csv.gz", "application/gzip"),
        ("a.jsonl", "application/jsonl"),
        ("a.jsonl.zst", "application/zstd"),
        ("a", "application/octet-stream"),
        ("a.txt.Z", "application/octet-stream"),
    ],
)
def test_a_compressed_file_is_no_text(name: str, kind: str) -> None:
    """The media type is that of the bytes that lie there."""
    from pretrain_archive.data import croissant

    entry = Entry(path=name, size=1, sha256="0")
    assert kind == croissant._file(entry, "s3://b/a")["encodingFormat"]


def test_the_creator_is_told_to_be_the_owner() -> None:
    """Who wrote the data is recorded nowhere, and nobody is made its author."""
    [creator] = described(standing())["creator"]

    assert ("olga", "business owner of the data") == (creator["name"], creator["description"])


def test_terms_of_the_source_itself_bind_beside_those_of_a_run() -> None:
    """A run's wider registration does not hide the narrower one of the source's own stream."""
    own = standing(usage_scope=["internal"])
    wide = SourceRegistered.model_validate(standing().registrations[0][1].to_json())
    later = (replace(record("source.registered", wide.to_json()), stream="run_1", position=2), wide)
    both: Any = replace(own, registrations=(*own.registrations, later))

    limits = described(both)["usageInfo"][0]["odrl:permission"]["odrl:constraint"]

    scopes = [
        limit["odrl:rightOperand"] for limit in limits if limit["odrl:leftOperand"]["@id"] == "odrl:purpose"
    ]
    assert [["research", {"@id": "duo:0000042"}], ["pre-training"], ["internal"]] == scopes
