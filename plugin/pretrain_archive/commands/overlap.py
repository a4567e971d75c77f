"""``pretrain-archive quality overlap``: what one set of documents has of another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pretrain_archive.commands.output import FINDING, OK, Json, answer, command, plain
from pretrain_archive.commands.snapshot import Store, open_store

if TYPE_CHECKING:
    from pretrain_archive.data.quality.neardup.sides import Side
    from pretrain_archive.services.overlapping import Compared

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
    grams: Annotated[
        int, typer.Option(help="Words in a row that contaminate an item; 0 looks for twins only.")
    ] = 13,
    text_field: Annotated[
        str, typer.Option(help="The field that holds the text in lists of documents.")
    ] = "text",
    work: Annotated[
        Path | None,
        typer.Option(
            "--work", metavar="FOLDER", help="For working files, as large as the texts; then emptied."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Find documents of RIGHT that have a twin in LEFT, and items of RIGHT that share n-grams with LEFT."""
    from pretrain_archive import config, services  # noqa: PLC0415
    from pretrain_archive.data.quality.contamination import Grams  # noqa: PLC0415
    from pretrain_archive.data.quality.neardup.settings import Settings  # noqa: PLC0415
    from pretrain_archive.services.overlapping import compare, side  # noqa: PLC0415

    settings = Settings(threshold=threshold, mode=mode)
    sizes = Grams(n=grams, least=min(grams, 8)) if grams else None

    def named(text: str) -> Side:
        return side(
            text, lambda: open_store(store), lambda: services.open_ledger(create=False), text_field=text_field
        )

    # Sketches take as much room as the texts: not the system's small temporary folder.
    folder = work or config.work_folder()
    folder.mkdir(parents=True, exist_ok=True)
    found = compare(named(left), named(right), settings, sizes, work=folder)
    document = found.to_json()
    answer(document, _lines(found, document), as_json=as_json, code=OK if found.clean else FINDING)


def _lines(found: Compared, document: dict[str, Any]) -> Iterator[str]:
    twins, items = found.twins, found.grams
    yield f"{plain(found.right.name)} against {plain(found.left.name)}"
    yield (
        f"  twins: {twins.documents} of {twins.right_documents} documents, {twins.exact} equal and {twins.near} near "
        f"(Jaccard at least {twins.settings.threshold}, {twins.settings.mode})"
    )
    if items is None:
        yield "  n-grams: not looked for"
    else:
        yield (
            f"  {items.settings.n}-grams: {items.contaminated} of {items.tested} items, {items.rare} by one that "
            f"stands in at most {items.settings.common} documents; {items.too_short} too short"
        )
    for side in (found.left, found.right):
        if side.not_read:
            told = ", ".join(f"{count} {kind}" for kind, count in sorted(side.not_read.items()))
            yield f"  not read of {plain(side.name)}: {told}"
    for example in document["twins"]["examples"]:
        yield f"  {plain(example['right'])} is like {plain(example['left'])} ({example['jaccard']})"
    for example in (document["grams"] or {"examples": ()})["examples"]:
        shared = f"shares {example['shared']} of {example['grams']} n-grams"
        yield f"  {plain(example['right'])} {shared}, first with {plain(example['left'])}"
