"""Make a snapshot again from its recipe: read the source, apply the rules, check every digest."""

# ruff: noqa: PTH103, PTH118, PTH120, PTH123, PTH211 - pathlib cannot hold paths as bytes

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrain_archive.data import layout
from pretrain_archive.data.hashing import BLOCK, Progress, hash_stream
from pretrain_archive.data.manifest import Entry, read_entries
from pretrain_archive.data.merging import merge
from pretrain_archive.data.overlay import Overlay
from pretrain_archive.data.processing.applying import Applier, apply_steps
from pretrain_archive.data.recipes import read_recipe
from pretrain_archive.data.scratch import owned, sweep
from pretrain_archive.data.snapshots import create_snapshot, open_manifest, snapshot_ref
from pretrain_archive.data.sources import resolve_source
from pretrain_archive.data.tree import Place, tree_of
from pretrain_archive.data.verify import ABSENT, FileFinding
from pretrain_archive.domain.errors import InputError, SourceChangedError, StorageError
from pretrain_archive.domain.identity import text_to_path
from pretrain_archive.domain.kinds import SnapshotCreated
from pretrain_archive.domain.records import Actor, Origin
from pretrain_archive.domain.verdicts import Verdict
from pretrain_archive.storage.port import ObjectStore

NAMED = 20
_NOBODY = Actor(type="service", name="rebuild")
_NOWHERE = Origin(dag_id="cli", dag_run_id="rebuild", task_id="rebuild")


@dataclass(frozen=True, kw_only=True, slots=True)
class Rebuilt:
    """Whether the recipe gave the snapshot again; ``items`` are the files that differ, of ``stage``."""

    snapshot: SnapshotCreated
    folder: Path | None
    stage: str
    items: tuple[FileFinding, ...]

    @property
    def verdict(self) -> Verdict:
        """Changed if a single digest differs."""
        return Verdict.CHANGED if self.items else Verdict.VERIFIED

    def to_json(self) -> dict[str, Any]:
        """What ``snapshot rebuild`` prints."""
        return {
            "verdict": self.verdict.value,
            "name": self.snapshot.name,
            "version": self.snapshot.version,
            "manifest_digest": self.snapshot.manifest_digest,
            "folder": None if self.folder is None else str(self.folder),
            "file_count": self.snapshot.file_count,
            "total_bytes": self.snapshot.total_bytes,
            "stage": self.stage,
            "items": [item.to_dict() for item in self.items],
        }


def rebuild(
    store: ObjectStore, snapshot: SnapshotCreated, target: Path, *, source: Place | None = None,
    progress: Progress | None = None,
) -> Rebuilt:  # fmt: skip
    """Write the files of ``snapshot`` below ``target``, which must not be there yet or be empty.

    Everything is made and checked in a hidden folder beside ``target`` that gets its name at the end: where a
    digest differs nothing is left, and the files are named. Raises ``SourceError`` if the source is gone.
    Whether it may be rebuilt is asked by the caller (:func:`recipes.require_rebuild_allowed`).
    """
    if snapshot.mode != "recipe":
        raise InputError(
            "snapshot", f"{snapshot.name}@{snapshot.version}", f"is kept in mode {snapshot.mode}, not as a recipe",
            hint="Only a recipe is rebuilt; a copy is there, a reference lies in its source.",
        )  # fmt: skip
    target = target.absolute()
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise InputError("--to", str(target), "is there and not empty, or a link", hint="Name a new folder.")
    target.parent.mkdir(parents=True, exist_ok=True)
    sweep(target.parent, _hidden(target))
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=owned(_hidden(target))) as work:
        overlay = Overlay(store, Path(work) / "content", apart=True)
        found = _make(overlay, snapshot, source, progress)
        if found.items:
            return found
        out = Path(work) / "out"
        out.mkdir()
        _lay_out(overlay, snapshot, os.fsencode(out))
        try:
            out.replace(target)
        except OSError as error:  # somebody made it in the meantime
            raise InputError("--to", str(target), f"cannot be taken: {error.strerror}") from error
    return Rebuilt(snapshot=snapshot, folder=target, stage=found.stage, items=())


def content_of(
    store: ObjectStore, snapshot: SnapshotCreated, folder: Path, *, progress: Progress | None = None
) -> tuple[ObjectStore, SnapshotCreated]:
    """A store that holds the content of ``snapshot``, and the snapshot as one that is kept as a copy there.

    For a recipe the content is made below ``folder`` and checked; ``SourceChangedError`` names what differs. Every
    other snapshot is given back with ``store``.
    """
    if snapshot.mode != "recipe":
        return store, snapshot
    found = _make(Overlay(store, folder, apart=True), snapshot, None, progress)
    if found.items:
        names = tuple(item.path for item in found.items)
        raise SourceChangedError(
            f"{snapshot_ref(snapshot)}: its recipe gives other content ({found.stage}): {', '.join(names[:NAMED])}.",
            paths=names, hint="Restore the source, or make a new version of it.",
        )  # fmt: skip
    return Overlay(store, folder), snapshot.model_copy(update={"mode": "copy"})


def _make(
    overlay: Overlay, snapshot: SnapshotCreated, source: Place | None, progress: Progress | None
) -> Rebuilt:
    """Content and manifests of every stage in the overlay; stops at the first stage that differs."""
    recipe = read_recipe(overlay, snapshot)
    steps = recipe.steps()
    tree = resolve_source(recipe.source_uri).tree if source is None else tree_of(source)
    now = create_snapshot(
        overlay, None, name=snapshot.name, source_root=tree, mode="copy", actor=_NOBODY, origin=_NOWHERE,
        include=recipe.include, exclude=recipe.exclude, source_uri=recipe.source_uri, progress=progress,
    )  # fmt: skip
    if now.manifest_digest != recipe.source_digest:
        return _differs(overlay, snapshot, "source", recipe.source_digest, now)
    stage = "source"
    applier = Applier(ledger=None, actor=_NOBODY, origin=_NOWHERE, progress=progress)
    for applied in apply_steps(overlay, now, steps, applier):
        now, stage = applied.snapshot, f"rule {applied.account.rule.name} v{applied.account.rule.version}"
    if now.manifest_digest != snapshot.manifest_digest:
        return _differs(overlay, snapshot, stage, snapshot.manifest_digest, now)
    return Rebuilt(snapshot=snapshot, folder=None, stage=stage, items=())


def _differs(
    overlay: Overlay, snapshot: SnapshotCreated, stage: str, expected: str, found: SnapshotCreated
) -> Rebuilt:
    with open_manifest(overlay, found.manifest_digest) as stream:
        items = tuple(_compare(overlay, expected, read_entries(stream)))
    return Rebuilt(snapshot=snapshot, folder=None, stage=stage, items=items)


def _compare(store: ObjectStore, expected: str, found: Iterator[Entry]) -> Iterator[FileFinding]:
    """The files in which the stored manifest ``expected`` and the entries that were ``found`` differ."""
    with open_manifest(store, expected) as stream:
        for a, b in merge(read_entries(stream), found, left=Entry.sort_key, right=Entry.sort_key):
            if a != b:
                path = a.path if a is not None else b.path if b is not None else ""
                yield FileFinding(path=path, verdict=Verdict.CHANGED, expected=_said(a), found=_said(b))


def _said(entry: Entry | None) -> str:
    if entry is None:
        return ABSENT
    return entry.sha256 if entry.link is None else f"link to {entry.link}"


def _lay_out(overlay: Overlay, snapshot: SnapshotCreated, out: bytes) -> None:
    """Write every entry below ``out``; names are bytes. Links come last, so that nothing is written through one."""
    for links in (False, True):
        with open_manifest(overlay, snapshot.manifest_digest) as stream:
            for entry in read_entries(stream):
                if (entry.link is not None) is links:
                    _put_down(overlay, entry, out)


def _put_down(overlay: Overlay, entry: Entry, out: bytes) -> None:
    """Write one entry below ``out``; ``InputError`` for a name that no folder can hold, or not beside the others.

    Keys of a bucket may be ``../x``, ``/x`` or ``a//b``: as a path they lie elsewhere, or on another file.
    """
    name = text_to_path(entry.path)
    if not {b"", b".", b".."}.isdisjoint(name.split(b"/")) or b"\0" in name:
        raise InputError(
            "snapshot", entry.path, "is a name that leads out of a folder or to another file of it",
            hint="It can only be written to a bucket; nothing was rebuilt.",
        )  # fmt: skip
    place = os.path.join(out, name)
    try:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if entry.link is not None:
            os.symlink(text_to_path(entry.link), place)
            return
        with overlay.open(layout.blob_key(entry.sha256)) as source, open(place, "xb") as target:
            shutil.copyfileobj(source, target, BLOCK)
        with open(place, "rb") as written:
            digest, _ = hash_stream(written)
    except (FileExistsError, NotADirectoryError):
        raise InputError(
            "snapshot", entry.path, "cannot stand beside another file of the same name in a folder",
            hint="A bucket may hold 'a' and 'a/b', a folder may not; nothing was rebuilt.",
        ) from None  # fmt: skip
    if digest != entry.sha256:
        raise StorageError(f"{entry.path}: was written as {digest}, expected {entry.sha256}.")


def _hidden(target: Path) -> str:
    return f".{target.name}.part-"
