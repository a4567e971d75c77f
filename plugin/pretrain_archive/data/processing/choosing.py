# ruff: noqa: D102 (the methods are those of Chooser)
"""What each kind of rule says of a document: keep it, leave it out for a reason, or rewrite its text."""

from __future__ import annotations

import hashlib
import unicodedata
from pathlib import Path
from typing import Any

from pretrain_archive.data.globs import Filter
from pretrain_archive.data.processing.chooser import Chooser, Plain
from pretrain_archive.data.processing.reading import Doc
from pretrain_archive.data.processing.repeats import Repeats
from pretrain_archive.data.processing.selection import EVERYTHING, Survey, seeded_hash
from pretrain_archive.data.quality.documents import Fields, Text
from pretrain_archive.data.quality.statistics import of_text
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.identity import text_to_path
from pretrain_archive.domain.processing import (
    REST,
    CleanStep,
    DeduplicateStep,
    FilterStep,
    MixStep,
    SampleStep,
    SplitStep,
)

HEADER = 4096
"""Characters from the beginning within which a licence header is looked for."""

CONTROLS = {code: None for code in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if chr(code) not in "\t\n\r\v\f"}
"""Control characters (C0, DEL, C1) without those that lay out text."""


class Cleaning(Plain):
    """Rewrite text; a document without text is dropped by the reader's own reason."""

    texts = True

    def __init__(self, step: CleanStep) -> None:
        super().__init__(Fields(text=step.text_field))
        self._step = step

    def rewrite(self, text: Text) -> str | None:
        new = text.text
        if self._step.line_ends:
            new = new.replace("\r\n", "\n").replace("\r", "\n")
        if self._step.unicode_nfc:
            new = unicodedata.normalize("NFC", new)
        if self._step.strip_controls:
            new = new.translate(CONTROLS)
        return None if new == text.text else new


class Filtering(Plain):
    """Every test of a filter, in the order of the fields; the first that fails is the reason."""

    texts = True

    def __init__(self, step: FilterStep) -> None:
        super().__init__(Fields(text=step.text_field, language=step.language_field))
        self._step = step
        self._include = Filter(include=tuple(step.include))
        self._exclude = Filter(exclude=tuple(step.exclude))
        self._extensions = tuple("." + ends.lower().lstrip(".") for ends in step.extensions)
        self._headers = [text.casefold() for text in step.licence_header]
        ratios = (step.max_line_bytes, step.min_alphabetic_ratio, step.max_repetition_ratio)
        self._measures = any(value is not None for value in (*ratios, step.max_control_characters))

    def name(self, path: str) -> str:
        raw = text_to_path(path)
        if not self._include.takes(raw):
            return "include"
        if not self._exclude.takes(raw) or _in_excluded_folder(self._exclude, raw):
            return "exclude"
        if self._extensions and not path.lower().endswith(self._extensions):
            return "extension"
        return ""

    def judge(self, doc: Doc, number: int) -> str:  # noqa: ARG002 - see Chooser
        unit = doc.unit
        if unit is None or not unit.raw:
            return "empty"
        return (
            self._sized(len(unit.raw)) or self._told(unit) or (self._measured(unit) if self._measures else "")
        )

    def _sized(self, size: int) -> str:
        if self._step.min_bytes is not None and size < self._step.min_bytes:
            return "min_bytes"
        return "max_bytes" if self._step.max_bytes is not None and size > self._step.max_bytes else ""

    def _told(self, unit: Text) -> str:
        head = unit.text[:HEADER].casefold() if self._headers else ""
        if self._headers and not any(header in head for header in self._headers):
            return "licence_header"
        wanted = self._step.languages
        return "language" if wanted and unit.language is not None and unit.language not in wanted else ""

    def _measured(self, unit: Text) -> str:
        step, found = self._step, of_text(unit.raw, unit.text)
        if step.max_line_bytes is not None and found.longest_line > step.max_line_bytes:
            return "max_line_bytes"
        if step.min_alphabetic_ratio is not None and found.alphabetic_ratio < step.min_alphabetic_ratio:
            return "min_alphabetic_ratio"
        if step.max_repetition_ratio is not None and found.repetition_ratio > step.max_repetition_ratio:
            return "max_repetition_ratio"
        if step.max_control_characters is not None and found.control_characters > step.max_control_characters:
            return "max_control_characters"
        return ""


def _in_excluded_folder(chosen: Filter, path: bytes) -> bool:
    """Whether a folder above ``path`` is excluded: a pattern that names a folder excludes what is in it."""
    parts = path.split(b"/")
    return any(not chosen.enters(b"/".join(parts[:count])) for count in range(1, len(parts)))


class Deduplication(Plain):
    """Keep the first document of each content, or of each content after normalisation."""

    surveys = True

    def __init__(self, step: DeduplicateStep) -> None:
        super().__init__(Fields(text=step.text_field))
        self.texts = step.by != "content"
        self._by = step.by
        self._repeats = Repeats()

    def see(self, doc: Doc) -> None:
        if self._by == "content" or doc.unit is None:
            key = bytes.fromhex(doc.digest.removeprefix("sha256:"))
        else:
            key = hashlib.sha256(normalised(doc.unit.text).encode()).digest()
        self._repeats.add(key)

    def settle(self) -> dict[str, Any]:
        self._repeats.settle()
        return {}

    def judge(self, doc: Doc, number: int) -> str:  # noqa: ARG002 - see Chooser
        if not self._repeats.is_repeat(number):
            return ""
        return "same content" if self._by == "content" else "same text after normalisation"


def normalised(text: str) -> str:
    """NFC, case folded, each run of white space as one space, none at the ends."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


class Mixing(Plain):
    """Keep of each domain the documents with the smallest seeded hash, up to its bytes."""

    surveys = True

    def __init__(self, step: MixStep) -> None:
        super().__init__(Fields(text=step.text_field, domain=step.domain_field))
        self._step = step
        self._named = step.weights or step.targets
        self._survey = Survey()
        self._bounds: dict[str, int] = {}

    def _group(self, doc: Doc) -> str | None:
        if doc.domain in self._named:
            return doc.domain
        return REST if REST in self._named else None

    def _hash(self, doc: Doc) -> int:
        return seeded_hash("mix", self._step.seed, doc.digest)

    def see(self, doc: Doc) -> None:
        if (group := self._group(doc)) is not None:
            self._survey.add(group, self._hash(doc), doc.size)

    def settle(self) -> dict[str, Any]:
        there = self._survey.sizes
        absent = sorted(name for name in self._named if not there.get(name))
        if absent:
            raise InputError(
                "mix", ", ".join(absent), f"rule {self._step.name}: no document of this domain",
                hint=f"Domains with documents: {', '.join(sorted(there)) or 'none'}.",
            )  # fmt: skip
        wanted = self._wanted(dict(there))
        self._bounds = self._survey.bounds(wanted)
        self._survey.close()
        return {
            "domains": {name: {"available": there[name], "wanted": wanted[name]} for name in sorted(wanted)}
        }

    def _wanted(self, there: dict[str, int]) -> dict[str, int]:
        """Bytes of each domain: the largest mixture with these shares in which nothing is repeated."""
        if self._step.targets:
            return dict(self._step.targets)
        whole = sum(self._step.weights.values())
        shares = {name: weight / whole for name, weight in self._step.weights.items()}
        total = min(there[name] / share for name, share in shares.items())
        if self._step.total_bytes is not None:
            total = min(total, self._step.total_bytes)
        return {name: round(total * share) for name, share in shares.items()}

    def judge(self, doc: Doc, number: int) -> str:  # noqa: ARG002 - see Chooser
        group = self._group(doc)
        if group is None:
            return "domain not in the mixture"
        return "" if self._hash(doc) < self._bounds[group] else f"above the share of {group}"


class Sampling(Plain):
    """Take a seeded part of the documents."""

    def __init__(self, step: SampleStep) -> None:
        super().__init__(Fields(text=step.text_field))
        self._step = step
        self.surveys = step.share is None
        self._survey = Survey()
        self._bound = EVERYTHING if step.share is None else int(step.share * EVERYTHING)

    def _hash(self, doc: Doc) -> int:
        return seeded_hash("sample", self._step.seed, doc.digest)

    def see(self, doc: Doc) -> None:
        self._survey.add("", self._hash(doc), 1 if self._step.documents is not None else doc.size)

    def settle(self) -> dict[str, Any]:
        limit = self._step.documents or self._step.bytes or 0
        self._bound = self._survey.bounds({"": limit})[""]
        self._survey.close()
        return {"available": self._survey.sizes.get("", 0), "wanted": limit}

    def judge(self, doc: Doc, number: int) -> str:  # noqa: ARG002 - see Chooser
        return "" if self._hash(doc) < self._bound else "not in the sample"


def chooser_of(step: Any, folder: Path | None = None) -> Chooser:
    """The rule of a step at work; ``folder`` is for what does not fit in memory."""
    match step:
        case CleanStep():
            return Cleaning(step)
        case FilterStep():
            return Filtering(step)
        case DeduplicateStep(by="near"):
            from pretrain_archive.data.processing.near import NearDeduplication  # noqa: PLC0415

            return NearDeduplication(step, folder)
        case DeduplicateStep():
            return Deduplication(step)
        case MixStep():
            return Mixing(step)
        case SampleStep():
            return Sampling(step)
        case SplitStep():
            raise InputError(
                "step", step.name, "a split makes no snapshot", hint="It is done after the steps."
            )
    raise InputError("step", type(step).__name__, "is no step of processing")
