"""From an evaluation program's output to typed metrics, baselines and flags.

Two shapes are read: the full one (``metrics``, ``baselines``, ``definition``, ``data_set``,
``data_set_digest``), and a flat map of names to numbers, or several of them on lines. What a shape leaves out
stays unrecorded and is flagged; a flagged evaluation cannot pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from pydantic import ValidationError

from pretrain_archive.artifacts.intervals import wilson
from pretrain_archive.artifacts.metric_files import Parsed, finite
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.kinds import Baseline, MetricResult

Direction = Literal["lower", "higher"]
KINDS = get_args(Baseline.model_fields["kind"].annotation)

SHARE_UNITS = frozenset({"share", "ratio", "proportion", "accuracy"})
"""Units of counts over counts: only there a binomial interval holds."""

RANGES: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(SHARE_UNITS, (0.0, 1.0)),
    "percent": (0.0, 100.0),
    "bits per byte": (0.0, float("inf")),
    "bit/byte": (0.0, float("inf")),
    "bits/byte": (0.0, float("inf")),
    "nats per token": (0.0, float("inf")),
    "perplexity": (1.0, float("inf")),
}
"""What a unit can be at all: a value outside contradicts its own unit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineFile:
    """A baseline's own metric file, and what it is of."""

    name: str
    kind: str
    subject_digest: str
    parsed: Parsed


@dataclass(frozen=True, kw_only=True, slots=True)
class Supplement:
    """What an output in the flat shape cannot say. Where the output says it itself, the two must agree."""

    data_set: str | None = None
    data_set_digest: str | None = None
    definition: Mapping[str, Any] = field(default_factory=dict)
    baselines: tuple[BaselineFile, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What an output says. ``flags`` are ``code: detail``; what is missing is None or empty."""

    metrics: tuple[MetricResult, ...]
    baselines: tuple[Baseline, ...] = ()
    definition: Mapping[str, Any] = field(default_factory=dict)
    data_set: str | None = None
    data_set_digest: str | None = None
    flags: tuple[str, ...] = ()


class _Flags(list[str]):
    """The flags found so far, and the directions that the rules fix for metrics that do not say theirs."""

    def __init__(self, flags: Iterable[str], directions: Mapping[str, Direction]) -> None:
        super().__init__(flags)
        self.directions = directions


def read_output(parsed: Parsed, *, where: str, directions: Mapping[str, Direction] | None = None) -> Reading:
    """Type an output; :class:`InputError` names the entry that cannot be read.

    ``directions`` says which way is better for metrics that do not say so themselves; where neither does,
    nothing is guessed: the metric is flagged.
    """
    flags = _Flags((f"repeated_metric: {text}" for text in parsed.repeated), directions or {})
    documents = parsed.documents
    if (
        len(documents) == 1
        and isinstance(documents[0], dict)
        and isinstance(documents[0].get("metrics"), list)
    ):
        return _full(documents[0], flags, where)
    rows = [entry for document in documents for entry in _rows(document, where)]
    return Reading(metrics=tuple(_metrics(rows, flags, where)), flags=tuple(flags))


def supplemented(
    reading: Reading, extra: Supplement, *, directions: Mapping[str, Direction] | None = None
) -> Reading:
    """``reading`` with what it leaves unsaid; a contradiction between the two is a flag."""
    flags = _Flags(reading.flags, directions or {})
    said: dict[str, Any] = {}
    for name in ("data_set", "data_set_digest", "definition"):
        own, given = getattr(reading, name), getattr(extra, name)
        said[name] = own or given
        if own and given and own != given:
            flags.append(f"definition_differs: the output has another {name} than the task")
    added = []
    for file in extra.baselines:
        rows = [entry for document in file.parsed.documents for entry in _rows(document, file.name)]
        flags.extend(f"repeated_metric: baseline {file.name}: {text}" for text in file.parsed.repeated)
        raw = {"name": file.name, "kind": file.kind, "subject_digest": file.subject_digest, "metrics": rows}
        added.append(_baseline(raw, flags, f"baseline {file.name}"))
    return replace(reading, **said, baselines=(*reading.baselines, *added), flags=tuple(flags))


def flag_code(flag: str) -> str:
    """The code of a flag: the text before its colon."""
    return flag.partition(":")[0]


def _full(document: Mapping[str, Any], flags: _Flags, where: str) -> Reading:
    definition = document.get("definition", {})
    if not isinstance(definition, dict):
        raise InputError(f"{where}: definition", definition, "expected an object")
    metrics = tuple(_metrics(_entries(document["metrics"], f"{where}: metrics"), flags, where))
    baselines = []
    for number, raw in enumerate(_entries(document.get("baselines", []), f"{where}: baselines"), 1):
        name = f"{where}: baseline {number}"
        baselines.append(_baseline(raw, flags, name))
        flags.extend(_differences(document, raw, str(raw.get("name", number))))
    return Reading(
        metrics=metrics,
        baselines=tuple(baselines),
        definition=definition,
        data_set=document.get("data_set"),
        data_set_digest=document.get("data_set_digest"),
        flags=tuple(flags),
    )


def _differences(document: Mapping[str, Any], baseline: Mapping[str, Any], name: str) -> Iterator[str]:
    for key in ("definition", "data_set", "data_set_digest"):
        if key in baseline and baseline[key] != document.get(key):
            yield f"definition_differs: baseline {name} has another {key}"


def _baseline(raw: Mapping[str, Any], flags: _Flags, where: str) -> Baseline:
    if raw.get("kind") not in KINDS:
        raise InputError(f"{where} kind", raw.get("kind"), f"expected one of {', '.join(KINDS)}")
    entries = _entries(raw.get("metrics"), f"{where} metrics")
    metrics = list(_metrics(entries, flags, where, label=f"baseline {raw.get('name', '')}: "))
    try:
        return Baseline(
            name=raw.get("name", ""),
            kind=raw["kind"],
            subject_digest=raw.get("subject_digest", ""),
            metrics=metrics,
        )
    except ValidationError as error:
        fault = error.errors()[0]
        raise InputError(f"{where} {fault['loc'][0]}", fault["input"], fault["msg"]) from error


def _entries(value: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise InputError(where, value, "expected a list of objects")
    return value


def _rows(document: Any, where: str) -> Iterator[dict[str, Any]]:
    """Entries of a flat map: each name with its number. A row ``{name, value}`` is an entry itself."""
    if not isinstance(document, dict):
        raise InputError(where, document, "expected an object of metrics")
    if "name" in document and "value" in document:
        yield document
        return
    for name, value in document.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield {"name": name, "value": value}
        elif isinstance(value, dict):
            yield from ({**row, "name": f"{name}.{row['name']}"} for row in _rows(value, where))


def _metrics(
    entries: list[dict[str, Any]], flags: _Flags, where: str, *, label: str = ""
) -> Iterator[MetricResult]:
    seen: dict[str, Any] = {}
    for entry in entries:
        name = entry.get("name")
        if not isinstance(name, str) or not name.strip():
            raise InputError(f"{where}: metric name", name, "expected a text")
        if name.strip() in seen:  # names that differ by blanks alone are one metric to a reader
            before = seen[name.strip()]
            values = f"{before!r}, {entry.get('value')!r}"
            flags.append(f"repeated_metric: {label}{name.strip()} given twice: {values}")
        seen[name.strip()] = entry.get("value")
        yield _metric(entry, name.strip(), flags, where, label=label)


def _metric(entry: Mapping[str, Any], name: str, flags: _Flags, where: str, *, label: str) -> MetricResult:
    try:
        value, not_finite = finite(entry.get("value"))
    except ValueError as error:
        raise InputError(f"{where}: {name}", entry.get("value"), str(error)) from error
    direction, unit, samples = entry.get("direction"), str(entry.get("unit", "")), entry.get("samples")
    if direction not in {None, "lower", "higher"}:
        raise InputError(f"{where}: {name} direction", direction, "expected lower or higher")
    if samples is not None and (not isinstance(samples, int) or isinstance(samples, bool) or samples < 1):
        flags.append(f"no_samples: {label}{name} counts {samples!r} samples")
        samples = None
    elif samples is None:
        flags.append(f"no_samples: {label}{name}")
    if not_finite:
        flags.append(f"not_finite: {label}{name} is {not_finite}")
    low, high = _interval(entry, value, unit, samples)
    if value is not None and low is not None and high is not None and not low <= value <= high:
        flags.append(f"contradictory: {label}{name} is {value:g}, outside its interval {low:g} to {high:g}")
    lowest, highest = RANGES.get(unit.lower(), (float("-inf"), float("inf")))
    if value is not None and not lowest <= value <= highest:
        flags.append(f"contradictory: {label}{name} is {value:g}, outside what {unit} can be")
    stated = direction or flags.directions.get(name)
    if stated is None:
        flags.append(f"no_direction: {label}{name} does not say whether lower or higher is better")
    return MetricResult(
        name=name,
        unit=unit,
        direction=stated or "higher",
        value=value,
        not_finite=not_finite,
        samples=samples,
        low=low,
        high=high,
    )


def _interval(
    entry: Mapping[str, Any], value: float | None, unit: str, samples: int | None
) -> tuple[float | None, float | None]:
    """The interval that the program states, or that of Wilson where the metric is a share of counts."""
    if value is None:
        return None, None
    try:
        low, high = (finite(entry[name])[0] for name in ("low", "high"))
    except (KeyError, ValueError):
        low = high = None
    if low is not None and high is not None:
        return low, high
    if samples is None or unit.lower() not in SHARE_UNITS or not 0 <= value <= 1:
        return None, None
    return wilson(value, samples)
