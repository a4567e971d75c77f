"""``pretrain-archive run conclude``: write down what a run taught."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from pretrain_archive.commands.output import Json, answer, plain
from pretrain_archive.commands.run import RunName, find_run


def conclude(  # noqa: PLR0917 (options of a command line, each given by name)
    run: RunName,
    outcome: Annotated[
        Literal["improved", "no_better", "worse", "no_answer"],
        typer.Option(help="How the question was answered."),
    ],
    learnt: Annotated[str, typer.Option(help="What the next run should know.")],
    evidence: Annotated[
        list[str],
        typer.Option(metavar="RECORD|RUN", help="A record of the run, or another run; may be given often."),
    ],
    improved: Annotated[str, typer.Option(help="What improved, with numbers.")] = "",
    against: Annotated[str, typer.Option(metavar="RUN|BASELINE", help="What it is compared with.")] = "",
    person: Annotated[str, typer.Option(help="Who concludes; default: the user of this machine.")] = "",
    as_json: Json = False,
) -> None:
    """Record a person's conclusion of a run: what improved against what, and what was learnt."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.domain.run_view import RunView  # noqa: PLC0415
    from pretrain_archive.services.concluding import (  # noqa: PLC0415
        Conclusion,
        conclude,
        conclusion_document,
    )
    from pretrain_archive.services.platform_said import speaker  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    told = Conclusion(
        outcome=outcome, learnt=learnt, improved=improved, against=against, evidence=tuple(evidence)
    )
    record = conclude(ledger, find_run(ledger, run), told, speaker(person, task="run_conclude"))
    document = conclusion_document(RunView.of(record.stream, [record])) or {}
    line = f"{record.record_id}  {plain(document['told']['en'])}"
    answer({"run_uid": record.stream, **document}, [line, plain(document["told"]["zh"])], as_json=as_json)
