"""``pretrain-archive launch``: what a launch would be, without one."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from pretrain_archive.commands.output import OK, REFUSED, Json, answer, command, plain
from pretrain_archive.commands.run import RunName, find_run

if TYPE_CHECKING:
    from pretrain_archive.services.planning import Plan

app = typer.Typer(help="What a launch of a run would be.")


@app.callback()
def launch() -> None:
    """What a launch of a run would be."""


@command(app)
def plan(run: RunName, as_json: Json = False) -> None:
    """What a launch of RUN would create now, and what forbids it; nothing is started, written or consumed.

    Exit 0 if it would start, 4 if it is refused. A job's name ends with digits of the token, which is made at the
    launch: here it ends otherwise.
    """
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.launch_bench import Bench  # noqa: PLC0415
    from pretrain_archive.services.planning import plan_launch  # noqa: PLC0415
    from pretrain_archive.services.wiring import runs_folder  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    bench = Bench(store=services.open_store(), policies=services.policy, runs_folder=runs_folder())
    found = plan_launch(ledger, find_run(ledger, run), bench)
    answer(found.to_dict(), _lines(found), as_json=as_json, code=OK if found.allowed else REFUSED)


def _lines(found: Plan) -> Iterator[str]:
    yield f"{found.run_uid}  attempt {found.attempt}  {found.scope}  on {found.target}"
    if found.resume_step is not None:
        yield f"resumes from the verified checkpoint of step {found.resume_step}"
    if found.process is not None:
        yield ""
        yield plain(shlex.join(found.process.argv))
        yield from (f"  {plain(k)}={plain(v)}" for k, v in found.process.to_dict()["environment"].items())
    if found.objects is not None:
        for title, body in (("service", found.objects.service), ("job", found.objects.job)):
            if body is not None:
                yield ""
                yield f"{title} {found.objects.namespace}/{found.objects.name}"
                yield json.dumps(body, ensure_ascii=True, indent=2)
        yield ""
        yield f"released by the patch {json.dumps(found.objects.release_patch)}"
    yield ""
    yield from (f"refused: {plain(reason)}" for reason in found.reasons)
    if found.allowed:
        yield "nothing forbids it"
