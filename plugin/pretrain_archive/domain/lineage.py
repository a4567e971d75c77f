"""What rests on what: which edges carry content from one thing to the next.

Every edge says that its subject rests on its object. Two do not pass content on:

* a run derived from a run was triggered again; it has data of its own;
* a snapshot derived from an earlier version of the same name follows it in time. That counts only where nothing
  else says what the version was made from.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Literal

from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.records import Edge, Relation

Direction = Literal["backward", "forward"]


def content_edges(edges: Iterable[Edge]) -> list[Edge]:
    """Those of ``edges`` that carry content; the edges of each snapshot among them must be all it has."""
    every = list(dict.fromkeys(edges))
    made_from: dict[Ref, set[Ref]] = defaultdict(set)
    for edge in every:
        data = edge.object.type in {"source", "snapshot"}  # a rule is no data
        if edge.relation is Relation.WAS_DERIVED_FROM and data and not _follows(edge):
            made_from[edge.subject].add(edge.object)
    return [
        edge for edge in every if not _again(edge) and not (_follows(edge) and made_from.get(edge.subject))
    ]


def reach(edges: Iterable[Edge], start: Iterable[Ref], direction: Direction) -> dict[Ref, Ref]:
    """What is reached from ``start`` over ``edges``, each with the thing before it; ``start`` is not in it."""
    next_to: Mapping[Ref, list[Ref]] = _neighbours(edges, direction)
    first = list(dict.fromkeys(start))
    seen, found, queue = set(first), dict[Ref, Ref](), deque(first)
    while queue:
        here = queue.popleft()
        for other in next_to.get(here, ()):
            if other not in seen:
                seen.add(other)
                found[other] = here
                queue.append(other)
    return found


def _neighbours(edges: Iterable[Edge], direction: Direction) -> dict[Ref, list[Ref]]:
    next_to: dict[Ref, list[Ref]] = defaultdict(list)
    for edge in edges:
        near, far = (edge.subject, edge.object) if direction == "backward" else (edge.object, edge.subject)
        next_to[near].append(far)
    return next_to


def _again(edge: Edge) -> bool:
    return (edge.subject.type, edge.relation, edge.object.type) == ("run", Relation.WAS_DERIVED_FROM, "run")


def _follows(edge: Edge) -> bool:
    """Whether the edge leads from a version to an earlier one of the same snapshot name."""
    same = edge.subject.type == edge.object.type == "snapshot" and edge.subject.id == edge.object.id
    return same and edge.relation is Relation.WAS_DERIVED_FROM
