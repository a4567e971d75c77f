"""Published schemas, and records of every version ever released."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pretrain_archive.domain.kinds import KINDS, read_payload
from pretrain_archive.domain.merkle import leaf_hash
from pretrain_archive.ledger import schemas
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.ledger.rows import read_record

ROOT = Path(__file__).parents[3]
SCHEMAS = ROOT / "docs" / "schemas"
STORED = Path(__file__).parent / "stored_records"


@pytest.mark.parametrize("name", sorted(schemas.current_schemas()))
def test_published_schema_is_current(name: str) -> None:
    """The committed file of each kind is what this release writes."""
    expected = schemas.to_text(schemas.current_schemas()[name])
    assert expected == (SCHEMAS / name).read_text(encoding="utf-8"), (
        "run python -m pretrain_archive.ledger.schemas"
    )


def test_every_version_has_schema_and_stored_record() -> None:
    """Every version of every kind up to the current one has a published schema and a stored example."""
    expected = {
        schemas.file_name(kind, version)
        for kind, now in KINDS.items()
        for version in range(1, now.version + 1)
    }
    assert expected | {schemas.RECORD_FILE} == {path.name for path in SCHEMAS.glob("*.json")}
    assert expected == {path.name for path in STORED.glob("*.json")}


@pytest.mark.parametrize("path", sorted(STORED.glob("*.json")), ids=lambda path: path.stem)
def test_stored_record_is_still_read(path: Path) -> None:
    """A record as an earlier release stored it is read into today's payload, and its bytes are canonical."""
    stored = path.read_bytes()
    record = read_record(0, stored, leaf_hash(stored))
    payload = read_payload(record, KINDS[record.kind].model)

    assert path.stem == f"{record.kind}.v{record.schema_version}"
    assert stored == canonical_bytes(record.body()) == canonical_bytes(json.loads(stored))
    assert KINDS[record.kind].model is type(payload)
