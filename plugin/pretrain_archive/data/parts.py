"""Snapshot a large source in parts: plan once, hash each part wherever there is room, merge.

Everything of a plan lies in the store below ``parts/STREAM/PLAN/``: ``plan.json``; ``listing/NUMBER-DIGEST.jsonl``,
the files of a part with their marks; and ``pieces/NUMBER-STEP-DIGEST.jsonl``, lines of the manifest for a step of a
part. A piece appears whole or not at all, so a part that was killed goes on after its last piece, and a part that is
done twice writes the same. The pieces hold the manifest's own lines in the listing's order: merged they are the
manifest that one process would have written, for any number of parts. A plan is bound to one listing and never used
for another: nothing is taken over from an earlier snapshot.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

from pretrain_archive.data.building import hash_all, refuse_changed
from pretrain_archive.data.fetching import fetched_once
from pretrain_archive.data.hashing import REMOTE_THREADS, Progress, expect, in_order
from pretrain_archive.data.keeping import Copier
from pretrain_archive.data.manifest import FORMAT, PINNED, Built, Entry, Header
from pretrain_archive.data.merging import merge
from pretrain_archive.data.planning import (
    Part,
    Plan,
    foreign,
    listed_of,
    open_checked,
    part_of,
    put_lines,
    steps_of,
)
from pretrain_archive.data.snapshots import holds_copy
from pretrain_archive.data.tree import Listed, Tree, portable
from pretrain_archive.domain.errors import ArchiveError, RefusedError, StorageError
from pretrain_archive.domain.identity import path_to_text
from pretrain_archive.storage.port import ObjectStore

Tell = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """A part that is hashed: ``steps`` pieces, ``found`` of them from an earlier try."""

    part: Part
    steps: int
    found: int


def hash_part(
    store: ObjectStore, plan: Plan, number: int, tree: Tree, *, progress: Progress | None = None
) -> Done:
    """Hash part ``number`` and leave its pieces of the manifest in the store; what an earlier try left is not redone.

    In copy mode the bytes are kept too, and what was kept before is proven. Raises ``SourceChangedError`` naming the
    files that are not as listed.
    """
    part = part_of(plan, number)
    before = {step: key for (of, step), key in _pieces(store, plan).items() if of == number}
    expect(progress, part.files, part.size)
    files = size = steps = found = 0

    def tell(more: int, read: int) -> None:
        nonlocal files, size
        files, size = files + more, size + read
        if progress is not None:
            progress(files, size)

    for steps, items in enumerate(steps_of(plan, listed_of(store, plan, part)), 1):
        if steps in before:
            found += 1
            own = [item.size for item in items if item.target is None]
            tell(len(own), sum(own))
        else:
            _hash_step(store, plan, (number, steps), items, tree, tell)
    return Done(part=part, steps=steps, found=found)


def merge_parts(store: ObjectStore, plan: Plan, tree: Tree) -> Built:
    """Put the pieces together, once all are there and of this listing, and the tree is still as it was listed.

    Raises ``RefusedError`` naming parts that are not done, ``ArchiveError`` for a piece that is not of this listing,
    ``SourceChangedError`` naming what changed since. The caller closes the manifest's file.
    """
    header = Header(
        files=plan.files, links=plan.links, total_bytes=plan.size, format=PINNED if plan.pinned else FORMAT
    )
    out = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - handed to the caller, who closes it
    try:
        digest = hashlib.sha256(header.line())
        out.write(header.line())
        for line in _merged(store, plan):
            digest.update(line)
            out.write(line)
        refuse_changed(tree, _changed_since(store, plan, tree))
        built = Built(header=header, digest="sha256:" + digest.hexdigest(), file=out)
        if plan.wish["mode"] == "copy":
            _look_up_copies(store, built)
    except BaseException:
        out.close()
        raise
    return built


def _merged(store: ObjectStore, plan: Plan) -> Iterator[bytes]:
    """The manifest's lines, each checked against the file of the listing that it must be about."""
    pieces = _pieces(store, plan)
    missing: set[int] = set()
    for part in plan.parts:
        for step, items in enumerate(steps_of(plan, listed_of(store, plan, part)), 1):
            key = pieces.pop((part.number, step), None)
            if key is None:
                missing.add(part.number)
            elif not missing:
                yield from _checked(store, key, items)
    if missing:
        named = ", ".join(map(str, sorted(missing)[:20]))
        raise RefusedError(
            f"{len(missing)} of {len(plan.parts)} parts are not done ({named}); no version was made.",
            hint="Run these parts again, then merge.",
        )
    if pieces:
        raise foreign(store, next(iter(pieces.values())), "belongs to no step of the plan")


def _checked(store: ObjectStore, key: str, items: list[Listed]) -> Iterator[bytes]:
    with open_checked(store, key) as stream:
        for item in items:
            line = stream.readline()
            try:
                entry = Entry.parse(line)
            except (ValueError, KeyError, TypeError) as error:
                raise foreign(store, key, f"cannot be read: {error}") from error
            target = None if item.target is None else path_to_text(item.target)
            size = item.size if target is None else 0
            told = (entry.path, entry.link, entry.size, entry.version)
            if told != (path_to_text(item.path), target, size, item.version):
                raise foreign(store, key, f"tells of {entry.path!r}, expected {path_to_text(item.path)!r}")
            yield line
        if stream.readline():
            raise foreign(store, key, "holds more files than its step")


def _hash_step(  # noqa: PLR0917 - a step and what it works on
    store: ObjectStore, plan: Plan, step: tuple[int, int], items: list[Listed], tree: Tree, tell: Tell
) -> None:
    tree = fetched_once(tree) if plan.wish["mode"] == "copy" else tree
    keep = Copier(store, tree) if plan.wish["mode"] == "copy" else None
    lines, changed = io.BytesIO(), []
    for batch in hash_all(tree, items, each=keep):
        read = [entry for _, entry in batch if entry is not None]
        changed += [path_to_text(listed.path) for listed, entry in batch if entry is None]
        lines.writelines(entry.line() for entry in read)
        tell(sum(entry.link is None for entry in read), sum(entry.size for entry in read))
    refuse_changed(tree, changed)
    if keep is not None:
        keep.prove()
    put_lines(store, f"{plan.folder}/pieces/{step[0]:05d}-{step[1]:05d}", lines)


def _look_up_copies(store: ObjectStore, built: Built) -> None:
    """Every copy that the parts kept is still there: a clean-up may have come between."""

    def held(entry: Entry) -> tuple[Entry, bool]:
        return entry, holds_copy(store, entry)

    files = (entry for entry in built.entries() if entry.link is None)
    for entry, there in in_order(held, files, threads=REMOTE_THREADS):
        if not there:
            raise StorageError(
                f"{entry.path}: its copy {entry.sha256} is not in the store any more; no version was made.",
                hint="Plan the snapshot again.",
            )


def _changed_since(store: ObjectStore, plan: Plan, tree: Tree) -> Iterator[str]:
    listed = (item for part in plan.parts for item in listed_of(store, plan, part))
    now = map(portable, tree.list(plan.chosen))
    pairs = merge(listed, now, left=lambda item: item.path, right=lambda item: item.path)
    return (path_to_text((new or old).path) for old, new in pairs if old != new)  # type: ignore[union-attr]


def _pieces(store: ObjectStore, plan: Plan) -> dict[tuple[int, int], str]:
    """The pieces that are there, by part and step; ``ArchiveError`` if two tell different things of one step."""
    found: dict[tuple[int, int], str] = {}
    prefix = f"{plan.folder}/pieces/"
    for info in store.list(prefix):
        number, step, _ = info.key.removeprefix(prefix).split("-")
        if found.setdefault((int(number), int(step)), info.key) != info.key:
            raise ArchiveError(
                f"part {int(number)} was read twice with different results: the source changed; no version was made.",
                hint="Stop what writes there and plan the snapshot again.",
            )
    return found
