"""JSON Schemas of every payload, kind and version, as they are published in ``docs/schemas``.

Run as a module to write them: ``python -m pretrain_archive.ledger.schemas docs/schemas``. The schema of a
version that was released stays as it is; a changed shape gets a higher version in ``domain.kinds``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pretrain_archive.domain.kinds import KINDS
from pretrain_archive.domain.records import FORMAT, Relation

DIALECT = "https://json-schema.org/draft/2020-12/schema"
RECORD_FILE = "record.v1.json"


def file_name(kind: str, version: int) -> str:
    """The file of one kind and version."""
    return f"{kind}.v{version}.json"


def current_schemas() -> dict[str, dict[str, Any]]:
    """File name to schema, for the version of every kind that this release writes, and for the record."""
    found = {RECORD_FILE: record_schema()}
    for name, kind in KINDS.items():
        schema = kind.model.model_json_schema(mode="validation")
        found[file_name(name, kind.version)] = {
            "$schema": DIALECT,
            "$id": f"urn:pretrain-archive:payload:{name}:{kind.version}",
            "x-track": kind.track.value,
            **schema,
        }
    return found


def record_schema() -> dict[str, Any]:
    """The schema of a record's stored body (format 1), around any payload."""
    text, count = {"type": "string"}, {"type": "integer", "minimum": 0}
    edge = {"subject": text, "relation": {"enum": [item.value for item in Relation]}, "object": text}
    origin = {
        "dag_id": text,
        "dag_run_id": text,
        "task_id": text,
        "map_index": {"type": "integer", "minimum": -1},
        "try_number": count,
    }
    properties = {
        "format": {"const": FORMAT},
        "record_id": {"type": "string", "pattern": "^rec_"},
        "stream": {"type": "string", "minLength": 1},
        "sequence": count,
        "previous": {"type": "string", "pattern": "^([0-9a-f]{64})?$"},
        "kind": {"type": "string", "minLength": 1},
        "schema_version": {"type": "integer", "minimum": 1},
        "attempt": count,
        "ordinal": count,
        "payload": {"type": "object"},
        "actor": _closed({"type": {"enum": ["person", "task", "service", "cli"]}, "name": text}),
        "origin": _closed(origin),
        "recorded_at": {"type": "string", "format": "date-time"},
        "edges": {"type": "array", "items": _closed(edge)},
        "unique": text,
    }
    return {
        "$schema": DIALECT,
        "$id": "urn:pretrain-archive:record:1",
        "title": "Record",
        **_closed(properties),
    }


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def to_text(schema: dict[str, Any]) -> str:
    """The text of a published schema file."""
    return json.dumps(schema, ensure_ascii=False, indent=2) + "\n"


def write(folder: Path) -> list[Path]:
    """Write every current schema into ``folder`` and return the files that changed."""
    folder.mkdir(parents=True, exist_ok=True)
    changed = []
    for name, schema in current_schemas().items():
        path, text = folder / name, to_text(schema)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


if __name__ == "__main__":
    write(Path(sys.argv[1]))
