"""Prompts and outputs that persons read: the JSON Lines file, the seeded sample of it, and the kept lines.

A line is an object with ``prompt`` and ``output``; in pairs also ``baseline``, the other model's output. It may
name its ``id``, the ``checkpoint`` (id or digest) that made the output, and the ``baseline_name``. The file is
foreign: lines, items and bytes are bounded, JSON is read strictly, and nothing in it is executed or followed.
"""

from __future__ import annotations

import hashlib
import heapq
import io
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from pretrain_archive.artifacts.formats import strict_json
from pretrain_archive.artifacts.location import to_location, to_path
from pretrain_archive.domain.errors import CheckpointError, InputError
from pretrain_archive.domain.kinds import CheckpointRegistered
from pretrain_archive.ledger.canonical import canonical_bytes, digest_of
from pretrain_archive.storage.factory import open_store
from pretrain_archive.storage.port import ObjectStore

METHOD: Final = "items by ascending SHA-256 of seed and digest"
MOST_LINE: Final = 1 << 20
"""Bytes of a line."""
MOST_ITEMS: Final = 200_000
MOST_BYTES: Final = 1 << 30
MOST_NAME: Final = 200
"""Characters of an id or a name."""
SAMPLES: Final = "samples.jsonl"
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
        if total > MOST_BYTES or len(reading.seen) > MOST_ITEMS:
            raise reading.fault(f"the file holds more than {MOST_ITEMS} items or {MOST_BYTES} bytes")
        if raw.strip():
            yield raw


def candidate_first(seed: int, digest: str, reviewer: int) -> bool:
    """Whether the candidate's output stands first for a reviewer: drawn for each item and reviewer alone."""
    return hashlib.sha256(f"{seed}\n{digest}\n{reviewer}".encode()).digest()[0] % 2 == 0


# -- where files lie -----------------------------------------------------------------------------------


def open_items(uri: str, *, names: dict[str, str]) -> tuple[BinaryIO, str]:
    """The file that a request names, and its address: a path, ``file://`` or ``s3://``.

    ``names`` fills ``{run_uid}``, ``{checkpoint_id}`` and ``{step}``. Raises ``InputError`` where there is none.
    """
    text = uri
    for name, value in names.items():
        text = text.replace("{" + name + "}", value)
    if text.startswith("s3://") and text.rpartition("/")[0] != "s3:/":
        parent, _, key = text.rpartition("/")
        return open_store(parent).open(key), text
    path = Path(text) if text.startswith("/") else to_path(text)
    if path is None:
        raise InputError("human_items", uri, "is no absolute path, file:// or s3:// address")
    file = _open_regular(path, text, field="human_items")
    if file is None:
        raise InputError("human_items", text, "is not there")
    return file, to_location(path)


def _open_regular(path: Path, shown: str, *, field: str, follow: bool = True) -> BinaryIO | None:
    """A file, None where nothing is there; ``InputError`` for anything else. A pipe does not hold the task."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(field, shown, f"cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(field, shown, "is no file")
    return os.fdopen(descriptor, "rb")


def samples_key(run_uid: str, evaluation_id: str) -> str:
    """Where the outputs that an evaluation program wrote are kept."""
    return f"runs/{run_uid}/evaluations/{evaluation_id}/{SAMPLES}"


def keep_samples(store: ObjectStore, run_uid: str, evaluation_id: str, path: Path) -> str | None:
    """Keep the outputs that the evaluation program wrote; None where it wrote none. Links are not followed.

    Of two runs of the same evaluation the first one's outputs stay.
    """
    file = _open_regular(path, path.name, field="samples", follow=False)
    if file is None:
        return None
    with file:
        if os.fstat(file.fileno()).st_size > MOST_BYTES:
            raise InputError("samples", path.name, f"is larger than {MOST_BYTES} bytes")
        key = samples_key(run_uid, evaluation_id)
        store.put_if_absent(key, file)
    return store.location(key)


def lines_of(items: Iterable[OutputItem]) -> bytes:
    """The drawn lines as they are kept."""
    return b"".join(canonical_bytes(item.document()) + b"\n" for item in items)


def keep_items(store: ObjectStore, run_uid: str, raw: bytes, *, keep: bool = True) -> tuple[str, str]:
    """Keep the drawn lines (unless they are only compared); return their address and digest."""
    digest = "sha256:" + hashlib.sha256(raw).hexdigest()
    key = items_key(run_uid, digest)
    if keep:
        store.put_if_absent(key, io.BytesIO(raw))
    return store.location(key), digest


def items_key(run_uid: str, digest: str) -> str:
    """Where a sample's lines are kept."""
    return f"runs/{run_uid}/human/{digest.removeprefix('sha256:')}.jsonl"


def kept_items(store: ObjectStore, run_uid: str, digest: str) -> list[OutputItem]:
    """The kept lines of a sample; ``InputError`` where they are no longer what was recorded."""
    with store.open(items_key(run_uid, digest)) as file:
        raw = file.read(MOST_BYTES)
    if "sha256:" + hashlib.sha256(raw).hexdigest() != digest:
        raise InputError("items", digest, "the kept items are not the recorded ones any more")
    made = []
    for line in raw.splitlines():
        value = strict_json.loads(line, where="kept items")
        texts = {name: value[name] for name in ("prompt", "output", "baseline")}
        made.append(OutputItem(digest=digest_of(texts), line=value["line"], item_id=value["id"], **texts))
    return made
