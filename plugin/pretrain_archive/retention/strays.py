"""What lies in storage and no record names, or names otherwise: folders, prefixes, content, plans, uploads, journals.

Found by where things lie, never by guessing from their bytes; nothing here is changed.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

from pretrain_archive.artifacts.location import to_location, to_path
from pretrain_archive.artifacts.pointers import step_of
from pretrain_archive.data.condemned import JOURNALS
from pretrain_archive.data.layout import parse_snapshot, version_key
from pretrain_archive.data.leftovers import left_over
from pretrain_archive.domain.errors import ArchiveError, StorageError
from pretrain_archive.domain.identity import path_to_text
from pretrain_archive.retention.objects import Journal
from pretrain_archive.retention.references import VERSIONS, references
from pretrain_archive.retention.trees import measure
from pretrain_archive.storage.bulk import versions_of
from pretrain_archive.storage.port import ObjectStore
from pretrain_archive.storage.uploads import uploads_of

if TYPE_CHECKING:
    from pretrain_archive.retention.reconcile import Proposal
    from pretrain_archive.retention.world import World

StrayKind = Literal["missing", "came_back", "unregistered", "orphan", "left_over", "journal", "unreachable"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stray:
    """Something that is not as the records say. ``blocking``: evidence is concerned, not only space."""

    kind: StrayKind
    ref: str
    location: str
    size: int
    expected: str
    found: str
    blocking: bool = False
    argument: str = ""

    def proposal(self, general: Proposal) -> Proposal:
        """The proposal with what its command is about."""
        return replace(general, command=f"{general.command} {self.argument}".strip())


def folder_strays(world: World, roots: Iterable[Path]) -> Iterator[Stray]:
    """Folders that look like checkpoints, beside recorded ones and below ``roots``; and journals without a removal."""
    facts = world.liveness.facts
    owned = {subject.location for subject in facts.checkpoints.values()}
    homes = {path.parent for path in map(to_path, owned) if path is not None}
    above = {folder for home in homes for folder in (home, *home.parents)}
    runs = _runs_of_homes(world)
    for root in sorted({path.resolve() for path in (*homes, *roots)}):
        if any(to_location(folder) in owned for folder in (root, *root.parents)):
            continue  # what lies in a recorded checkpoint is that checkpoint's
        try:
            entries = sorted(root.iterdir())
        except OSError:
            continue
        for path in entries:
            stepped = step_of(path.name) is not None or "checkpoint" in path.name.lower()
            if not stepped or path in above:  # what holds a recorded checkpoint is no stray
                continue
            if not path.is_symlink() and path.is_dir() and to_location(path) not in owned:
                yield _folder(path, runs)


def _runs_of_homes(world: World) -> Mapping[str, str]:
    """The run of each place above recorded checkpoints; of one that holds those of several runs it is not known."""
    found: dict[str, set[str]] = {}
    for subject in world.liveness.facts.checkpoints.values():
        found.setdefault(subject.location.rpartition("/")[0], set()).add(subject.run_uid)
    return {home: next(iter(runs)) for home, runs in found.items() if len(runs) == 1}


def _to_register(location: str, shown: str, runs: Mapping[str, str]) -> str:
    """What ``checkpoint register`` needs: the run of the checkpoints beside it, else the word that stands for one."""
    return f"{runs.get(location.rpartition('/')[0], 'RUN')} {shlex.quote(shown)}"


def _folder(path: Path, runs: Mapping[str, str]) -> Stray:
    shown = path_to_text(os.fsencode(path))
    try:
        size, found = measure(path).size, ""
    except OSError as error:
        size, found = 0, f", and cannot be read: {error.strerror}"
    return Stray(
        kind="unregistered", ref=f"folder:{shown}", location=to_location(path), size=size,
        expected="a registered checkpoint", found=f"{size} bytes that no record names{found}",
        argument=_to_register(to_location(path), shown, runs),
    )  # fmt: skip


def store_strays(world: World, store: ObjectStore) -> Iterator[Stray]:
    """What the archive's own store holds beyond the records, and what the records name that it does not hold."""
    try:
        yield from _snapshots(world, store)
        yield from _plans(store)
        yield from _uploads(store)
        yield from _journals(world, store)
        yield from _prefixes(world, store)
    except ArchiveError as error:
        yield Stray(
            kind="missing", ref=f"store:{store.location('x')[:-2]}", location=store.location("x")[:-2], size=0,
            expected="a store that can be read", found=error.message, blocking=True,
        )  # fmt: skip


def _snapshots(world: World, store: ObjectStore) -> Iterator[Stray]:
    recorded = {
        f"{record.payload['name']}@{record.payload['version']}": str(record.payload["manifest_uri"])
        for record in world.ledger.records(kinds=["snapshot.created"])
    }
    here = store.location("manifests/x")[:-1]
    there = {
        info.key.removeprefix(VERSIONS).removesuffix(".json").replace("/", "@")
        for info in store.list(VERSIONS)
    }
    for name, uri in sorted(recorded.items()):
        buried = f"snapshot:{name}" in world.tombstones
        if name not in there and not buried and uri.startswith(here):
            yield _snapshot("missing", name, store, "its document is not in the store", blocking=True)
        elif name in there and buried:
            yield _snapshot(
                "came_back", name, store, "its tombstone stands and its document is there", blocking=True
            )
    for name in sorted(there - recorded.keys()):
        yield _snapshot("unregistered", name, store, "a version that no record names")
    yield from _content(store)


def _snapshot(kind: StrayKind, name: str, store: ObjectStore, found: str, *, blocking: bool = False) -> Stray:
    label, version = parse_snapshot(name)
    return Stray(
        kind=kind, ref=f"snapshot:{name}", location=store.location(version_key(label, version or 0)), size=0,
        expected="what its records say", found=found, blocking=blocking,
        argument=name if kind != "unregistered" else label,
    )  # fmt: skip


def _content(store: ObjectStore) -> Iterator[Stray]:
    """Content and manifests that no version names, with every version that a bucket keeps of them, as one sum."""
    count = size = 0
    example = ""
    with references(store) as counted:
        for prefix in ("blobs/", "manifests/"):
            for entry in versions_of(store, prefix):
                if not entry.latest or entry.marker or not counted.named(entry.key):
                    count, size, example = count + 1, size + entry.size, example or entry.key
    if count:
        yield Stray(
            kind="orphan", ref="content:unnamed", location=store.location(example), size=size,
            expected="content that a version names", found=f"{count} objects, {size} bytes, such as {example}",
        )  # fmt: skip


def _plans(store: ObjectStore) -> Iterator[Stray]:
    for left in left_over(store):
        planned = left.planned_at.isoformat(timespec="seconds")
        yield Stray(
            kind="left_over", ref=f"leftover:{left.folder}", location=store.location(f"{left.folder}/x")[:-2],
            size=left.size, expected="a plan that was merged",
            found=f"{left.objects} objects of a snapshot in parts that was planned at {planned}",
        )  # fmt: skip


def _uploads(store: ObjectStore) -> Iterator[Stray]:
    try:
        found = list(uploads_of(store))
    except StorageError as error:
        home = store.location("x")[:-2]
        yield Stray(
            kind="unreachable", ref=f"uploads:{home}", location=home, size=0, expected="a list of uploads",
            found=error.message,
        )  # fmt: skip
        return
    for upload in found:
        begun = upload.begun_at.isoformat(timespec="seconds")
        yield Stray(
            kind="left_over", ref=f"upload:{upload.key}", location=store.location(upload.key), size=upload.size,
            expected="an upload that was completed", found=f"{upload.size} bytes of an upload that began at {begun}",
        )  # fmt: skip


def _journals(world: World, store: ObjectStore) -> Iterator[Stray]:
    for info in store.list(JOURNALS):
        with store.open(info.key) as file:
            try:
                journal = Journal.parse(file.read())
            except (ValueError, KeyError, TypeError):
                continue
        buried = journal.ref in world.tombstones
        found = "its tombstone stands" if buried else "the removal is not finished"
        yield Stray(
            kind="journal", ref=journal.ref, location=store.location(info.key), size=info.size,
            expected="a journal only while a removal is under way", found=found, blocking=not buried,
        )  # fmt: skip


def _prefixes(world: World, store: ObjectStore) -> Iterator[Stray]:
    """Prefixes beside recorded checkpoints in this store that no record names."""
    base, runs = store.location("x")[:-1], _runs_of_homes(world)
    owned = {
        unquote(subject.location[len(base) :]).strip("/")
        for subject in world.liveness.facts.checkpoints.values()
        if subject.location.startswith(base)
    }
    for home in sorted({key.rpartition("/")[0] for key in owned if "/" in key}):
        sizes: dict[str, int] = {}
        for entry in versions_of(store, home + "/"):
            name = entry.key[len(home) + 1 :].partition("/")[0]
            if entry.key != f"{home}/{name}":
                sizes[f"{home}/{name}"] = sizes.get(f"{home}/{name}", 0) + entry.size
        for prefix, size in sorted(sizes.items()):
            stepped = step_of(prefix.rpartition("/")[2]) is not None or "checkpoint" in prefix.lower()
            if prefix not in owned and stepped and not any(key.startswith(prefix + "/") for key in owned):
                location = store.location(prefix)
                yield Stray(
                    kind="unregistered", ref=f"prefix:{prefix}", location=location, size=size,
                    expected="a registered checkpoint", found=f"{size} bytes that no record names",
                    argument=_to_register(location, location, runs),
                )  # fmt: skip
