"""Rows that were edited under their seal: reading refuses one edited column, a proof refuses both."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.support.ledgers import Place, as_owner, draft

from pretrain_archive.domain.errors import LedgerError
from pretrain_archive.domain.merkle import Frontier, inclusion_proof, leaf_hash, subtree_reader
from pretrain_archive.domain.records import Record
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.ledger.engine import Session
from pretrain_archive.ledger.port import NeverSealedError, SignedCheckpoint
from pretrain_archive.ledger.proving import sealed_faults, unproven
from pretrain_archive.ledger.sql import SqlLedger

COUNT = 300
EDITED = 150


@pytest.fixture
def sealed(place: Place) -> SqlLedger:
    """Three streams, sealed."""
    ledger = place.open()
    ledger.append([draft(i, stream=f"project/{i % 3}") for i in range(COUNT)])
    ledger.seal()
    return ledger


def edit(*, position: int = EDITED, rehash: bool) -> Callable[[Session], None]:
    """Another text in one row, with or without a leaf that fits."""

    def act(session: Session) -> None:
        found = session.one("SELECT stored FROM pretrain_archive_record WHERE position = ?", (position,))
        assert found is not None
        body = json.loads(bytes(found[0]))
        body["payload"]["text"] = "forged"
        stored = canonical_bytes(body)
        leaf = leaf_hash(stored) if rehash else None
        session.run(
            "UPDATE pretrain_archive_record SET stored = ?, leaf = COALESCE(?, leaf) WHERE position = ?",
            (stored, leaf, position),
        )

    return act


def moved(column: str, value: str) -> Callable[[Session], None]:
    """One row under another name."""
    return lambda session: session.run(
        f"UPDATE pretrain_archive_record SET {column} = ? WHERE position = ?", (value, EDITED)
    )


READS: dict[str, Callable[[SqlLedger], object]] = {
    "all": lambda ledger: list(ledger.records()),
    "by stream": lambda ledger: list(ledger.records(streams=["project/0"])),
    "by kind": lambda ledger: list(ledger.records(kinds=["note.added"])),
    "a repeated step": lambda ledger: ledger.append([draft(EDITED, stream="project/0")]),
}


@pytest.mark.parametrize("read", READS)
def test_edited_bytes_are_not_read(place: Place, sealed: SqlLedger, read: str) -> None:
    """Whoever reads a row whose bytes do not have the leaf beside them gets its position instead."""
    with as_owner(place) as session:
        edit(rehash=False)(session)
    with pytest.raises(LedgerError, match=rf"rec_\S+ at position {EDITED} was edited"):
        READS[read](sealed)


@pytest.mark.parametrize(
    ("act", "read"),
    [
        pytest.param(moved("stream", "project/x"), {"streams": ["project/x"]}, id="stream"),
        pytest.param(moved("kind", "gate.decision"), {"kinds": ["gate.decision"]}, id="kind"),
    ],
)
def test_row_is_not_read_under_another_name(
    place: Place, sealed: SqlLedger, act: Callable[[Session], None], read: dict[str, list[str]]
) -> None:
    """A row that was moved to another stream or kind is not taken for one of theirs."""
    with as_owner(place) as session:
        act(session)
    with pytest.raises(
        LedgerError, match=f"at position {EDITED} was edited: it is note.added of 'project/0'"
    ):
        list(sealed.records(**read))


def test_whole_log_is_proved(sealed: SqlLedger) -> None:
    """Every record of a sealed log, one stream alone, and what is newer than the seal."""
    checkpoint = sealed.seal()
    sealed.append([draft(9000, stream="project/1")])
    assert [] == unproven(sealed, sealed.records(), checkpoint)
    assert [] == unproven(sealed, sealed.records(streams=["project/1"]), checkpoint)
    assert [] == unproven(sealed, [], checkpoint)


@pytest.mark.parametrize(
    ("position", "says"),
    [
        pytest.param(EDITED, f"position {EDITED} was changed", id="between"),
        pytest.param(COUNT - 3, f"position {COUNT - 3} is not in the signed log", id="newest of its stream"),
    ],
)
def test_edited_row_with_its_leaf_is_not_proved(
    place: Place, sealed: SqlLedger, position: int, says: str
) -> None:
    """A fitting leaf hash deceives the reader and not the proof, which names the row."""
    checkpoint = sealed.seal()
    with as_owner(place) as session:
        edit(position=position, rehash=True)(session)
    records = list(sealed.records(streams=["project/0"]))
    faults = unproven(sealed, records, checkpoint)
    assert says in faults[0], faults
    assert records[position // 3].record_id in faults[0]


def test_hidden_record_is_named(place: Place, sealed: SqlLedger) -> None:
    """A record that was moved out of its stream leaves a gap."""
    checkpoint = sealed.seal()
    with as_owner(place) as session:
        moved("stream", "project/x")(session)
    (fault,) = unproven(sealed, sealed.records(streams=["project/0"]), checkpoint)
    assert "is missing" in fault


def test_log_without_seal_or_key_faults_nothing(place: Place) -> None:
    """Where nothing was ever signed there is nothing to prove against, and that is told apart."""
    ledger = SqlLedger(place.open().database)
    ledger.append([draft(0)])
    with pytest.raises(NeverSealedError):
        ledger.seal()
    assert (None, []) == sealed_faults(ledger, list(ledger.records()))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 64, 65, 100])
def test_proves_exactly_what_the_tree_holds(size: int) -> None:
    """For every shape of tree: all leaves are proved in any order, and each single forged leaf is named."""
    leaves = [leaf_hash(bytes([i])) for i in range(size)]
    tree, frontier = subtree_reader(leaves), Frontier()
    for leaf in leaves:
        frontier.add(leaf)
    checkpoint = SignedCheckpoint(
        origin="x", size=size, root=frontier.root().hex(), signer="x", key_id="", text=""
    )

    class Proofs:
        def proofs(self, positions: list[int], *, size: int) -> dict[int, list[str]]:
            return {p: [h.hex() for h in inclusion_proof(tree, p, size)] for p in positions}

    records = [stub(i, bytes([i])) for i in range(size)]
    assert [] == unproven(Proofs(), records, checkpoint)  # type: ignore[arg-type]  # only proofs are asked
    for i in range(size):
        forged = [*records[:i], stub(i, b"forged"), *records[i + 1 :]]
        assert [f"rec_{i}"] == [
            fault.split()[1]
            for fault in unproven(Proofs(), forged, checkpoint)  # type: ignore[arg-type]
        ]


def stub(position: int, data: bytes) -> Record:
    """A record of its own stream around any bytes."""
    made = Record.from_body(
        {
            "format": "pretrain-archive/record/1", "record_id": f"rec_{position}", "stream": f"s{position}",
            "sequence": 0, "previous": "", "kind": "note.added", "schema_version": 1, "attempt": 0, "ordinal": 0,
            "payload": {}, "actor": {"type": "cli", "name": "x"}, "recorded_at": "", "edges": [], "unique": "",
            "origin": {"dag_id": "d", "dag_run_id": "r", "task_id": "t"},
        },
        position=position, stored=data, leaf=leaf_hash(data).hex(),
    )  # fmt: skip
    return replace(made, stored=data)


def test_proving_is_shared(place: Place) -> None:
    """Ten thousand records that lie scattered in the log are proved in no more time than it takes to read them."""
    ledger = place.open()
    for start in range(0, 20_000, 5000):
        ledger.append([draft(i, stream=f"project/{i % 2}") for i in range(start, start + 5000)])
    checkpoint = ledger.seal()
    reading, proving = [], []
    for _ in range(3):
        begin = time.perf_counter()
        records = list(ledger.records(streams=["project/0"]))
        middle = time.perf_counter()
        assert [] == unproven(ledger, records, checkpoint)
        reading.append(middle - begin)
        proving.append(time.perf_counter() - middle)
    assert 10_000 == len(records)
    print(f"read {min(reading):.2f} s, proved {min(proving):.2f} s")  # noqa: T201 - shown with -s
    assert min(proving) < 3 * min(reading)
