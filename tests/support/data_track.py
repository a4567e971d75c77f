"""Trees, writers and a real ledger for tests of the data track."""

# ruff: noqa: PTH103, PTH118, PTH120, PTH123 - pathlib cannot hold paths as bytes

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pretrain_archive.data.lines import with_header
from pretrain_archive.data.manifest import Header
from pretrain_archive.data.snapshots import manifest_key
from pretrain_archive.domain.identity import new_id
from pretrain_archive.domain.kinds import SnapshotCreated
from pretrain_archive.domain.records import Actor, Origin
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.ledger.factory import open_ledger

ACTOR = Actor(type="task", name="pretraining_reference.snapshot")

# A name with a line break and its percent-escaped twins, a carriage return, a backslash, and names that
# shells, options and quoting get wrong.
AWKWARD_NAMES = (
    b"plain.txt",
    b"two\nlines.txt",
    b"two%0Alines.txt",
    b"two%250Alines.txt",
    b"cr\rname.txt",
    b"back\\slash.txt",
    b" lead.txt",
    b"tab\tname.txt",
    b"-rf.txt",
    b"q'\"uote.txt",
)

# Bytes that are not UTF-8, and a valid name that one of them becomes if bad bytes are replaced.
FOREIGN_NAMES = (b"bad\xff\xfe.txt", b"latin\xe9.txt", b"dup\xff.txt", "dup�.txt".encode())


def origin(**changes: Any) -> Origin:
    """A task try of its own, so that two calls are two steps."""
    fields = {"dag_id": "pretraining_reference", "dag_run_id": new_id("r"), "task_id": "snapshot"}
    return Origin(**fields | changes)


def write_tree(root: Path, files: dict[bytes, bytes]) -> Path:
    """Write files (relative path as bytes → content) below ``root``."""
    for name, content in files.items():
        path = os.path.join(os.fsencode(root), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(content)
    return root


def numbered(names: tuple[bytes, ...]) -> dict[bytes, bytes]:
    """Each name with content of its own."""
    return {name: b"file %d\n" % number for number, name in enumerate(names)}


def new_ledger(folder: Path):
    """A ledger on SQLite in ``folder``."""
    return open_ledger(
        f"sqlite:///{folder / 'ledger.db'}", signing_key=folder / "key.pem", anchors=[], create=True
    )


def fake_version(store: Any, number: int, *, files: int, turned: int) -> SnapshotCreated:
    """A version of ``files`` entries that were never read: ``turned`` is the folder that all of them lie in."""
    lines = (
        canonical_bytes({"path": f"{turned}/{n:08d}.jsonl", "size": n + 1, "sha256": f"sha256:{n:064x}"})
        + b"\n"
        for n in range(files)
    )
    size = files * (files + 1) // 2
    stream, digest = with_header(Header(files=files, links=0, total_bytes=size).line(), lines)
    with stream:
        store.put_if_absent(manifest_key(digest), stream)
    return SnapshotCreated(
        name="fake", version=number + 1, manifest_digest=digest, manifest_uri="", file_count=files,
        total_bytes=size, parent=None, unchanged=False, mode="reference",
    )  # fmt: skip
