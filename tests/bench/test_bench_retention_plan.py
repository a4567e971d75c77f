"""A retention plan over a million registered checkpoints on a real ledger: time beside what cannot be avoided, memory.

The peer reads the same records from the same file (4.6 GB), hashes each body and parses its JSON with the library:
whoever believes a record does that. Processor time of both is compared, since neighbours make the clock on the wall
lie; the seconds of the wall are printed. What processes beside it read for the plan counts, in time and memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

COUNT, RUNS = 1_000_000, 1000
KEPT = 3
MOST_TIMES = 1.6
"""The plan on two idle processors against the peer on one, in processor time; 1.0 are twenty seconds where the peer
takes as many."""
MOST_BYTES = 1_000_000_000
SIZE = 12_000_001_000
PROGRAM = Path(__file__).with_name("million_checkpoints.py")


def ask(*words: object) -> dict[str, float]:
    """Run the program; its one line of JSON."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *map(str, words)],
        check=True,
        capture_output=True,
        text=True,
        timeout=800,
    )
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}


@pytest.mark.requirement("R147", "R201")
def test_a_plan_over_a_million_checkpoints(tmp_path: Path) -> None:
    """It takes little longer than reading them does, fits into a gigabyte, and names each of them."""
    ledger = tmp_path / "ledger.db"
    ask("fill", ledger, COUNT, RUNS)
    peer = ask("peer", ledger)
    plan = ask("plan", ledger, tmp_path / "store")

    # On two idle processors: what is read by several processes is shared by both, the rest is one process.
    reading = plan["reading_cpu"]
    least = plan["cpu"] - reading + max(reading, (reading + plan["helpers_cpu"]) / 2)
    rows = [
        f"{'':12}{'wall s':>10}{'cpu s':>10}{'peak MB':>10}{'records':>12}",
        f"{'read + parse':12}{peer['seconds']:10.1f}{peer['cpu']:10.1f}{'':10}{peer['records']:12,}",
        f"{'plan':12}{plan['seconds']:10.1f}{plan['cpu']:10.1f}{plan['peak'] / 1e6:10.0f}{plan['items']:12,}",
        f"{'its helpers':12}{'':10}{plan['helpers_cpu']:10.1f}{plan['helpers_peak'] / 1e6:10.0f}",
        f"{'undisturbed':12}{least:10.1f}",
    ]
    sys.stdout.write("\n" + "\n".join(rows) + "\n")
    assert plan["items"] == COUNT
    assert {"delete": COUNT - KEPT * RUNS, "keep": KEPT * RUNS} == plan["actions"]
    assert (COUNT - KEPT * RUNS) * SIZE == plan["bytes"]
    assert plan["inline"] == 0
    assert plan["peak"] + plan["helpers_peak"] <= MOST_BYTES
    assert least <= MOST_TIMES * peer["cpu"]
