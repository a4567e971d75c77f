"""``pretrain-archive evaluation``: what was measured, how, and whether several runs measured alike."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pretrain_archive.commands.output import FINDING, OK, Json, answer, command, plain, table
from pretrain_archive.commands.run import RunName, find_run

if TYPE_CHECKING:
    from pretrain_archive.domain.run_view import RunView

app = typer.Typer(help="What was measured, by which definitions, and whether it can be compared.")


@command(app)
def show(run: RunName, as_json: Json = False) -> None:
    """Every evaluation of a run with intervals, baselines, rules and flags; tries that failed or still read."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.domain.evaluations import last_deciding  # noqa: PLC0415
    from pretrain_archive.services.evaluation_table import table_of  # noqa: PLC0415

    view = find_run(services.open_ledger(create=False), run)
    document = shown(view)
    lines: list[str] = []
    for report in document.pop("reports"):
        lines += [*table_of(report), f"  report {plain(report.report_uri)}", ""]
    for one in document["failed"]:
        code = "" if one["exit_code"] is None else f", exit code {one['exit_code']}"
        lines.append(f"failed   {one['checkpoint_id']}: {one['cause']}{code}: {plain(one['detail'])}")
    lines += [f"reading  {one['checkpoint_id']} until {one['until']}" for one in document["in_use"]]
    decided = last_deciding(view)
    good = decided is not None and decided[1].passed
    answer(document, lines or ["nothing was evaluated"], as_json=as_json, code=OK if good else FINDING)


def shown(view: RunView) -> dict[str, Any]:
    """What ``show`` prints; ``reports`` are the payloads themselves."""
    from pretrain_archive.domain.evaluations import leases  # noqa: PLC0415
    from pretrain_archive.domain.identity import format_time  # noqa: PLC0415
    from pretrain_archive.domain.kinds import EvaluationFailed, EvaluationReported  # noqa: PLC0415

    reports = [report for _, report in view.all(EvaluationReported)]
    return {
        "run_uid": view.run_uid,
        "evaluations": [report.to_json() for report in reports],
        "failed": [
            {"at": record.recorded_at, "try_number": record.origin.try_number, **fact.to_json()}
            for record, fact in view.all(EvaluationFailed)
        ],
        "in_use": [
            {"checkpoint_id": one.checkpoint_id, "try_id": one.try_id, "until": format_time(one.until)}
            for one in leases(view)
        ],
        "reports": reports,
    }


@command(app)
def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN RUN…", help="Two or more runs.")],
    program: Annotated[str, typer.Option(help="Of this further program; by default the request's own.")] = "",
    as_json: Json = False,
) -> None:
    """Whether several runs were measured by one definition, and what differs."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.domain.definitions import compare_definitions  # noqa: PLC0415
    from pretrain_archive.domain.errors import InputError  # noqa: PLC0415

    if len(runs) < 2:
        raise InputError("RUN", " ".join(runs), "a comparison needs two runs")
    ledger = services.open_ledger(create=False)
    views = [find_run(ledger, run) for run in runs]
    found = {view.run_uid: _newest(view, program) for view in views}
    missing = [uid for uid, report in found.items() if report is None]
    reports = {uid: report for uid, report in found.items() if report is not None}
    document: dict[str, Any] = {"uniform": False, "unrecorded": missing}
    lines = [f"{uid} has no evaluation" for uid in missing]
    if len(reports) > 1:
        compared = compare_definitions(reports)
        document |= compared.to_json() | {"uniform": compared.uniform and not missing}
        for one in (*compared.different, *compared.noted):
            lines.append(f"{plain(one.field)}{' (noted)' if one in compared.noted else ''}")
            lines += [f"  {label}: {plain(value)}" for label, value in one.values.items()]
        lines.append("uniform" if compared.uniform else f"{len(compared.different)} definition(s) differ")
    answer(document, lines, as_json=as_json, code=OK if document["uniform"] else FINDING)


def _newest(view: RunView, program: str) -> Any:
    """The newest report of a program that was measured here."""
    from pretrain_archive.domain.kinds import EvaluationReported  # noqa: PLC0415

    own = [r for _, r in view.all(EvaluationReported) if r.program == program and not r.imported]
    return own[-1] if own else None


@command(app, "import")
def import_(  # noqa: PLR0917 - typer passes options by name
    run: RunName,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A result file, or a folder of them.")],
    checkpoint: Annotated[
        str | None, typer.Option(help="Its checkpoint; by default the newest verified.")
    ] = None,
    data_set: Annotated[
        str | None, typer.Option(help="Name of the data set, where the file has none.")
    ] = None,
    data_digest: Annotated[str | None, typer.Option(help="Its digest, sha256:…")] = None,
    definition: Annotated[Path | None, typer.Option(help="JSON file that says how it was measured.")] = None,
    suite: Annotated[list[str] | None, typer.Option(help="Suite to hold it to; may be given often.")] = None,
    runs: Annotated[
        Literal["refuse", "named"], typer.Option(help="What several files for one task are.")
    ] = "refuse",
    as_json: Json = False,
) -> None:
    """File a result that was measured elsewhere: marked as imported, it decides nothing."""
    import getpass  # noqa: PLC0415

    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.domain.identity import new_id  # noqa: PLC0415
    from pretrain_archive.domain.records import Actor, Origin  # noqa: PLC0415
    from pretrain_archive.services.caller import Caller  # noqa: PLC0415
    from pretrain_archive.services.evaluation_import import Imported, import_result  # noqa: PLC0415
    from pretrain_archive.services.evaluation_table import table_of  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    origin = Origin(dag_id="cli", dag_run_id=new_id("call"), task_id="evaluation_import")
    caller = Caller(origin=origin, actor=Actor(type="cli", name=getpass.getuser()))
    given = Imported(
        output=file,
        checkpoint_id=checkpoint,
        data_set=data_set,
        data_set_digest=data_digest,
        definition=_definition(definition),
        suites=suite or (),
        runs=runs,
    )
    report = import_result(ledger, services.open_store(), caller, find_run(ledger, run), given)
    answer(report.to_json(), table_of(report), as_json=as_json)


def _definition(path: Path | None) -> dict[str, Any]:
    from pretrain_archive.artifacts import metric_files  # noqa: PLC0415
    from pretrain_archive.domain.errors import InputError  # noqa: PLC0415

    if path is None:
        return {}
    _, parsed = metric_files.read(path)
    if len(parsed.documents) != 1 or not isinstance(parsed.documents[0], dict):
        raise InputError("--definition", path.name, "expected one JSON object")
    return dict(parsed.documents[0])


@command(app)
def curve(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A metric log by step, in JSON Lines.")],
    as_json: Json = False,
) -> None:
    """The effective curve of a metric log: every attempt kept, the later one counts, bad lines located."""
    from pretrain_archive.artifacts import metric_files, metric_log  # noqa: PLC0415

    _, parsed = metric_files.read(file)
    log = metric_log.of_parsed(parsed, where=file.name)
    document = metric_files.strict(log.to_json())
    lines = []
    for name, one in document["curves"].items():
        end = one["effective"][-1]
        lines.append(
            f"{plain(name)}: {one['points']} points of attempts {', '.join(map(str, one['attempts']))}; "
            f"{len(one['effective'])} count, the last {plain(end[2])} at step {end[0]} of attempt {end[1]}"
        )
        lines += [
            f"  attempt {taken['attempt']} counts from step {taken['from_step']}, {taken['set_aside']} set aside"
            for taken in one["taken_over"]
        ]
    for at in document["attempts_assumed"]:
        lines.append(f"line {at['line']}: steps run backwards, taken as attempt {at['attempt']}")
    bad = document["bad_lines"]
    lines += [f"line {one['line']}: {plain(one['why'])}" for one in bad]
    lines.append(f"{len(bad)} line(s) could not be used")
    answer(document, lines, as_json=as_json, code=FINDING if bad else OK)


@command(app)
def suites(as_json: Json = False) -> None:
    """The suites that come with the program: metric definitions by objective."""
    from pretrain_archive.artifacts.suites import described, load_suite, shipped_names  # noqa: PLC0415

    found = described([load_suite(name) for name in shipped_names()])
    rows = [
        [
            suite["name"],
            metric["name"],
            metric["unit"],
            metric["direction"],
            metric["measured_by"],
            metric["question"],
        ]
        for suite in found
        for metric in suite["metrics"]
    ]
    head = ["suite", "metric", "unit", "better", "measured by", "question"]
    answer({"suites": found}, table(rows, head=head), as_json=as_json)
