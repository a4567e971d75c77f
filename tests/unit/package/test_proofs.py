"""One proof for many records: what the verifier recomputes, from few proofs of the ledger."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from tests.fakes.memory_ledger import MemoryLedger

from pretrain_archive.domain.errors import PackageError
from pretrain_archive.domain.records import Actor, Draft, Origin
from pretrain_archive.package.proofs import multi_proof
from pretrain_archive.package.verify import tree_root

ORIGIN = Origin(dag_id="d", dag_run_id="r", task_id="t")


class Counting(MemoryLedger):
    """Counts the single proofs that it is asked for."""

    asked = 0

    def proofs(self, positions: Sequence[int], *, size: int) -> dict[int, list[str]]:
        """See ``Ledger.proofs``."""
        self.asked += len(positions)
        return super().proofs(positions, size=size)


def filled(size: int, mine: set[int]) -> Counting:
    """A log of ``size`` records, those at ``mine`` of one run."""
    ledger = Counting()
    for number in range(size):
        stream = "run_mine" if number in mine else f"run_{number}"
        ledger.append(
            [Draft(stream=stream, kind="note.added", payload={"n": number}, actor=Actor(type="task", name="t"),
                   origin=ORIGIN, ordinal=number)]
        )  # fmt: skip
    return ledger


def root_of(ledger: Counting, proofs: dict[str, object]) -> str:
    """The root as the verifier recomputes it."""
    leaves = [(at, bytes.fromhex(leaf)) for at, _, leaf in proofs["leaves"]]  # type: ignore[attr-defined]
    return tree_root(leaves, len(ledger.log), [bytes.fromhex(h) for h in proofs["hashes"]]).hex()  # type: ignore[attr-defined]


def test_any_choice_of_records_leads_to_the_root() -> None:
    """Random logs and random runs in them: the proof is complete and has no node too many."""
    rng = random.Random(11)
    for _ in range(60):
        size = rng.randrange(1, 70)
        mine = set(rng.sample(range(size), rng.randrange(1, size + 1)))
        ledger = filled(size, mine)
        checkpoint = ledger.seal()
        proofs = multi_proof(ledger, [ledger.log[at] for at in sorted(mine)], checkpoint)

        assert checkpoint.root == root_of(ledger, proofs)


def test_a_long_run_in_one_piece_needs_few_proofs() -> None:
    """The work does not grow with the number of records, only with the pieces that lie between others."""
    ledger = filled(600, set(range(37, 561)))
    proofs = multi_proof(ledger, [ledger.log[at] for at in range(37, 561)], ledger.seal())

    assert ledger.seal().root == root_of(ledger, proofs)
    assert ledger.asked < 20


def test_record_behind_the_checkpoint_is_refused() -> None:
    """Nothing is proven that was not signed."""
    ledger = filled(4, {0, 3})
    checkpoint = ledger.seal()
    actor = Actor(type="task", name="t")
    ledger.append(
        [Draft(stream="run_mine", kind="note.added", payload={}, actor=actor, origin=ORIGIN, ordinal=9)]
    )

    with pytest.raises(PackageError, match="does not cover"):
        multi_proof(ledger, ledger.log, checkpoint)
