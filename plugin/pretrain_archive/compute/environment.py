"""The environment that a launch is signed for, and how an observed one differs from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pretrain_archive.compute.events import plain
from pretrain_archive.compute.spec import PROBE
from pretrain_archive.compute.wrapper import interpreter_of
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.kinds import EnvironmentDeclared
from pretrain_archive.ledger.canonical import digest_of

Grade = Literal["blocking", "warning", "info"]

CRITICAL_PACKAGES = (
    "torch", "numpy", "safetensors", "triton", "transformers", "accelerate", "deepspeed", "megatron-core",
    "tensorflow", "jax", "jaxlib", "flax", "tokenizers", "datasets", "flash-attn", "torch-npu", "xformers",
)  # fmt: skip
"""Packages that compute the numbers: another version is another experiment."""

_PROBE_SECONDS = 90


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A field that is not as declared. ``declared`` or ``observed`` None means unrecorded there, or absent."""

    field: str
    declared: Any
    observed: Any
    grade: Grade

    def to_dict(self) -> dict[str, Any]:
        """The difference as plain JSON."""
        return {
            "field": self.field,
            "declared": self.declared,
            "observed": self.observed,
            "grade": self.grade,
        }


def environment_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a probe printed as strict JSON; every package stays."""
    cleaned = plain(facts, width=20_000)
    return dict(cleaned) if isinstance(cleaned, dict) else {}


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
        facts = environment_of(json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise InputError(
            "command", words[:1], f"its environment cannot be read: {error}",
            hint="Check that the interpreter starts on the worker and that the program's folder exists.",
        ) from error  # fmt: skip
    return EnvironmentDeclared(
        environment=facts, environment_digest=digest_of(facts), image=facts.get("image")
    )


def compare_environments(declared: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    """Name and grade every difference, blocking ones first; loaded libraries are not compared."""
    found = [
        *_fields(declared, observed, "python", {"version": None, "implementation": "blocking"}),
        *_packages(declared.get("packages"), observed.get("packages")),
        *_fields(
            declared, observed, "platform",
            {"system": "blocking", "machine": "blocking", "release": "info", "libc": "warning"},
        ),
        *_fields(declared, observed, "cpu", {"model": "info", "count": "info", "usable": "warning"}),
        *_fields(declared, observed, "git", {"commit": "blocking", "dirty": "warning"}),
        *_accelerators(declared.get("accelerators"), observed.get("accelerators")),
        *_variables(declared.get("variables"), observed.get("variables")),
        *_value("image", declared.get("image"), observed.get("image"), "blocking"),
        *_value("memory_bytes", declared.get("memory_bytes"), observed.get("memory_bytes"), "info"),
        *_value("node", declared.get("node"), observed.get("node"), "info"),
    ]  # fmt: skip
    return sorted(found, key=lambda d: (("blocking", "warning", "info").index(d.grade), d.field))


def _value(field: str, declared: Any, observed: Any, grade: Grade) -> Iterator[Difference]:
    if declared != observed:
        unrecorded = declared is None or observed is None
        level: Grade = "warning" if unrecorded and grade == "blocking" else grade
        yield Difference(field=field, declared=declared, observed=observed, grade=level)


def _fields(
    declared: Mapping[str, Any], observed: Mapping[str, Any], group: str, grades: Mapping[str, Grade | None]
) -> Iterator[Difference]:
    left, right = declared.get(group) or {}, observed.get(group) or {}
    for name, grade in grades.items():
        a, b = left.get(name), right.get(name)
        yield from _value(f"{group}.{name}", a, b, grade or _version_grade(a, b))


def _version_grade(left: Any, right: Any) -> Grade:
    """Another minor version of Python is another interpreter; a patch release is not."""
    return "warning" if str(left).split(".")[:2] == str(right).split(".")[:2] else "blocking"


def _packages(declared: Any, observed: Any) -> Iterator[Difference]:
    if declared is None or observed is None:
        yield from _value("packages", declared and len(declared), observed and len(observed), "warning")
        return
    for name in sorted({*declared, *observed}):
        left, right = declared.get(name), observed.get(name)
        critical = name in CRITICAL_PACKAGES or name.startswith("nvidia-")
        grade: Grade = "blocking" if critical else "info" if left is None else "warning"
        if left != right:
            yield Difference(field=f"packages.{name}", declared=left, observed=right, grade=grade)


def _accelerators(declared: Any, observed: Any) -> Iterator[Difference]:
    left, right = declared or [], observed or []
    yield from _value("accelerators.count", len(left), len(right), "blocking")
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        for name, grade in (
            ("name", "blocking"),
            ("driver", "warning"),
            ("memory_mib", "warning"),
            ("uuid", "info"),
        ):
            yield from _value(f"accelerators.{index}.{name}", a.get(name), b.get(name), grade)  # type: ignore[arg-type]


def _variables(declared: Any, observed: Any) -> Iterator[Difference]:
    left, right = declared or {}, observed or {}
    for name in sorted({*left, *right}):
        yield from _value(f"variables.{name}", left.get(name), right.get(name), "warning")
