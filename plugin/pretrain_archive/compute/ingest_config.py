"""The configuration that a program says is effective, against the one that it was started with (R065).

A program may write ``config.effective.json`` beside its ``config.json``: what it made of the file, defaults filled in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pretrain_archive.compute.events import plain
from pretrain_archive.compute.ingest_outbox import LAUNCHER, Outbox
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.storage.regular import NotRegularError, open_regular

EFFECTIVE = "config.effective.json"
EVENT = "config_effective"
MAX_BYTES = 1 << 20
_NAMED = 200
_POSITIONS = (2, 3)
"""Where its records stand among the launcher's own: what was seen first, and what it had become at the end."""


def configuration_differences(declared: Any, effective: Any) -> dict[str, list[dict[str, Any]]]:
    """Fields that are ``changed``, ``added`` or ``missing`` in the effective configuration, by dotted name."""
    left, right = dict(_flat(declared, "")), dict(_flat(effective, ""))
    found: dict[str, list[dict[str, Any]]] = {"changed": [], "added": [], "missing": []}
    for name in sorted({*left, *right}):
        if name not in left:
            found["added"].append({"field": name, "effective": right[name]})
        elif name not in right:
            found["missing"].append({"field": name, "declared": left[name]})
        elif left[name] != right[name]:
            found["changed"].append({"field": name, "declared": left[name], "effective": right[name]})
    return {kind: fields[:_NAMED] for kind, fields in found.items()}


def _flat(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _flat(inner, f"{prefix}.{name}" if prefix else str(name))
    else:
        yield prefix, value


class EffectiveConfiguration:
    """Looks for the program's file and puts what it says on the timeline: once, and again if it changed later."""

    def __init__(self, folder: Path, outbox: Outbox) -> None:
        self.folder, self.outbox = folder, outbox
        self.told = ""

    def look(self, *, final: bool) -> None:
        """Read the file if it is there. What cannot be read is told at the end: it may be half written before."""
        if self.told and not final:
            return
        try:
            effective = _read(self.folder / EFFECTIVE)
            data = self._facts(effective)
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError) as error:
            if final:
                self._tell("unreadable", {"digest": None, "problem": str(error)[:500]})
            return
        self._tell(str(data["digest"]), data)

    def _facts(self, effective: Any) -> dict[str, Any]:
        try:
            declared = _read(self.folder / "config.json")
        except (OSError, ValueError, RecursionError):
            declared = {}
        return {
            "digest": digest_of(effective),
            "file": EFFECTIVE,
            **configuration_differences(declared, effective),
        }

    def _tell(self, digest: str, data: Mapping[str, Any]) -> None:
        if digest != self.told:
            position = _POSITIONS[1 if self.told else 0]
            self.outbox.event(LAUNCHER, position, EVENT, data)
            self.told = digest


def _read(path: Path) -> Any:
    """A configuration as strict JSON. Raises ``OSError`` or ``ValueError`` for what is none."""
    try:
        with open_regular(path) as file:
            raw = file.read(MAX_BYTES + 1)
    except NotRegularError as error:
        raise ValueError(f"{path.name} is {error.found}") from None
    if len(raw) > MAX_BYTES:
        raise ValueError(f"{path.name} is longer than {MAX_BYTES} bytes")
    value = plain(json.loads(raw.decode("utf-8")), depth=12, width=2000)
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} is not a JSON object")  # noqa: TRY004 (bad input, no bug)
    return value
