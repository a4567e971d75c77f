"""A training program for recoveries: standard library only, several files to a checkpoint, reports what it loaded.

``die_at`` ends attempts with exit code 9, ``kill_at`` with SIGKILL in the middle of the step after it, ``kill_after``
as soon as the step is reported: a step by attempt (``{"1": 45}``). ``seconds`` is how long a step takes. ``truth``
names a file that gets a line per step: attempt, step, seconds by the program's own clock. Asked to end, the program
ends with exit code 0, as careless programs do.
"""

from __future__ import annotations

from typing import Any

from tests.support.main_line import Line

TRAIN = """
import hashlib, json, os, signal, sys, time
from pathlib import Path
env = lambda name: os.environ["PRETRAIN_ARCHIVE_" + name]
config = json.loads(Path(env("CONFIG")).read_text())
attempt, resume = env("ATTEMPT"), env("RESUME_FROM")
events = open(env("EVENTS"), "a", buffering=1)
now = lambda: time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(t := time.time())) + f".{int(t % 1 * 1e6):06d}Z"
tell = lambda **event: events.write(json.dumps({**event, "at": now()}) + "\\n")
truth = open(config["truth"], "a", buffering=1) if config.get("truth") else None
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
first = 0
if resume:
    state = json.loads((Path(resume) / "state.json").read_text())
    first = state["step"]
    files = sorted(
        [p.name, str(p.stat().st_size), hashlib.sha256(p.read_bytes()).hexdigest()] for p in Path(resume).iterdir()
    )
    listed = json.dumps(files, separators=(",", ":"))
    tell(event="checkpoint_loaded", worker=0, world_size=1, path=resume, step=first,
         digest="sha256:" + hashlib.sha256(listed.encode()).hexdigest())
digest = "sha256:" + hashlib.sha256(Path(env("DATA_MANIFEST")).read_bytes()).hexdigest()
tell(event="data_read", step=first, worker=0, world_size=1, files=1, manifest_digest=digest, data_digest=digest)
for step in range(first + 1, config["steps"] + 1):
    began = time.monotonic()
    if step - 1 == config.get("kill_at", {}).get(attempt):
        time.sleep(config.get("seconds", 0.0) / 2)
        truth.write(f"{attempt} {step} {time.monotonic() - began:.6f}\\n")
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(config.get("seconds", 0.0))
    tell(event="metric", name="loss", step=step, tokens=step * 10, value=5 / step)
    if truth:
        truth.write(f"{attempt} {step} {time.monotonic() - began:.6f}\\n")
    if step == config.get("kill_after", {}).get(attempt):
        os.kill(os.getpid(), signal.SIGKILL)
    if step % config["checkpoint_every"] == 0:
        target = Path(env("CHECKPOINT_DIR")) / f"step_{step:08d}"
        if target.exists():
            target = target.with_name(f"{target.name}.attempt_{attempt}")
        hidden = target.with_name(f".tmp_{target.name}")
        hidden.mkdir(parents=True, exist_ok=True)
        for shard in (0, 1):
            data = hashlib.sha256(f"{step} {shard}".encode()).digest() * 8
            (hidden / f"weights-{shard}.bin").write_bytes(data)
        (hidden / "state.json").write_text(json.dumps({"step": step, "tokens": step * 10}))
        (hidden / ".complete").touch()
        hidden.rename(target)
        tell(event="checkpoint", path=str(target), step=step, tokens=step * 10)
    if step == config.get("die_at", {}).get(attempt):
        sys.exit(9)
    if asked:
        sys.exit(0)  # careless: an end that was asked for looks like a success
tell(event="note", text="training complete", complete=True, step=config["steps"])
"""


def recovering_line(line: Line, **configuration: Any) -> Line:
    """Give ``line`` this program and bring it to its signed launch."""
    (line.program / "train.py").write_text(TRAIN)
    line.to_signed_launch(configuration={"steps": 60, **configuration}, max_attempts=6)
    return line
