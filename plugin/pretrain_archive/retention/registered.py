"""The registered checkpoints in little memory: of most of a million nothing is known but their registration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace
from typing import Any

from pretrain_archive.retention.subjects import Subject, filled_subject

Body = Mapping[str, Any]
_Row = tuple[tuple[Any, ...], int, str, str, int]
"""What others of the run have alike; step; time and digest, which are one text; location; position."""
_NOTHING: Mapping[str, int] = {}


class Registrations(MutableMapping[str, Subject]):
    """Checkpoints by reference. Each is a row until something else becomes known of it; reading makes a subject."""

    def __init__(self) -> None:
        self._rows: dict[str, _Row | Subject] = {}
        self._alike: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._steps: dict[int, int] = {}

    def register(self, ref: str, run_uid: str, project: str, position: int, body: Body) -> None:
        """One more registration; of one that was there what was said since it was first known still holds."""
        payload, first = body["payload"], self.get(ref) if ref in self._rows else None
        size, parts = sum([file["size"] for file in payload["files"]]), payload.get("components") or _NOTHING
        head = (
            payload["artifact_class"], payload["purpose"], project, run_uid, payload["attempt"], size,
            payload["responsible"],
        )  # fmt: skip
        alike = self._alike.setdefault((*head, *parts, *parts.values()), (*head, parts))
        step, said = payload["step"], f"{body['recorded_at']} {payload['digest']}"
        step = self._steps.setdefault(step, step)
        self._rows[ref] = (alike, step, said, payload["location"], position)
        if first is not None:
            self._rows[ref] = replace(
                self[ref], registered_at=first.registered_at, last_used_at=first.last_used_at, metrics=first.metrics,
                metrics_of=first.metrics_of, gone_parts=first.gone_parts,
            )  # fmt: skip

    def run_of(self, ref: str) -> str:
        """The run of a checkpoint."""
        row = self._rows[ref]
        found: str = row.run_uid if isinstance(row, Subject) else row[0][3]
        return found

    def __getitem__(self, ref: str) -> Subject:
        row = self._rows[ref]
        if isinstance(row, Subject):
            return row
        (
            (artifact_class, purpose, project, run, attempt, size, responsible, parts),
            step,
            said,
            location,
            at,
        ) = row
        registered_at, _, digest = said.partition(" ")
        return filled_subject(
            ref, artifact_class, purpose, project, run, step, attempt, registered_at, size, parts, location, digest,
            responsible, at,
        )  # fmt: skip

    def __setitem__(self, ref: str, subject: Subject) -> None:
        self._rows[ref] = subject

    def __delitem__(self, ref: str) -> None:
        del self._rows[ref]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, ref: object) -> bool:
        return ref in self._rows
