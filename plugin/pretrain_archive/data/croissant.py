"""A snapshot as a Croissant 1.1 description (http://mlcommons.org/croissant/1.1), from what is recorded.

Vocabularies, where Croissant 1.1 has a place for the fact: schema.org for the data set, its licence and conditions
of access; Croissant's RAI 1.0 terms for collection, masking and tasks; ODRL 2.2 in ``usageInfo`` for the permission
and its limits, with DUO codes where the usage scope is written in them; PROV-O for what the version was made from
and who read it. What is not recorded is left out. A snapshot of more than :data:`LISTED` files names its manifest,
which lists them, and one set of files over it.
"""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import quote, unquote_to_bytes

from pretrain_archive.data.layout import blob_key
from pretrain_archive.data.manifest import Entry, read_entries
from pretrain_archive.data.offers import Json, policy, unique
from pretrain_archive.data.rights import read_licence
from pretrain_archive.data.snapshots import open_manifest
from pretrain_archive.domain.identity import parse_time, text_to_path
from pretrain_archive.domain.kinds import SnapshotCreated, SourceRegistered
from pretrain_archive.domain.source_rights import Standing
from pretrain_archive.storage.port import ObjectStore

CONFORMS_TO = ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"]
LISTED = 1000
"""Files that are described one by one; above it the manifest stands for them."""

OWNER = "business owner of the data"
"""What the creator is that Croissant asks for: who wrote the data is recorded nowhere."""

COMPRESSED = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}
_types = mimetypes.MimeTypes()  # the library's own table: that of a machine would make descriptions differ
_types.add_type("application/jsonl", ".jsonl")
_types.add_type("application/zstd", ".zst")

CONTEXT: Json = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "odrl": "http://www.w3.org/ns/odrl/2/",
    "duo": "http://purl.obolibrary.org/obo/DUO_",
    "prov": "http://www.w3.org/ns/prov#",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    **{
        term: f"cr:{term}"
        for term in (
            "annotation", "arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "excludes", "extract",
            "field", "fileObject", "fileProperty", "fileSet", "format", "includes", "isArray", "isLiveDataset",
            "jsonPath", "key", "md5", "parentField", "path", "readLines", "recordSet", "references", "regex",
            "repeated", "replace", "samplingRate", "sdVersion", "separator", "source", "subField", "transform",
            "unArchive", "value",
        )
    },
}  # fmt: skip
"""The context of the specification's first appendix, with the terms that its validator knows and our vocabularies."""


def describe(
    snapshot: SnapshotCreated, entries: Iterable[Entry], *, sources: Sequence[Standing],
    locate: Callable[[Entry], str], published: str | None = None, listed: int = LISTED,
) -> Json:  # fmt: skip
    """The description as JSON-LD.

    ``entries`` are those of the manifest (read only where they are listed), ``sources`` everything that the version
    rests on, ``locate`` gives the address of a file's bytes, ``published`` is when the version was recorded.
    """
    named = f"{snapshot.name}@{snapshot.version}"
    facts = [fact for source in sources if (fact := source.registered) is not None]
    document = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": snapshot.name,
        "description": _description(snapshot, facts),
        "conformsTo": CONFORMS_TO,
        "citeAs": f"{named}, manifest {snapshot.manifest_digest}",
        "version": f"{snapshot.version}.0.0",
        "url": (not snapshot.derived_from and snapshot.source_uri) or snapshot.manifest_uri,
        "datePublished": published,
        "keywords": unique(fact.origin_class for fact in facts),
        "license": unique(_licence(fact) for fact in facts),
        "creator": unique({"@type": "Person", "name": fact.owner, "description": OWNER} for fact in facts),
        "conditionsOfAccess": _one([fact.authorisation for fact in facts]),
        "usageInfo": [policy(source, fact) for source in sources if (fact := source.registered) is not None],
        "creativeWorkStatus": "withdrawn" if any(source.withdrawal for source in sources) else None,
        **_responsible_ai(facts),
        **_provenance(snapshot, sources),
        "distribution": _distribution(snapshot, entries, locate, listed),
    }
    return {key: value for key, value in document.items() if value not in (None, "", [], {})}


def locate_in(store: ObjectStore, snapshot: SnapshotCreated) -> Callable[[Entry], str]:
    """Where the bytes of a file lie: in ``store`` for a copy, else below the address that was read.

    What a rule made and a recipe keeps lies nowhere: its address is the recipe, by which it is made again.
    """
    alone = _is_one_file(snapshot)

    def locate(entry: Entry) -> str:
        if snapshot.mode == "copy":
            return store.location(blob_key(entry.sha256))
        path = quote(text_to_path(entry.path))
        if snapshot.derived_from:
            return f"{snapshot.recipe_uri or snapshot.manifest_uri}#{path}"
        if alone:
            path = ""
        pinned = f"?versionId={quote(entry.version, safe='')}" if entry.version else ""
        below = f"/{path}" if path else ""
        return f"{snapshot.source_uri.rstrip('/')}{below}{pinned}" if snapshot.source_uri else path

    return locate


def _is_one_file(snapshot: SnapshotCreated) -> bool:
    """Whether the address that was read is that of the only file: an object, or a file that still lies there."""
    uri = snapshot.source_uri
    if uri.startswith("s3://"):
        return not uri.endswith("/") and "/" in uri.removeprefix("s3://")
    return uri.startswith("file://") and os.path.isfile(unquote_to_bytes(uri.removeprefix("file://")))  # noqa: PTH113


def snapshot_description(
    store: ObjectStore, snapshot: SnapshotCreated, *, sources: Sequence[Standing], published: str | None
) -> Json:
    """The description of a stored snapshot; its manifest is read only where its files are listed."""
    locate = locate_in(store, snapshot)
    if snapshot.file_count > LISTED:
        return describe(snapshot, (), sources=sources, locate=locate, published=published)
    with open_manifest(store, snapshot.manifest_digest) as stream:
        return describe(snapshot, read_entries(stream), sources=sources, locate=locate, published=published)


def _description(snapshot: SnapshotCreated, facts: list[SourceRegistered]) -> str:
    origin = "; ".join(f"{fact.name} ({fact.origin_class}), {fact.obtained}" for fact in facts)
    size = f"Version {snapshot.version} with {snapshot.file_count} files, {snapshot.total_bytes} bytes."
    return f"{size} From {origin}." if origin else size


def _licence(fact: SourceRegistered) -> str | Json:
    """The page of an SPDX id; a compound by its expression; a contract by its own words."""
    licence = read_licence(fact.licence)
    if licence.page is not None:
        return licence.page
    kind = "SPDX licence expression" if licence.spdx else "Contract that allows the use of the data"
    return {"@type": "sc:CreativeWork", "name": licence.words, "description": kind}


def _responsible_ai(facts: list[SourceRegistered]) -> Json:
    collected = [text for fact in facts if (text := fact.collected_at) and _is_moment(text)]
    return {
        "rai:dataCollection": _one([fact.obtained for fact in facts]),
        "rai:dataCollectionRawData": _one([f"{fact.origin_class}: {fact.uri}" for fact in facts]),
        # As the specification writes it; mlcroissant 1.1.1 looks for another spelling and passes over it.
        "rai:dataCollectionTimeframe": unique(collected),
        "rai:personalSensitiveInformation": unique(
            f"masking: {fact.masking}" for fact in facts if fact.masking
        ),
        "rai:dataUseCases": unique(task for fact in facts for task in fact.applicable_tasks),
    }


def _provenance(snapshot: SnapshotCreated, sources: Sequence[Standing]) -> Json:
    before = {"@id": f"urn:pretrain-archive:{snapshot.parent}"} if snapshot.parent else None
    made_from = [{"@id": f"urn:pretrain-archive:{snapshot.derived_from}"}] if snapshot.derived_from else []
    named = [{"@id": f"urn:pretrain-archive:source:{source.source_id}"} for source in sources]
    facts = [fact for source in sources if (fact := source.registered) is not None]
    readers = [{"@type": "prov:SoftwareAgent", "prov:label": who} for s in sources for who in s.identities]
    activity: Json = {
        "@type": "prov:Activity",
        "prov:label": snapshot.check,
        "prov:wasAssociatedWith": readers,
    }
    if snapshot.derived_from:
        # Whoever read the source took no part in what a rule made of it.
        activity = {
            "@type": "prov:Activity",
            "prov:label": f"{snapshot.rule or 'unrecorded rule'}: {snapshot.check}",
        }
    return {
        "prov:wasDerivedFrom": [*made_from, *named],
        # The version before it: earlier in time, and no part of this one's content.
        "prov:wasRevisionOf": before,
        "prov:wasGeneratedBy": activity if readers or snapshot.derived_from else None,
        "prov:wasAttributedTo": unique(
            {"@type": "prov:Person", "prov:label": fact.responsible} for fact in facts
        ),
    }


def _distribution(
    snapshot: SnapshotCreated, entries: Iterable[Entry], locate: Callable[[Entry], str], listed: int
) -> list[Json]:
    manifest = {
        "@type": "cr:FileObject", "@id": "manifest", "name": "manifest.jsonl",
        "description": "Every file with path, size and SHA-256: one JSON object a line after the header.",
        "contentUrl": snapshot.manifest_uri, "encodingFormat": "application/jsonl",
        "sha256": snapshot.manifest_digest.removeprefix("sha256:"),
    }  # fmt: skip
    if snapshot.file_count <= listed:
        return [manifest, *(_file(entry, locate(entry)) for entry in entries if entry.link is None)]
    files = {
        "@type": "cr:FileSet", "@id": "files", "name": "files",
        "description": f"The {snapshot.file_count} files that the manifest lists, each with its SHA-256.",
        # Croissant's DataSource; the reference validator takes it without its type only.
        "containedIn": {
            "fileObject": {"@id": "manifest"}, "extract": {"jsonPath": "$.path"},
            "transform": {"readLines": True},
        }, "encodingFormat": "application/octet-stream", "includes": "**",
    }  # fmt: skip
    return [manifest, files]


def _file(entry: Entry, address: str) -> Json:
    return {
        "@type": "cr:FileObject", "@id": f"files/{quote(text_to_path(entry.path))}", "name": entry.path,
        "contentUrl": address, "contentSize": f"{entry.size} B",
        "encodingFormat": _encoding(entry.path),
        "sha256": entry.sha256.removeprefix("sha256:"),
    }  # fmt: skip


def _encoding(path: str) -> str:
    """The media type by the name's end; of a compressed file that of the compression."""
    kind, packed = _types.guess_type(path)
    return (COMPRESSED.get(packed) if packed else kind) or "application/octet-stream"


def _is_moment(text: str) -> bool:
    try:
        parse_time(text)
    except ValueError:
        return False
    return True


def _one(texts: list[str]) -> str:
    return "; ".join(dict.fromkeys(text for text in texts if text))
