"""Croissant 1.1: what is exported is valid for its reference validator, tells the rights, and invents none."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlcroissant
import pytest
from tests.support.data_track import ACTOR, AWKWARD_NAMES, FOREIGN_NAMES, numbered, origin, write_tree
from tests.support.main_line import Line

from pretrain_archive.data.croissant import LISTED, describe, snapshot_description
from pretrain_archive.data.manifest import Entry
from pretrain_archive.data.snapshots import create_snapshot
from pretrain_archive.domain.kinds import SnapshotCreated, SourceRegistered, SourceWithdrawn
from pretrain_archive.domain.records import Origin, Record
from pretrain_archive.domain.source_rights import Standing
from pretrain_archive.services.describing import croissant
from pretrain_archive.storage.files import FileStore

PUBLISHED = "2026-11-29T10:00:00.000000Z"
SNAPSHOT = SnapshotCreated(
    name="corpus", version=2, manifest_digest="sha256:" + "a" * 64, manifest_uri="s3://bucket/manifests/a.jsonl",
    file_count=2, total_bytes=10, parent="snapshot:corpus@1", unchanged=False, mode="copy", source_id="source_x",
    source_uri="s3://bucket/raw",
)  # fmt: skip
ENTRIES = (
    Entry(path="a.txt", size=4, sha256="b" * 64),
    Entry(path="link.txt", link="a.txt"),
    Entry(path="sub/c.jsonl", size=6, sha256="c" * 64),
)
FACTS: dict[str, Any] = {
    "source_id": "source_x", "name": "corpus", "uri": "s3://bucket/raw", "licence": "CC-BY-4.0",
    "licence_spdx": "CC-BY-4.0", "obtained": "crawled", "collected_at": "2025-06-01T00:00:00Z",
    "authorisation": "open licence", "usage_scope": ["research", "DUO:0000042"], "origin_class": "public corpus",
    "masking": "names replaced", "owner": "olga", "responsible": "rita", "applicable_tasks": ["pre-training"],
    "access_identity": "svc-reader", "access_granted_at": "2025-05-01T00:00:00Z",
    "access_revoked_at": "2027-05-01T00:00:00Z",
}  # fmt: skip


def record(kind: str, payload: dict[str, Any]) -> Record:
    """A record of the source's own stream."""
    where = Origin(dag_id="cli", dag_run_id="call", task_id="t")
    return Record(record_id=f"rec_{kind}", position=1, stream="source/source_x", sequence=0, previous="", kind=kind,
                  schema_version=1, attempt=0, ordinal=0, payload=payload, actor=ACTOR, origin=where,
                  recorded_at=PUBLISHED)  # fmt: skip


def standing(**changes: Any) -> Standing:
    """The source with some facts replaced."""
    fact = SourceRegistered.model_validate(FACTS | changes)
    return Standing(
        source_id=fact.source_id, registrations=((record("source.registered", fact.to_json()), fact),)
    )


def described(*sources: Standing, snapshot: SnapshotCreated = SNAPSHOT, **more: Any) -> dict[str, Any]:
    """The description as JSON that was written and read again."""
    facts = {"published": PUBLISHED, "locate": lambda entry: f"s3://bucket/{entry.sha256}"} | more
    return json.loads(json.dumps(describe(snapshot, ENTRIES, sources=sources, **facts)))


def validated(document: dict[str, Any]) -> mlcroissant.Metadata:
    """The validator's reading; errors are raised by it, and there is no warning either."""
    metadata = mlcroissant.Dataset(jsonld=document).metadata
    assert (set(), set()) == (metadata.ctx.issues.errors, metadata.ctx.issues.warnings)
    return metadata


@pytest.mark.requirement("R035", "R036", "R037", "R038", "R039", "R056")
def test_a_whole_description_is_valid(caplog: pytest.LogCaptureFixture) -> None:
    """No error, no warning, and every fact is where the validator looks for it."""
    document = described(standing())
    read = validated(document)

    assert ["2025-06-01T00:00:00Z"] == document["rai:dataCollectionTimeframe"]
    assert "http://mlcommons.org/croissant/1.1" == read.ctx.conforms_to.value
    assert ("corpus", "2.0.0", "s3://bucket/raw") == (read.name, read.version, read.url)
    assert ["https://spdx.org/licenses/CC-BY-4.0.html"] == read.license
    assert ["olga"] == [person.name for person in read.creators]
    assert "2026-11-29T10:00:00" == read.date_published.isoformat()[:19]
    assert ("crawled", ["public corpus"]) == (read.data_collection, read.keywords)
    assert "public corpus: s3://bucket/raw" == read.data_collection_raw_data
    assert ["masking: names replaced"] == read.personal_sensitive_information
    assert ["pre-training"] == read.data_use_cases
    assert ["a" * 64, "b" * 64, "c" * 64] == [file.sha256 for file in read.file_objects]
    assert "not standard" not in caplog.text


def test_the_permission_is_told_in_odrl() -> None:
    """Scope, tasks and the time of the right are constraints of one permission; a DUO code is a term."""
    [offer] = described(standing())["usageInfo"]
    limits = [
        (c["odrl:leftOperand"]["@id"], c["odrl:operator"]["@id"], c["odrl:rightOperand"])
        for c in offer["odrl:permission"]["odrl:constraint"]
    ]

    assert ["CreativeWork", "odrl:Offer"] == offer["@type"]
    assert [
        ("odrl:purpose", "odrl:isAnyOf", ["research", {"@id": "duo:0000042"}]),
        ("odrl:purpose", "odrl:isAnyOf", ["pre-training"]),
        ("odrl:dateTime", "odrl:gteq", "2025-05-01T00:00:00Z"),
        ("odrl:dateTime", "odrl:lteq", "2027-05-01T00:00:00Z"),
    ] == limits


def test_a_withdrawn_source_permits_nothing() -> None:
    """The offer is a prohibition, with reason and moment, and the description is still valid."""
    gone = SourceWithdrawn(
        source_id="source_x", name="corpus", reason="licence ended", by="dana", at=PUBLISHED
    )
    source = replace(standing(), withdrawal=(record("source.withdrawn", gone.to_json()), gone))
    document = described(source)
    [offer] = document["usageInfo"]

    validated(document)
    assert ("withdrawn", PUBLISHED) == (document["creativeWorkStatus"], offer["expires"])
    assert "licence ended" in offer["description"]
    assert "odrl:permission" not in offer
    assert {"@id": "odrl:use"} == offer["odrl:prohibition"]["odrl:action"]


@pytest.mark.requirement("R037")
@pytest.mark.parametrize(
    ("licence", "name", "kind"),
    [
        pytest.param("contract: 2024/17, §3 only", "2024/17, §3 only", "Contract", id="contract"),
        pytest.param("MIT OR Apache-2.0", "MIT OR Apache-2.0", "SPDX", id="a choice"),
        pytest.param("as agreed", "as agreed", "Contract", id="recorded before contracts were marked"),
    ],
)
def test_a_licence_without_a_page_is_told_in_words(licence: str, name: str, kind: str) -> None:
    """The contract's own text stands there."""
    document = described(standing(licence=licence))
    [told] = validated(document).license

    assert name == told.name
    assert told.description.startswith(kind)


def test_what_is_not_recorded_is_left_out() -> None:
    """Without a source nothing is said of rights; without optional facts nothing of these."""
    bare = described()
    some = described(
        standing(masking=None, collected_at=None, applicable_tasks=[], access_identity=None, access_granted_at=None,
                 access_revoked_at=None), published=None
    )  # fmt: skip
    rights = {"license", "creator", "usageInfo", "conditionsOfAccess", "rai:dataCollection"}
    open_facts = {"rai:personalSensitiveInformation", "rai:dataCollectionTimeframe", "rai:dataUseCases",
                  "datePublished", "prov:wasGeneratedBy"}  # fmt: skip

    assert not (rights | {"creativeWorkStatus"}) & bare.keys()
    assert not open_facts & some.keys()
    assert rights <= some.keys()
    assert 1 == len(some["usageInfo"][0]["odrl:permission"]["odrl:constraint"])
    assert None not in some.values()


def test_very_many_files_are_told_by_their_manifest() -> None:
    """Above the limit no entry is read: one set of files over the manifest, which has its digest."""

    def unread() -> Any:
        raise AssertionError("an entry was read")
        yield

    many = SNAPSHOT.model_copy(update={"file_count": LISTED + 1})
    document = json.loads(
        json.dumps(describe(many, unread(), sources=[standing()], locate=str, published=PUBLISHED))
    )
    read = validated(document)

    assert ["a" * 64] == [file.sha256 for file in read.file_objects]
    [files] = read.file_sets
    assert {"@id": "manifest"} == document["distribution"][1]["containedIn"]["fileObject"]
    assert f"{LISTED + 1} files" in files.description
    assert len(json.dumps(document)) < 10_000


def test_names_that_are_hard_to_write(tmp_path: Path) -> None:
    """Line breaks, percent signs and bytes that are not UTF-8: each file has an id of its own, and all is valid."""
    files = numbered((*AWKWARD_NAMES, *FOREIGN_NAMES))
    store = FileStore(tmp_path / "store")
    made = create_snapshot(
        store, None, name="awkward", source_root=str(write_tree(tmp_path / "source", files)), mode="copy",
        actor=ACTOR, origin=origin(),
    )  # fmt: skip
    document = json.loads(
        json.dumps(snapshot_description(store, made, sources=[standing()], published=PUBLISHED))
    )
    read = validated(document)

    assert len(files) + 1 == len({file["@id"] for file in document["distribution"]}) == len(read.file_objects)
    assert {hashlib.sha256(content).hexdigest() for content in files.values()} == {
        file.sha256 for file in read.file_objects
    } - {made.manifest_digest.removeprefix("sha256:")}


def test_addresses_of_a_copy_lead_to_the_bytes(tmp_path: Path) -> None:
    """What an address holds has the digest that stands beside it."""
    store = FileStore(tmp_path / "store")
    root = write_tree(tmp_path / "source", {b"a b.txt": b"one", b"sub/c": b"two"})
    for mode in ("copy", "reference"):
        made = create_snapshot(
            store, None, name=f"x-{mode}", source_root=str(root), mode=mode, actor=ACTOR, origin=origin()
        )
        document = snapshot_description(store, made, sources=(), published=None)
        for file in document["distribution"]:
            with path_of(file["contentUrl"]).open("rb") as stream:
                assert file["sha256"] == hashlib.sha256(stream.read()).hexdigest(), file


def path_of(address: str) -> Path:
    """The path behind a file:// address."""
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(address)
    assert "file" == parts.scheme
    return Path(unquote(parts.path))


@pytest.mark.requirement("R035", "R037")
def test_a_run_s_snapshot_and_its_package_tell_the_same_rights(tmp_path: Path) -> None:
    """The command's description has the source behind the snapshot; the package carries a valid one, too."""
    line = Line(folder=tmp_path)
    line.to_signed_launch(access_identity="svc-reader", access_granted_at="2026-01-01T00:00:00Z")
    by_command = json.loads(json.dumps(croissant(line.ledger, line.store, "corpus")))
    validated(by_command)
    line.launch()
    line.register()
    line.evaluate()
    line.sign("run")
    line.sign("close")
    closed = line.close()
    packed = json.loads((closed.folder / "evidence" / "croissant.json").read_text())
    listed = json.loads((closed.folder / "evidence" / "sources.json").read_text())

    validated(packed)
    assert by_command == packed
    assert ["https://spdx.org/licenses/CC0-1.0.html"] == packed["license"]
    assert 61 == len(packed["distribution"])
    [source] = listed["sources"]
    assert ("svc-reader", None) == (source["access_identity"], source["withdrawn"])
    assert ["source.registered"] == [r["body"]["kind"] for r in source["records"]]
    assert 0 == line.verify(closed.folder).returncode
    items = json.loads((closed.folder / "evidence" / "items.json").read_text())["items"]
    assert {"data.rights": "verified", "data.access": "verified"} == {
        item["id"]: item["verdict"] for item in items if item["id"] in {"data.rights", "data.access"}
    }
