"""From an evaluation program's output to typed metrics, baselines and flags.

Read are the full shape (``metrics``, ``baselines``, ``definition``, ``data_set``, ``data_set_digest``), results of
lm-evaluation-harness (:mod:`lm_eval`), a log of steps (:mod:`metric_log`), and a flat map of names to numbers, or
several of them on lines. What a shape leaves out stays unrecorded and is flagged; a flagged evaluation cannot pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from pretrain_archive.artifacts import lm_eval, metric_log
from pretrain_archive.artifacts.metric_files import MAX_DEPTH, Parsed, RepeatedMetricError
from pretrain_archive.artifacts.reading import (
    KINDS,
    BaselineFile,
    Direction,
    Flags,
    Reading,
    Supplement,
    flag_code,
    metric_of,
)
from pretrain_archive.artifacts.suites import Definitions
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.kinds import Baseline, MetricResult
from pretrain_archive.domain.policy_evaluation import Suite

__all__ = [
    "BaselineFile",
    "Direction",
    "Reading",
    "Supplement",
    "flag_code",
    "read_output",
    "supplemented",
]

SUBJECT = ("checkpoint_id", "checkpoint_digest", "step")
"""Keys by which an output may name the checkpoint that it is of."""

LABELS = frozenset(
    {
        *SUBJECT, "alias", "checkpoint", "comment", "commit", "data_set", "data_set_digest", "dataset", "date",
        "device", "dtype", "language", "model", "name", "note", "program", "seed", "split", "task", "time",
        "timestamp", "unit", "version",
    }
)  # fmt: skip
"""Keys of a flat output whose texts say what was measured, by what and when: no other text is passed over."""

LATE = ("rules", "thresholds", "acceptance")
"""Keys by which an output would set limits for itself: rules are fixed before the launch."""


def read_output(
    parsed: Parsed,
    *,
    where: str,
    directions: Mapping[str, Direction] | None = None,
    suites: Sequence[Suite] = (),
) -> Reading:
    """Type an output; :class:`InputError` names the entry that cannot be read.

    ``directions`` says which way is better for metrics that do not say so themselves, as do the definitions of
    ``suites``; where none does, nothing is guessed: the metric is flagged. Raises :class:`RepeatedMetricError` where
    one name has two values.
    """
    flags = Flags((), directions or {}, Definitions(suites=tuple(suites)))
    documents = parsed.documents
    if len(documents) == 1 and isinstance(documents[0], dict):
        document = documents[0]
        if lm_eval.fits(document):
            return lm_eval.read(document, flags, where)
        if isinstance(document.get("metrics"), list):
            return _full(document, flags, where)
    if metric_log.fits(documents):
        return metric_log.reading(metric_log.of_parsed(parsed, where=where), flags, where)
    rows = [entry for document in documents for entry in _rows(document, where, flags)]
    return Reading(metrics=tuple(_metrics(rows, flags, where)), flags=tuple(flags))


def supplemented(
    reading: Reading,
    extra: Supplement,
    *,
    directions: Mapping[str, Direction] | None = None,
    suites: Sequence[Suite] = (),
) -> Reading:
    """``reading`` with what it leaves unsaid; a contradiction between the two is a flag."""
    flags = Flags(reading.flags, directions or {}, Definitions(suites=tuple(suites)))
    said: dict[str, Any] = {}
    for name in ("data_set", "data_set_digest", "definition"):
        own, given = getattr(reading, name), getattr(extra, name)
        said[name] = own or given
        if own and given and own != given:
            flags.append(f"definition_differs: the output has another {name} than the task")
    added = []
    for file in extra.baselines:
        rows = [row for document in file.parsed.documents for row in _rows(document, file.name, flags)]
        raw = {"name": file.name, "kind": file.kind, "subject_digest": file.subject_digest, "metrics": rows}
        added.append(_baseline(raw, flags, f"baseline {file.name}"))
    return reading.with_(**said, baselines=(*reading.baselines, *added), flags=tuple(flags))


def _full(document: Mapping[str, Any], flags: Flags, where: str) -> Reading:
    definition = document.get("definition", {})
    if not isinstance(definition, dict):
        raise InputError(f"{where}: definition", definition, "expected an object")
    metrics = tuple(_metrics(_entries(document["metrics"], f"{where}: metrics"), flags, where))
    baselines = []
    for number, raw in enumerate(_entries(document.get("baselines", []), f"{where}: baselines"), 1):
        baseline = _baseline(raw, flags, f"{where}: baseline {number}")
        others = [
            key
            for key in ("definition", "data_set", "data_set_digest")
            if key in raw and raw[key] != document.get(key)
        ]
        flags.extend(f"definition_differs: baseline {baseline.name} has another {key}" for key in others)
        if others:
            baseline = baseline.model_copy(
                update={"counted": False, "reason": f"has another {', '.join(others)}"}
            )
        baselines.append(baseline)
    flags.extend(
        f"late_rule: the output carries {key} of its own, which decide nothing"
        for key in LATE
        if key in document
    )
    return Reading(
        metrics=metrics,
        baselines=tuple(baselines),
        definition=definition,
        data_set=document.get("data_set"),
        data_set_digest=document.get("data_set_digest"),
        subject={key: document[key] for key in SUBJECT if document.get(key) is not None},
        limits=_texts(document.get("limits", []), f"{where}: limits"),
        flags=tuple(flags),
    )


def _baseline(raw: Mapping[str, Any], flags: Flags, where: str) -> Baseline:
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


def _texts(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise InputError(where, value, "expected a list of texts")
    return tuple(value)


def _rows(
    document: Any, where: str, flags: Flags, depth: int = 0, above: str = ""
) -> Iterator[dict[str, Any]]:
    """Entries of a flat map: each name with its number. A row ``{name, value}`` is an entry itself.

    ``task`` names what the numbers beside it are of; ``above`` is the name of what holds the map, for messages.
    """
    if not isinstance(document, dict):
        raise InputError(where, document, "expected an object of metrics")
    if depth > MAX_DEPTH:
        raise InputError(where, "…", f"nested deeper than {MAX_DEPTH} levels")
    if "name" in document and "value" in document:
        yield document
        return
    task = document.get("task")
    prefix = f"{task}." if isinstance(task, str) and task else ""
    for name, value in document.items():
        label = f"{prefix}{name}"
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield {"name": label, "value": value}
        elif isinstance(value, dict):
            for row in _rows(value, where, flags, depth + 1, f"{above}{label}."):
                yield {**row, "name": f"{label}.{row['name']}"}
        elif value is None or isinstance(value, str):
            _no_number(name, value, f"{above}{prefix}", where, flags)


def _no_number(name: str, value: str | None, above: str, where: str, flags: Flags) -> None:
    """Refuse a number that is written as a text; flag a null and any other text but a label."""
    label = f"{above}{name}"
    if value is not None and _is_number(value):
        raise InputError(f"{where}: {label}", value, "expected a number, found a text")
    if value is None or name.lower() not in LABELS:
        flags.append(f"no_value: {label} is {'null' if value is None else repr(value[:80])}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _metrics(
    entries: list[dict[str, Any]], flags: Flags, where: str, *, label: str = ""
) -> Iterator[MetricResult]:
    seen: dict[str, Any] = {}
    for entry in entries:
        name = entry.get("name")
        if not isinstance(name, str) or not name.strip():
            raise InputError(f"{where}: metric name", name, "expected a text")
        name = name.strip()  # names that differ by blanks alone are one metric to a reader
        if name in seen:
            raise RepeatedMetricError(where, f"{label}{name}", seen[name], entry.get("value"))
        seen[name] = entry.get("value")
        yield metric_of(entry, name, flags, where, label=label)
