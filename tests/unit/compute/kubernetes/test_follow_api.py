"""What a follower is told that is no list, no object, no number: an error that it knows, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pretrain_archive.compute.kubernetes.follow_api import ClientCluster, FollowError


class Answering:
    """A client, its answer and the answer's stream in one: whatever is asked, these bytes come."""

    status = 200

    def __init__(self, data: bytes) -> None:
        self.data, self.content = data, self

    async def call_api(self, *_: Any, **__: Any) -> Answering:
        """The answer."""
        return self

    async def read(self) -> bytes:
        """All of it."""
        return self.data

    async def iter_any(self) -> AsyncIterator[bytes]:
        """All of it as one block of a watch."""
        yield self.data + b"\n"

    def release(self) -> None:
        """Nothing is held."""

    close = release


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"[]", id="no object"),
        pytest.param(b'{"items": 7}', id="items that are a number"),
        pytest.param(b"[" * 100_000, id="brackets without end"),
        pytest.param(b"<html>", id="no JSON"),
    ],
)
def test_a_list_that_is_none(answer: bytes) -> None:
    """The follower hears that the cluster cannot be read, and asks again later."""
    with pytest.raises(FollowError):
        asyncio.run(ClientCluster(Answering(answer)).read_all("Pod", "training", ""))


def test_odd_parts_of_a_list() -> None:
    """Items and pages of another type are left out."""
    answer = b'{"metadata": "x", "items": [5, {"metadata": "x", "spec": {"nodeName": "n"}}]}'

    assert ([{"spec": {"nodeName": "n"}}], "") == asyncio.run(
        ClientCluster(Answering(answer)).read_all("Pod", "training", "")
    )


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(
            b'{"type": "ERROR", "object": {"code": ["410"], "message": "gone"}}', id="a code that is none"
        ),
        pytest.param(b"[" * 100_000, id="brackets without end"),
        pytest.param(b'{"type": "ADDED", "object": 5}', id="no object"),
    ],
)
def test_a_line_that_is_none(line: bytes) -> None:
    """The watch ends with an error that the follower knows."""

    async def hear() -> None:
        async for _ in ClientCluster(Answering(line)).watch("Pod", "training", "", "1", seconds=1):
            pass

    with pytest.raises(FollowError):
        asyncio.run(hear())
