"""A launcher that starts a child ignoring SIGTERM, which starts a grandchild in a new session."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

folder, role = Path(sys.argv[1]), (sys.argv[2] if len(sys.argv) > 2 else "root")
mode = os.environ.get("TREE_MODE", "")
folder.mkdir(parents=True, exist_ok=True)
if role == "child":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode == "hidden":
        sys.exit(3)
    subprocess.Popen([sys.executable, __file__, str(folder), "grandchild"], start_new_session=True)
if role == "root":
    subprocess.Popen([sys.executable, __file__, str(folder), "child"])
(folder / f"{role}.tmp").write_text(str(os.getpid()))
(folder / f"{role}.tmp").rename(folder / f"{role}.pid")
if role == "root" and mode in {"exit 1", "hidden"}:
    while mode == "exit 1" and not (folder / "grandchild.pid").exists():
        time.sleep(0.02)
    time.sleep(0.3)
    sys.exit(1 if mode == "exit 1" else 0)
time.sleep(float(os.environ.get("TREE_SECONDS", "120")))
