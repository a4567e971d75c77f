"""Divide a snapshot into training and validation documents.

The part follows from the document's content digest and the seed alone, so exact duplicates always fall on the
same side, and a document keeps its side when others come or go. Documents without a byte and symbolic links
are in neither part.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Literal, Self, cast

from pretrain_archive.data import layout
from pretrain_archive.data.manifest import Entry, read_entries
from pretrain_archive.data.snapshots import open_manifest, snapshot_ref
from pretrain_archive.domain.errors import ArchiveError, InputError
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import SnapshotCreated, SplitCreated
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Relation
from pretrain_archive.ledger.canonical import canonical_bytes, strict_json
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.storage.port import ObjectStore

FORMAT = "pretrain-archive/split/1"
METHOD = "sha256(seed, document digest) below the fraction of 2^64: validation; by exact content"
Part = Literal["train", "validation"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitEntry:
    """A document with its part."""

    path: str
    size: int
    sha256: str
    split: str

    @classmethod
    def parse(cls, line: bytes) -> Self:
        """Read a line of a split list."""
        return cls(**strict_json(line))

    def line(self) -> bytes:
        """The document as a line of canonical JSON."""
        fields = {"path": self.path, "size": self.size, "sha256": self.sha256, "split": self.split}
        return canonical_bytes(fields) + b"\n"
