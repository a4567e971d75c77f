"""The demo's configuration on Python's standard library: it must beat what costs nothing to have."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from tests.integration.trainer.harness import PROGRAM, Attempt
from tests.integration.trainer.standard_library import entries, write_manifest


@pytest.mark.bench
def test_the_demo_beats_its_baselines(tmp_path: Path) -> None:
    """Fewer bits per byte than the untrained model and than 3-gram and 4-gram models of the whole data."""
    demo = json.loads((PROGRAM / "demo.json").read_bytes())
    manifest = write_manifest(tmp_path / "manifest.jsonl", entries())
    attempt = Attempt(folder=tmp_path / "attempt", manifest=manifest, configuration=demo)
    rows = [("program", "wall s", "CPU s")]
    for program in ("train.py", "evaluate.py"):
        wall, cpu = time.perf_counter(), _child_seconds()
        attempt.run(program)
        rows.append((program, f"{time.perf_counter() - wall:.1f}", f"{_child_seconds() - cpu:.1f}"))
        attempt.resume_from = attempt.saved(demo["optimisation"]["steps"])
    report = json.loads(attempt.report.read_bytes())
    subjects = {"trained model": report} | {b["name"]: b for b in report["baselines"]}
    metrics = {name: subject["metrics"][0] for name, subject in subjects.items()}
    rows += [
        (n, f"{m['value']:.4f} bits/byte", f"[{m['low']:.3f}, {m['high']:.3f}]") for n, m in metrics.items()
    ]
    print("\n" + "\n".join(f"{a:<18}{b:>20}{c:>18}" for a, b, c in rows))  # noqa: T201
    ours = metrics["trained model"]["value"]
    assert ours < 0.30 * metrics["untrained model"]["value"]
    assert ours < 0.80 * metrics["byte 3-gram"]["value"]
    assert ours < 0.97 * metrics["byte 4-gram"]["value"]


def _child_seconds() -> float:
    times = os.times()
    return times.children_user + times.children_system
