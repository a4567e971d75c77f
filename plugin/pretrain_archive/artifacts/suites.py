"""Suites: declared metric definitions by objective, with unit, direction and, where declared, the data set.

Some come with the program (``suites/*.toml``), a project defines its own in its policy or in a TOML or JSON file
beside it. The digest is over everything that a suite says, so that two runs that name the same suite can be told
apart when it was changed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pretrain_archive.artifacts import metric_files
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.kinds import SuiteUsed
from pretrain_archive.domain.policy_evaluation import MetricDefinition, Suite
from pretrain_archive.ledger.canonical import digest_of

MAX_BYTES = 1 << 20


def shipped_names() -> list[str]:
    """The names of the suites that come with the program."""
    folder = files(__package__) / "suites"
    return sorted(e.name.removesuffix(".toml") for e in folder.iterdir() if e.name.endswith(".toml"))


def load_suite(name: str, *, definitions: Sequence[Suite] = (), folder: Path | None = None) -> Suite:
    """The suite of that name: the policy's own first, then one that comes with the program, then a file.

    ``folder``, that of the policies, is where a relative path begins. Raises :class:`InputError` with the known names.
    """
    own = next((suite for suite in definitions if suite.name == name), None)
    if own is not None:
        return own
    if name in shipped_names():
        raw = (files(__package__) / "suites" / f"{name}.toml").read_bytes()
        return parse_suite(raw, where=f"{name}.toml")
    path = (folder or Path()) / name
    if Path(name).suffix not in {".toml", ".json"}:
        known = ", ".join([*(suite.name for suite in definitions), *shipped_names()])
        raise InputError(
            "suite", name, "is not known", hint=f"Suites: {known}, or a .toml or .json file's path."
        )
    try:
        with path.open("rb") as file:
            return parse_suite(file.read(MAX_BYTES + 1), where=name)
    except OSError as error:
        hint = f"Looked for at {path}: a path that is not absolute begins at the folder of the policies."
        raise InputError("suite", name, f"cannot be read: {error.strerror}", hint=hint) from error


def parse_suite(raw: bytes, *, where: str) -> Suite:
    """Read a suite from the bytes of a TOML or JSON file; :class:`InputError` names field and fault."""
    if len(raw) > MAX_BYTES:
        raise InputError("suite", where, f"a suite has at most {MAX_BYTES} bytes")
    try:
        if where.endswith(".json"):
            [document] = metric_files.parse(raw, where=where).documents
        else:
            document = tomllib.loads(raw.decode("utf-8"))
        return Suite.model_validate(document)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"]) or "suite"
        raise InputError(f"{where}: {place}", fault["input"], fault["msg"]) from error
    except (ValueError, RecursionError) as error:
        raise InputError("suite", where, f"cannot be read: {error}") from error


def suite_digest(suite: Suite) -> str:
    """The digest of everything that the suite says."""
    return digest_of(suite.model_dump(mode="json"))


def used(suite: Suite) -> SuiteUsed:
    """The suite as it is recorded."""
    return SuiteUsed(
        name=suite.name, version=suite.version, objective=suite.objective, digest=suite_digest(suite)
    )


@dataclass(frozen=True, kw_only=True)
class Definitions:
    """The metrics that several suites define, found by the names that programs use."""

    suites: tuple[Suite, ...] = ()

    @cached_property
    def _by_name(self) -> dict[str, tuple[Suite, MetricDefinition]]:
        found: dict[str, tuple[Suite, MetricDefinition]] = {}
        for suite in self.suites:
            for metric in suite.metrics:
                for name in (metric.name, *metric.aliases):
                    found.setdefault(name, (suite, metric))
        return found

    def of(self, name: str) -> tuple[Suite, MetricDefinition] | None:
        """The definition behind a metric's name: as it stands, without its task (``task.acc``), or as a part.

        A filter (``acc,none``) is left aside.
        """
        plain = name.partition(",")[0]
        if found := self._by_name.get(plain):
            return found
        pieces = plain.split(".")
        if found := self._by_name.get(pieces[-1]):
            return found
        for piece in pieces[:-1]:
            part = self._by_name.get(piece)
            if part is not None and part[1].breakdown:
                return part
        return None

    def label_of(self, name: str) -> str:
        """What a record says of the definition: ``SUITE@VERSION/METRIC``, with ``.PART`` for a part; empty if none."""
        found = self.of(name)
        if found is None:
            return ""
        pieces = name.partition(",")[0].split(".")
        own = {found[1].name, *found[1].aliases}
        at = next((number for number, piece in enumerate(pieces[:-1]) if piece in own), None)
        part = "" if at is None or pieces[-1] in own else "." + ".".join(pieces[at + 1 :])
        return label(*found) + part

    def missing(self, names: Sequence[str]) -> list[tuple[Suite, MetricDefinition]]:
        """What is defined and not among the measured ``names``."""
        seen = {(found[0].name, found[1].name) for name in names if (found := self.of(name))}
        return [
            (suite, metric)
            for suite in self.suites
            for metric in suite.metrics
            if (suite.name, metric.name) not in seen
        ]


def label(suite: Suite, metric: MetricDefinition) -> str:
    """A definition's name in a record."""
    return f"{suite.name}@{suite.version}/{metric.name}"


def described(suites: Sequence[Suite]) -> list[dict[str, Any]]:
    """The suites in full, as a report holds them."""
    return [{"digest": suite_digest(suite), **suite.model_dump(mode="json")} for suite in suites]
