"""``pretrain-archive snapshot``: immutable data versions."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pretrain_archive.commands.output import (
    FINDING,
    OK,
    Json,
    answer,
    command,
    hashing_progress,
    plain,
    size_text,
    verdict_text,
)

if TYPE_CHECKING:
    from pretrain_archive.domain.kinds import SnapshotCreated
    from pretrain_archive.ledger.port import Ledger
    from pretrain_archive.storage.port import ObjectStore

app = typer.Typer(help="Immutable data versions.")

_TOLD = (
    "name", "version", "manifest_digest", "file_count", "total_bytes", "parent", "unchanged", "changes", "check"
)  # fmt: skip

NAMED = 20
MARKS_OF_CHANGE = {"added": "+", "removed": "-", "modified": "~", "renamed": ">"}

Store = Annotated[
    str, typer.Option("--store", metavar="URI", help="Object store; default: the configured one.")
]


def open_store(uri: str) -> ObjectStore:
    """The store at ``uri`` (a folder or a URL), or the configured one."""
    if not uri:
        from pretrain_archive import services  # noqa: PLC0415

        return services.open_store()
    from pretrain_archive.storage import factory  # noqa: PLC0415

    return factory.open_store(uri if "://" in uri else Path(uri).absolute().as_uri())


@command(app)
def create(  # noqa: PLR0917 - typer passes options by name
    source: Annotated[
        str,
        typer.Argument(metavar="SRC", help="Folder, file:// URL or s3://[CONNECTION@]bucket/prefix to read."),
    ],
    name: Annotated[str, typer.Option("--name", help="Name of the snapshot.")],
    store: Store = "",
    mode: Annotated[
        Literal["copy", "reference", "recipe"],
        typer.Option(help="copy keeps the bytes, reference their digests, recipe how to make them again."),
    ] = "copy",
    include: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Take only these paths.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Leave these paths out.")] = None,
    incremental: Annotated[
        bool,
        typer.Option(
            "--incremental",
            help="Take files as unchanged whose device, inode, size, mtime and ctime are those of the last time.",
        ),
    ] = False,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Policy that says whether a recipe may be rebuilt.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read every byte below SRC and keep it as the next version of NAME; equal content makes none."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.data.places import refuse_own_places  # noqa: PLC0415
    from pretrain_archive.data.snapshots import create_snapshot  # noqa: PLC0415
    from pretrain_archive.data.sources import resolve_source  # noqa: PLC0415
    from pretrain_archive.domain.identity import new_id  # noqa: PLC0415
    from pretrain_archive.domain.records import Actor, Origin  # noqa: PLC0415
    from pretrain_archive.services.wiring import own_places, stamps_folder  # noqa: PLC0415

    resolved, target = resolve_source(source), open_store(store)
    refuse_own_places(resolved.tree, own_places(), target)
    if mode == "recipe":
        from pretrain_archive.commands import recipes  # noqa: PLC0415

        _told_made(recipes.create(target, resolved, name, policy, include, exclude), as_json=as_json)
        return
    with hashing_progress("hashing") as progress:
        made = create_snapshot(
            target,
            services.open_ledger(),
            name=name,
            source_root=resolved.tree,
            source_uri=resolved.uri,
            mode=mode,
            actor=Actor(type="cli", name=getpass.getuser()),
            origin=Origin(dag_id="cli", dag_run_id=new_id("call"), task_id="snapshot_create"),
            include=include or resolved.include,
            exclude=[*resolved.exclude, *(exclude or ())],
            progress=progress,
            stamps=stamps_folder() if incremental else None,
        )
    _told_made(made, as_json=as_json)


def _told_made(made: SnapshotCreated, *, as_json: bool) -> None:
    line = f"{made.name}@{made.version}  {made.file_count} files, {size_text(made.total_bytes)}"
    state = "unchanged" if made.unchanged else ", ".join(f"{n} {word}" for word, n in made.changes.items())
    document = {key: made.to_json()[key] for key in _TOLD}
    answer(document, [f"{line}  ({state})", made.manifest_digest, made.check], as_json=as_json)


@command(app)
def rebuild(
    snapshot: Annotated[str, typer.Argument(metavar="NAME[@VERSION]", help="Default: the newest version.")],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="New folder for the files.")],
    store: Store = "",
    source: Annotated[
        str, typer.Option(metavar="SRC", help="Where the source lies now; default: as recorded.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Make a snapshot again from its recipe: read the source, apply the rules, check every digest."""
    from pretrain_archive.commands import recipes  # noqa: PLC0415

    recipes.rebuild(open_store(store), snapshot, to, source, as_json=as_json)


@command(app)
def verify(  # noqa: PLR0917 - typer passes options by name
    snapshot: Annotated[str, typer.Argument(metavar="NAME[@VERSION]", help="Default: the newest version.")],
    store: Store = "",
    source: Annotated[str, typer.Option(metavar="SRC", help="Compare the live source, not the copy.")] = "",
    confidence: Annotated[
        float, typer.Option(help="Read a sample: a change is seen with this probability, such as 0.99.")
    ] = 0,
    max_changed: Annotated[
        float | None,
        typer.Option(help="For a sample: if at least this share of the files changed; default: 0.001."),
    ] = None,
    seed: Annotated[int, typer.Option(help="For a sample: draw the files of an earlier one again.")] = -1,
    as_json: Json = False,
) -> None:
    """Read every byte again and compare it with the manifest; lists what is not as it was."""
    from pretrain_archive.data.layout import parse_snapshot  # noqa: PLC0415
    from pretrain_archive.data.sampling import SampleRule, new_seed  # noqa: PLC0415
    from pretrain_archive.data.sources import resolve_source  # noqa: PLC0415
    from pretrain_archive.data.verify import verify_snapshot  # noqa: PLC0415
    from pretrain_archive.domain.errors import InputError  # noqa: PLC0415
    from pretrain_archive.services import describing  # noqa: PLC0415

    name, version = parse_snapshot(snapshot)
    if (seed >= 0 or max_changed is not None) and not confidence:
        raise InputError(
            "--confidence", confidence, "is missing", hint="A sample needs it; else all is read."
        )
    sample = None
    if confidence:
        number = new_seed() if seed < 0 else seed
        share = 0.001 if max_changed is None else max_changed
        sample = SampleRule(confidence=confidence, max_changed=share, seed=number)
    target = open_store(store)
    ledger = _ledger()
    made = describing.record_of(ledger, target, name, version) if ledger else None
    with hashing_progress("verifying") as progress:
        checked = verify_snapshot(
            target,
            name,
            version,
            source_root=resolve_source(source).tree if source else None,
            manifest_digest=str(made.payload["manifest_digest"]) if made else None,
            sample=sample,
            progress=progress,
        )
    document = checked.to_json()
    lines = [
        f"{verdict_text(item.verdict.value)}  {plain(item.path) or '(manifest)'}: "
        f"expected {plain(item.expected)}, found {plain(item.found)}"
        for item in checked.items
    ]
    lines += [f"… and {checked.left_out} more findings"] if checked.left_out else []
    lines += (
        [] if checked.recorded else ["nothing is recorded of it: the manifest is what the store says it is"]
    )
    tally = ", ".join(f"{number} {word}" for word, number in checked.counts.items())
    lines.append(f"{verdict_text(document['verdict'])}  {name}@{checked.snapshot.version}: {tally}")
    lines += [checked.checked] if sample else []
    answer(
        document,
        lines,
        as_json=as_json,
        code=OK if document["verdict"] in {"verified", "sampled"} else FINDING,
    )


@command(app)
def diff(
    left: Annotated[str, typer.Argument(metavar="LEFT", help="NAME[@VERSION]; default: the newest version.")],
    right: Annotated[str, typer.Argument(metavar="RIGHT", help="NAME[@VERSION].")],
    store: Store = "",
    limit: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="Name at most so many paths of each kind.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Say which files RIGHT added, removed, modified and renamed against LEFT; counts are always whole."""
    from pretrain_archive.data.diffing import KINDS, LIMIT, compare  # noqa: PLC0415
    from pretrain_archive.data.layout import parse_snapshot  # noqa: PLC0415
    from pretrain_archive.data.snapshots import open_version  # noqa: PLC0415

    target = open_store(store)
    sides = [open_version(target, *parse_snapshot(side)) for side in (left, right)]
    found = compare(target, *sides, limit=limit or (LIMIT if as_json else NAMED))
    lines = [
        f"{MARKS_OF_CHANGE[change['change']]} {plain(change.get('from', ''))}{' → ' * ('from' in change)}"
        f"{plain(change['path'])}"
        for change in found.to_json()["changes"]
    ]
    if found.truncated:
        lines.append("… more; --limit names them")
    counted = (
        f"{found.tallies[kind].files} {kind} ({size_text(found.tallies[kind].size)})" for kind in KINDS
    )
    lines.append("no difference" if found.same else ", ".join(counted))
    answer(found.to_json(), lines, as_json=as_json)


@command(app, "leftovers")
def show_left_over(
    store: Store = "",
    drop: Annotated[
        bool, typer.Option("--drop", help="Delete them; nobody can go on with them then.")
    ] = False,
    days: Annotated[
        float, typer.Option(min=0, max=36_500, help="Only what was planned so many days ago.")
    ] = 7,
    as_json: Json = False,
) -> None:
    """List what snapshots in parts left in the store and never merged; no version names any of it."""
    from datetime import UTC, datetime, timedelta  # noqa: PLC0415

    from pretrain_archive.data import leftovers  # noqa: PLC0415

    target = open_store(store)
    before = datetime.now(UTC) - timedelta(days=days)
    found = [left for left in leftovers.left_over(target) if left.planned_at < before]
    for left in found if drop else ():
        leftovers.drop(target, left.folder)
    items = [
        {"folder": left.folder, "objects": left.objects, "bytes": left.size, "planned_at": left.planned_at.isoformat()}
        for left in found
    ]  # fmt: skip
    size = sum(left.size for left in found)
    lines = [
        f"{left.planned_at:%Y-%m-%d %H:%M}  {size_text(left.size):>9}  {plain(left.folder)}" for left in found
    ]
    lines.append(f"{len(found)} plans, {size_text(size)}{', dropped' if drop else ''}")
    answer({"items": items, "total_bytes": size, "dropped": drop}, lines, as_json=as_json)


def _ledger() -> Ledger | None:
    """The ledger, None where there is none: a snapshot alone needs none."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.ledger.factory import NoLedgerError  # noqa: PLC0415

    try:
        return services.open_ledger(create=False)
    except NoLedgerError:
        return None


@command(app)
def croissant(
    snapshot: Annotated[str, typer.Argument(metavar="NAME[@VERSION]", help="Default: the newest version.")],
    store: Store = "",
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write there, not to the terminal.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Describe a snapshot as Croissant 1.1 JSON-LD, with licence and rights where they are recorded."""
    from pretrain_archive.data.layout import parse_snapshot  # noqa: PLC0415
    from pretrain_archive.services import describing  # noqa: PLC0415

    document = describing.croissant(_ledger(), open_store(store), *parse_snapshot(snapshot))
    text = json.dumps(document, ensure_ascii=False, indent=1)
    if output is None:
        answer(document, [text], as_json=as_json)
    output.write_text(text + "\n", encoding="utf-8")
    answer({"output": str(output), "conforms_to": document["conformsTo"]}, [str(output)], as_json=as_json)
