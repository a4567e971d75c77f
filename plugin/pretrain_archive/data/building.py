"""Read a tree into a manifest: list it, hash every file, and list it again to see that nothing moved.

The listing waits on disk, so that the total is known before the first byte is read. Small files go to the hashing
threads in batches; opening, reading and checking one takes five system calls.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, cast

from pretrain_archive.data.globs import Filter
from pretrain_archive.data.hashing import REMOTE_THREADS, Progress, expect, hash_stream, in_order, workers
from pretrain_archive.data.listing import BATCH_FILES, Listing, batches
from pretrain_archive.data.manifest import FORMAT, NAMED, PINNED, Built, Entry, Header
from pretrain_archive.data.stamps import Stamps
from pretrain_archive.data.tree import FolderTree, Listed, Tree, unreadable
from pretrain_archive.domain.errors import SourceChangedError, SourceError
from pretrain_archive.domain.identity import path_to_text

SMALL = 1 << 18
"""Files up to so many bytes are read at once."""

TINY = 1 << 14
"""Files up to so many bytes cost more Python than hashing: threads would only wait for each other."""

TICK_NS = 20_000_000
"""Kernels stamp files by a clock that moves every 1 to 10 ms: two writes within a tick may carry one stamp."""

REMOTE_FILES = 4
"""Files of a job where each takes a request: few, so that all threads have some."""

Hashed = Callable[[Listed, Entry], None]
Pair = tuple[Listed, Entry | None]


def build(
    tree: Tree, chosen: Filter, *, progress: Progress | None = None, each: Hashed | None = None,
    listing: Listing | None = None, stamps: Stamps | None = None,
) -> Built:  # fmt: skip
    """Read and hash every chosen file of ``tree`` and return the manifest.

    ``each`` is called on a hashing thread with every file that was read (to copy it). ``stamps`` know what need
    not be read, and note what was. ``listing`` is the tree's, just taken. Raises ``SourceError``
    for an empty or unreadable source and ``SourceChangedError`` naming the files that changed between the first
    listing and the last look at the whole tree.
    """
    taken = listing or Listing.take(tree, chosen)
    with taken:
        refuse_empty(tree, taken.files)
        expect(progress, taken.files, taken.size)
        header = Header(
            files=taken.files,
            links=taken.links,
            total_bytes=taken.size,
            format=PINNED if taken.pinned else FORMAT,
        )
        # The work file has no name: a killed process leaves nothing behind.
        out = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - handed to the caller, who closes it
        try:
            digest, changed = _write(out, header, hash_all(tree, taken, each=each, stamps=stamps), progress)
            refuse_changed(tree, changed + taken.changed_since(tree, chosen))
        except BaseException:
            out.close()
            raise
    out.seek(0)
    return Built(header=header, digest=digest, file=out)


def _write(
    out: BinaryIO, header: Header, read: Iterable[list[Pair]], progress: Progress | None
) -> tuple[str, list[str]]:
    """Write the manifest; return its digest and the paths of what changed while it was read."""
    changed: list[str] = []
    digest = hashlib.sha256(header.line())
    out.write(header.line())
    files = size = 0
    for batch in read:
        lines = bytearray()
        for listed, entry in batch:
            if entry is None:
                changed.append(path_to_text(listed.path))
            else:
                lines += entry.line()
                files += entry.link is None
                size += entry.size
        digest.update(lines)
        out.write(lines)
        if progress is not None:
            progress(files, size)
    return "sha256:" + digest.hexdigest(), changed


def hash_all(
    tree: Tree, listing: Iterable[Listed], *, each: Hashed | None = None, stamps: Stamps | None = None
) -> Iterator[list[Pair]]:
    """Yield the listed files in their order, in batches, each with its entry, or None if it changed."""
    local = isinstance(tree, FolderTree)

    def work(job: tuple[list[Listed], list[Entry | None]]) -> tuple[list[Pair], list[bool]]:
        batch, before = job
        _age(tree, batch)
        done: list[Pair] = []
        for listed, known in zip(batch, before, strict=True):
            entry = known or _read(tree, listed)
            if known is None and each is not None and entry is not None and entry.link is None:
                each(listed, entry)
            done.append((listed, entry))
        return done, [known is not None for known in before]

    def jobs() -> Iterator[tuple[list[Listed], list[Entry | None]]]:
        for batch in batches(listing, files=BATCH_FILES if local else REMOTE_FILES):
            yield batch, [stamps.known(listed) if stamps else None for listed in batch]

    def tiny(job: tuple[list[Listed], list[Entry | None]]) -> bool:
        return local and each is None and max(listed.size for listed in job[0]) <= TINY

    threads = workers() if local else REMOTE_THREADS
    for pairs, known in in_order(work, jobs(), threads=threads, here=tiny):
        if stamps is not None:
            stamps.note(pairs, known)
        yield pairs


def _age(tree: Tree, batch: list[Listed]) -> None:
    """Let a file that was written in this very tick grow older, so that a later write gets another stamp."""
    if isinstance(tree, FolderTree):
        newest = max(cast("int", listed.mark[-1]) for listed in batch)
        if 0 <= time.time_ns() - newest < TICK_NS:
            time.sleep(TICK_NS / 1e9)


def _read(tree: Tree, listed: Listed) -> Entry | None:
    """Hash one file; None if it changed between listing and end of reading."""
    text = path_to_text(listed.path)
    if listed.target is not None:
        return Entry(path=text, link=path_to_text(listed.target))
    try:
        if listed.size <= SMALL and isinstance(tree, FolderTree):
            content = tree.content(listed)
            digest, size = "sha256:" + hashlib.sha256(content).hexdigest(), len(content)
        else:
            with tree.open(listed) as stream:
                digest, size = hash_stream(stream, at_most=listed.size)
                if size != listed.size or not tree.same(listed, stream):
                    return None
    except SourceChangedError:
        return None
    except OSError as error:
        raise unreadable(listed.path, error) from error
    return Entry(path=text, size=size, sha256=digest, version=listed.version)


def refuse_changed(tree: Tree, changed: Iterable[str]) -> None:
    """Raise ``SourceChangedError`` if there are any paths in ``changed``."""
    names = tuple(sorted(set(changed)))
    if names:
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        raise SourceChangedError(
            f"source {tree.uri}: {len(names)} files changed while they were read: "
            f"{', '.join(names[:NAMED])}{more}; no version was made.",
            paths=names,
            hint="Stop what writes there and try again.",
        )


def refuse_empty(tree: Tree, files: int) -> None:
    """Raise ``SourceError`` for a tree without a file."""
    if not files:
        raise SourceError(
            f"source {tree.uri}: no file is left to read.",
            hint="Check the source and the include and exclude patterns.",
        )
