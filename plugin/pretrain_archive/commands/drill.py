"""``pretrain-archive drill``: prove that a run recovers, before it has to."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pretrain_archive.commands.output import FINDING, OK, Json, answer, command, plain, verdict_text

if TYPE_CHECKING:
    from pretrain_archive.services.caller import Caller

app = typer.Typer(help="Recovery drills on a representative task.")


@app.callback()
def _group() -> None:
    """Recovery drills on a representative task."""


def _caller() -> Caller:
    from pretrain_archive.domain.identity import new_id  # noqa: PLC0415
    from pretrain_archive.domain.records import Actor, Origin  # noqa: PLC0415
    from pretrain_archive.services.caller import Caller  # noqa: PLC0415

    origin = Origin(dag_id="cli", dag_run_id=new_id("call"), task_id="drill")
    person = getpass.getuser()
    return Caller(origin=origin, actor=Actor(type="cli", name=person), submitter=person, say=_say)


def _say(line: str) -> None:
    print(plain(line), file=sys.stderr, flush=True)


@command(app)
def run(  # noqa: PLR0917 (options of a command line, each given by name)
    inject: Annotated[
        Literal["worker_exit", "worker_frozen", "node_lost", "network_cut"],
        typer.Option(help="What happens to the job; network_cut needs root on Linux."),
    ],
    program: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of the training program with nodes.py.")
    ] = Path("docker/trainer"),
    project: Annotated[str, typer.Option(help="The project whose policy allows the drill.")] = "drill",
    nodes: Annotated[int, typer.Option(min=1, max=16, help="Nodes: one agent each.")] = 2,
    workers: Annotated[int, typer.Option(min=1, max=16, help="Workers of each node.")] = 2,
    node: Annotated[int, typer.Option(min=0, help="The node that the fault hits.")] = 1,
    at_step: Annotated[int, typer.Option(min=2, help="The step at which it happens.")] = 25,
    steps: Annotated[int, typer.Option(min=30, help="Steps of the job.")] = 120,
    patience: Annotated[
        float, typer.Option(min=0, help="Seconds that workers wait for each other; 0: the stop rule decides.")
    ] = 15.0,
    as_json: Json = False,
) -> None:
    """Run a job of several workers, injure it, and file what followed: exit 1 if anything did not hold.

    The job goes through the real launch as an exploration under the ceiling of the project's policy.
    """
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.drilling import Plan, drill  # noqa: PLC0415
    from pretrain_archive.services.launch_bench import Bench  # noqa: PLC0415
    from pretrain_archive.services.platform_boundaries import boundaries  # noqa: PLC0415
    from pretrain_archive.services.wiring import policy, runs_folder  # noqa: PLC0415

    plan = Plan(
        inject=inject, program=program.resolve(), project=project, nodes=nodes, workers=workers, node=node,
        at_step=at_step, steps=steps, patience=patience,
    )  # fmt: skip
    bench = Bench(store=services.open_store(), policies=policy, runs_folder=runs_folder())
    ledger = services.open_ledger()
    run_uid, filed = drill(ledger, _caller(), bench, plan)
    confirmed = [item.to_dict() for item in boundaries(ledger, policy(project).policy)]
    lines = [f"{verdict_text(c['verdict'])}  {c['name']}: {plain(c['found'])}" for c in filed.checks]
    lines += [f"{verdict_text(i['verdict'])}  {i['id']}: {plain(i['found'] or i['hint'])}" for i in confirmed]
    lines.append(f"run {run_uid}: the drill {'passed' if filed.passed else 'found a gap'}")
    answer(
        {"run_uid": run_uid, **filed.to_json(), "boundaries": confirmed}, lines, as_json=as_json,
        code=OK if filed.passed else FINDING,
    )  # fmt: skip
