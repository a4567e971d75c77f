"""``pretrain-archive package``: the minimal traceable package of a closed run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from pretrain_archive.commands.output import FINDING, OK, Json, answer, command, plain

app = typer.Typer(help="Packages of closed runs.")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The package's folder.")]
KeyFile = Annotated[
    Path | None, typer.Option("--key", metavar="FILE", help="Verification key from outside the package.")
]
Language = Annotated[
    Literal["en", "zh"] | None, typer.Option("--lang", help="Default: the configured language.")
]


@app.command()
def verify(
    folder: Folder,
    key: KeyFile = None,
    pointers: Annotated[bool, typer.Option("--pointers", help="Also read what is only pointed to.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="List verified items too.")] = False,
    as_json: Json = False,
) -> None:
    """Check a package as its own verify.py does: 0 verified, 3 intact without a key, 1 changed."""
    from pretrain_archive.package import verify as program  # noqa: PLC0415

    arguments = [str(folder)]
    arguments += ["--key", str(key)] if key else []
    arguments += [
        name for name, on in (("--pointers", pointers), ("--all", everything), ("--json", as_json)) if on
    ]
    raise typer.Exit(program.main(arguments))


@command(app)
def explain(
    folder: Folder,
    key: KeyFile = None,
    lang: Language = None,
    as_json: Json = False,
) -> None:
    """The decision in sentences, each with the records that it rests on."""
    from pretrain_archive import config  # noqa: PLC0415
    from pretrain_archive.package import explain as program  # noqa: PLC0415

    told = program.explain(folder, key=key)
    text = program.explain_text(told, language=lang or config.language())
    answer(told, text.splitlines(), as_json=as_json, code=FINDING if told["verdict"] == "changed" else OK)


@command(app)
def exam(
    folder: Folder,
    answers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON object: question id to answer; - reads standard input."),
    ] = None,
    lang: Language = None,
    as_json: Json = False,
) -> None:
    """Questions for a person who took no part, answerable from the package alone; with answers, the score."""
    from pretrain_archive import config  # noqa: PLC0415
    from pretrain_archive.package import exam as program  # noqa: PLC0415

    if answers is None:
        asked = program.questions(folder)
        language = lang or config.language()
        lines = [f"{q['id']}: {q['question'][language]}" for q in asked]
        answer({"asked": len(asked), "questions": asked}, lines, as_json=as_json)
    result = program.score(folder, _read_answers(answers))
    lines = [
        f"✘ {plain(gap['id'])}: {plain(gap['reason'])}  {' '.join(gap['files'])}" for gap in result["gaps"]
    ]
    lines.append(f"{result['score']} of {result['asked']} right")
    answer(result, lines, as_json=as_json, code=FINDING if result["gaps"] else OK)


def _read_answers(file: Path) -> dict[str, str]:
    from pretrain_archive.domain.errors import InputError  # noqa: PLC0415

    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        found = json.loads(text)
    except UnicodeDecodeError as error:
        raise InputError("--answers", str(file), "not UTF-8 text") from error
    except RecursionError as error:
        raise InputError("--answers", str(file), "nested too deeply") from error
    except ValueError as error:
        raise InputError("--answers", str(file), f"not JSON: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise InputError("--answers", str(file), "not a JSON object of question ids and texts")
    return found
