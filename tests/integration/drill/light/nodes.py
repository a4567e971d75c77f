"""Workers without torch: started, watched, and ended like the reference program's, in a second.

``flaw.txt`` beside it says what is wrong: ``unnoticed`` (a dead worker does not end the job).
"""

import os
import subprocess
import sys
import time
from pathlib import Path

words = sys.argv[1:]
program = words[words.index("--") + 1]
nodes, each = (int(words[words.index(name) + 1]) for name in ("--nodes", "--workers"))
unnoticed = (Path(__file__).parent / "flaw.txt").read_text() == "unnoticed"
workers = [
    subprocess.Popen(
        [sys.executable, program],
        env={
            **os.environ,
            "DRILL_NODE": str(rank // each),
            "RANK": str(rank),
            "WORLD_SIZE": str(nodes * each),
        },
    )
    for rank in range(nodes * each)
]
while True:
    codes = [worker.poll() for worker in workers]
    if any(codes) and not unnoticed:
        sys.exit(1)
    if codes[0] == 0:
        sys.exit(0)
    time.sleep(0.02)
