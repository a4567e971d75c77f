"""How every command answers: one JSON document or text for a person, and what its exit code means.

Standard output holds the answer and nothing else; progress and errors go to standard error. With ``--json`` an
error is the answer: ``{"error": {"code", "message", "hint"}}``.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO, TypeVar

import typer

if TYPE_CHECKING:
    from pretrain_archive.services.progress import Figures, Meter

Command = TypeVar("Command", bound=Callable[..., Any])

OK, FINDING, WRONG_USE, NOT_AUTHENTICATED, REFUSED = 0, 1, 2, 3, 4

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]

MARKS = {"verified": "✔", "changed": "△", "unrecorded": "◌"}
COLOURS = {"verified": "32", "changed": "33", "unrecorded": "90"}
BAR_SECONDS = 0.2


_answers: list[TextIO] = []
"""The standard output while a command works, kept for its answer."""


def command(app: typer.Typer, name: str | None = None) -> Callable[[Command], Command]:
    """Register a command of ``app``; while it works, standard output is kept for its answer.

    Libraries that print or log there (Airflow's logging does) are led to standard error, so that ``--json``
    stays one document.
    """

    def register(function: Command) -> Command:
        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            _answers.append(sys.stdout)
            try:
                with contextlib.redirect_stdout(sys.stderr):
                    return function(*args, **kwargs)
            finally:
                _answers.pop()

        app.command(name)(guarded)
        return function

    return register


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether ``--json`` stands among the arguments, before ``--``: asked where parsing itself failed."""
    before = list(arguments)[: list(arguments).index("--")] if "--" in arguments else arguments
    return "--json" in before


def _standard_output() -> TextIO:
    return _answers[-1] if _answers else sys.stdout


def coloured() -> bool:
    """Whether text may be coloured: standard output is a terminal and NO_COLOR is not set."""
    return _standard_output().isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def plain(text: object) -> str:
    """Text for a terminal: one line, control characters escaped, so that no value can move the cursor."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in str(text))


def verdict_text(verdict: str) -> str:
    """A verdict with its mark, coloured where that is wanted: the word carries the meaning."""
    text = f"{MARKS.get(verdict, '·')} {verdict}"
    return f"\x1b[{COLOURS[verdict]}m{text}\x1b[0m" if coloured() and verdict in COLOURS else text


def answer(document: dict[str, Any], text: Iterable[str], *, as_json: bool, code: int = OK) -> NoReturn:
    """Print the answer and end the command with ``code``."""
    stream = _standard_output()
    if as_json:
        print(json.dumps(document, ensure_ascii=False, indent=1), file=stream)
    else:
        for line in text:
            print(line, file=stream)
    stream.flush()
    raise typer.Exit(code)


def fail(code: str, message: str, hint: str, *, as_json: bool) -> None:
    """Print an error where it belongs; the caller chooses the exit code.

    Where standard output takes nothing (a full disk), even a document of ``--json`` can only be told on standard
    error.
    """
    if as_json:
        document = json.dumps({"error": {"code": code, "message": message, "hint": hint}}, ensure_ascii=False)
        try:
            print(document, flush=True)
        except BrokenPipeError:
            raise
        except OSError:
            silence(sys.stdout)
        else:
            return
    line = " ".join(plain(part) for part in (message.replace("\n", " "), hint.replace("\n", " ")) if part)
    print(f"pretrain-archive: {line}", file=sys.stderr)


def silence(stream: TextIO) -> None:
    """Lead what a stream that takes nothing still holds into nothing, so that no flush at the end complains again."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, stream.fileno())
    except (OSError, ValueError):  # a stream without a file
        return
    finally:
        os.close(nothing)


def table(rows: Sequence[Sequence[str]], *, head: Sequence[str] = ()) -> list[str]:
    """Rows as aligned columns."""
    every = [list(head), *map(list, rows)] if head else [list(row) for row in rows]
    widths = [max((len(row[i]) for row in every if i < len(row)), default=0) for i in range(_width(every))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in every
    ]


def _width(rows: Sequence[Sequence[str]]) -> int:
    return max((len(row) for row in rows), default=0)


def size_text(number: int) -> str:
    """A number of bytes for a person."""
    value = float(number)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError(number)


@contextlib.contextmanager
def hashing_progress(word: str) -> Iterator[Meter | None]:
    """A bar on standard error with files, bytes, rate and time left; None where that is no terminal.

    Without colour under NO_COLOR; the bar is gone when the work is done, so that only the answer stays.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - only where somebody looks
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415

    from pretrain_archive.services.progress import Meter  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}"),
        BarColumn(12),
        TextColumn("{task.fields[figures]}", markup=False),
    )
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        task = bar.add_task(word, total=None, figures="")

        def show(figures: Figures) -> None:
            # Of a thousand: the bar is drawn from a share, not from files or bytes, which may both be counted.
            share = figures.share
            total, done = (None, 0.0) if share is None else (1000.0, 1000.0 * share)
            bar.update(task, total=total, completed=done, figures=figures.text())

        yield Meter(show, seconds=BAR_SECONDS)
