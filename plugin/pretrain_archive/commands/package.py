"""``pretrain-archive package``: the minimal traceable package of a closed run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pretrain_archive.commands.output import Json

app = typer.Typer(help="Packages of closed runs.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The package's folder.")]


@app.command()
def verify(
    folder: Folder,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Verification key from outside the package.")
    ] = None,
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
