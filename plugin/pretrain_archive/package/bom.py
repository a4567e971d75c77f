"""The bill of materials of a release: CycloneDX 1.6 (ML-BOM), made from the run's records.

Specification: https://cyclonedx.org/docs/1.6/json/. The library of that project has no model for ``modelCard`` yet, so
the document is written here as plain JSON; a test validates it against the published schema. The same records give the
same bytes: the serial number follows from the release, the time is that of its record.
"""

from __future__ import annotations

import uuid
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.releases import standing_release
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.package.bom_card import model_card
from pretrain_archive.package.bom_parts import (
    Json,
    data_components,
    dependency_components,
    file_components,
    properties,
)
from pretrain_archive.package.evidence import pretty
from pretrain_archive.package.model_card_format import clean

NAMESPACE = uuid.UUID("1a8ec0f6-8b0f-5d2b-9d0f-6d1f0b6b9a51")
"""Of serial numbers: any fixed value does, so that a release has the same one each time."""
FILE = "bom.cdx.json"


def write_bom(view: RunView) -> dict[str, bytes]:
    """File name to bytes; empty where the run released nothing."""
    document = bom_document(view)
    return {FILE: pretty(document)} if document else {}


def bom_document(view: RunView) -> Json | None:
    """The document, or None where the run released nothing."""
    found = standing_release(view)
    if found is None:
        return None
    record, made = found
    data, files, needs = data_components(view), file_components(made), dependency_components(view, made)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, f'{view.run_uid}/{made.release_id}')}",
        "version": 1,
        "metadata": {
            "timestamp": record.recorded_at,
            "tools": {"components": [{"type": "application", "name": "pretrain-archive"}]},
            "component": _model(view, record, made, [part["bom-ref"] for part in data]),
        },
        "components": [*data, *files, *needs],
        "dependencies": [
            {"ref": reference(made), "dependsOn": sorted(p["bom-ref"] for p in (*data, *files, *needs))}
        ],
    }


def reference(made: kinds.ReleaseMade) -> str:
    """The model's reference inside the document."""
    return f"model:{made.release_id}"


def _model(view: RunView, record: Record, made: kinds.ReleaseMade, data: list[str]) -> Json:
    account = made.account
    facts: dict[str, Any] = {
        "run": view.run_uid,
        "release": made.release_id,
        "record": record.record_id,
        "checkpoint_digest": made.checkpoint_digest,
        "configuration_digest": account.configuration_digest if account else None,
        "step": account.step if account else None,
        "tokens": account.tokens if account else None,
        "responsible": account.responsible if account else None,
        "rollback": made.rollback,
        "take_down": made.take_down,
    }
    unrecorded = account.unrecorded if account else {"account": "released before releases carried an account"}
    facts |= {f"unrecorded:{name}": reason for name, reason in unrecorded.items()}
    if not any(signed.release_id == made.release_id for _, signed in view.all(kinds.ReleaseSigned)):
        facts["unrecorded:signature"] = "unsigned: no signing key was configured when the run was closed"
    return {
        "type": "machine-learning-model",
        "bom-ref": reference(made),
        "name": clean(made.name),
        "version": clean(made.version),
        "modelCard": model_card(view, made, data),
        "externalReferences": _references(view, made),
        "properties": properties(facts),
    }


def _references(view: RunView, made: kinds.ReleaseMade) -> list[Json]:
    """The card beside it, and the signature with its digest where the release is signed."""
    found: list[Json] = [{"type": "model-card", "url": "README.md"}]
    for _, signed in view.all(kinds.ReleaseSigned):
        if signed.release_id == made.release_id:
            hashes = [{"alg": "SHA-256", "content": signed.bundle_digest.removeprefix("sha256:")}]
            found.append({"type": "digital-signature", "url": signed.bundle_digest, "hashes": hashes})
    return found
