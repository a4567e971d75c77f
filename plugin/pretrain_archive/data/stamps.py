"""Which files need not be read again: those whose stamp is the one that they had when they were hashed.

On a local file system a file is taken as unchanged if device, inode, size, modification time and change time are
equal, and the change time lay more than :data:`AGE_NS` before the hashing began: a write within the clock's
granularity of the hashing could else carry the same stamp (what git calls a racy entry). The change time cannot be
set back, so an edit that restores size and modification time is read. It is trusted on the file systems of
:mod:`storage.devices` only; elsewhere, on network file systems above all, every file is read. In a bucket a file is
taken as unchanged only if it is the same version id.

Stamps are a cache in the work folder, bound to source, host and boot; they are no evidence. Without them all is read.
A program that goes on writing through a memory map moves the change time only when the page is written back: where
that is done, do not allow stamps.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from pretrain_archive.data.listing import Listing
from pretrain_archive.data.manifest import Entry
from pretrain_archive.data.tree import FolderTree, Listed, Tree
from pretrain_archive.domain.identity import path_to_text, text_to_path
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.storage.devices import this_boot, trusted_devices

FORMAT = "pretrain-archive/stamps/1"
AGE_NS = 2_000_000_000
"""Two seconds: the coarsest clock of a file system that is still in use."""

Holds = Callable[[Entry], bool]


class Stamps:
    """The stamps of a source's last snapshot, and those that the present one leaves.

    ``holds`` says whether what an entry names is still kept (copies in the store); what is not is read again.
    """

    def __init__(self, folder: Path, tree: Tree, *, began_ns: int, holds: Holds | None = None) -> None:
        self._devices = trusted_devices() if isinstance(tree, FolderTree) else set()
        self._local = isinstance(tree, FolderTree)
        self._began = began_ns
        self._holds = holds
        self._folder = folder
        self._bound = {"format": FORMAT, "source": tree.uri, **this_boot()}
        self._place = folder / f"{digest_of(self._bound).removeprefix('sha256:')}.json"
        self.before = self._load()
        self._lines = self._stored() if self.before else iter(())
        self._next: tuple[bytes, Listed, str] | None = next(self._lines, None)
        self._out: Any = None
        self._complete = True
        self.taken = self.read = 0

    def unchanged(self, listing: Listing) -> str | None:
        """The manifest's digest if ``listing`` is, mark by mark, the one that was hashed before, else None."""
        same = self.before.get("listing") == listing.digest and bool(listing.digest)
        return str(self.before["manifest_digest"]) if same else None

    def known(self, listed: Listed) -> Entry | None:
        """The entry of a file that need not be read; asked in the order of the listing."""
        while self._next is not None and self._next[0] < listed.path:
            self._next = next(self._lines, None)
        if self._next is None or self._next[1] != listed or listed.target is not None:
            return None
        path = path_to_text(listed.path)
        entry = Entry(path=path, size=listed.size, sha256=self._next[2], version=listed.version)
        return entry if self._holds is None or self._holds(entry) else None

    def note(self, batch: list[tuple[Listed, Entry | None]], known: list[bool]) -> None:
        """Take down what was hashed or known, to be kept by :meth:`keep`."""
        if self._out is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._out = tempfile.NamedTemporaryFile(dir=self._folder, prefix=".stamps-", delete=False)  # noqa: SIM115
        self.taken += sum(known)
        self.read += len(known) - sum(known)
        for listed, entry in batch:
            if entry is None or listed.target is not None:
                continue
            if self._trusted(listed):
                self._out.write(json.dumps([*listed.to_json(), entry.sha256]).encode() + b"\n")
            else:
                self._complete = False

    def keep(self, listing: str, snapshot: str, manifest_digest: str) -> None:
        """Replace the stored stamps by those that were taken down for ``snapshot``, which now exists."""
        if self._out is None:
            return
        with self._out as out:
            out.flush()
            os.fsync(out.fileno())
        digest = _file_digest(Path(out.name))
        lines = self._place.with_name(f"{self._place.stem}-{digest[7:23]}.jsonl")
        Path(out.name).replace(lines)
        header = self._bound | {
            "listing": listing if self._complete else "", "snapshot": snapshot, "manifest_digest": manifest_digest,
            "lines": lines.name, "lines_digest": digest,
        }  # fmt: skip
        with tempfile.NamedTemporaryFile("w", dir=self._folder, prefix=".stamps-", delete=False) as head:
            json.dump(header, head)
            head.flush()
            os.fsync(head.fileno())
        Path(head.name).replace(self._place)
        if (old := self.before.get("lines", lines.name)) != lines.name:
            (self._folder / old).unlink(missing_ok=True)

    def close(self) -> None:
        """Drop what was not kept."""
        if self._out is not None:
            self._out.close()
            Path(self._out.name).unlink(missing_ok=True)

    def told(self, *, copied: bool) -> str:
        """How the files of the snapshot were checked, for its record."""
        if not self.taken:
            return f"every byte of {self.read} files read and hashed with SHA-256; none taken from stamps"
        what = "device, inode, size, mtime, ctime" if self._local else "version id"
        looked = "; the stored copies of these were looked up, not read" if copied else ""
        return (
            f"{self.read} files read and hashed with SHA-256; {self.taken} taken from stamps of "
            f"{self.before['snapshot']} ({what}){looked}"
        )

    def _trusted(self, listed: Listed) -> bool:
        if not self._local:
            # Where versioning is suspended the version "null" is written over in place.
            return listed.version not in {None, "null"}
        return listed.mark[0] in self._devices and int(listed.mark[4]) + AGE_NS < self._began

    def _load(self) -> dict[str, Any]:
        with suppress(OSError, ValueError):
            header = json.loads(self._place.read_bytes())
            if isinstance(header, dict) and self._bound.items() <= header.items():
                return header
        return {}

    def _stored(self) -> Iterator[tuple[bytes, Listed, str]]:
        """The stored lines, none if they are not whole."""
        path = self._folder / str(self.before.get("lines", ""))
        with suppress(OSError):
            if _file_digest(path) == self.before.get("lines_digest"):
                with path.open("rb") as stream:
                    for line in stream:
                        *fields, sha256 = json.loads(line)
                        yield text_to_path(fields[0]), Listed.from_json(fields), sha256

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _file_digest(path: Path) -> str:
    with path.open("rb") as stream:
        return "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()
