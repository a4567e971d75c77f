"""Which edges carry content: data and results do, being triggered again and following in time do not."""

from __future__ import annotations

import pytest

from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.lineage import content_edges, reach
from pretrain_archive.domain.records import Edge, Relation


def edge(subject: str, object_: str, relation: str = "was_derived_from") -> Edge:
    """An edge from two references as text."""
    return Edge(subject=Ref.parse(subject), relation=Relation(relation), object=Ref.parse(object_))


def reached(edges: list[Edge], start: str, direction: str) -> set[str]:
    """What is reached over the edges that carry content."""
    return {str(ref) for ref in reach(content_edges(edges), [Ref.parse(start)], direction)}  # type: ignore[arg-type]


RAW = [edge("snapshot:raw@1", "source:a"), edge("snapshot:clean@1", "snapshot:raw@1")]


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        pytest.param(RAW, {"snapshot:raw@1", "snapshot:clean@1"}, id="through a derived snapshot"),
        pytest.param(
            [*RAW, edge("snapshot:raw@2", "snapshot:raw@1"), edge("snapshot:raw@2", "source:b")],
            {"snapshot:raw@1", "snapshot:clean@1"},
            id="the next version of another source",
        ),
        pytest.param(
            [*RAW, edge("snapshot:raw@2", "snapshot:raw@1")],
            {"snapshot:raw@1", "snapshot:clean@1", "snapshot:raw@2"},
            id="the next version, and nothing else is said",
        ),
        pytest.param(
            [*RAW, edge("snapshot:clean@2", "snapshot:clean@1"), edge("snapshot:clean@2", "snapshot:raw@2"),
             edge("snapshot:raw@2", "source:b")],
            {"snapshot:raw@1", "snapshot:clean@1"},
            id="a derived version made anew from another source",
        ),
        pytest.param(
            [*RAW, edge("snapshot:raw@2", "snapshot:raw@1"), edge("snapshot:raw@2", "rule:dedup@1")],
            {"snapshot:raw@1", "snapshot:clean@1", "snapshot:raw@2"},
            id="made by a rule under the same name",
        ),
        pytest.param(
            [edge("run:one", "source:a", "used"), edge("run:two", "run:one"), edge("run:two", "source:b", "used")],
            {"run:one"},
            id="a run triggered again",
        ),
        pytest.param(
            [*RAW, edge("snapshot:raw@1", "snapshot:clean@1")],
            {"snapshot:raw@1", "snapshot:clean@1"},
            id="a circle ends",
        ),
    ],
)  # fmt: skip
def test_forward(edges: list[Edge], expected: set[str]) -> None:
    """From a source to what rests on it."""
    assert expected == reached(edges, "source:a", "forward")


def test_backward_finds_every_source_of_a_mixture() -> None:
    """A mixture rests on the sources of all its parts."""
    edges = [*RAW, edge("snapshot:mix@1", "snapshot:clean@1"), edge("snapshot:mix@1", "snapshot:web@3"),
             edge("snapshot:web@3", "source:b")]  # fmt: skip

    assert {"source:a", "source:b"} == {
        r for r in reached(edges, "snapshot:mix@1", "backward") if "source" in r
    }


def test_the_way_is_told() -> None:
    """Each thing is told with the one before it on the shortest way."""
    found = reach(content_edges(RAW), [Ref.parse("source:a")], "forward")

    assert {"snapshot:raw@1": "source:a", "snapshot:clean@1": "snapshot:raw@1"} == {
        str(ref): str(before) for ref, before in found.items()
    }
