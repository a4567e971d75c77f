"""The data: checked against the manifest while it is read, joined to one stream, visited in a fixed order.

The stream is every document in the order of its path, each after one boundary symbol. Training windows are
``context + 1`` symbols long and start every ``context`` symbols; which window comes at which position follows
from the seed and the position alone, so that a run can go on from any position.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import numpy as np
import numpy.typing as npt
from contract import TrainerError

BOUNDARY = 256  # the symbol before each document; seen, never predicted
SYMBOLS = 257
SPLITS = ("train", "validation")

Symbols = npt.NDArray[np.uint16]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A file of the manifest: name in the data set, where its bytes are, SHA-256 (hex), bytes, split."""

    path: str
    location: Path
    sha256: str
    size: int
    split: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """A split as one stream of symbols; ``digest`` names exactly these files and bytes."""

    stream: Symbols
    documents: int
    size: int
    digest: str


def load_manifest(path: Path) -> list[Entry]:
    """Read the manifest (JSON Lines); raises :class:`TrainerError` naming the line."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise TrainerError(f"manifest {path}: cannot be read: {error.strerror}. Check the path.") from error
    entries = [
        _entry(line, f"manifest {path}, line {number}")
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    if not entries:
        raise TrainerError(f"manifest {path}: names no file. Give one JSON object per line.")
    names = [entry.path for entry in entries]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TrainerError(f"manifest {path}: {twice!r} is named more than once. Keep one line per file.")
    return entries


def load_split(
    entries: Iterable[Entry], split: str, *, stopped: Callable[[], bool] = lambda: False
) -> Corpus:
    """Read and verify every file of ``split``.

    ``stopped`` is asked before each file; a yes ends reading early (the caller then leaves as well).

    Raises:
        TrainerError: no file has this split, or a file is missing or not the one that the manifest names.
    """
    chosen = sorted((entry for entry in entries if entry.split == split), key=_name)
    if not chosen:
        raise TrainerError(
            f"manifest: no file has split {split!r}. Both splits are needed: {', '.join(SPLITS)}."
        )
    parts: list[Symbols] = []
    boundary = np.array([BOUNDARY], dtype=np.uint16)
    for entry in chosen:
        if stopped():
            break
        parts += [boundary, np.frombuffer(_verified(entry), dtype=np.uint8).astype(np.uint16)]
    stream = np.concatenate(parts) if parts else boundary
    size = int((stream != BOUNDARY).sum())
    return Corpus(stream=stream, documents=len(chosen), size=size, digest=split_digest(chosen))


def split_digest(entries: Iterable[Entry]) -> str:
    """``sha256:`` over the lines ``path TAB sha256`` in byte order of the path."""
    total = hashlib.sha256()
    for entry in sorted(entries, key=_name):
        total.update(_name(entry) + b"\t" + entry.sha256.encode() + b"\n")
    return f"sha256:{total.hexdigest()}"


class WindowOrder:
    """Which window stands at which position: each epoch visits every window once, in its own order."""

    def __init__(self, corpus: Corpus, *, context: int, seed: int) -> None:
        self._stream, self._context, self._seed = corpus.stream, context, seed
        self.windows = (len(corpus.stream) - 1) // context
        self._epoch, self._order = -1, np.empty(0, dtype=np.int64)
        if self.windows < 1:
            raise TrainerError(
                f"training split: {len(corpus.stream)} symbols are fewer than one window of {context + 1}. "
                "Give more data or lower model.context."
            )

    def batch(self, position: int, count: int) -> npt.NDArray[np.int64]:
        """Symbols of ``count`` windows from ``position`` on; shape (count, context + 1)."""
        starts = np.array([self._window(position + i) for i in range(count)]) * self._context
        return self._stream[starts[:, None] + np.arange(self._context + 1)].astype(np.int64)

    def describe(self, position: int) -> dict[str, Any]:
        """``position`` as it is written into a checkpoint."""
        epoch, offset = divmod(position, self.windows)
        return {"epoch": epoch, "offset": offset, "seed": self._seed, "windows": self.windows}

    def _window(self, position: int) -> int:
        epoch, offset = divmod(position, self.windows)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, permutation(self.windows, self._seed, epoch)
        return int(self._order[offset])


def permutation(count: int, seed: int, epoch: int) -> Indices:
    """A fixed order of ``count`` items: sorted by a hash of (seed, epoch, item).

    The hash is the finaliser of SplitMix64 (Steele, Lea, Flood 2014), written out because numpy does not
    promise that its own generators give the same sequence in every version.
    """
    salt = int.from_bytes(hashlib.sha256(f"{seed}/{epoch}".encode()).digest()[:8], "big")
    mixed = np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.argsort(mixed ^ (mixed >> np.uint64(31)), kind="stable").astype(np.int64)


def _name(entry: Entry) -> bytes:
    return entry.path.encode("utf-8", "surrogatepass")


def _entry(line: bytes, where: str) -> Entry:
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TrainerError(f"{where}: is not JSON: {error}. Give one object per line.") from error
    kinds = {"path": str, "location": str, "sha256": str, "size": int, "split": str}
    for name, kind in kinds.items():
        value = raw.get(name) if isinstance(raw, dict) else None
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TrainerError(
                f"{where}: {name} is {value!r}. Give {'text' if kind is str else 'a whole number'}."
            )
    if raw["split"] not in SPLITS:
        raise TrainerError(f"{where}: split is {raw['split']!r}. Give one of: {', '.join(SPLITS)}.")
    return Entry(
        path=raw["path"],
        location=_local(raw["location"], where),
        sha256=raw["sha256"].removeprefix("sha256:").lower(),
        size=raw["size"],
        split=raw["split"],
    )


def _local(location: str, where: str) -> Path:
    if "://" not in location:
        return Path(location)
    parts = urlsplit(location)
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
        raise TrainerError(
            f"{where}: location {location!r} is not a local file. Give a path or a file: address."
        )
    return Path(os.fsdecode(unquote_to_bytes(parts.path)))


def _verified(entry: Entry) -> bytes:
    try:
        content = entry.location.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TrainerError(
            f"data file {entry.path!r} at {entry.location}: cannot be read: {reason}."
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if len(content) != entry.size or found != entry.sha256:
        raise TrainerError(
            f"data file {entry.path!r} at {entry.location}: expected {entry.size} bytes with SHA-256 "
            f"{entry.sha256}, found {len(content)} with {found}. Restore the file that the manifest names."
        )
    return content
