"""What holds for every benchmark."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def _others_heap_is_left_alone() -> Iterator[None]:
    """Let the collector pass over what thousands of tests before have left: it would be timed with what is measured."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
