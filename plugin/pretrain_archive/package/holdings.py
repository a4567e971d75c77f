"""What a package holds, counted and listed: every kind of record, every checkpoint with its fate, the model's life.

Read from the payloads as they are stored: a kind, a field or a class of a later release is listed under its own name
and lost nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView

INVENTORY_FORMAT = "pretrain-archive/inventory/1"
ARTIFACTS_FORMAT = "pretrain-archive/artifacts/1"

Facts = dict[str, Any]


def inventory(view: RunView) -> list[Facts]:
    """Each kind of record with track, number, first and last moment and first file, in the order of appearance."""
    found: dict[str, Facts] = {}
    for record in view.records:
        entry = found.get(record.kind)
        if entry is None:
            entry = found[record.kind] = {
                "kind": record.kind,
                "track": kinds.track_of(record.kind).value,
                "known": record.kind in kinds.KINDS,
                "records": 0,
                "first": record.recorded_at,
                "file": f"records/{record.sequence:06d}-{record.kind}.json",
            }
        entry["records"] += 1
        entry["last"] = record.recorded_at
    return list(found.values())


def artifacts(view: RunView) -> Facts:
    """Checkpoints with class, purpose, components, fate and what rests on them; releases; the model's life."""
    by_checkpoint = _results(view)
    gone = _tombstones(view)
    policy = (view.opened.policy if view.opened else None) or {}
    classes = {
        p["checkpoint_id"]: (p, r)
        for r, p in _payloads(view, "checkpoint.classified")
        if "checkpoint_id" in p
    }
    listed = []
    for record, payload in _payloads(view, "checkpoint.registered"):
        name = str(payload.get("checkpoint_id"))
        late = classes.get(name)
        listed.append(
            {
                **_checkpoint(record, payload),
                "class": (late[0] if late else payload).get("artifact_class"),
                "purpose": (late[0] if late else payload).get("purpose"),
                "classified_by": late[1].record_id if late else record.record_id,
                **_fate(gone.get(f"checkpoint:{name}", [])),
                **by_checkpoint.get(name, {}),
            }
        )
    return {
        "format": ARTIFACTS_FORMAT,
        "retention_policy": policy.get("retention"),
        "policy_digest": view.opened.policy_digest if view.opened else None,
        "checkpoints": listed,
        "refused": [{**p, "record": r.record_id} for r, p in _payloads(view, "checkpoint.refused")],
        "releases": [{**p, "record": r.record_id} for r, p in _payloads(view, "release.made")],
        "deleted": [entry for entries in gone.values() for entry in entries],
        "model_life": _life(view),
    }


def _payloads(view: RunView, kind: str) -> list[tuple[Record, Mapping[str, Any]]]:
    return [(record, record.payload) for record in view.records if record.kind == kind]


def _checkpoint(record: Record, payload: Mapping[str, Any]) -> Facts:
    kept = (
        "checkpoint_id",
        "step",
        "tokens",
        "attempt",
        "format",
        "digest",
        "components",
        "tensors",
        "responsible",
    )
    files = payload.get("files") or []
    return {
        **{name: payload.get(name) for name in kept},
        "location": payload.get("location"),
        "files": len(files),
        "size": sum(file.get("size", 0) for file in files),
        "record": record.record_id,
    }


def _fate(tombstones: list[Facts]) -> Facts:
    """Whether the bytes are kept, gone or gone in part, with what is said of that."""
    whole = any(not entry.get("parts") for entry in tombstones)
    state = "deleted" if whole else "deleted in part" if tombstones else "kept"
    return {"state": state, "tombstones": [entry["record"] for entry in tombstones]}


def _tombstones(view: RunView) -> dict[str, list[Facts]]:
    found: dict[str, list[Facts]] = {}
    for record, payload in _payloads(view, "tombstone.written"):
        found.setdefault(str(payload.get("ref")), []).append({**payload, "record": record.record_id})
    return found


def _results(view: RunView) -> dict[str, Facts]:
    """Evaluations, by programs and by people, and candidates by the checkpoint that they are about."""
    found: dict[str, Facts] = {}
    for record in view.records:
        family = record.kind.partition(".")[0]
        name = record.payload.get("checkpoint_id")
        if family not in {"evaluation", "human_evaluation", "candidate"} or not isinstance(name, str):
            continue
        entry = found.setdefault(name, {})
        facts = {"kind": record.kind, "record": record.record_id}
        told = ("evaluation_id", "data_set", "passed", "flags", "candidate_id", "kept", "reason", "cause")
        facts |= {key: record.payload[key] for key in told if key in record.payload}
        entry.setdefault("candidates" if family == "candidate" else "evaluations", []).append(facts)
    return found


def _life(view: RunView) -> list[Facts]:
    """What was recorded of the released model up to now, oldest first; later facts are in the ledger."""
    return [
        {"kind": record.kind, "at": record.recorded_at, "record": record.record_id, **record.payload}
        for record in view.records
        if record.kind.startswith("model.")
    ]
