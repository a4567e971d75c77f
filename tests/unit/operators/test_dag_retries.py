"""The project's DAGs: no task gives a run up at the first fault that passes by itself."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

DAGS = Path(__file__).parents[3] / "dags"


@pytest.mark.parametrize("name", ["pretraining_reference", "exploration", "retention_cleanup"])
def test_every_task_is_tried_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that is busy for a moment fails a try, never the run: also the first tasks and the clean-up."""
    monkeypatch.setattr(sys, "path", [str(DAGS), *sys.path])
    dag = importlib.import_module(name).dag

    assert [] == [task.task_id for task in dag.tasks if not task.retries]
