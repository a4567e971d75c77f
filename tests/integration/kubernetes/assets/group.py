"""A torchrun worker: an all-reduce a step over gloo between the nodes; rank 0 reports."""

import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
config = json.loads(Path(os.environ["PRETRAIN_ARCHIVE_CONFIG"]).read_text())
events = Path(os.environ["PRETRAIN_ARCHIVE_EVENTS"])


def tell(**event):
    """Append an event of the contract."""
    with events.open("a") as file:
        file.write(json.dumps(event) + "\n")


for step in range(1, config["steps"] + 1):
    value = torch.tensor([1.0])
    dist.all_reduce(value)
    time.sleep(config["step_seconds"])
    if rank == 0:
        tell(event="metric", name="train_loss", step=step, value=value.item() / step, tokens=step)
dist.barrier()
dist.destroy_process_group()
if rank == 0:
    tell(event="note", text="training complete", complete=True, step=config["steps"], world=size)
