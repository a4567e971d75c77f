"""Checkpoints that are kept as rows are those that their registrations tell."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.fakes.memory_ledger import MemoryLedger

from pretrain_archive.retention.liveness import Liveness
from pretrain_archive.retention.registered import Registrations
from pretrain_archive.retention.subjects import Subject
from pretrain_archive.retention.world import World

RUNS = ("run_a", "run_b")


def body(
    name: str = "a", *, run: str = "run_a", location: str = "file:///x/step_5", **changes: Any
) -> dict[str, Any]:
    """The body of a registration."""
    payload = {
        "checkpoint_id": name, "artifact_class": "recovery", "purpose": "p", "step": 5, "attempt": 2,
        "components": {"weights": 3}, "files": [{"size": 3}, {"size": 4}], "location": location,
        "digest": "sha256:d", "responsible": "alice",
    }  # fmt: skip
    return {
        "kind": "checkpoint.registered",
        "stream": run,
        "recorded_at": "2026-01-01T00:00:00Z",
        "payload": payload | changes,
    }


def test_a_row_is_read_as_a_subject() -> None:
    """Every field of a registration; what differs in one of them is not taken for another's."""
    found = Registrations()
    found.register("checkpoint:a", "run_a", "demo", 7, body())
    found.register("checkpoint:b", "run_a", "demo", 8, body("b", components=None, digest="sha256:e", step=6))

    expected = Subject(
        ref="checkpoint:a", artifact_class="recovery", purpose="p", project="demo", run_uid="run_a", step=5,
        attempt=2, registered_at="2026-01-01T00:00:00Z", size=7, parts={"weights": 3},
        location="file:///x/step_5", digest="sha256:d", responsible="alice", position=7,
    )  # fmt: skip
    assert expected == found["checkpoint:a"]
    other = found["checkpoint:b"]
    assert ({}, "sha256:e", 6, 8) == (other.parts, other.digest, other.step, other.position)
    assert "run_a" == found.run_of("checkpoint:b")
    assert ["checkpoint:a", "checkpoint:b"] == list(found)


def test_a_checkpoint_at_an_address_whose_last_holder_was_deleted_is_judged() -> None:
    """The address has no holder then; the earlier one is answered for like any other."""
    liveness = Liveness(MemoryLedger())
    opened = {"project": "demo", "submitter": "alice"}
    bodies = [
        *({"kind": "run.opened", "stream": run, "recorded_at": "2026-01-01T00:00:00Z", "payload": opened}
          for run in RUNS),
        body("a"),
        body("b", run="run_b"),
        *({"kind": "run.closed", "stream": run, "recorded_at": "2026-01-02T00:00:00Z", "payload": {}} for run in RUNS),
        {"kind": "tombstone.written", "stream": "run_b", "recorded_at": "2026-01-03T00:00:00Z",
         "payload": {"ref": "checkpoint:b"}},
    ]  # fmt: skip
    for position, each in enumerate(bodies):
        liveness.facts.take(position, each)
    world = World(liveness=liveness, places=(), now=datetime(2026, 2, 1, tzinfo=UTC))

    [found] = world.judged("run_a", look=False)

    assert ("checkpoint:a", "", ()) == (found.ref, found.replaced_by, found.live)
