# ruff: noqa: T201
"""A training program of the contract, standard library only: counts steps, writes checkpoints, can misbehave.

The configuration (JSON) says how: steps, step_seconds, every (checkpoint), and the faults that a test plants.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

config = json.loads(Path(os.environ["PRETRAIN_ARCHIVE_CONFIG"]).read_text())
events = Path(os.environ["PRETRAIN_ARCHIVE_EVENTS"]).open("a", buffering=1)  # noqa: SIM115
folder = Path(os.environ["PRETRAIN_ARCHIVE_CHECKPOINT_DIR"])
resume = os.environ["PRETRAIN_ARCHIVE_RESUME_FROM"]
if config.get("sigterm") == "exit 0":
    signal.signal(signal.SIGTERM, lambda *_: (print("asked to stop", flush=True), sys.exit(0)))
elif config.get("sigterm") == "ignore":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def tell(**event):
    """Append an event as Python's json writes it (bare NaN included)."""
    events.write(json.dumps(event) + "\n")


def save(step):
    """Write, fsync, rename, tell."""
    target = folder / f"step-{step:06d}"
    temporary = folder / f".writing-{step}"
    temporary.mkdir(parents=True, exist_ok=True)
    with (temporary / "state.json").open("w") as file:
        json.dump({"step": step}, file)
        file.flush()
        os.fsync(file.fileno())
    if not target.exists():
        temporary.rename(target)
    tell(event="checkpoint", path=str(target), step=step, tokens=step * 100)


Path(os.environ["PRETRAIN_ARCHIVE_EVENTS"]).with_name("trainer.pid").write_text(str(os.getpid()))
first = json.loads((Path(resume) / "state.json").read_text())["step"] + 1 if resume else 1
if "start_seconds" in config:
    tell(event="checkpoint_loaded", worker=0, world_size=1, path=resume, step=first - 1)
    time.sleep(config["start_seconds"])
for step in range(first, config["steps"] + 1):
    time.sleep(config.get("step_seconds", 0.01))
    loss = 5.0 / step
    if step == config.get("nan_at"):
        loss = float("nan")
    if step == config.get("diverge_at"):
        loss = 1e6
    tell(event="metric", name="train_loss", step=step, tokens=step * 100, value=loss)
    if step >= config.get("rise_at", step + 1):
        loss = 40.0
    tell(event="metric", name="loss", step=step, value=loss)
    bad = config.get("bad_read", {}) if step >= config.get("bad_at", step + 1) else {}
    tell(event="data_read", step=step, seconds=0.001, bytes=4096, **bad)
    print("step", step, "loss", loss, flush=True)
    if step % config.get("every", 10) == 0:
        save(step)
    if step == config.get("stall_at"):
        for _ in range(10_000):
            print("still alive", flush=True)
            time.sleep(0.05)
    if step == config.get("exit_at"):
        sys.exit(config.get("exit_code", 0))
if not config.get("no_marker"):
    tell(event="note", text="training complete", complete=True, step=config["steps"])
