"""What reading the reference DAG file costs beside Airflow's own SDK, in fresh processes."""

# ruff: noqa: T201 - the table is the result

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

DAGS = Path(__file__).parents[2] / "dags"
ROUNDS = 5
LIMIT_SECONDS = 0.5
HEAVY = ("great_expectations", "pandas", "pyarrow", "kubernetes", "boto3", "torch")

PROGRAM = """
import json, runpy, sys, time
started = time.perf_counter()
import airflow.sdk
if len(sys.argv) > 1:
    runpy.run_path(sys.argv[1])
seconds = time.perf_counter() - started
print(json.dumps({"seconds": seconds, "modules": sorted(sys.modules)}), file=sys.stderr)
"""


def measure(home: Path, *words: str) -> tuple[float, frozenset[str]]:
    """Seconds and modules of one fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=True, timeout=300,
        env={"AIRFLOW_HOME": str(home), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    found = json.loads(done.stderr.strip().splitlines()[-1])
    return float(found["seconds"]), frozenset(found["modules"])


@pytest.mark.bench
@pytest.mark.parametrize("name", ["pretraining_reference.py", "retention_cleanup.py", "large_snapshot.py"])
def test_import(tmp_path, name):
    """At most half a second more than ``import airflow.sdk``, and nothing heavy with it."""
    alone, whole = [], []
    for _ in range(ROUNDS):
        alone.append(measure(tmp_path))
        whole.append(measure(tmp_path, str(DAGS / name)))
    base, full = min(seconds for seconds, _ in alone), min(seconds for seconds, _ in whole)
    added = whole[0][1] - alone[0][1]

    print(f"\n{'import':<32}{'best of ' + str(ROUNDS):>12}{'modules':>9}")
    print(f"{'airflow.sdk':<32}{base:>10.2f} s{len(alone[0][1]):>9}")
    print(f"{name:<32}{full:>10.2f} s{len(whole[0][1]):>9}")
    print(f"{'more':<32}{full - base:>10.2f} s{len(added):>9}   (at most {LIMIT_SECONDS} s)")
    assert {module for module in whole[0][1] if module.partition(".")[0] in HEAVY} == set()
    assert {
        module for module in added if module.partition(".")[0] in {"sqlalchemy", "alembic", "fastapi"}
    } == set()
    assert full - base <= LIMIT_SECONDS
