"""``pretrain-archive platform``: the stage of the platform, its teams, and who walked through the runbook."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pretrain_archive.commands import platform_change
from pretrain_archive.commands.output import FINDING, OK, Json, answer, command, plain, verdict_text

if TYPE_CHECKING:
    from pretrain_archive.services.incidents import Grounds

app = typer.Typer(help="How the platform is run: its changes, its teams, its stage.")
app.add_typer(platform_change.app, name="change")

Project = Annotated[str, typer.Option(help="The project whose policy is looked at.")]
Person = Annotated[str, typer.Option(help="Who says so; default: the user of this machine.")]
Root = Annotated[
    Path, typer.Option(metavar="FOLDER", help="The folder of the project's files, with the runbook.")
]
Runbook = Annotated[str, typer.Option(metavar="PATH", help="The runbook, below --root.")]
Language = Annotated[Literal["en", "zh-CN"], typer.Option(help="The language of the text.")]
RUNBOOK = "docs/runbook.md"


def grounds_of(root: Path, runbook: str) -> Grounds:
    """Where sections of the runbook and follow-ups are looked up."""
    from pretrain_archive.services.incidents import Grounds  # noqa: PLC0415
    from pretrain_archive.services.wiring import policy  # noqa: PLC0415

    return Grounds(root=root.resolve(), policies=policy, runbook=runbook)


@command(app)
def stage(
    project: Project,
    root: Root = Path(),
    runbook: Runbook = RUNBOOK,
    language: Language = "en",
    as_json: Json = False,
) -> None:
    """What is missing before training is a shared service: exit 1 while anything is.

    Drill, runbook, walk-through, boundaries, history, permissions, experts and incidents, each with its evidence.
    """
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.domain.governance_texts import LABELS, pair  # noqa: PLC0415
    from pretrain_archive.services.platform_stage import stage_document  # noqa: PLC0415
    from pretrain_archive.services.wiring import policy  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    document = stage_document(ledger, policy(project), grounds_of(root, runbook))
    short = "zh" if language == "zh-CN" else "en"
    lines = []
    for item in document["items"]:
        lines.append(
            f"{verdict_text(item['verdict'])}  {item['title'][short]}: {plain(item['found'])}".rstrip(": ")
        )
        lines += [f"    {plain(item['hints'][short])}"] if item["hints"] else []
    label = pair(LABELS, document["service"]["label"])[short]
    lines.append(f"{plain(project)}: {label} ({plain(document['service']['because'])})")
    answer(document, lines, as_json=as_json, code=OK if document["ready"] else FINDING)


@command(app)
def label(
    project: Project,
    person: Person = "",
    root: Root = Path(),
    runbook: Runbook = RUNBOOK,
    as_json: Json = False,
) -> None:
    """Call a project a shared service; refused, with every reason, until all preconditions hold."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.platform_said import speaker  # noqa: PLC0415
    from pretrain_archive.services.platform_stage import label as call  # noqa: PLC0415
    from pretrain_archive.services.wiring import policy  # noqa: PLC0415

    record = call(
        services.open_ledger(create=False), policy(project), grounds_of(root, runbook), speaker(person)
    )
    answer({"record_id": record.record_id, **record.payload},
           [f"{record.record_id}  project {plain(project)} is a shared service"], as_json=as_json)  # fmt: skip


@command(app)
def confirm(
    project: Project,
    team: Annotated[
        Literal["training", "platform", "storage", "network"], typer.Option(help="The team that confirms.")
    ],
    answers_for: Annotated[
        str, typer.Option(help="For what the team answers on this topology, and where it ends.")
    ],
    person: Person = "",
    as_json: Json = False,
) -> None:
    """Confirm a team's boundary on the topology that the project's policy names now."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.platform_boundaries import confirm as say  # noqa: PLC0415
    from pretrain_archive.services.platform_said import speaker  # noqa: PLC0415
    from pretrain_archive.services.wiring import policy  # noqa: PLC0415

    record = say(
        services.open_ledger(create=False), policy, speaker(person), project=project, team=team,
        answers_for=answers_for,
    )  # fmt: skip
    line = f"{record.record_id}  {plain(record.payload['person'])} answers for: {plain(answers_for)}"
    answer({"record_id": record.record_id, **record.payload}, [line], as_json=as_json)


@command(app)
def walk(  # noqa: PLR0917 (options of a command line, each given by name)
    project: Project,
    drill: Annotated[
        str, typer.Option(metavar="RUN", help="The run of the drill on which it was walked through.")
    ],
    section: Annotated[
        list[str] | None,
        typer.Option(help="A section; default: those that on-call needs. May be given often."),
    ] = None,
    stuck: Annotated[
        list[str] | None, typer.Option(help="Where the person was stuck. May be given often.")
    ] = None,
    not_completed: Annotated[
        bool, typer.Option("--not-completed", help="The person did not come through.")
    ] = False,
    person: Person = "",
    root: Root = Path(),
    runbook: Runbook = RUNBOOK,
    as_json: Json = False,
) -> None:
    """Record that somebody who did not write the runbook walked through it on a drill."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.commands.run import find_run  # noqa: PLC0415
    from pretrain_archive.domain.governance_runbook import WALKED  # noqa: PLC0415
    from pretrain_archive.services.platform_said import speaker  # noqa: PLC0415
    from pretrain_archive.services.platform_stage import walk as record_walk  # noqa: PLC0415
    from pretrain_archive.services.wiring import policy  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    record = record_walk(
        ledger, policy(project).policy, grounds_of(root, runbook), speaker(person),
        drill_run=find_run(ledger, drill).run_uid, sections=tuple(section or WALKED), stuck=tuple(stuck or ()),
        completed=not not_completed,
    )  # fmt: skip
    count = len(record.payload["sections"])
    line = f"{record.record_id}  {plain(record.payload['person'])} walked through {count} sections"
    answer({"record_id": record.record_id, **record.payload}, [line], as_json=as_json)
