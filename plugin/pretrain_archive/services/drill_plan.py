"""What a recovery drill does to which job, and the representative task that it is done to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pretrain_archive.compute.namespaces import Network
from pretrain_archive.domain.errors import InputError
from pretrain_archive.services.drill_faults import Fault


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to do to which job.

    ``program`` is the folder with ``nodes.py`` and ``train.py``. ``node`` is whom the fault hits. ``patience`` is how
    many seconds workers wait for each other before they fail; 0 leaves a hang to the stop rule ``no_progress``, after
    ``no_progress_minutes``, and the run then waits for a person's review.
    """

    inject: Fault
    program: Path
    project: str = "drill"
    nodes: int = 2
    workers: int = 2
    node: int = 1
    at_step: int = 25
    checkpoint_every: int = 10
    steps: int = 120
    patience: float = 15.0
    no_progress_minutes: float = 2.0

    def __post_init__(self) -> None:
        if self.inject not in get_args(Fault):
            raise InputError("inject", self.inject, f"is none of {', '.join(get_args(Fault))}")
        if not 0 <= self.node < self.nodes:
            raise InputError("node", self.node, f"there are {self.nodes} nodes", hint="Nodes count from 0.")
        if self.nodes * self.workers < 2:
            raise InputError("workers", self.workers, "one worker is no group", hint="Take at least two.")
        if not self.checkpoint_every < self.at_step < self.steps - 20:
            raise InputError(
                "at_step", self.at_step, f"must lie after the first checkpoint and 20 steps before {self.steps}",
                hint="Choose another step, or more steps.",
            )  # fmt: skip
        if not (self.program / "nodes.py").is_file():
            raise InputError("program", str(self.program), "no nodes.py there", hint="Name docker/trainer.")


def write_source(folder: Path) -> None:
    """Sixty small documents; the same ones in every drill."""
    for number in range(60):
        text = f"document {number} of a recovery drill, with words of its own\n" * (number % 7 + 2)
        (folder / f"document-{number:02d}.txt").write_text(text)


def _command(plan: Plan, network: Network | None, *, cluster: bool) -> list[str]:
    """How the group is started: by ``nodes.py`` here, by the pod of each node on a cluster."""
    program = str(plan.program / "train.py")
    if cluster:
        return ["{python}", "-m", "torch.distributed.run", "--nproc-per-node", str(plan.workers), program]
    words = [
        "{python}",
        str(plan.program / "nodes.py"),
        "--nodes",
        str(plan.nodes),
        "--workers",
        str(plan.workers),
    ]
    if plan.patience:
        words += ["--patience", f"{plan.patience:g}"]
    if network is not None:
        words += ["--address", network.address(0), "--network", *network.names]
    return [*words, "--", program]


def conf_of(plan: Plan, source: Path, network: Network | None, *, cluster: bool) -> dict[str, Any]:
    """The form's values of a drill's run."""
    return {
        "scope": "exploration", "project": plan.project,
        "objective": f"Recovery drill: {plan.inject} on a representative task", "training_type": "pre-training",
        "source": str(source), "licence": "CC0-1.0", "intended_use": "experiment", "source_name": "recovery-drill",
        "origin_class": "synthetic", "obtained": "made by the drill", "authorisation": "own work",
        "usage_scope": ["experiment"], "configuration": _configuration(plan),
        "train_command": _command(plan, network, cluster=cluster), "nodes": plan.nodes if cluster else 1,
        "evaluate_command": ["{python}", str(plan.program / "evaluate.py")],
        "budget_minutes": 5, "checkpoint_every": plan.checkpoint_every, "wall_minutes": 5,
        "no_progress_minutes": plan.no_progress_minutes, "max_attempts": 3, "acceptance_metric": "bits_per_byte",
        "release_name": "recovery-drill", "release_version": "1",
    }  # fmt: skip


def _configuration(plan: Plan) -> dict[str, Any]:
    """The trainer's example, made small: what counts is that several workers compute each step together."""
    configuration: dict[str, Any] = json.loads((plan.program / "demo.json").read_text())
    configuration.pop("checkpoint_every")
    configuration["model"] |= {"layers": 2, "width": 64, "heads": 2, "context": 128, "previous_bytes": 2}
    configuration["optimisation"] |= {
        "steps": plan.steps,
        "batch": 2 * plan.nodes * plan.workers,
        "warmup": 5,
    }
    return configuration | {"evaluate_every": 0, "evaluate_bytes": 512, "report_bytes": 512, "log_every": 10}
