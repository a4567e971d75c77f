"""A ledger in memory and checkpoint folders as a training program writes them."""

from __future__ import annotations

import pytest
from tests.fakes.memory_ledger import MemoryLedger

from pretrain_archive.domain.records import Actor, Origin

RUN = "run_019a0000-0000-7000-8000-000000000001"


@pytest.fixture
def ledger() -> MemoryLedger:
    """An empty ledger."""
    return MemoryLedger()


@pytest.fixture
def actor() -> Actor:
    """The task that registers."""
    return Actor(type="task", name="register_checkpoints")


@pytest.fixture
def origin() -> Origin:
    """Its first try."""
    return Origin(dag_id="pretraining_reference", dag_run_id="manual__1", task_id="register_checkpoints")
