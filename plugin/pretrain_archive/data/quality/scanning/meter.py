"""Measure one document: everything that a row of a scan holds, by the measures that are switched on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from pretrain_archive.data.quality.readers.base import Oversized, Text, domain_of
from pretrain_archive.data.quality.scanning.plan import Measures
from pretrain_archive.data.quality.statistics import Statistics, of_text

BASE: dict[str, str] = {
    "path": "name", "line": "int64", "domain": "name", "language": "name", "label": "name", "sha256": "digest",
    "normalised": "digest", "bytes": "int64", "characters": "int64", "lines": "int64", "longest_line": "int64",
    "nul": "int64", "control_characters": "int64", "alphabetic_ratio": "double", "repetition_ratio": "double",
    "tokens": "int64", "language_found": "name", "language_score": "float32",
}  # fmt: skip
"""Columns of every scan and their types; ``name`` is a dictionary of texts, ``digest`` 16 bytes of SHA-256."""

MEASURED = 2 << 20
"""Characters of a text that the heuristics look at, for each of which they hold some 60 bytes. Of a longer text its
beginning is measured; its words are counted to the end."""

Row = tuple[Any, ...]
Places = list[tuple[str, int]]
"""Kind and character offset of each sensitive finding."""


def columns_of(measures: Measures) -> dict[str, str]:
    """The columns that a scan with these measures has, and their types."""
    columns = dict(BASE)
    if measures.heuristics:
        from pretrain_archive.data.quality import heuristics  # noqa: PLC0415

        columns |= heuristics.COLUMNS
    if measures.sensitive is not None:
        columns |= {f"sensitive_{kind}": "int32" for kind in measures.sensitive.kinds}
    return columns


class Meter:
    """The measures of a scan, made ready once for many documents."""

    def __init__(self, measures: Measures, sketch: Path) -> None:
        self.columns = columns_of(measures)
        self._unknown = (None,) * (len(self.columns) - len(BASE))
        self._heuristics, self._words = _heuristics(measures)
        self._detector, self._kinds = _detector(measures)
        self._normalised = _normaliser(measures)
        self._identify = _identifier(measures)
        self._always = measures.language == "all"
        self._sketch = _sketch_writer(measures, sketch)

    def documents(self, units: Sequence[Text], first: int) -> Iterator[tuple[Row, Places]]:
        """The row of each document and where it holds something sensitive.

        ``first`` is the sketch's number for the first one. Nothing depends on how documents are put together.
        """
        if self._heuristics is not None:
            begun = [_beginning(unit) for unit in units]
            measured = self._heuristics([text for text, _ in begun], [raw for _, raw in begun])
        else:
            measured = [()] * len(units)
        for number, (unit, more) in enumerate(zip(units, measured, strict=True), first):
            yield self._document(unit, number, more)

    def _document(self, unit: Text, number: int, more: Row) -> tuple[Row, Places]:
        text, raw = unit.text, unit.raw
        if self._sketch is not None:
            self._sketch.add(number, text)
        tokens = more[self._words] if more and len(text) <= MEASURED else tokens_of(text)
        if more:
            more = (*more[: self._words], tokens, *more[self._words + 1 :])
        places: Places = []
        if self._detector is not None:
            places = [(found.kind, found.offset) for found in self._detector.find(text)]
            more = (*more, *self._counts(places))
        language, score = None, None
        if self._identify is not None and (self._always or unit.language):
            language, score = self._identify(text)
        normalised = self._normalised(text) if self._normalised is not None else None
        head = (unit.path, unit.line, unit.domain, unit.language, unit.label)
        return (*head, *_counted(of_text(raw, text), normalised), tokens, language, score, *more), places

    def oversized(self, unit: Oversized) -> Row:
        """The row of a text that was only counted: what was not measured is null."""
        head = (unit.path, unit.line, domain_of(unit.path), None, None)
        return (*head, *_counted(unit.statistics, None), unit.tokens, None, None, *self._unknown)

    def close(self) -> None:
        """Complete the sketch."""
        if self._sketch is not None:
            self._sketch.close()

    def _counts(self, places: Places) -> Row:
        if not places:
            return (0,) * len(self._kinds)
        kinds = [kind for kind, _ in places]
        return tuple(map(kinds.count, self._kinds))


def tokens_of(text: str) -> int:
    """Words of a text: runs without blanks, and each Chinese or Japanese character for itself.

    Gopher counts runs without blanks (Rae et al. 2021, arXiv:2112.11446, A.1.1); that is one word for a whole
    Chinese paragraph, so its characters are counted, as the heuristics do.
    """
    if len(text) > MEASURED:
        return sum(map(tokens_of, _pieces(text)))
    if text.isascii():
        return len(text.split())
    from pretrain_archive.data.quality.heuristics import words_of  # noqa: PLC0415

    return len(words_of(text))


def _beginning(unit: Text) -> tuple[str, bytes]:
    if len(unit.text) <= MEASURED:
        return unit.text, unit.raw
    text = next(_pieces(unit.text))
    return text, text.encode()


def _pieces(text: str) -> Iterator[str]:
    """A long text in pieces of at most :data:`MEASURED` characters that end with a blank, where there is one."""
    start = 0
    while start < len(text):
        end = min(start + MEASURED, len(text))
        if end < len(text):
            cut = max(text.rfind(blank, start, end) for blank in "\n ")
            end = end if cut < start else cut + 1
        yield text[start:end]
        start = end


def _counted(found: Statistics, normalised: bytes | None) -> Row:
    return (
        bytes.fromhex(found.sha256[7:39]), normalised, found.bytes, found.characters, found.lines,
        found.longest_line, found.nul, found.control_characters, found.alphabetic_ratio, found.repetition_ratio,
    )  # fmt: skip


def _heuristics(measures: Measures) -> tuple[Callable[[list[str], list[bytes]], Sequence[Row]] | None, int]:
    if not measures.heuristics:
        return None, 0
    from pretrain_archive.data.quality.heuristics import COLUMNS  # noqa: PLC0415
    from pretrain_archive.data.quality.heuristics_batch import measure_many  # noqa: PLC0415

    return measure_many, list(COLUMNS).index("words")


def _detector(measures: Measures) -> tuple[Any, tuple[str, ...]]:
    if measures.sensitive is None:
        return None, ()
    from pretrain_archive.data.quality.sensitive import Detector  # noqa: PLC0415

    return Detector(measures.sensitive), tuple(measures.sensitive.kinds)


def _normaliser(measures: Measures) -> Callable[[str], bytes] | None:
    mode = measures.normalised
    if not mode:
        return None
    from pretrain_archive.data.quality.neardup.normalise import normalised_bytes  # noqa: PLC0415

    return lambda text: sha256(normalised_bytes(text, mode)).digest()[:16]


def _identifier(measures: Measures) -> Callable[[str], tuple[str, float]] | None:
    if measures.language == "off":
        return None
    from pretrain_archive.data.quality.language import identify  # noqa: PLC0415

    return identify


def _sketch_writer(measures: Measures, path: Path) -> Any:
    if measures.near_duplicates is None:
        return None
    from pretrain_archive.data.quality.neardup.sketch import SketchWriter  # noqa: PLC0415

    return SketchWriter(path, measures.near_duplicates)
