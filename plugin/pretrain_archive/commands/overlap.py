"""``pretrain-archive quality overlap``: what one set of documents has of another."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from pretrain_archive.commands.output import FINDING, OK, Json, answer, command, plain
from pretrain_archive.commands.snapshot import Store, open_store

MODE_HELP = (
    "When texts are equal: exact, normalised, normalised+case, normalised+punctuation, "
    "normalised+case+punctuation."
)


def register(app: typer.Typer) -> None:
    """Give ``app`` the command ``overlap``."""
    command(app)(overlap)


def overlap(  # noqa: PLR0917 - typer passes options by name
    left: Annotated[
        str,
        typer.Argument(metavar="LEFT", help="Training data: NAME[@VERSION][#train|#validation] or a path."),
    ],
    right: Annotated[
        str, typer.Argument(metavar="RIGHT", help="What must not be in it: another snapshot, part or path.")
    ],
    store: Store = "",
    threshold: Annotated[float, typer.Option(help="Least Jaccard similarity of near twins.")] = 0.8,
    mode: Annotated[str, typer.Option(help=MODE_HELP)] = "normalised",
    grams: Annotated[int, typer.Option(help="Words in a row that contaminate an item.")] = 13,
    as_json: Json = False,
) -> None:
    """Find documents of RIGHT that have a twin in LEFT, and items of RIGHT that share n-grams with LEFT."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.data.quality.contamination import Grams  # noqa: PLC0415
    from pretrain_archive.data.quality.neardup.settings import Settings  # noqa: PLC0415
    from pretrain_archive.services.overlapping import compare, side  # noqa: PLC0415

    settings = Settings(threshold=threshold, mode=mode)
    sizes = Grams(n=grams, least=min(grams, 8))
    sides = [
        side(text, lambda: open_store(store), lambda: services.open_ledger(create=False))
        for text in (left, right)
    ]
    found = compare(*sides, settings, sizes, work=Path(tempfile.gettempdir()))
    twins, items = found.twins, found.grams
    lines = [
        f"{plain(found.right.name)} against {plain(found.left.name)}",
        f"  twins    {twins.documents} of {twins.right_documents} documents: {twins.exact} equal, {twins.near} near"
        f" (Jaccard at least {threshold}, {mode})",
        f"  {items.settings.n}-grams {items.contaminated} of {items.tested} items, {items.rare} by one that stands in "
        f"at most {items.settings.common} documents; {items.too_short} too short",
    ]
    document = found.to_json()
    for example in document["twins"]["examples"]:
        lines.append(f"  {plain(example['right'])} is like {plain(example['left'])} ({example['jaccard']})")
    for example in document["grams"]["examples"]:
        lines.append(
            f"  {plain(example['right'])} shares {example['shared']} of {example['grams']} n-grams, "
            f"first with {plain(example['left'])}"
        )
    answer(document, lines, as_json=as_json, code=OK if found.clean else FINDING)
