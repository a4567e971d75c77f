"""Write what a search needs of each document into one compact file, batch by batch, and appear whole or not at all.

The file: magic, length and JSON of a header, then five sections, each beginning at a multiple of eight bytes and in the
machine's byte order, little-endian: ``numbers`` (int64 a document), ``digests`` (16 bytes: BLAKE2b of the normalised
text), ``offsets`` (int64, documents + 1: where a document's hashes begin), ``signatures`` (uint32 × permutations) and
``hashes`` (uint32: sorted distinct shingle hashes, for the exact Jaccard similarity). A search reads them in place.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Final, Self, cast

import numpy as np

from pretrain_archive.data.quality.neardup.normalise import normalised_bytes
from pretrain_archive.data.quality.neardup.settings import Settings
from pretrain_archive.data.quality.neardup.signatures import signatures
from pretrain_archive.data.quality.neardup.units import shingles

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAGIC: Final = b"pretrain-archive/sketch/1\n"
SECTIONS: Final = ("numbers", "digests", "offsets", "signatures", "hashes")
DIGEST_BYTES: Final = 16
BATCH_BYTES = 1 << 20
"""Characters of a batch: its arrays stay near the processor."""
BATCH_TEXTS = 1 << 14


class SketchWriter:
    """Sketches documents into ``path``; numbers must ascend, in one file, from call to call.

    Holds one batch of about 1 MiB of text. The file appears under its name on :meth:`close`; leaving a ``with``
    block by an error, or :meth:`discard`, leaves nothing.
    """

    def __init__(self, path: Path, settings: Settings) -> None:
        self._path, self._settings = path, settings
        self._numbers: list[int] = []
        self._texts: list[str] = []
        self._size, self._last, self._count, self._hashes = 0, -1, 0, 0
        # Sections grow side by side in files without a name: a killed process leaves nothing behind.
        self._spools = {name: _spool(path.parent) for name in SECTIONS}
        self._spools["offsets"].write(bytes(8))

    def add(self, number: int, text: str) -> None:
        """Take one document. Raises ``ValueError`` if ``number`` is not above the last one's."""
        if number <= self._last:
            raise ValueError(f"document number {number} comes after {self._last}: numbers must ascend")
        self._last = number
        size = len(text)
        if size > BATCH_BYTES:
            self._flush()
        self._numbers.append(number)
        self._texts.append(text)
        self._size += size
        if self._size >= BATCH_BYTES or len(self._texts) >= BATCH_TEXTS:
            self._flush()

    def add_many(self, numbers: Iterable[int], texts: Iterable[str]) -> None:
        """Take several documents; ``ValueError`` if there are not as many numbers as texts."""
        for number, text in zip(numbers, texts, strict=True):
            self.add(number, text)

    def close(self) -> None:
        """Write what is left and give the file its name."""
        self._flush()
        try:
            _assemble(self._path, self._spools, self._count, self._settings)
        finally:
            self.discard()

    def discard(self) -> None:
        """Give up: no file appears. Does nothing after :meth:`close`."""
        for spool in self._spools.values():
            spool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def _flush(self) -> None:
        if not self._texts:
            return
        mode = self._settings.mode
        texts = [normalised_bytes(text, mode) for text in self._texts]
        hashes, offsets = _hashes(texts, self._settings)
        digests = b"".join([hashlib.blake2b(raw, digest_size=DIGEST_BYTES).digest() for raw in texts])
        write = {
            "numbers": np.array(self._numbers, "<i8"),
            "offsets": (offsets[1:] + self._hashes).astype("<i8"),
            "signatures": np.ascontiguousarray(signatures(hashes, offsets, self._settings), "<u4"),
            "hashes": hashes.astype("<u4", copy=False),
        }
        self._spools["digests"].write(digests)
        for name, array in write.items():
            self._spools[name].write(array.data)
        self._count += len(self._texts)
        self._hashes += len(hashes)
        self._numbers, self._texts, self._size = [], [], 0


def _hashes(texts: Sequence[bytes], settings: Settings) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """The shingle hashes of texts; none of a table of numbers, where the settings say so."""
    hashes, offsets, tables = shingles(texts, settings.shingle)
    if not (settings.number_tables and tables.any()):
        return hashes, offsets
    counts = np.diff(offsets)
    kept = np.repeat(~tables, counts)
    counts[tables] = 0
    return hashes[kept], np.concatenate([[0], np.cumsum(counts)])


def _spool(folder: Path) -> BinaryIO:
    return cast("BinaryIO", tempfile.TemporaryFile(dir=folder))


def _assemble(path: Path, spools: dict[str, BinaryIO], count: int, settings: Settings) -> None:
    sizes = {name: spool.tell() for name, spool in spools.items()}
    header = json.dumps({"documents": count, "sizes": sizes, "settings": settings.sketching()}).encode()
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".sketch-", delete=False) as out:
        try:
            out.write(MAGIC + len(header).to_bytes(8, "little") + header)
            for name in SECTIONS:
                out.write(bytes(-out.tell() % 8))
                spools[name].seek(0)
                shutil.copyfileobj(spools[name], out, 1 << 20)
            out.flush()
            os.fsync(out.fileno())
            Path(out.name).replace(path)
        except BaseException:
            Path(out.name).unlink(missing_ok=True)
            raise
