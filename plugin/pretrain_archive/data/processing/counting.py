"""The account of a step while it grows: documents and bytes in, out, rewritten, and dropped by reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(kw_only=True)
class Counts:
    """Documents and bytes of one file, or of all: in, out, rewritten, and dropped by reason."""

    documents_in: int = 0
    documents_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    bytes_rewritten: int = 0
    changed_documents: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    dropped_bytes: Counter[str] = field(default_factory=Counter)

    def drop(self, reason: str, documents: int, size: int) -> None:
        """Count what goes no further."""
        self.documents_in += documents
        self.bytes_in += size
        self.dropped[reason] += documents
        self.dropped_bytes[reason] += size

    def keep(self, size: int, new: int) -> None:
        """Count a document of ``size`` bytes that goes on with ``new`` bytes."""
        self.documents_in += 1
        self.documents_out += 1
        self.bytes_in += size
        self.bytes_out += new
        self.bytes_rewritten += new - size

    def add(self, other: Counts) -> None:
        """Count what another file gave."""
        self.documents_in += other.documents_in
        self.documents_out += other.documents_out
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.bytes_rewritten += other.bytes_rewritten
        self.changed_documents += other.changed_documents
        self.dropped.update(other.dropped)
        self.dropped_bytes.update(other.dropped_bytes)

    def to_json(self) -> dict[str, Any]:
        """The counts as plain JSON."""
        return {
            name: dict(sorted(value.items())) if isinstance(value, Counter) else value
            for name, value in vars(self).items()
        }

    @classmethod
    def of(cls, value: dict[str, Any]) -> Self:
        """Read what :meth:`to_json` wrote."""
        counters = {name: Counter(value[name]) for name in ("dropped", "dropped_bytes")}
        numbers = {name: int(item) for name, item in value.items() if name not in counters}
        return cls(**numbers, dropped=counters["dropped"], dropped_bytes=counters["dropped_bytes"])
