"""Prompts and outputs that persons read: the items of a JSON Lines file, and the seeded sample of them.

A line is an object with ``prompt`` and ``output``; in pairs also ``baseline``, the other model's output. It may
name its ``id``, the ``checkpoint`` (id or digest) that made the output, and the ``baseline_name``. The file is
foreign: lines, items and bytes are bounded, JSON is read strictly, and nothing in it is executed or followed.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

from pretrain_archive.artifacts.formats import strict_json
from pretrain_archive.domain.errors import CheckpointError, InputError
from pretrain_archive.domain.kinds import CheckpointRegistered
from pretrain_archive.ledger.canonical import digest_of

METHOD: Final = "items by ascending SHA-256 of seed and digest; order by seed, file, digest and reviewer"
MOST_LINE: Final = 1 << 20
"""Bytes of a line."""
MOST_ITEMS: Final = 200_000
MOST_BYTES: Final = 1 << 30
MOST_NAME: Final = 200
"""Characters of an id or a name."""
FORM: Final = 'Write one JSON object a line: {"prompt": "…", "output": "…"}, in pairs also "baseline".'


@dataclass(frozen=True, kw_only=True)
class OutputItem:
    """A prompt with the output of the checkpoint and, in pairs, of the baseline."""

    digest: str
    line: int
    item_id: str | None
    prompt: str
    output: str
    baseline: str | None = None

    @property
    def identical(self) -> bool:
        """Whether both outputs are the same text."""
        return self.baseline is not None and self.baseline == self.output

    def document(self) -> dict[str, Any]:
        """The item as it is kept."""
        return {
            "line": self.line, "id": self.item_id, "prompt": self.prompt, "output": self.output,
            "baseline": self.baseline,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A sample in the order in which it is shown, and what the whole file says.

    ``stated`` is whether every line names the checkpoint; ``digest`` is that of the file's bytes.
    """

    items: tuple[OutputItem, ...]
    digest: str
    count: int
    duplicates: int
    stated: bool
    baseline_name: str | None


@dataclass
class _Reading:
    """What is remembered of the lines that were read."""

    where: str
    pairs: bool
    subjects: frozenset[str]
    seen: set[str] = field(default_factory=set)
    ids: dict[str, str] = field(default_factory=dict)
    duplicates: int = 0
    stated: int = 0
    lines: int = 0
    baselines: set[str | None] = field(default_factory=set)

    def fault(self, problem: str, value: object = "") -> InputError:
        shown = str(value)[:60]
        return InputError(f"{self.where}, line {self.lines}", shown, problem, hint=FORM)

    def item(self, raw: bytes) -> OutputItem | None:
        """The item of a line; None for one whose content was there before."""
        try:
            value = strict_json.loads(raw, where=f"{self.where}, line {self.lines}")
        except CheckpointError as error:
            raise InputError("items", self.where, error.message, hint=FORM) from error
        if not isinstance(value, dict):
            raise self.fault("is no JSON object", type(value).__name__)
        prompt, output = self._text(value, "prompt"), self._text(value, "output")
        baseline = self._text(value, "baseline") if self.pairs else None
        self._about(value)
        digest = digest_of({"prompt": prompt, "output": output, "baseline": baseline})
        item_id = self._name(value, "id")
        if item_id is not None and self.ids.setdefault(item_id, digest) != digest:
            raise self.fault("names an id that an earlier line gave to another item", item_id)
        if digest in self.seen:
            self.duplicates += 1
            return None
        self.seen.add(digest)
        return OutputItem(digest=digest, line=self.lines, item_id=item_id, prompt=prompt, output=output,
                          baseline=baseline)  # fmt: skip

    def _about(self, value: dict[str, Any]) -> None:
        about = self._name(value, "checkpoint")
        if about is not None and about not in self.subjects:
            raise self.fault("holds an output of another checkpoint", about)
        self.stated += about is not None
        self.baselines.add(self._name(value, "baseline_name") if self.pairs else None)
        if len(self.baselines) > 1:
            raise self.fault("names another baseline than the lines before", value.get("baseline_name"))

    def _text(self, value: dict[str, Any], name: str) -> str:
        text = value.get(name)
        if not isinstance(text, str):
            raise self.fault(f"has no text {name!r}", text)
        if not _is_utf8(text):
            raise self.fault(f"{name!r} is no UTF-8 text")
        return text

    def _name(self, value: dict[str, Any], name: str) -> str | None:
        text = value.get(name)
        if text is None:
            return None
        if isinstance(text, int) and not isinstance(text, bool):
            text = str(text)
        if not isinstance(text, str) or not 0 < len(text) <= MOST_NAME or not _is_utf8(text):
            raise self.fault(f"{name!r} is no text of 1 to {MOST_NAME} characters", text)
        return text


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def draw(
    file: BinaryIO, *, where: str, pairs: bool, subject: CheckpointRegistered, size: int, seed: int
) -> Drawn:
    """Draw ``size`` items of the file; the same whenever it is drawn, whatever the order of the lines.

    Memory is bounded by the sample and 100 bytes for each item. Raises ``InputError`` naming the line that cannot be
    read, or an empty file.
    """
    reading = _Reading(where=where, pairs=pairs, subjects=frozenset({subject.checkpoint_id, subject.digest}))
    whole = hashlib.sha256()
    kept: list[tuple[int, OutputItem]] = []
    for raw in _lines(file, reading, whole):
        item = reading.item(raw)
        if item is None:
            continue
        place = int(hashlib.sha256(f"{seed}\n{item.digest}".encode()).hexdigest(), 16)
        heapq.heappush(kept, (-place, item))
        if len(kept) > size:
            heapq.heappop(kept)  # the largest place
    if not kept:
        raise InputError("items", where, "holds no item", hint=FORM)
    return Drawn(
        items=tuple(item for _, item in sorted(kept, key=lambda found: -found[0])),
        digest="sha256:" + whole.hexdigest(),
        count=len(reading.seen),
        duplicates=reading.duplicates,
        stated=reading.stated == len(reading.seen) + reading.duplicates,
        baseline_name=next(iter(reading.baselines), None),
    )


def _lines(file: BinaryIO, reading: _Reading, whole: Any) -> Iterator[bytes]:
    """The lines that hold something, each bounded."""
    total = 0
    while raw := file.readline(MOST_LINE + 1):
        whole.update(raw)
        total += len(raw)
        reading.lines += 1
        if len(raw) > MOST_LINE:
            raise reading.fault(f"is longer than {MOST_LINE} bytes")
        if total > MOST_BYTES or len(reading.seen) + reading.duplicates > MOST_ITEMS:
            raise reading.fault(f"the file holds more than {MOST_ITEMS} items or {MOST_BYTES} bytes")
        if raw.strip():
            yield raw


def candidate_first(seed: int, source: str, digest: str, reviewer: int) -> bool:
    """Whether the candidate's output stands first for a reviewer: drawn for each item and reviewer alone.

    The digest of the whole ``source`` takes part, since a reviewer who knows the seed sees all of the item.
    """
    return hashlib.sha256(f"{seed}\n{source}\n{digest}\n{reviewer}".encode()).digest()[0] % 2 == 0
