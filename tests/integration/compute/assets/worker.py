"""A torchrun worker: an all-reduce a step over gloo; rank 0 reports. Each rank writes its process id."""

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
events = Path(os.environ["PRETRAIN_ARCHIVE_EVENTS"])
config = json.loads(Path(os.environ["PRETRAIN_ARCHIVE_CONFIG"]).read_text())
(events.parent / f"rank{rank}.pid").write_text(str(os.getpid()))
for step in range(1, config["steps"] + 1):
    value = torch.tensor([float(rank + step)])
    dist.all_reduce(value)
    time.sleep(config["step_seconds"])
    if rank == 1 and step == config.get("die_at"):
        sys.exit(9)
    if rank == 0:
        with events.open("a") as file:
            file.write(
                json.dumps({"event": "metric", "name": "train_loss", "step": step, "value": value.item()})
                + "\n"
            )
dist.barrier()
dist.destroy_process_group()
if rank == 0:
    with events.open("a") as file:
        file.write(json.dumps({"event": "note", "text": "training complete", "complete": True}) + "\n")
