"""``pretrain-archive quality``: check data by a versioned suite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pretrain_archive.commands import overlap
from pretrain_archive.commands.output import (
    FINDING,
    OK,
    Json,
    answer,
    command,
    hashing_progress,
    plain,
    table,
)

if TYPE_CHECKING:
    from pretrain_archive.data.quality.check import QualityResult
    from pretrain_archive.data.quality.suite import Limits
    from pretrain_archive.domain.policy import Quality

NAMED = 10
"""How many units that could not be read the answer for a person names; a report names more."""

app = typer.Typer(help="Check the quality of data.")


@app.callback()
def quality() -> None:
    """Check the quality of data."""


overlap.register(app)


@command(app)
def check(  # noqa: PLR0917 - typer passes options by name
    source: Annotated[
        str,
        typer.Argument(metavar="SRC", help="Folder, file, file:// or s3:// URL, or a snapshot NAME@VERSION."),
    ],
    suite: Annotated[
        Path | None, typer.Option("--suite", metavar="FILE", help="Suite of rules (TOML or JSON).")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="Take limits and settings from a policy.")
    ] = None,
    profile: Annotated[
        Literal["text", "code"] | None, typer.Option(help="Thresholds for prose or for source code.")
    ] = None,
    include: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Take only these paths.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Leave these paths out.")] = None,
    benchmark: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PATH", help="A set that must not be in the data; may be given again."),
    ] = None,
    engine: Annotated[
        Literal["local", "spark"] | None, typer.Option(help="Compute on this machine or on Spark.")
    ] = None,
    spark_master: Annotated[
        str | None, typer.Option("--spark-master", metavar="URL", help="Default: local[*].")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write the report as an HTML page.")
    ] = None,
    store: Annotated[
        str, typer.Option("--store", metavar="URI", help="Keep the report in this store, and find snapshots.")
    ] = "",
    work: Annotated[
        Path | None,
        typer.Option("--work", metavar="FOLDER", help="Keep measures here; a killed check goes on."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure every document of SRC and judge the gates of the suite; exit 1 if a blocking one did not pass."""
    limits, settings = _settings(policy)
    changes: dict[str, Any] = {
        "profile": profile,
        "engine": engine,
        "spark_master": spark_master,
        "benchmarks": {**settings.benchmarks, **_named(benchmark or ())} or None,
    }
    settings = settings.model_copy(update={k: v for k, v in changes.items() if v is not None})
    chosen: tuple[Sequence[str], Sequence[str]] = (include or (), exclude or ())
    with hashing_progress("checking") as progress:
        found = _check(
            source, store, chosen,
            limits=limits, quality=settings, suite_file=suite, work=work, progress=progress,
        )  # fmt: skip
    if report is not None:
        report.write_bytes(found.page)
    answer(found.to_json(), _lines(found), as_json=as_json, code=OK if found.payload.passed else FINDING)


def _check(
    source: str, store: str, chosen: tuple[Sequence[str], Sequence[str]], **asked: Any
) -> QualityResult:
    from pretrain_archive.commands.snapshot import open_store  # noqa: PLC0415
    from pretrain_archive.data.layout import parse_snapshot  # noqa: PLC0415
    from pretrain_archive.data.quality.check import check_quality  # noqa: PLC0415
    from pretrain_archive.data.snapshots import open_version  # noqa: PLC0415
    from pretrain_archive.data.sources import resolve_source  # noqa: PLC0415

    kept = open_store(store) if store else None
    include, exclude = chosen
    if not Path(source).exists() and (
        source.startswith("snapshot:") or ("@" in source and "://" not in source)
    ):
        kept = kept or open_store("")
        return check_quality(kept, snapshot=open_version(kept, *parse_snapshot(source)), **asked)
    if Path(source).exists():
        return check_quality(kept, path=source, include=include, exclude=exclude, **asked)
    resolved = resolve_source(source)
    include, exclude = include or resolved.include, [*resolved.exclude, *exclude]
    return check_quality(kept, path=resolved.tree, include=include, exclude=exclude, **asked)


def _settings(file: Path | None) -> tuple[Limits, Quality]:
    from pretrain_archive.data.quality.suite import Limits  # noqa: PLC0415
    from pretrain_archive.domain.errors import InputError  # noqa: PLC0415
    from pretrain_archive.domain.policy import Quality, parse_policy  # noqa: PLC0415

    if file is None:
        return Limits(), Quality()
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise InputError("policy", str(file), f"cannot be read: {error.strerror}") from error
    data = parse_policy(raw, name=file.name).policy.data
    return Limits.of(data), data.quality


def _named(pairs: Sequence[str]) -> dict[str, str]:
    from pretrain_archive.domain.errors import InputError  # noqa: PLC0415

    made = {}
    for pair in pairs:
        name, equals, place = pair.partition("=")
        if not (name and equals and place):
            raise InputError("--benchmark", pair, "is not NAME=PATH")
        made[name] = place
    return made


def _lines(found: QualityResult) -> list[str]:
    gates = found.report["gates"]
    rows = [
        [_state(gate), gate["name"], _number(gate["observed"]), _number(gate["limit"]), gate["detail"]]
        for gate in gates
    ]
    head = ["result", "gate", "observed", "limit", ""]
    lines = table([[plain(cell) for cell in row] for row in rows], head=head) if rows else []
    payload = found.payload
    counts = (
        f"{payload.documents} documents, {payload.exact_duplicates} exact and "
        f"{'unknown' if payload.near_duplicates is None else payload.near_duplicates} near duplicates"
    )
    word = "passed" if payload.passed else "not passed"
    if payload.passed and payload.warnings:
        word = f"passed, with advice: {', '.join(payload.warnings)}"
    if left := [name for name in found.report["not_checked"] if name not in {gate["name"] for gate in gates}]:
        lines.append(f"not checked: {plain(', '.join(left))}")
    return [*lines, *_broken(found), counts, plain(f"{word}  {payload.reason}".rstrip())]


def _broken(found: QualityResult) -> list[str]:
    """Where the first files, lines and rows are that could not be read, and why."""
    broken = found.report["examples"].get("format_errors", [])
    lines = [
        plain(
            f"not read: {unit['file']}"
            + (f" line {unit['line']}" if unit["line"] else "")
            + f": {unit['reason']}"
        )
        for unit in broken[:NAMED]
    ]
    if (more := found.report["format_errors"] - len(lines)) > 0:
        lines.append(f"not read: {more} more; --json and --report FILE tell where")
    return lines


def _state(gate: dict[str, Any]) -> str:
    if gate["passed"]:
        return "passed"
    if not gate["checked"]:
        return "not checked"
    return "failed" if gate["severity"] == "blocking" else "advice"


def _number(value: Any) -> str:
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
