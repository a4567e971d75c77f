"""What an incident is, as its records tell it, and where what was made of it is looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.governance_runbook import RUNBOOK, sections
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Record


@dataclass(frozen=True, kw_only=True)
class Grounds:
    """Where follow-ups are looked up: ``root`` is the folder of the project's files, ``runbook`` a path below it."""

    root: Path
    policies: Callable[[str], LoadedPolicy]
    runbook: str = RUNBOOK

    def read(self, path: str) -> str | None:
        """The text of a file below the root, None where there is none; ``InputError`` for a path that leads outside."""
        try:
            whole = (self.root / path).resolve()
            inside = whole.is_relative_to(self.root.resolve())
            text = whole.read_text(encoding="utf-8", errors="replace") if inside and whole.is_file() else None
        except (OSError, ValueError) as error:
            raise InputError("path", path, f"cannot be read: {error}") from error
        if not inside:
            raise InputError("path", path, f"leads outside of {self.root}")
        return text

    def sections(self) -> dict[str, str] | None:
        """The runbook's sections, None where it is not there."""
        text = self.read(self.runbook)
        return None if text is None else sections(text)


@dataclass(frozen=True, kw_only=True)
class IncidentView:
    """An incident as its records tell it."""

    records: tuple[Record, ...]
    opened: kinds.IncidentOpened
    reviewed: kinds.IncidentReviewed | None
    closed: kinds.IncidentClosed | None

    @classmethod
    def of(cls, records: Iterable[Record]) -> IncidentView | None:
        """The incident of a stream's records; None where nothing was opened."""
        told = tuple(records)
        read = [
            kinds.read_payload(r, kinds.KINDS[r.kind].model) for r in told if r.kind.startswith("incident.")
        ]
        opened = next((p for p in read if isinstance(p, kinds.IncidentOpened)), None)
        if opened is None:
            return None
        return cls(
            records=told, opened=opened,
            reviewed=next((p for p in reversed(read) if isinstance(p, kinds.IncidentReviewed)), None),
            closed=next((p for p in read if isinstance(p, kinds.IncidentClosed)), None),
        )  # fmt: skip

    @property
    def incident_id(self) -> str:
        """The incident's id."""
        return self.opened.incident_id

    @property
    def state(self) -> str:
        """One of open, reviewed, closed."""
        return "closed" if self.closed else "reviewed" if self.reviewed else "open"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "incident_id": self.incident_id, "state": self.state, "opened": self.opened.to_json(),
            "reviewed": self.reviewed.to_json() if self.reviewed else None,
            "closed": self.closed.to_json() if self.closed else None,
        }  # fmt: skip
