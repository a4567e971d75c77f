"""The package as linked data: RO-Crate 1.2 with the Process Run Crate profile.

Specifications: https://w3id.org/ro/crate/1.2 and https://w3id.org/ro/wfrun/process/0.5. The launch of the
training program is the ``CreateAction``; the program its instrument; snapshot and configuration its objects;
the checkpoints its results. Written as JSON directly: the crate describes files that are already digested,
and must come out byte for byte the same on a retry.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.package.evidence import Part

CONTEXT = ["https://w3id.org/ro/crate/1.2/context", {"sha256": "http://schema.org/sha256"}]
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
TYPES = {
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".html": "text/html",
    ".csv": "text/csv",
    ".py": "text/x-python",
    ".md": "text/markdown",
}

ABOUT = {
    "index.html": "The decision, the gates, the verdicts and the events on one page",
    "verify.py": "Checks this package with the Python standard library alone",
    "README.txt": "How to read and check this package",
    "references.json": "What is not copied: digest, location and access boundary",
    "-snapshot-manifest.json": "Every file of the data snapshot with size and SHA-256",
    "-dropped-documents.jsonl": "Documents that a step of processing left out, with the reason and without their text",
    "-split.json": "Documents for training and for validation",
    "-quality-report.json": "Result of the quality check over the snapshot",
    "-quality-report.html": "The quality check as a page for people",
    "-quality-validation.json": "What the validator answered to each rule of the quality check",
    "-evaluation-report.json": "Result of the evaluation of a checkpoint",
    "-evaluation-report.html": "The evaluation as a page for people",
    ".log": "Log of an attempt",
    "release/README.md": "Model card of the release in the Hugging Face format, in English",
    "release/README.zh-CN.md": "Model card of the release in the Hugging Face format, in 简体中文",
    "release/bom.cdx.json": "Bill of materials of the release: CycloneDX 1.6 with model card, data and dependencies",
    "-model-signature.json": "Signature over the released files: an OpenSSF model-signing bundle",
    "configuration.json": "Effective configuration of the training program",
    "environment.json": "Environment that the launch was signed for",
    "sources.json": "Sources that the run rests on: registrations, who may read them, withdrawal",
    "croissant.json": "The data snapshot as a Croissant 1.1 description",
    "items.json": "Items of evidence with their verdicts",
    "timeline.json": "Events of the run in order",
    "cost.json": "Where device time went, by bin, attempt and cause",
    "inventory.json": "Every kind of record that the run has, with counts",
    "artifacts.json": "Every checkpoint with class, fate and results; releases, deletions, the model's life",
    "lineage.jsonl": "OpenLineage events: every try of every task with what it read and made",
    "attempts.json": "Attempts and task tries as they were recorded here, beside Airflow's own list where it is known",
    "metrics.csv": "Metric points as the training program reported them",
}

Entity = dict[str, Any]

MANY_RECORDS = 1000
"""More records than this are described by their folder, so that a catalogue can still load the crate."""


def crate_metadata(view: RunView, parts: Sequence[Part]) -> bytes:
    """The bytes of ``ro-crate-metadata.json``; ``parts`` are the files that it describes."""
    records = [part for part in parts if part.path.startswith("records/")]
    folded = len(records) > MANY_RECORDS
    shown = [part for part in parts if not (folded and part.path.startswith("records/"))]
    listed = [_file(part) for part in sorted(shown, key=lambda part: part.path)]
    listed += [_record_folder(records)] if folded else []
    people = _people(view)
    actions, things = _actions(view), _things(view)
    graph = [
        {
            "@id": "ro-crate-metadata.json",
            "@type": "CreativeWork",
            "about": {"@id": "./"},
            "conformsTo": {"@id": "https://w3id.org/ro/crate/1.2"},
        },
        _root(view, listed, people, actions=actions, things=things),
        {"@id": PROFILE, "@type": ["CreativeWork", "Profile"], "name": "Process Run Crate", "version": "0.5"},
        _publisher(view),
        *people,
        *actions,
        *things,
        *listed,
    ]
    text = json.dumps({"@context": CONTEXT, "@graph": graph}, indent=1, sort_keys=True, ensure_ascii=False)
    return (text + "\n").encode()


def _refs(entities: Sequence[Entity]) -> list[dict[str, str]]:
    return [{"@id": entity["@id"]} for entity in entities]


def _publisher(view: RunView) -> Entity:
    name = view.opened.project if view.opened else "unrecorded"
    return {"@id": "#project", "@type": "Organization", "name": name}


def _root(
    view: RunView,
    listed: Sequence[Entity],
    people: Sequence[Entity],
    *,
    actions: Sequence[Entity],
    things: Sequence[Entity],
) -> Entity:
    opened = view.opened
    objective = opened.purpose.objective if opened and opened.purpose else "unrecorded"
    use = opened.purpose.intended_use if opened and opened.purpose else "unrecorded"
    return {
        "@id": "./",
        "@type": "Dataset",
        "name": f"Training run {view.run_uid}",
        "description": f"{objective}. Intended use: {use}.",
        "identifier": view.run_uid,
        "datePublished": view.records[-1].recorded_at[:10],
        "license": {"@id": "#licence"},
        "author": _refs(people),
        "publisher": {"@id": "#project"},
        "conformsTo": {"@id": PROFILE},
        "hasPart": _refs(listed),
        "mentions": _refs([*actions, *(thing for thing in things if thing["@id"] != "#licence")]),
    }


def _record_folder(records: Sequence[Part]) -> Entity:
    """Very many records as the one folder that they lie in; each is listed in ``manifest.json`` with its digest."""
    size = sum(len(part.data) for part in records)
    return {
        "@id": "records/",
        "@type": "Dataset",
        "name": "records",
        "description": f"{len(records)} records of the run, {size} bytes: each file the exact bytes that were signed, "
        "listed with size and SHA-256 in manifest.json",
    }


def _file(part: Part) -> Entity:
    suffix = part.path[part.path.rfind(".") :]
    return {
        "@id": part.path,
        "@type": "File",
        "name": part.path.rpartition("/")[2],
        "description": _about(part.path),
        "contentSize": str(len(part.data)),
        "encodingFormat": TYPES.get(suffix, "text/plain"),
        "sha256": hashlib.sha256(part.data).hexdigest(),
    }


def _about(path: str) -> str:
    """What a file is, for a catalogue."""
    if path.startswith("attachments/"):
        return "Added by people at the close"
    if path.startswith("records/"):
        return f"Record {path[8:14]} of the run, {path[15:-5]}: the exact bytes that were signed"
    for end, text in ABOUT.items():
        if path.endswith(end):
            return text
    return "Evidence of the run"


def _people(view: RunView) -> list[Entity]:
    opened = view.opened
    names = (
        set(opened.people.values()) | ({opened.submitter} if opened.submitter else set()) if opened else set()
    )
    names |= {decision.person_id for _, decision in view.all(kinds.GateDecision)}
    return [
        {"@id": f"#person-{name}", "@type": "Person", "name": name} for name in sorted(filter(None, names))
    ]


def _things(view: RunView) -> list[Entity]:
    """What the package points to: program, data, licence, checkpoints."""
    found: list[Entity] = []
    if any(view.all(kinds.AttemptStarted)):
        found.append({"@id": "#training-program", "@type": "SoftwareApplication", **_program(view)})
    source = view.latest(kinds.SourceRegistered)
    if source is None:
        found.append(
            {
                "@id": "#licence",
                "@type": "CreativeWork",
                "name": "unrecorded",
                "description": "No licence recorded",
            }
        )
    else:
        found.append(
            {
                "@id": "#licence",
                "@type": "CreativeWork",
                "name": source.licence,
                "description": source.authorisation,
            }
        )
    for _, snapshot in view.all(kinds.SnapshotCreated):
        found.append(
            {
                "@id": f"#snapshot-{snapshot.name}-{snapshot.version}",
                "@type": "Dataset",
                "name": f"{snapshot.name}@{snapshot.version}",
                "identifier": snapshot.manifest_digest,
                "description": f"{snapshot.file_count} files, {snapshot.total_bytes} bytes",
            }
        )
    found += [
        {
            "@id": f"#{checkpoint.checkpoint_id}",
            "@type": "CreativeWork",
            "name": f"Checkpoint of step {checkpoint.step}",
            "identifier": checkpoint.digest,
        }
        for _, checkpoint in view.all(kinds.CheckpointRegistered)
    ]
    return found


def _program(view: RunView) -> Entity:
    """The training program. Its address is its content: where the code lay says less than its digest."""
    declared = view.latest(kinds.ConfigurationDeclared)
    if declared is None or declared.code_digest is None:
        return {"name": "unrecorded", "version": "unrecorded", "url": "about:unrecorded"}
    address = "hash://sha256/" + declared.code_digest.partition(":")[2]
    return {"name": " ".join(declared.command), "version": declared.code_digest, "url": address}


def _actions(view: RunView) -> list[Entity]:
    """One ``CreateAction`` per attempt."""
    ends = {ended.attempt: (record, ended) for record, ended in view.all(kinds.AttemptEnded)}
    agent = view.opened.submitter if view.opened else None
    data = [{"@id": f"#snapshot-{s.name}-{s.version}"} for _, s in view.all(kinds.SnapshotCreated)]
    results: dict[int, list[dict[str, str]]] = {}
    for _, checkpoint in view.all(kinds.CheckpointRegistered):
        results.setdefault(checkpoint.attempt, []).append({"@id": f"#{checkpoint.checkpoint_id}"})
    found = []
    for record, started in view.all(kinds.AttemptStarted):
        ended = ends.get(started.attempt)
        entity: Entity = {
            "@id": f"#attempt-{started.attempt}",
            "@type": "CreateAction",
            "name": f"Attempt {started.attempt}",
            "instrument": {"@id": "#training-program"},
            "startTime": record.recorded_at,
            "object": data,
            "result": results.get(started.attempt, []),
        }
        if agent:
            entity["agent"] = {"@id": f"#person-{agent}"}
        if ended:
            good = ended[1].state == "completed"
            entity["endTime"] = ended[0].recorded_at
            entity["description"] = ended[1].reason
            status = "CompletedActionStatus" if good else "FailedActionStatus"
            entity["actionStatus"] = f"http://schema.org/{status}"
            if not good:
                entity["error"] = ended[1].reason
        found.append(entity)
    return found
