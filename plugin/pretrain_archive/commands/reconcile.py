"""``pretrain-archive retention reconcile``: records and storage, compared both ways."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pretrain_archive.commands.output import FINDING, OK, Json, answer, command, plain, size_text, table

Roots = Annotated[
    list[Path] | None,
    typer.Option("--root", help="A folder to look for checkpoints in that no record names; may be repeated."),
]


def attach(app: typer.Typer) -> None:
    """Add the command to ``app``, that of the clean-up."""
    command(app, "reconcile")(reconcile)


def reconcile(root: Roots = None, as_json: Json = False) -> None:
    """Compare what is recorded with what is there, both ways; nothing is deleted, registered or recorded.

    Every finding has a proposal: a plan, which policy and people decide, or a command. Exit 1 if there is any.
    """
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.services.reconciling import reconcile as compare  # noqa: PLC0415
    from pretrain_archive.services.reconciling import summary  # noqa: PLC0415
    from pretrain_archive.services.wiring import cleanup_room  # noqa: PLC0415

    found = compare(services.open_ledger(), cleanup_room(), roots=root or ())
    rows = [
        [finding.kind, plain(finding.ref), size_text(finding.size), plain(finding.detail)]
        for finding in found.findings
    ]
    lines = table(rows)
    told: dict[str, str] = {}
    for finding in found.findings:
        told.setdefault(f"{finding.kind}: {finding.proposal.text}", finding.proposal.command)
    lines += [f"{text}\n  {act}" for text, act in told.items()]
    lines.append(summary(found))
    answer(found.to_dict(), lines, as_json=as_json, code=OK if found.clean else FINDING)
