"""Commands of a later release: they say so instead of pretending."""

from __future__ import annotations

from typing import Annotated

import typer

from pretrain_archive.commands import overlap
from pretrain_archive.commands.output import Json

quality = typer.Typer(help="Check the quality of data (not available yet).")
overlap.register(quality)

ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True}


def not_yet(name: str) -> None:
    """Refuse with the reason."""
    from pretrain_archive.domain.errors import NotAvailableError  # noqa: PLC0415

    raise NotAvailableError(f"{name} is not available yet.", hint="It comes with a later release.")


@quality.command("check", context_settings=ANYTHING)
def check(
    source: Annotated[str, typer.Argument(metavar="SRC")] = "",
    as_json: Json = False,  # noqa: ARG001 - main() reads it from the arguments
) -> None:
    """Check a source by a suite (not available yet)."""
    not_yet(f"quality check {source}".strip())
