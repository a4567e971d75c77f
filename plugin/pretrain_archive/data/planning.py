"""The plan of a snapshot in parts: one listing, cut into ranges of about the same work, kept in the store.

See :mod:`parts` for where it lies and what becomes of it.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO, cast

from pretrain_archive.data.building import refuse_empty
from pretrain_archive.data.globs import Filter
from pretrain_archive.data.hashing import hash_stream
from pretrain_archive.data.listing import Listing
from pretrain_archive.data.tree import Listed, Tree, portable
from pretrain_archive.domain.errors import ArchiveError, InputError
from pretrain_archive.domain.identity import new_id, path_to_text, utc_now
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.storage.port import ObjectStore

FORMAT = "pretrain-archive/parts/1"
MOST = 512
"""Parts at most: with Airflow's own limit of 1,024 mapped tasks, and a list of them that stays small in XCom."""

FILE_COST = 1 << 16
"""What opening a file weighs, in bytes: parts are balanced by bytes and by count."""

STEP_FILES, STEP_BYTES = 20_000, 8 << 30
"""A piece is written after so many files or bytes: what a kill costs at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A contiguous range of the listing; ``first`` and ``last`` are its bounds, ``listing`` the digest of its files."""

    number: int
    files: int
    links: int
    size: int
    first: str
    last: str
    listing: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A listing cut into parts; ``wish`` are the fields of the snapshot that is wanted."""

    folder: str
    digest: str
    wish: Mapping[str, Any]
    planned_at: str
    pinned: bool
    step_files: int
    step_bytes: int
    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        """What the later steps find the plan by: its folder and the digest of its document."""
        return f"{self.folder}@{self.digest}"

    @property
    def files(self) -> int:
        """Files of all parts."""
        return sum(part.files for part in self.parts)

    @property
    def links(self) -> int:
        """Symbolic links of all parts."""
        return sum(part.links for part in self.parts)

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return sum(part.size for part in self.parts)

    @property
    def chosen(self) -> Filter:
        """What of the source belongs."""
        return Filter(include=tuple(self.wish["include"]), exclude=tuple(self.wish["exclude"]))


def make_plan(
    store: ObjectStore, tree: Tree, wish: Mapping[str, Any], *, stream: str, parts: int,
    step_files: int = STEP_FILES, step_bytes: int = STEP_BYTES,
) -> Plan:  # fmt: skip
    """List ``tree`` once and cut the listing into at most ``parts`` ranges of about the same work.

    Raises ``InputError`` for a number of parts that cannot be, and ``SourceError`` for an empty source: there is no
    plan with nothing to do.
    """
    if not 1 <= parts <= MOST:
        raise InputError("parts", str(parts), f"not from 1 to {MOST}")
    folder = f"parts/{stream}/{new_id('plan')}"
    chosen = Filter(include=tuple(wish["include"]), exclude=tuple(wish["exclude"]))
    with Listing.take(tree, chosen) as listing:
        refuse_empty(tree, listing.files)
        made = tuple(_cut(store, folder, listing, parts))
        document = {
            "format": FORMAT, "wish": dict(wish), "planned_at": utc_now(), "pinned": bool(listing.pinned),
            "step_files": step_files, "step_bytes": step_bytes, "parts": [asdict(part) for part in made],
        }  # fmt: skip
    raw = canonical_bytes(document)
    store.put_if_absent(f"{folder}/plan.json", io.BytesIO(raw))
    return _plan(folder, raw)


def open_plan(store: ObjectStore, name: str) -> Plan:
    """Read a plan by the name that :func:`make_plan` gave; ``InputError`` if it is not there or not that one."""
    folder, _, digest = name.rpartition("@")
    key = f"{folder}/plan.json"
    if not folder.startswith("parts/") or store.stat(key) is None:
        raise InputError("plan", name, "not there", hint="Plan the snapshot again, or it was merged already.")
    with store.open(key) as stream:
        plan = _plan(folder, stream.read())
    if plan.digest != digest:
        raise InputError("plan", name, f"the document has {plan.digest}", hint="Plan the snapshot again.")
    return plan


def _cut(store: ObjectStore, folder: str, listing: Listing, parts: int) -> Iterator[Part]:
    """Write the listing in ranges of about the same weight, as many as there are, none of them empty."""
    total = listing.size + FILE_COST * (listing.files + listing.links)
    done = number = 0
    items = iter(listing)
    item = next(items, None)
    while item is not None:
        number += 1
        files = links = size = 0
        first, lines = item.path, _Spool()
        share = min(parts - 1, done * parts // total)
        # A range ends where its share of the whole is used up; a file larger than a share is a range of its own.
        while item is not None and (not files + links or done * parts // total == share):
            lines.write(json.dumps(portable(item).to_json()).encode() + b"\n")
            last = item.path
            files, links = files + (item.target is None), links + (item.target is not None)
            size += item.size if item.target is None else 0
            done += FILE_COST + (item.size if item.target is None else 0)
            item = next(items, None)
        with lines.file:
            digest = put_lines(store, f"{folder}/listing/{number:05d}", lines.file)
        yield Part(
            number=number, files=files, links=links, size=size, first=path_to_text(first),
            last=path_to_text(last), listing=digest,
        )  # fmt: skip


class _Spool:
    """Lines in an unnamed file."""

    def __init__(self) -> None:
        self.file = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - closed by who uses it
        self.write = self.file.write


def put_lines(store: ObjectStore, before: str, lines: BinaryIO) -> str:
    """Store lines under a key that ends in their digest; return the digest."""
    lines.seek(0)
    digest, _ = hash_stream(lines)
    lines.seek(0)
    store.put_if_absent(f"{before}-{digest.removeprefix('sha256:')}.jsonl", lines)
    return digest


def steps_of(plan: Plan, items: Iterable[Listed]) -> Iterator[list[Listed]]:
    """Cut a part into steps: the same for every try."""
    step: list[Listed] = []
    size = 0
    for item in items:
        step.append(item)
        size += item.size
        if len(step) >= plan.step_files or size >= plan.step_bytes:
            yield step
            step, size = [], 0
    if step:
        yield step


def listed_of(store: ObjectStore, plan: Plan, part: Part) -> Iterator[Listed]:
    """Yield the files of a part, after its bytes were proven."""
    key = f"{plan.folder}/listing/{part.number:05d}-{part.listing.removeprefix('sha256:')}.jsonl"
    with open_checked(store, key) as stream:
        for line in stream:
            yield Listed.from_json(json.loads(line))


def open_checked(store: ObjectStore, key: str) -> BinaryIO:
    """Open an object that is named by its digest; ``ArchiveError`` if its bytes are others."""
    expected = key.rpartition("-")[2].removesuffix(".jsonl")
    with store.open(key) as stream:
        found, _ = hash_stream(stream)
    if found != f"sha256:{expected}":
        raise foreign(store, key, f"its bytes have {found}")
    return cast("BinaryIO", io.BufferedReader(cast("io.RawIOBase", store.open(key))))


def foreign(store: ObjectStore, key: str, reason: str) -> ArchiveError:
    """The error for an object that is not what the plan needs."""
    return ArchiveError(
        f"{store.location(key)}: {reason}; no version was made.", hint="Plan the snapshot again."
    )


def part_of(plan: Plan, number: int) -> Part:
    """The part of that number; ``InputError`` if there is none."""
    found = next((part for part in plan.parts if part.number == number), None)
    if found is None:
        raise InputError("part", str(number), f"the plan has parts 1 to {len(plan.parts)}")
    return found


def _plan(folder: str, raw: bytes) -> Plan:
    try:
        document = json.loads(raw)
        if document.pop("format") != FORMAT:
            raise ValueError("another format")  # noqa: TRY301 - told with the others
        parts = tuple(Part(**part) for part in document.pop("parts"))
        digest = "sha256:" + hashlib.sha256(raw).hexdigest()
        return Plan(folder=folder, digest=digest, parts=parts, **document)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError("plan", folder, f"not a plan: {error}", hint="Plan the snapshot again.") from error
