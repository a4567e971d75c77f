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
TYPES = {".json": "application/json", ".html": "text/html", ".csv": "text/csv", ".py": "text/x-python"}

Entity = dict[str, Any]


def crate_metadata(view: RunView, parts: Sequence[Part]) -> bytes:
    """The bytes of ``ro-crate-metadata.json``; ``parts`` are the files that it describes."""
    listed = [_file(part) for part in sorted(parts, key=lambda part: part.path)]
    people = _people(view)
    actions, things = _actions(view), _things(view)
    graph = [
        {
            "@id": "ro-crate-metadata.json",
            "@type": "CreativeWork",
            "about": {"@id": "./"},
            "conformsTo": {"@id": "https://w3id.org/ro/crate/1.2"},
        },
        _root(view, listed, actions, things),
        {"@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"},
        {
            "@id": "#unrecorded-licence",
            "@type": "CreativeWork",
            "name": "unrecorded",
            "description": "No licence recorded",
        },
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
    view: RunView, listed: Sequence[Entity], actions: Sequence[Entity], things: Sequence[Entity]
) -> Entity:
    opened, source = view.opened, view.latest(kinds.SourceRegistered)
    objective = opened.purpose.objective if opened and opened.purpose else "unrecorded"
    use = opened.purpose.intended_use if opened and opened.purpose else "unrecorded"
    licence = {"@id": "#licence"} if source else {"@id": "#unrecorded-licence"}
    return {
        "@id": "./",
        "@type": "Dataset",
        "name": f"Training run {view.run_uid}",
        "description": f"{objective}. Intended use: {use}.",
        "identifier": view.run_uid,
        "datePublished": view.records[-1].recorded_at[:10],
        "license": licence,
        "publisher": {"@id": "#project"},
        "conformsTo": {"@id": PROFILE},
        "hasPart": _refs(listed),
        "mentions": _refs([*actions, *(thing for thing in things if thing["@id"] != "#licence")]),
    }


def _file(part: Part) -> Entity:
    suffix = part.path[part.path.rfind(".") :]
    return {
        "@id": part.path,
        "@type": "File",
        "name": part.path.rpartition("/")[2],
        "contentSize": str(len(part.data)),
        "encodingFormat": TYPES.get(suffix, "text/plain"),
        "sha256": hashlib.sha256(part.data).hexdigest(),
    }


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
    found: list[Entity] = [{"@id": "#training-program", "@type": "SoftwareApplication", **_program(view)}]
    source = view.latest(kinds.SourceRegistered)
    if source:
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
    declared = view.latest(kinds.ConfigurationDeclared)
    if declared is None:
        return {"name": "unrecorded", "softwareVersion": "unrecorded", "url": "https://w3id.org/ro/crate/1.2"}
    return {"name": " ".join(declared.command), "softwareVersion": declared.code_digest or "unrecorded"}


def _actions(view: RunView) -> list[Entity]:
    """One ``CreateAction`` per attempt."""
    ends = {ended.attempt: (record, ended) for record, ended in view.all(kinds.AttemptEnded)}
    agent = view.opened.submitter if view.opened else None
    data = [{"@id": f"#snapshot-{s.name}-{s.version}"} for _, s in view.all(kinds.SnapshotCreated)]
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
            "result": [
                {"@id": f"#{c.checkpoint_id}"}
                for _, c in view.all(kinds.CheckpointRegistered)
                if c.attempt == started.attempt
            ],
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
