"""The first worker trains and reports, the others live as long as it does.

``flaw.txt`` beside it says what is wrong: ``silent`` (one worker does not say what it loaded), ``jump``
(steps are left out after the resume), ``broken`` (the next attempt cannot start), ``other`` (one worker loads
other bytes), ``early`` (the end comes too soon).
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path


def env(name):
    """A variable of the contract."""
    return os.environ["PRETRAIN_ARCHIVE_" + name]


flaw = (Path(__file__).parent / "flaw.txt").read_text()
config, attempt, resume = json.loads(Path(env("CONFIG")).read_text()), env("ATTEMPT"), env("RESUME_FROM")
size, parent = int(os.environ["WORLD_SIZE"]), os.getppid()
if os.environ["RANK"] != "0":
    while os.getppid() == parent:
        time.sleep(0.02)
    sys.exit(0)
if resume and flaw == "broken":
    sys.exit(9)
events = Path(env("EVENTS")).open("a", buffering=1)  # noqa: SIM115


def tell(**event):
    """Report an event."""
    events.write(json.dumps(event) + "\n")


first = json.loads((Path(resume) / "state.json").read_text())["step"] if resume else 0
manifest = "sha256:" + hashlib.sha256(Path(env("DATA_MANIFEST")).read_bytes()).hexdigest()
for worker in range(size):
    said = {"worker": worker, "world_size": size}
    tell(event="data_read", step=first, files=1, manifest_digest=manifest, data_digest=manifest, **said)
    if resume and not (flaw == "silent" and worker == 2):
        more = {"digest": "sha256:" + "0" * 64} if flaw == "other" and worker == 1 else {}
        tell(event="checkpoint_loaded", path=resume, step=first, **said, **more)
for step in range(first + 1 + 5 * (bool(resume) and flaw == "jump"), config["optimisation"]["steps"] + 1):
    if flaw == "early" and step > 15:
        break
    time.sleep(0.02)
    tell(event="metric", name="loss", step=step, tokens=step, value=5 / step)
    if step % config["checkpoint_every"] == 0:
        target = Path(env("CHECKPOINT_DIR")) / f"step_{step:08d}"
        if target.exists():
            continue
        hidden = target.with_name(f".tmp_{step}")
        hidden.mkdir(parents=True)
        (hidden / "weights.bin").write_bytes(hashlib.sha256(str(step).encode()).digest())
        (hidden / "state.json").write_text(json.dumps({"step": step}))
        (hidden / ".complete").touch()
        hidden.rename(target)
        tell(event="checkpoint", path=str(target), step=step, tokens=step)
tell(event="note", text="training complete", complete=True, step=config["optimisation"]["steps"])
