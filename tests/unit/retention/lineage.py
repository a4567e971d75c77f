"""Random lineage graphs: runs, checkpoints, evaluations, choices, references, holds; and who needs what, by the graph.

A graph is written as the bodies and edges that the ledger would give, and judged here by its own structure, so that
what the clean-up concludes from records is held against what the graph means.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tests.unit.retention.subjects import NOW

from pretrain_archive.domain.identity import format_time
from pretrain_archive.retention.facts import Facts

DIGEST = "sha256:" + "d" * 64
CLASSES = ("recovery", "recovery", "recovery", "evaluation", "candidate")
STATES = ("closed", "closed", "closed", "closed", "open", "training", "failed", "waiting")


@dataclass
class Node:
    """A checkpoint of the graph; ``users`` are edges to it (subject, stream), ``named`` runs that name it."""

    name: str
    run: str
    step: int
    artifact_class: str
    deleted: bool = False
    users: list[tuple[str, str]] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    kept_candidate: bool = False
    released: bool = False
    held: bool = False
    leased: bool = False
    evaluations: list[str] = field(default_factory=list)

    @property
    def ref(self) -> str:
        """As records name it."""
        return f"checkpoint:{self.name}"

    @property
    def location(self) -> str:
        """Where it lies."""
        return f"file:///{self.run}/step_{self.step}"


@dataclass
class Graph:
    """What a seed makes."""

    states: dict[str, str] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    nodes: dict[str, Node] = field(default_factory=dict)
    chosen: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    links: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, stream: str, kind: str, **payload: Any) -> None:
        """One more record, a minute after the one before."""
        at = NOW - timedelta(days=100) + timedelta(minutes=len(self.bodies))
        self.bodies.append(
            {"stream": stream, "kind": kind, "payload": payload, "recorded_at": format_time(at)}
        )

    def link(self, subject: str, node: Node, stream: str) -> None:
        """One more edge to a checkpoint."""
        node.users.append((subject, stream))
        self.links.append((subject, node.ref, stream))

    def feed(self, facts: Facts) -> None:
        """Give everything to the clean-up as the ledger would."""
        for position, body in enumerate(self.bodies):
            facts.take(position, body)
        for link in self.links:
            facts.link(*link)

    def needed(self, node: Node) -> bool:
        """Whether anything in the graph needs the bytes of ``node``."""
        run = node.run
        if self.states[run] != "closed" or run in self.running:
            return True
        if node.kept_candidate or node.released or node.leased or node.held:
            return True
        if self.held & {run, "demo"} or any(user != run for user in node.named):
            return True
        if any(parent == run and self.states[child] != "closed" for child, parent in self.parents.items()):
            return True
        return any(self._needs(user, stream, run) for user, stream in node.users)

    def _needs(self, user: str, stream: str, run: str) -> bool:
        kind, _, name = user.partition(":")
        if kind == "run":
            return name != run
        if kind == "evaluation":
            return user in self.chosen or (stream != run and self.states.get(stream) != "closed")
        return not (kind == "checkpoint" and self.nodes[name].deleted)


def make(seed: int) -> Graph:
    """The graph of a seed: up to four runs, twenty checkpoints and twenty references."""
    chance, graph = random.Random(seed), Graph()
    uids = [f"run_{number}" for number in range(chance.randint(1, 4))]
    for uid in uids:
        parent = chance.choice(uids) if chance.random() < 0.25 else None
        if parent == uid:
            parent = None
        if parent:
            graph.parents[uid] = parent
        graph.add(uid, "run.opened", project="demo", submitter="alice", derived_from=parent)
        for number in range(chance.randint(0, 5)):
            name = f"ckpt_{len(graph.nodes):032x}"
            node = Node(name, uid, number * 100 + 100, chance.choice(CLASSES))
            graph.nodes[name] = node
            graph.add(
                uid, "checkpoint.registered", checkpoint_id=name, artifact_class=node.artifact_class, purpose="",
                step=node.step, attempt=1, location=node.location, digest=f"sha256:{len(graph.nodes):064x}",
                files=[{"size": 10}], components={}, responsible="alice",
            )  # fmt: skip
    nodes = list(graph.nodes.values())
    for _ in range(chance.randint(0, 12) if nodes else 0):
        _reference(chance, graph, chance.choice(nodes), uids)
    for uid in uids:
        _end(chance, graph, uid)
    for node in nodes:
        if chance.random() < 0.1:
            node.deleted = True
            graph.add(node.run, "tombstone.written", ref=node.ref)
    return graph


def _reference(chance: random.Random, graph: Graph, node: Node, uids: list[str]) -> None:
    """Something happens to a checkpoint."""
    uid, number = chance.choice(uids), len(graph.bodies)
    what = chance.choice(
        ("evaluate", "evaluate", "candidate", "release", "use", "derive", "base", "resume", "hold", "lift", "lease",
         "lease ended", "hold run")
    )  # fmt: skip
    match what:
        case "evaluate":
            _evaluate(graph, node, uid, number)
        case "candidate" | "release":
            _choose(chance, graph, node, number, released=what == "release")
        case "use":
            graph.link(f"run:{uid}", node, uid)
        case "derive":
            other = chance.choice(list(graph.nodes.values()))
            if other is not node:
                graph.link(other.ref, node, other.run)
        case "base" | "resume":
            _begin(chance, graph, node, uid, what)
        case "hold" | "lift" | "hold run":
            _hold(graph, node, number, what)
        case _:
            _read(graph, node, uid, number, ended=what == "lease ended")


def _begin(chance: random.Random, graph: Graph, node: Node, uid: str, what: str) -> None:
    path = node.location.removeprefix("file://") + "/model"
    name = chance.choice((node.name, node.ref, node.location, path))
    node.named.append(uid)
    if what == "base":
        graph.add(uid, "configuration.declared", base_model=name)
    else:
        graph.add(uid, "attempt.started", attempt=1, resume_from=name)
        graph.add(uid, "attempt.ended", attempt=1)


def _hold(graph: Graph, node: Node, number: int, what: str) -> None:
    target, name = f"run:{node.run}" if what == "hold run" else node.ref, f"hold_{number}"
    graph.add("ledger", "hold.placed", hold_id=name, target=target, reason="r", placed_by="dora")
    if what == "lift":
        graph.add("ledger", "hold.released", hold_id=name)
    elif what == "hold":
        node.held = True
    else:
        graph.held.add(node.run)


def _read(graph: Graph, node: Node, uid: str, number: int, *, ended: bool) -> None:
    until, name = format_time(NOW + timedelta(hours=1)), f"try_{number}"
    graph.add(uid, "evaluation.started", checkpoint_id=node.name, try_id=name, lease_until=until)
    if ended:
        graph.add(uid, "evaluation.failed", checkpoint_id=node.name, try_id=name)
    else:
        node.leased = True


def _evaluate(graph: Graph, node: Node, uid: str, number: int) -> str:
    name = f"eval_{number}"
    graph.add(
        uid, "evaluation.reported", evaluation_id=name, checkpoint_id=node.name, definition_digest=DIGEST,
        metrics=[{"name": "loss", "value": 1.0}],
    )  # fmt: skip
    graph.link(f"evaluation:{name}", node, uid)
    node.evaluations.append(name)
    return name


def _choose(chance: random.Random, graph: Graph, node: Node, number: int, *, released: bool) -> None:
    kept = released or chance.random() < 0.5
    # A choice without an evaluation on record stands on its own word.
    evaluation = _evaluate(graph, node, node.run, number) if chance.random() < 0.7 else f"eval_lost_{number}"
    name = f"cand_{number}"
    graph.add(
        node.run,
        "candidate.named",
        candidate_id=name,
        checkpoint_id=node.name,
        evaluation_id=evaluation,
        kept=kept,
    )
    node.kept_candidate = node.kept_candidate or kept
    if kept:
        graph.chosen.add(f"evaluation:{evaluation}")
        if chance.random() < 0.5:  # measured against another checkpoint, which the choice then rests on
            graph.link(f"evaluation:{evaluation}", chance.choice(list(graph.nodes.values())), node.run)
    if released:
        node.released = True
        graph.add(node.run, "release.made", release_id=f"rel_{number}", candidate_id=name)


def _end(chance: random.Random, graph: Graph, uid: str) -> None:
    state = graph.states[uid] = chance.choice(STATES)
    if chance.random() < 0.1:
        graph.running.add(uid)
        graph.add(uid, "job.created", name="job", namespace="default", attempt=1)
    if state == "closed":
        graph.add(uid, "run.closed", outcome="register")
    elif state == "failed":
        graph.add(uid, "run.failed")
    elif state == "training":
        graph.add(uid, "launch.intended")
    elif state == "waiting":
        graph.add(uid, "gate.dossier", gate="close")
