"""What is read of the log is of one moment, whole, and read once."""

from __future__ import annotations

import pytest
from tests.fakes.memory_ledger import MemoryLedger
from tests.support.artifact_run import ACTOR

from pretrain_archive.domain.identity import new_id
from pretrain_archive.domain.records import Draft, Origin
from pretrain_archive.retention.liveness import Liveness, still_free


def note(ledger, number: int = 0, kind: str = "note.added", **payload) -> None:
    """Any record; by default of a kind that makes nothing live."""
    origin = Origin(dag_id="cli", dag_run_id=new_id("call"), task_id="t")
    ledger.append([
        Draft(stream="ledger", kind=kind, payload=payload or {"topic": "n", "text": str(number)}, actor=ACTOR,
              origin=origin)
    ])  # fmt: skip


class Growing(MemoryLedger):
    """While the kinds are read, a hold is placed and something else is recorded behind it."""

    grown = False

    def bodies(self, *, kinds, after=-1, fields=None):
        """As a database that reads kind by kind: the hold comes too late for its own kind, the close does not."""
        found = list(super().bodies(kinds=kinds, after=after, fields=fields))
        if not self.grown:
            self.grown = True
            note(self, kind="hold.placed", hold_id="hold_1", target="run:run_a", reason="r", placed_by="dora")
            note(self, kind="run.failed", reason="x", phase="y")
            found.append((self.log[-1].position, self.log[-1].body()))
        yield from found


def test_what_comes_in_while_kinds_are_read_is_not_passed_over():
    """A hold that was placed while another kind was read behind it is known in the end."""
    ledger = Growing()
    note(ledger)

    facts = Liveness.read(ledger).facts

    assert {"hold_1": "r (dora)"} == facts.held.get("run:run_a")


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 9, 100])
def test_the_end_of_the_log_is_found(count):
    """From any place before it; and with nothing new nothing is read."""
    ledger = MemoryLedger()
    for number in range(count):
        note(ledger, number)
    for seen in range(-1, count):
        liveness = Liveness(ledger)
        liveness.seen = seen
        assert count - 1 == liveness._end()

    liveness = Liveness.read(ledger)
    ledger.bodies = None
    liveness.refresh()
    assert count - 1 == liveness.seen


def test_what_no_record_names_is_not_free():
    """An unknown checkpoint may not be deleted."""
    assert {"checkpoint:x": "no record names it"} == still_free(MemoryLedger(), ["checkpoint:x"])
