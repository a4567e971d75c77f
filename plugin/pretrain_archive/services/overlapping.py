"""What one set of documents has of another: twins by shingles, benchmark items by n-grams.

For train against validation, one snapshot against another, and training data against a benchmark.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pretrain_archive.data.globs import Filter
from pretrain_archive.data.layout import parse_snapshot
from pretrain_archive.data.quality.readers.base import Shard
from pretrain_archive.data.shards import of_path, of_snapshot
from pretrain_archive.data.snapshots import open_version
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.identity import path_to_text
from pretrain_archive.domain.kinds import SnapshotCreated, SplitCreated
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.storage.port import ObjectStore

if TYPE_CHECKING:
    from pretrain_archive.data.quality.contamination import Contamination, Grams
    from pretrain_archive.data.quality.neardup.search import Overlap
    from pretrain_archive.data.quality.neardup.settings import Settings
    from pretrain_archive.data.quality.neardup.sides import Side

PARTS = ("train", "validation")

Say = Callable[[str, int], None]
"""Called with a side's name and how many of its documents were read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """Two sides, what the right one has of the left one, and where the examples stand; no ``grams``: not looked for."""

    left: Side
    right: Side
    twins: Overlap
    grams: Contamination | None
    left_places: dict[int, str]
    right_places: dict[int, str]

    @property
    def clean(self) -> bool:
        """Whether nothing of the right is in the left."""
        return not self.twins.documents and not (self.grams and self.grams.contaminated)

    def to_json(self) -> dict[str, Any]:
        """What ``quality overlap`` prints: counts, rules and places, nothing of a text."""
        twins = self.twins.to_json()
        twins["examples"] = [
            {
                "left": self.left_places[example.first],
                "right": self.right_places[example.second],
                "jaccard": round(example.jaccard, 6),
            }
            for example in self.twins.examples
        ]
        return {
            "left": self.left.name,
            "right": self.right.name,
            "clean": self.clean,
            "documents": self.twins.documents,
            "exact": self.twins.exact,
            "near": self.twins.near,
            "contaminated": self.grams.contaminated if self.grams else None,
            "twins": twins,
            "grams": self._items(self.grams) if self.grams else None,
            "not_read": {"left": self.left.not_read, "right": self.right.not_read},
        }

    def _items(self, grams: Contamination) -> dict[str, Any]:
        examples = [
            {
                "left": self.left_places[found.document],
                "right": self.right_places[found.item],
                "shared": found.shared,
                "grams": found.grams,
            }
            for found in grams.examples
        ]
        return grams.to_json() | {"examples": examples}


def side(
    text: str, store: Callable[[], ObjectStore], ledger: Callable[[], Ledger], *, text_field: str = "text"
) -> Side:
    """The side that ``NAME[@VERSION]``, ``NAME[@VERSION]#train``, ``…#validation`` or a path names.

    What exists as a file or folder is a path. Raises ``InputError`` for an unknown part, or one that was never split
    off, and what opening a snapshot raises. ``text_field`` holds the text in lists of documents.
    """
    from pretrain_archive.data.quality.neardup.sides import Side, part_shards  # noqa: PLC0415 (heavy)
    from pretrain_archive.data.quality.readers.base import Fields  # noqa: PLC0415

    made = partial(Side, fields=Fields(text=text_field))

    if os.path.exists(text):  # noqa: PTH110 - a name may hold bytes that are no text
        return made(name=text, shards=partial(_files, os.path.realpath(os.fsencode(text))))
    name, mark, part = text.partition("#")
    if mark and part not in PARTS:
        raise InputError("part", part, "is no part of a split", hint=f"One of: {', '.join(PARTS)}.")
    snapshot = open_version(store(), *parse_snapshot(name))
    full = f"{snapshot.name}@{snapshot.version}"
    if not mark:
        return made(name=full, shards=lambda: (shard for _, shard in of_snapshot(store(), snapshot)))
    split = _split_of(ledger(), snapshot)
    return made(name=f"{full}#{part}", shards=lambda: part_shards(store(), snapshot, split, part))


def compare(
    left: Side,
    right: Side,
    settings: Settings,
    grams: Grams | None,
    *,
    work: Path,
    say: Say = lambda *_: None,
) -> Compared:
    """Find what ``right`` has of ``left``; each side is read once, and its examples' places are looked up.

    ``work`` is where the working files go; they are gone when it returns. Raises ``InputError`` if either side has no
    document: nothing compared is no clean result. Without ``grams`` only twins are looked for.
    """
    from pretrain_archive.data.quality.contamination import ItemGrams  # noqa: PLC0415 (heavy)
    from pretrain_archive.data.quality.neardup.search import overlap  # noqa: PLC0415

    items = ItemGrams(settings=grams) if grams else None
    with tempfile.TemporaryDirectory(dir=work, prefix="overlap-") as made:
        folder = Path(made)
        _read(right, folder / "right.sketch", settings, items.add if items else _nothing, say)
        _read(left, folder / "left.sketch", settings, items.look if items else _nothing, say)
        twins = overlap([folder / "left.sketch"], [folder / "right.sketch"], settings, work=folder / "search")
    found = items.result() if items else None
    examples = found.examples if found else []
    return Compared(
        left=left,
        right=right,
        twins=twins,
        grams=found,
        left_places=left.places([*(e.first for e in twins.examples), *(f.document for f in examples)]),
        right_places=right.places([*(e.second for e in twins.examples), *(f.item for f in examples)]),
    )


def _nothing(_numbers: list[int], _texts: list[str]) -> None:
    """Only twins are looked for."""


def _read(
    side: Side, sketch: Path, settings: Settings, take: Callable[[list[int], list[str]], None], say: Say
) -> None:
    from pretrain_archive.data.quality.neardup.sketch import SketchWriter  # noqa: PLC0415

    with SketchWriter(sketch, settings) as writer:
        for numbers, texts in side.batches():
            writer.add_many(numbers, texts)
            take(numbers, texts)
            say(side.name, side.documents)
    if not side.documents:
        raise InputError(
            "side",
            side.name,
            "holds no document that can be read",
            hint="Nothing compared is no clean result.",
        )


def _files(root: bytes) -> Iterator[Shard]:
    if not os.path.isfile(root):  # noqa: PTH113 - a name may hold bytes that are no text
        return of_path(root, Filter())
    path = path_to_text(os.path.basename(root))  # noqa: PTH119
    size = os.path.getsize(root)  # noqa: PTH202
    return iter([Shard(path=path, size=size, open=lambda: open(root, "rb"))])  # noqa: PTH123


def _split_of(ledger: Ledger, snapshot: SnapshotCreated) -> SplitCreated:
    """The newest split of a snapshot that the ledger knows."""
    name, found = f"{snapshot.name}@{snapshot.version}", None
    for record in ledger.records(kinds=["split.created"]):
        if record.payload["snapshot"] == name:
            found = SplitCreated(**record.payload)
    if found is None:
        raise InputError(
            "part", name, "was never split into train and validation", hint="Name a whole snapshot."
        )
    return found
