"""``pretrain-archive labels``: read a sampled document, draw a sample again."""

from __future__ import annotations

from typing import Annotated

import typer

from pretrain_archive.commands.output import FINDING, OK, Json, answer, command, plain, verdict_text
from pretrain_archive.commands.snapshot import Store, open_store

app = typer.Typer(help="Samples of labels that persons review.")


@command(app)
def show(
    snapshot: Annotated[str, typer.Argument(metavar="NAME@VERSION", help="The sampled snapshot.")],
    document: Annotated[str, typer.Argument(metavar="DIGEST", help="Beginning of the document's digest.")],
    store: Store = "",
    as_json: Json = False,
) -> None:
    """Print a document of a sample, after its digest was compared."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.review_lookup import find_document  # noqa: PLC0415

    item, text = find_document(services.open_ledger(create=False), open_store(store), snapshot, document)
    place = f"{plain(item.path)}" + (f", line {item.line}" if item.line else "")
    lines = [f"{plain(item.label)}  {place}  {item.digest}", "", *map(plain, text.splitlines())]
    answer({**item.to_json(), "snapshot": snapshot, "text": text}, lines, as_json=as_json)


@command(app)
def verify(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run whose labels were sampled.")],
    store: Store = "",
    as_json: Json = False,
) -> None:
    """Draw a run's sample again from its snapshot and compare it with the recorded one."""
    from pretrain_archive import config, services  # noqa: PLC0415
    from pretrain_archive.services.review_lookup import drawn_again  # noqa: PLC0415

    recorded, drawn = drawn_again(
        services.open_ledger(create=False), open_store(store), run, folder=config.policies_folder()
    )
    same = recorded.sample_digest == drawn.sample_digest
    document = {
        "verdict": "verified" if same else "changed",
        "snapshot": recorded.snapshot,
        "items": len(recorded.items),
        "expected": recorded.sample_digest,
        "found": drawn.sample_digest,
        "definition_unchanged": recorded.definition_digest == drawn.definition_digest,
    }
    line = f"{verdict_text(str(document['verdict']))}  sample of {len(recorded.items)} of {recorded.snapshot}"
    more = [] if same else [f"expected {recorded.sample_digest}", f"found    {drawn.sample_digest}"]
    answer(document, [line, *more], as_json=as_json, code=OK if same else FINDING)
