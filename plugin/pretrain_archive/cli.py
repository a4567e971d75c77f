"""The program ``pretrain-archive``: wires the sub-commands and turns errors into exit codes.

Exit codes: 0 all well, 1 a finding, 2 wrong use or unreadable input, 3 intact but not authenticated (packages
only), 4 refused by policy. Never a traceback: ``PRETRAIN_ARCHIVE_DEBUG=1`` shows one on standard error.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated

import typer

from pretrain_archive.commands import (
    changes,
    checkpoint,
    conclude,
    cost,
    drill,
    evaluation,
    human,
    incident,
    labels,
    launch,
    ledger,
    lineage,
    model,
    package,
    platform,
    quality,
    reconcile,
    release,
    resubmit,
    retention,
    run,
    snapshot,
    source,
    timeline,
)
from pretrain_archive.commands.output import WRONG_USE, command, fail, silence, wants_json

INTERRUPTED = 130
"""What a shell reports for a program that Ctrl-C ended."""

HELP = """Make an LLM pre-training run rebuildable as a decision.

Exit codes: 0 all well, 1 a finding, 2 wrong use or unreadable input, 3 intact but not authenticated (packages
only), 4 refused by policy."""

app = typer.Typer(
    help=HELP,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
reconcile.attach(retention.app)
for name, commands in (
    ("source", source.app),
    ("snapshot", snapshot.app),
    ("quality", quality.app),
    ("labels", labels.app),
    ("run", run.app),
    ("launch", launch.app),
    ("model", model.app),
    ("checkpoint", checkpoint.app),
    ("package", package.app),
    ("cost", cost.app),
    ("ledger", ledger.app),
    ("release", release.app),
    ("retention", retention.app),
    ("drill", drill.app),
    ("evaluation", evaluation.app),
    ("platform", platform.app),
    ("incident", incident.app),
):
    app.add_typer(commands, name=name)
command(app, "withdraw")(source.withdraw)
command(evaluation.app, "outputs")(human.outputs)
command(run.app, "timeline")(timeline.timeline)
command(run.app, "diagnose")(timeline.diagnose)
command(run.app, "lineage")(lineage.lineage)
command(run.app, "attempts")(lineage.attempts)
command(run.app, "change")(changes.change)
command(run.app, "conclude")(conclude.conclude)
command(run.app, "oncall")(incident.oncall)
command(run.app, "resubmit")(resubmit.resubmit)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version  # noqa: PLC0415

        print(f"pretrain-archive {version('pretrain-archive')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Options that every command shares."""


def _explain(error: Exception, *, as_json: bool) -> int:
    """Say what went wrong, in one line or one document, and return the exit code."""
    from pretrain_archive.domain.errors import ArchiveError  # noqa: PLC0415

    if isinstance(error, ArchiveError):
        fail(error.code, error.message, error.hint, as_json=as_json)
        return error.exit_code
    if hasattr(error, "format_message"):  # a usage error of the command line's parser
        context = getattr(error, "ctx", None)
        where = f" Try: {context.command_path} --help" if context is not None else ""
        fail("usage", error.format_message(), where.strip(), as_json=as_json)
        return WRONG_USE
    if isinstance(error, OSError):
        if lost := _unwritten():  # standard output itself is the cause
            fail("system", lost, "", as_json=False)
            return WRONG_USE
        what = (
            f"{error.strerror or error}: {error.filename}" if error.filename else error.strerror or str(error)
        )
        fail("system", what, "", as_json=as_json)
        return WRONG_USE
    if os.environ.get("PRETRAIN_ARCHIVE_DEBUG"):
        traceback.print_exception(error)
    hint = "Set PRETRAIN_ARCHIVE_DEBUG=1 to see where, and report it."
    fail("internal", f"{type(error).__name__}: {error}", hint, as_json=as_json)
    return WRONG_USE


def run_command(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    as_json = wants_json(arguments)
    try:
        code = app(arguments or ["--help"], standalone_mode=False, prog_name="pretrain-archive")
    except (KeyboardInterrupt, typer.Abort):
        fail("interrupted", "interrupted", "", as_json=as_json)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read us has seen enough.
        silence(sys.stdout)
        return 0
    except Exception as error:  # noqa: BLE001 - the outermost frame: everything becomes an exit code
        return _explain(error, as_json=as_json)
    return code if isinstance(code, int) else 0


def _open_streams() -> bool:
    """Whether standard output is there to be written to; a closed standard error is led into nothing.

    A closed stream's number would be given to the next file that is opened, and a message would land in it.
    """
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)
    if sys.stdout is None:
        os.open(os.devnull, os.O_WRONLY)
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    return sys.stdout is not None


def _unwritten() -> str:
    """Why standard output does not take what it holds, which is then given up; empty if it does."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)
    except OSError as error:
        silence(sys.stdout)
        return f"the answer cannot be written: {error.strerror}."
    return ""


def main() -> None:
    """Entry point of the console script."""
    if not _open_streams():
        fail("system", "standard output is closed: there is nowhere to answer.", "", as_json=False)
        sys.exit(WRONG_USE)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    code = run_command(sys.argv[1:])
    if lost := _unwritten():
        fail("system", lost, "", as_json=False)
        code = WRONG_USE
    sys.exit(code)
