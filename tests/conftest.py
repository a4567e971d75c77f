"""What holds for every test: no setting of the developer's own Airflow reaches it, and none of its files is touched."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

import pytest
from hypothesis import HealthCheck, settings

OURS = ("AIRFLOW_", "PRETRAIN_ARCHIVE_", "_AIRFLOW")


def _isolate() -> None:
    """Give this process a home of its own, before anything imports Airflow (which writes to its home at once)."""
    for name in [name for name in os.environ if name.startswith(OURS)]:
        del os.environ[name]
    home = tempfile.mkdtemp(prefix="pretrain-archive-tests-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.environ["AIRFLOW_HOME"] = home
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    os.environ["AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS"] = "False"


_isolate()

# No example is judged by a clock: the machine may be busy with something else. In CI the examples are always the same.
settings.register_profile(
    "steady", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True,
    derandomize=bool(os.environ.get("CI")),
)  # fmt: skip
settings.load_profile("steady")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what forks first: the copy of a process that thousands of tests have grown takes a second each.

    What leaves its Airflow unusable runs last in its folder.
    """
    items.sort(key=lambda item: item.get_closest_marker("forks") is None)
    for item in [item for item in items if item.get_closest_marker("last")]:
        items.remove(item)
        beside = [place for place, other in enumerate(items) if other.path.parent == item.path.parent]
        items.insert(max(beside, default=-1) + 1, item)
