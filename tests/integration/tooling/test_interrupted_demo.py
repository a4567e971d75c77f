"""A demo that is interrupted leaves no process behind, whatever it was doing."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import processes
import pytest
from waiting import wait_for

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.airflow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_nothing_is_left(number: signal.Signals, tmp_path: Path) -> None:
    """Stopped while Airflow starts, the demo ends with 130 and all of Airflow's processes are gone."""
    demo = subprocess.Popen(
        [sys.executable, ROOT / "docker" / "local" / "demo.py", "run", "--folder", tmp_path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def started() -> Path | None:
        """The home, once several of Airflow's processes run."""
        homes = list(tmp_path.glob("run-*"))
        return homes[0] if homes and len(processes.family(None, homes[0])) >= 3 else None

    try:
        home = wait_for("some of Airflow's processes", started, timeout=120)
        demo.send_signal(number)
        out, err = demo.communicate(timeout=90)
    finally:
        demo.kill()

    assert 130 == demo.returncode, err
    assert "Interrupted" in err
    assert "package:" not in out
    assert [] == processes.family(None, home)
