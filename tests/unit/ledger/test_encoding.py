"""What a record cannot hold is refused in words that name the field, and nothing of the batch is written."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.support.ledgers import Place, draft, edge

from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.records import Actor, Draft, Origin
from pretrain_archive.ledger.encoding import DEEPEST, MOST_BYTES
from pretrain_archive.ledger.sql import SqlLedger


def event(ordinal: int, value: Any) -> Draft:
    """A draft whose payload holds any value."""
    payload = {
        "attempt": 1,
        "event": "note",
        "at": "2026-11-29T10:00:00.000000Z",
        "step": None,
        "data": {"v": value},
    }
    return draft(ordinal, kind="event.recorded", payload=payload)


def nested(levels: int) -> list[Any]:
    """Lists within lists."""
    made: list[Any] = []
    for _ in range(levels):
        made = [made]
    return made


VALUES = {
    "huge integer": 10**5000,
    "integer beyond doubles": 2**53,
    "not a number": float("nan"),
    "infinity": float("-inf"),
    "deep": nested(950),
    "deeper than the stack": nested(100_000),
    "just too deep": nested(DEEPEST),
    "lone surrogate": "\ud800",
    "surrogate key": {"\ud800": 1},
    "number key": {1: 2},
    "bytes": b"x",
    "set": {1},
    "decimal": Decimal("1.5"),
    "path": Path("/x"),
}


@pytest.mark.parametrize("name", VALUES)
def test_value_that_json_has_not_is_named(place: Place, name: str) -> None:
    """The field is named down to the value; the message can be printed."""
    ledger = place.open()
    with pytest.raises(InputError) as refused:
        ledger.append([draft(0), event(1, VALUES[name])])
    assert "data.v" in refused.value.field or "data" in refused.value.field
    assert str(refused.value).encode()
    assert len(str(refused.value)) < 1500
    assert [] == list(ledger.records())


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        pytest.param({"stream": "data/\ud800"}, "stream", id="stream"),
        pytest.param(
            {"origin": Origin(dag_id="d", dag_run_id="r\udcff", task_id="t")}, "origin.dag_run_id", id="run"
        ),
        pytest.param({"actor": Actor(type="cli", name="\udcff")}, "actor.name", id="actor"),
        pytest.param({"unique": "\udcff"}, "unique", id="unique"),
        pytest.param({"edges": (edge("run:\udcff", "run:a"),)}, "edges[0].subject", id="edge"),
        pytest.param({"attempt": 2**63}, "attempt", id="attempt"),
        pytest.param({"ordinal": 2**40}, "ordinal", id="ordinal"),
    ],
)
def test_name_that_no_column_holds_is_named(place: Place, bad: dict[str, Any], field: str) -> None:
    """Also what stands around the payload."""
    ledger = place.open()
    with pytest.raises(InputError) as refused:
        ledger.append([Draft(**{name: getattr(draft(1), name) for name in Draft.__dataclass_fields__} | bad)])
    assert field == refused.value.field
    assert str(refused.value).encode()


def test_deep_value_within_the_limit_is_kept(place: Place) -> None:
    """Up to the limit it is stored and read."""
    ledger: SqlLedger = place.open()
    value = nested(DEEPEST - 10)
    ledger.append([event(0, value)])
    assert value == next(ledger.records()).payload["data"]["v"]


def test_bulk_is_refused_with_what_to_do(place: Place) -> None:
    """More than eight mebibytes belong in the object store; what is below is kept."""
    ledger = place.open()
    with pytest.raises(InputError, match=r"at most 8388608 are kept.*object store.*digest") as refused:
        ledger.append([event(0, "x" * MOST_BYTES)])
    assert "payload.data" == refused.value.field
    ledger.append([event(1, "x" * (MOST_BYTES - 2000))])
    assert [1] == [record.ordinal for record in ledger.records()]


def test_no_record_is_larger_than_its_verifier_reads() -> None:
    """A package's own verifier reads every record that the ledger takes."""
    from pretrain_archive.package import verify

    assert MOST_BYTES < verify.MAX_RECORD
