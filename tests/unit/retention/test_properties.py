"""Ten thousand random lineage graphs: nothing that is needed is deleted, and a deletion changes states and no more."""

from __future__ import annotations

import pytest
from tests.fakes.memory_ledger import MemoryLedger
from tests.unit.retention.lineage import Graph, make
from tests.unit.retention.subjects import NOW, policy_with

from pretrain_archive.retention.liveness import Liveness, busy
from pretrain_archive.retention.plan import GOING
from pretrain_archive.retention.planning import Planner
from pretrain_archive.retention.world import World

GRAPHS, PARTS = 10_000, 10
POLICY = policy_with({"action": "delete", "keep_last": 1})
"""A rule about every class: what a candidate or a release needs is kept by the graph alone."""


def world_of(graph: Graph) -> World:
    """The graph as the clean-up sees it; no bytes are looked at."""
    liveness = Liveness(MemoryLedger())
    graph.feed(liveness.facts)
    return World(liveness=liveness, places=(), now=NOW)


def plan(world: World) -> dict[str, tuple[str, str]]:
    """Action and reason by reference."""
    planner = Planner(world=world, policies=POLICY, now=NOW, looks=-1, look=lambda subject: subject)
    return {
        answer.subject.ref: (answer.action, answer.reason)
        for uid in planner.runs()
        for answer in planner.decide(uid)
    }


def shape(world: World) -> object:
    """Everything of the graph but which checkpoints are deleted."""
    facts = world.liveness.facts
    sets = [{name: frozenset(each) for name, each in table.items()} for table in
            (facts.users, facts.of_checkpoint, facts.held, facts.leases)]  # fmt: skip
    runs = {uid: (run.state, run.project, tuple(run.decisions)) for uid, run in facts.runs.items()}
    return sets, dict(facts.candidates), dict(facts.released), dict(facts.checkpoints), runs


def last_of_runs(graph: Graph, world: World) -> set[str]:
    """The checkpoint with the highest step of each run and class, by the class that counts now."""
    found: dict[tuple[str, str], tuple[int, str]] = {}
    for node in graph.nodes.values():
        if not node.deleted:
            key = node.run, world.liveness.facts.effective_class(node.ref)
            found[key] = max(found.get(key, (0, "")), (node.step, node.ref))
    return {ref for _, ref in found.values()}


@pytest.mark.requirement("R150", "R151")
@pytest.mark.parametrize("part", range(PARTS))
def test_never_a_referenced_deletion(part: int) -> None:
    """What the graph needs stays, what nothing needs goes; after the deletion the graph is the same but for states."""
    for seed in range(part, GRAPHS, PARTS):
        graph = make(seed)
        world = world_of(graph)
        planned = plan(world)
        going = {ref for ref, (action, _) in planned.items() if action in GOING}
        last = last_of_runs(graph, world)
        before = shape(world)
        assert {n.ref for n in graph.nodes.values() if not n.deleted} == set(planned), f"seed {seed}"
        for node in graph.nodes.values():
            if node.deleted:
                continue
            stays = graph.needed(node) or node.ref in last
            assert (node.ref in going) is not stays, f"seed {seed}: {node.ref}: {planned[node.ref]}"

        assert not set(busy(world.liveness, going, now=NOW)), f"seed {seed}"
        for node in graph.nodes.values():
            if node.ref in going:
                node.deleted = True
                graph.add(node.run, "tombstone.written", ref=node.ref)
                world.liveness.facts.take(len(graph.bodies), graph.bodies[-1])
        world.__dict__.pop("by_run", None)  # as after a refresh
        assert before == shape(world), f"seed {seed}"
        assert going == set(busy(world.liveness, going, now=NOW)), f"seed {seed}"
        again = {ref for ref, (action, _) in plan(world).items() if action in GOING}
        assert not any(graph.needed(graph.nodes[ref.partition(":")[2]]) for ref in again), f"seed {seed}"
