"""A snapshot as a Croissant 1.1 description (http://mlcommons.org/croissant/1.1), from what is recorded.

Vocabularies, where Croissant 1.1 has a place for the fact: schema.org for the data set, its licence and conditions
of access; Croissant's RAI 1.0 terms for collection, masking and tasks; ODRL 2.2 in ``usageInfo`` for the permission
and its limits, with DUO codes where the usage scope is written in them; PROV-O for what the version was made from
and who read it. What is not recorded is left out. A snapshot of more than :data:`LISTED` files names its manifest,
which lists them, and one set of files over it.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import quote

from pretrain_archive.data.layout import blob_key
from pretrain_archive.data.manifest import Entry, read_entries
from pretrain_archive.data.rights import read_licence
from pretrain_archive.data.snapshots import open_manifest
from pretrain_archive.domain.identity import parse_time, text_to_path
from pretrain_archive.domain.kinds import SnapshotCreated, SourceRegistered
from pretrain_archive.domain.source_rights import Standing
from pretrain_archive.storage.port import ObjectStore

CONFORMS_TO = ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"]
LISTED = 1000
"""Files that are described one by one; above it the manifest stands for them."""

DUO = re.compile(r"DUO[:_](\d{7})")
"""A code of the Data Use Ontology (http://purl.obolibrary.org/obo/duo.owl) in a usage scope."""

Json = dict[str, Any]

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
        "url": snapshot.source_uri or snapshot.manifest_uri,
        "datePublished": published,
        "keywords": _unique(fact.origin_class for fact in facts),
        "license": _unique(_licence(fact) for fact in facts),
        "creator": _unique({"@type": "Person", "name": fact.owner} for fact in facts),
        "conditionsOfAccess": _one([fact.authorisation for fact in facts]),
        "usageInfo": [_policy(source, fact) for source in sources if (fact := source.registered) is not None],
        "creativeWorkStatus": "withdrawn" if any(source.withdrawal for source in sources) else None,
        **_responsible_ai(facts),
        **_provenance(snapshot, sources),
        "distribution": _distribution(snapshot, entries, locate, listed),
    }
    return {key: value for key, value in document.items() if value not in (None, "", [], {})}


def locate_in(store: ObjectStore, snapshot: SnapshotCreated) -> Callable[[Entry], str]:
    """Where the bytes of a file lie: in ``store`` for a copy, else below the address that was read."""

    def locate(entry: Entry) -> str:
        if snapshot.mode == "copy":
            return store.location(blob_key(entry.sha256))
        path = quote(text_to_path(entry.path))
        pinned = f"?versionId={quote(entry.version, safe='')}" if entry.version else ""
        return f"{snapshot.source_uri.rstrip('/')}/{path}{pinned}" if snapshot.source_uri else path

    return locate


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


def _policy(source: Standing, fact: SourceRegistered) -> Json:
    """What may be done with a source as an ODRL offer; a withdrawn source permits nothing any more."""
    rule: Json = {"odrl:action": {"@id": "odrl:use"}, "odrl:constraint": _constraints(source, fact)}
    offer: Json = {"@type": ["CreativeWork", "odrl:Offer"], "name": f"Use of {fact.name}"}
    if source.withdrawal is not None:
        gone = source.withdrawal[1]
        offer |= {"description": f"Withdrawn: {gone.reason}", "expires": gone.at}
        return {
            **offer,
            "odrl:prohibition": {"@type": "odrl:Prohibition", "odrl:action": {"@id": "odrl:use"}},
        }
    return {**offer, "odrl:permission": {"@type": "odrl:Permission", **rule}}


def _constraints(source: Standing, fact: SourceRegistered) -> list[Json]:
    found = [_limit("odrl:purpose", "odrl:isAnyOf", [_purpose(use) for use in fact.usage_scope])]
    if fact.applicable_tasks:
        found.append(
            {**_limit("odrl:purpose", "odrl:isAnyOf", fact.applicable_tasks), "name": "Applicable tasks"}
        )
    if (granted := source.granted_at()) is not None:
        found.append(_limit("odrl:dateTime", "odrl:gteq", granted))
    if fact.access_revoked_at:
        found.append(_limit("odrl:dateTime", "odrl:lteq", fact.access_revoked_at))
    return found


def _limit(left: str, operator: str, right: Any) -> Json:
    return {
        "@type": "odrl:Constraint", "odrl:leftOperand": {"@id": left}, "odrl:operator": {"@id": operator},
        "odrl:rightOperand": right,
    }  # fmt: skip


def _purpose(use: str) -> str | Json:
    """A use in its own words; a DUO code as the term that it is."""
    code = DUO.fullmatch(use.strip())
    return {"@id": f"duo:{code[1]}"} if code else use


def _responsible_ai(facts: list[SourceRegistered]) -> Json:
    collected = [text for fact in facts if (text := fact.collected_at) and _is_moment(text)]
    return {
        "rai:dataCollection": _one([fact.obtained for fact in facts]),
        "rai:dataCollectionRawData": _one([f"{fact.origin_class}: {fact.uri}" for fact in facts]),
        # As the specification writes it; mlcroissant 1.1.1 looks for another spelling and passes over it.
        "rai:dataCollectionTimeframe": _unique(collected),
        "rai:personalSensitiveInformation": _unique(
            f"masking: {fact.masking}" for fact in facts if fact.masking
        ),
        "rai:dataUseCases": _unique(task for fact in facts for task in fact.applicable_tasks),
    }


def _provenance(snapshot: SnapshotCreated, sources: Sequence[Standing]) -> Json:
    parent = [{"@id": f"urn:pretrain-archive:{snapshot.parent}"}] if snapshot.parent else []
    named = [{"@id": f"urn:pretrain-archive:source:{source.source_id}"} for source in sources]
    facts = [fact for source in sources if (fact := source.registered) is not None]
    readers = [{"@type": "prov:SoftwareAgent", "prov:label": who} for s in sources for who in s.identities]
    activity = {"@type": "prov:Activity", "prov:label": snapshot.check, "prov:wasAssociatedWith": readers}
    return {
        "prov:wasDerivedFrom": [*parent, *named],
        "prov:wasGeneratedBy": activity if readers else None,
        "prov:wasAttributedTo": _unique(
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
        "encodingFormat": mimetypes.guess_type(entry.path)[0] or "application/octet-stream",
        "sha256": entry.sha256.removeprefix("sha256:"),
    }  # fmt: skip


def _is_moment(text: str) -> bool:
    try:
        parse_time(text)
    except ValueError:
        return False
    return True


def _one(texts: list[str]) -> str:
    return "; ".join(dict.fromkeys(text for text in texts if text))


def _unique(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found
