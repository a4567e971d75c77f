"""A pass that is killed anywhere is completed by the next one: on folders, trees, snapshots and a versioned bucket."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.integration.retention.kill_at_step import World
from tests.support.deleting import stones
from tests.support.s3 import s3, s3_endpoint  # noqa: F401 - fixtures

from pretrain_archive.domain.identity import Ref
from pretrain_archive.storage.factory import open_store


@pytest.fixture
def world(tmp_path):
    """One thing of every kind to delete."""
    return World(root=tmp_path).make()


@pytest.fixture
def remote(tmp_path, s3):  # noqa: F811 - the fixture
    """A checkpoint in a bucket that keeps versions."""
    s3.client().put_bucket_versioning(Bucket=s3.bucket, VersioningConfiguration={"Status": "Enabled"})
    bucket = open_store(f"s3://{s3.bucket}/archive", s3_options=s3.options)
    return World(root=tmp_path, remote=bucket).make()


def check_tombstones(world: World) -> dict:
    """Every tombstone proves absence: nothing of what it is for is there. Nothing is forgotten by the index."""
    ledger = world.ledger()
    found = stones(ledger)
    there = set(world.there())
    assert not there & set(found)
    registered = {
        f"checkpoint:{r.payload['checkpoint_id']}" for r in ledger.records(kinds=["checkpoint.registered"])
    }
    assert {item["id"] for item in world.items if item["kind"] == "checkpoint"} <= registered
    return found


def check_done(world: World, applied) -> None:
    """All gone, one tombstone each, every byte counted once, nothing left over."""
    found = check_tombstones(world)
    records = list(world.ledger().records(kinds=["tombstone.written"]))
    assert applied.complete, applied
    assert {item["id"] for item in world.items} == set(found)
    assert len(world.items) == len(records)
    assert [] == list(world.there())
    assert [] == world.journals()
    assert world.held - world.bytes_held() == sum(stone.bytes_released for stone in found.values())
    assert not any(stone.already_missing for stone in found.values())


@pytest.mark.forks
@pytest.mark.requirement("R149", "R150")
def test_a_kill_before_any_step_is_completed_by_the_next_pass(world):
    """SIGKILL before each step in turn: no orphan, no tombstone whose bytes are there, one tombstone each."""
    steps = kill_everywhere(world)

    assert 40 <= len(steps)
    assert {"journal", "unlink .complete", "unlink optimizer.safetensors", "rmdir", "half of many", "after append",
            "forget journal", "delete many done"} <= set(steps)  # fmt: skip


@pytest.mark.forks
@pytest.mark.requirement("R149")
def test_a_kill_among_the_versions_of_a_bucket_is_completed(remote):
    """Half of the versions may be gone: the journal names them all, older content is never taken for the newest."""
    steps = kill_everywhere(remote)

    assert 10 <= len(steps)
    assert {"half of many", "after append"} <= set(steps)


def kill_everywhere(world: World) -> list[str]:
    """Kill a pass before each of its steps and complete it; the steps."""
    number, killed, steps = 0, True, []
    while killed:
        world.reset()
        killed, steps = world.die_at(number)
        check_tombstones(world)
        check_done(world, world.run_pass())
        number += 1
    assert number == len(steps) + 1
    return steps


class Cut(BaseException):
    """A pass ends here, as if its process had."""


def cut_at(world: World, number: int) -> None:
    """A pass that ends before its step ``number``, if it gets there."""
    left = [number]

    def step(name: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Cut(name)

    with suppress(Cut):
        world.run_pass(step)


@pytest.mark.requirement("R149")
def test_any_later_pass_forgets_the_journals_of_what_is_buried(world):
    """The tombstones were written and the pass was cut: a pass over another plan leaves nothing behind."""

    def cut(name: str) -> None:
        if name == "after append":
            raise Cut

    with suppress(Cut):
        world.run_pass(cut)
    assert len(world.items) == len(world.journals())

    world.run_pass(items=[])

    assert [] == world.journals()


@pytest.mark.requirement("R150")
def test_no_sequence_of_cut_passes_loses_anything(world):
    """Whatever is cut how often: entries, links and counts hold, and one whole pass ends it."""

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.integers(0, 60), max_size=4))
    def holds(cuts: list[int]) -> None:
        world.reset()
        for number in cuts:
            cut_at(world, number)
            check_tombstones(world)
        check_done(world, world.run_pass())
        ledger = world.ledger()
        for item in world.items:
            nodes = ledger.trace(Ref.parse(item["id"]), direction="backward").nodes
            assert "tombstone" in {node.type for node in nodes}

    holds()
