"""Walk two sorted streams side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Left = TypeVar("Left")
Right = TypeVar("Right")


def merge(
    lefts: Iterable[Left],
    rights: Iterable[Right],
    *,
    left: Callable[[Left], bytes],
    right: Callable[[Right], bytes],
) -> Iterator[tuple[Left | None, Right | None]]:
    """Pair the items of two streams by key (both sorted, keys unique); None where one side has no partner."""
    ours, theirs = iter(lefts), iter(rights)
    a, b = next(ours, None), next(theirs, None)
    while a is not None or b is not None:
        if b is None or (a is not None and left(a) < right(b)):
            yield a, None
            a = next(ours, None)
        elif a is None or right(b) < left(a):
            yield None, b
            b = next(theirs, None)
        else:
            yield a, b
            a, b = next(ours, None), next(theirs, None)
