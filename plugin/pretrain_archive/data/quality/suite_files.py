"""Suites as files: the ones that come with the program, and a project's own in TOML or JSON.

A fault of a file is told with its place and name; nothing unknown is passed over, since a misspelt limit would judge
nothing.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from pretrain_archive.data.quality.suite import FORMAT, NEEDS, Rule, Suite, Threshold, Where
from pretrain_archive.domain.errors import InputError

STANDARD = "standard-1"
RULE_KEYS = {
    "id", "gate", "table", "column", "type", "kwargs", "limit", "limit_is", "severity", "where", "needs", "source",
    "profiles",
}  # fmt: skip
THRESHOLD_KEYS = {"id", "group", "column", "min", "max", "where", "source", "profiles"}


def load_suite(name: str = STANDARD, *, profile: str = "text") -> Suite:
    """The suite of that name that comes with the program, else the file at that path, for a profile."""
    shipped = files(__package__) / "suites"
    known = sorted(
        entry.name.removesuffix(".toml") for entry in shipped.iterdir() if entry.name.endswith(".toml")
    )
    if name in known:
        return _parse(tomllib.loads((shipped / f"{name}.toml").read_text("utf-8")), name, profile)
    path = Path(name)
    if not path.suffix and not path.exists():
        raise InputError("suite", name, "is not known", hint=f"Suites: {', '.join(known)}, or a file's path.")
    return read_suite(path, profile=profile)


def read_suite(file: Path, *, profile: str = "text") -> Suite:
    """Read a suite from a TOML or JSON file; a JSON list of expectations is a suite of rules named by number.

    Raises ``InputError`` naming file and place.
    """
    kind = "TOML" if file.suffix == ".toml" else "JSON"
    try:
        raw = file.read_bytes()
        value = tomllib.loads(raw.decode()) if kind == "TOML" else json.loads(raw)
    except (OSError, ValueError, RecursionError) as error:
        raise InputError("suite", str(file), f"cannot be read as {kind}: {error}") from error
    if isinstance(value, dict) and ("rule" in value or "format" in value):
        return _parse(value, str(file), profile)
    listed = value.get("expectations") if isinstance(value, dict) else value
    if not isinstance(listed, list):
        raise InputError("suite", str(file), "is not a list of expectations")
    rules = tuple(_expectation(entry, number, file) for number, entry in enumerate(listed))
    return Suite(name=file.name, version="", rules=rules, profile=profile)


def _expectation(entry: Any, number: int, file: Path) -> Rule:
    """A rule from ``{"type": "expect_…", "kwargs": {…}}``, as Great Expectations writes it."""
    if not (isinstance(entry, dict) and isinstance(entry.get("type"), str)):
        raise InputError("suite", str(file), f"expectation {number} has no type")
    kwargs = entry.get("kwargs", {})
    if not isinstance(kwargs, dict):
        raise InputError("suite", str(file), f"expectation {number}: kwargs are no table")
    column = str(kwargs.get("column", ""))
    limit = ", ".join(f"{name}={kwargs[name]}" for name in sorted(kwargs) if name != "column")
    table = _table_of(column)
    return Rule(
        id=f"{entry['type'].removeprefix('expect_')}:{column or 'table'}#{number}",
        gate="own",
        table=table,  # type: ignore[arg-type]
        column=column,
        expectation=entry["type"],
        kwargs={name: value for name, value in kwargs.items() if name != "column"},
        limit=limit,
    )


def _table_of(column: str) -> str:
    """Where a column of that name is found: a statistic of documents, an aggregate, or a field of the data itself."""
    from pretrain_archive.data.quality.aggregates import is_aggregate  # noqa: PLC0415
    from pretrain_archive.data.quality.tables import document_columns  # noqa: PLC0415

    if not column or column in document_columns():
        return "documents"
    return "aggregates" if is_aggregate(column) else "fields"


def _parse(value: Mapping[str, Any], name: str, profile: str) -> Suite:
    if value.get("format", FORMAT) != FORMAT:
        raise InputError("suite", name, f"has the format {value['format']!r}", hint=f"Known is {FORMAT!r}.")
    rules = [
        _rule(entry, name, n)
        for n, entry in enumerate(_tables(value, "rule", name))
        if _for(entry, profile, name)
    ]
    thresholds = [
        _threshold(entry, name, n)
        for n, entry in enumerate(_tables(value, "threshold", name))
        if _for(entry, profile, name)
    ]
    for ids in ([r.id for r in rules], [t.id for t in thresholds]):
        for one in ids:
            if ids.count(one) > 1:
                raise InputError("suite", name, f"has two entries with the id {one!r}")
    return Suite(
        name=str(value.get("name", name)),
        version=str(value.get("version", "")),
        rules=tuple(rules),
        thresholds=tuple(thresholds),
        profile=profile,
    )


def _tables(value: Mapping[str, Any], key: str, name: str) -> list[dict[str, Any]]:
    listed = value.get(key, [])
    if not (isinstance(listed, list) and all(isinstance(entry, dict) for entry in listed)):
        raise InputError("suite", name, f"{key} is not a list of tables")
    return listed


def _for(entry: Mapping[str, Any], profile: str, name: str) -> bool:
    profiles = entry.get("profiles", [profile])
    if not (isinstance(profiles, list) and all(isinstance(one, str) for one in profiles)):
        raise InputError("suite", name, f"{entry.get('id', 'an entry')}: profiles are no list of texts")
    return profile in profiles


def _rule(entry: Mapping[str, Any], name: str, number: int) -> Rule:
    _known(entry, RULE_KEYS, f"rule {number}", name)
    for key in ("id", "gate", "table", "type"):
        if not isinstance(entry.get(key), str):
            raise InputError("suite", name, f"rule {entry.get('id', number)} has no {key}")
    _one_of(entry, "table", ("documents", "aggregates", "fields"), name)
    _one_of(entry, "severity", ("blocking", "advisory"), name)
    _one_of(entry, "limit_is", ("share", "max", "min", ""), name)
    _one_of(entry, "needs", ("", *NEEDS), name)
    what = f"rule {entry['id']}"
    _typed(entry, what, name, texts=("column", "source"))
    if not isinstance(entry.get("kwargs", {}), dict):
        raise InputError("suite", name, f"{what}: kwargs are no table")
    if entry.get("limit_is"):
        _numbers(entry, ("limit",), what, name)
    elif "limit" in entry:
        # A number that bounds nothing would look like a limit and never be one.
        raise InputError("suite", name, f"{what}: limit_is does not say what the limit bounds")
    made = {key: entry[key] for key in RULE_KEYS - {"type", "where", "profiles"} if key in entry}
    return Rule(**made, expectation=entry["type"], where=_where(entry, name))


def _threshold(entry: Mapping[str, Any], name: str, number: int) -> Threshold:
    _known(entry, THRESHOLD_KEYS, f"threshold {number}", name)
    if not isinstance(entry.get("id"), str) or not isinstance(entry.get("column"), str):
        raise InputError("suite", name, f"threshold {number} has no id or column")
    what = f"threshold {entry['id']}"
    _typed(entry, what, name, texts=("group", "source"))
    _numbers(entry, ("min", "max"), what, name)
    if "min" not in entry and "max" not in entry:
        raise InputError("suite", name, f"threshold {entry['id']} has neither min nor max")
    made = {key: entry[key] for key in THRESHOLD_KEYS - {"where", "profiles"} if key in entry}
    return Threshold(**made, where=_where(entry, name))


def _where(entry: Mapping[str, Any], name: str) -> Where | None:
    where = entry.get("where")
    if where is None:
        return None
    if not (isinstance(where, dict) and isinstance(where.get("column"), str)):
        raise InputError("suite", name, f"{entry['id']}: where has no column")
    _known(where, {"column", "min", "max"}, f"{entry['id']}: where", name)
    _numbers(where, ("min", "max"), f"{entry['id']}: where", name)
    return Where(**where)


def _typed(entry: Mapping[str, Any], what: str, name: str, *, texts: tuple[str, ...]) -> None:
    for key in texts:
        if not isinstance(entry.get(key, ""), str):
            raise InputError("suite", name, f"{what}: {key} is no text")


def _numbers(entry: Mapping[str, Any], keys: tuple[str, ...], what: str, name: str) -> None:
    """Limits are finite numbers: nothing lies beyond a limit that is none."""
    for key in keys:
        value = entry.get(key)
        if key in entry and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise InputError("suite", name, f"{what}: {key} is {type(value).__name__}, expected a number")
        if value is not None and not math.isfinite(value):
            raise InputError("suite", name, f"{what}: {key} is {value}, expected a finite number")


def _known(entry: Mapping[str, Any], keys: set[str], what: str, name: str) -> None:
    if unknown := sorted(set(entry) - keys):
        hint = f"Known are {', '.join(sorted(keys))}."
        raise InputError("suite", name, f"{what} has the unknown key {unknown[0]!r}", hint=hint)


def _one_of(entry: Mapping[str, Any], key: str, allowed: tuple[str, ...], name: str) -> None:
    if key in entry and entry[key] not in allowed:
        words = ", ".join(repr(word) for word in allowed)
        raise InputError(
            "suite", name, f"rule {entry['id']}: {key} is {entry[key]!r}", hint=f"One of {words}."
        )
