"""The environment that a launch is signed for, and how an observed one differs from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pretrain_archive.compute.environment_diff import (
    CRITICAL_PACKAGES,
    Difference,
    Grade,
    blocking_drift,
    compare_environments,
)
from pretrain_archive.compute.events import plain
from pretrain_archive.compute.spec import PROBE
from pretrain_archive.compute.wrapper import interpreter_of
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.kinds import EnvironmentDeclared
from pretrain_archive.ledger.canonical import digest_of

__all__ = [
    "CRITICAL_PACKAGES",
    "Difference",
    "Grade",
    "allocated_of",
    "blocking_drift",
    "compare_environments",
    "declare_environment",
    "environment_of",
]

_PROBE_SECONDS = 90


_TABLES = (
    "python",
    "packages",
    "platform",
    "cpu",
    "limits",
    "container",
    "variables",
    "git",
    "stack",
    "libraries",
)


def environment_of(facts: object) -> dict[str, Any]:
    """What a probe printed as strict JSON; every package stays.

    The program can write in the probe's place: a part that has another shape than the probe gives it is None,
    unrecorded.
    """
    cleaned = plain(facts, width=20_000)
    if not isinstance(cleaned, dict):
        return {}
    shaped = {name: _table(value) if name in _TABLES else value for name, value in cleaned.items()}
    for name, shape in (("accelerators", _rows), ("topology", _topology), ("memory_bytes", _size)):
        if name in shaped:
            shaped[name] = shape(shaped[name])
    return shaped


def _table(value: Any) -> dict[str, Any] | None:
    """Names with one value each."""
    if not isinstance(value, dict):
        return None
    return {name: None if isinstance(inner, dict | list) else inner for name, inner in value.items()}


def _rows(value: Any) -> list[dict[str, Any]] | None:
    rows = [_table(row) for row in value] if isinstance(value, list) else [None]
    return [row for row in rows if row is not None] if None not in rows else None


def _topology(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, dict):
        return None
    links = value.get("links")
    shaped = {name: _rows(inner) for name, inner in value.items() if name != "links"}
    return shaped | {"links": {k: _table(v) for k, v in links.items()} if isinstance(links, dict) else None}


def _size(value: Any) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def allocated_of(environment: Mapping[str, Any]) -> dict[str, Any]:
    """What a worker was given, to stand beside what was asked for; None is unrecorded.

    CPUs and memory are what the control group allows, or all that the machine has.
    """
    devices, limits = environment.get("accelerators"), environment.get("limits") or {}
    usable, memory = _size((environment.get("cpu") or {}).get("usable")), environment.get("memory_bytes")
    cpus, most = _size(limits.get("cpus")), _size(limits.get("memory_bytes"))
    return {
        "accelerators": None if devices is None else len(devices),
        "devices": None if devices is None else [device.get("uuid") for device in devices],
        "cpus": usable if cpus is None else min(cpus, usable or cpus),
        "memory_bytes": memory if most is None else min(most, memory or most),
    }


def _lasting(facts: Mapping[str, Any]) -> dict[str, Any]:
    """An environment without what changes from one process or minute to the next: its digest is compared later."""
    kept = dict(facts)
    if isinstance(kept.get("container"), dict):
        kept["container"] = {"os": kept["container"].get("os")}
    if isinstance(kept.get("topology"), dict):
        kept["topology"] = {k: v for k, v in kept["topology"].items() if k in {"numa", "links"}}
    kept.pop("limits", None)
    return kept


def declare_environment(
    command: str | Sequence[str], allowed_variables: Sequence[str], root: Path, *, image: str | None = None
) -> EnvironmentDeclared:
    """Probe the environment of the Python that ``command`` runs, working in ``root``.

    Without a Python in the command, version and packages stay unrecorded. Only variables in
    ``allowed_variables`` are read. Raises ``InputError`` if the probe cannot run.
    """
    words = [command] if isinstance(command, str) else list(command)
    python = interpreter_of(words)
    argv = [python or sys.executable, str(PROBE), *([] if python else ["--host"])]
    argv += ["--folder", str(root), "--allow", ",".join(allowed_variables)]
    environment = {**os.environ, **({"PRETRAIN_ARCHIVE_IMAGE": image} if image else {})}
    try:
        done = subprocess.run(
            argv, cwd=root, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=_PROBE_SECONDS, check=True,
        )  # fmt: skip
        facts = _lasting(environment_of(json.loads(done.stdout)))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise InputError(
            "command", words[:1], f"its environment cannot be read: {error}",
            hint="Check that the interpreter starts on the worker and that the program's folder exists.",
        ) from error  # fmt: skip
    return EnvironmentDeclared(
        environment=facts, environment_digest=digest_of(facts), image=facts.get("image")
    )
