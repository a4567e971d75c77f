"""What an evaluation output says, as values: metrics, baselines, definition, data set, and the flags against it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from pretrain_archive.artifacts.intervals import normal, wilson
from pretrain_archive.artifacts.metric_files import NotFinite, Parsed, finite
from pretrain_archive.artifacts.suites import Definitions
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.kinds import Baseline, MetricResult

Direction = Literal["lower", "higher"]
KINDS = get_args(Baseline.model_fields["kind"].annotation)

SHARE_UNITS = frozenset({"share", "ratio", "proportion", "accuracy"})
"""Units of counts over counts: only there a binomial interval holds."""

RANGES: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(SHARE_UNITS, (0.0, 1.0)),
    "mean share": (0.0, 1.0),
    "percent": (0.0, 100.0),
    "bits per byte": (0.0, float("inf")),
    "bit/byte": (0.0, float("inf")),
    "bits/byte": (0.0, float("inf")),
    "nats per token": (0.0, float("inf")),
    "perplexity": (1.0, float("inf")),
}
"""What a unit can be at all: a value outside contradicts its own unit."""


UNIT_SPELLINGS: Mapping[str, str] = {
    "bits/byte": "bits per byte",
    "bit/byte": "bits per byte",
    "nats/token": "nats per token",
    "ppl": "perplexity",
    "%": "percent",
}
"""Units that are written in several ways."""


def same_unit(left: str, right: str) -> bool:
    """Whether two units are one, however they are spelt."""
    first, second = (UNIT_SPELLINGS.get(unit.lower(), unit.lower()) for unit in (left, right))
    return first == second


SHARE_NAMES = re.compile(
    r"(^|[._/ -])(acc|accuracy|f1|recall|precision|exact_match|em|pass|auc|win)([._,@ -]|$)"
)
"""Names of metrics that are shares of something: 93 beside 0.9 is a percentage beside a share."""

MOST_METRICS = 10_000
"""Metrics of one evaluation: they stand in one record."""

LONGEST_NAME = 1000


def share_and_percent(name: str, left: float, right: float) -> bool:
    """Whether two numbers about the metric ``name`` are of sizes that a share and a percentage have."""
    low, high = sorted((left, right))
    return bool(SHARE_NAMES.search(name)) and 0 < low <= 1 < high <= 100


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
    """What an output says. ``flags`` are ``code: detail``; what is missing is None or empty.

    ``subject`` is the checkpoint that the program says it measured (id, digest, step); ``limits`` are what it says
    about the reach of its numbers; ``log`` is the curve that they end.
    """

    metrics: tuple[MetricResult, ...]
    baselines: tuple[Baseline, ...] = ()
    definition: Mapping[str, Any] = field(default_factory=dict)
    data_set: str | None = None
    data_set_digest: str | None = None
    subject: Mapping[str, Any] = field(default_factory=dict)
    limits: tuple[str, ...] = ()
    log: Mapping[str, Any] | None = None
    flags: tuple[str, ...] = ()

    def with_(self, **changes: Any) -> Reading:
        """The reading with some fields changed."""
        return replace(self, **changes)

    @property
    def counted(self) -> tuple[Baseline, ...]:
        """The baselines that decide."""
        return tuple(baseline for baseline in self.baselines if baseline.counted)


class Flags(list[str]):
    """The flags found so far; the directions and definitions that are fixed for metrics that do not say theirs."""

    def __init__(
        self,
        flags: Iterable[str],
        directions: Mapping[str, Direction],
        definitions: Definitions | None = None,
    ) -> None:
        super().__init__(flags)
        self.directions = directions
        self.definitions = definitions or Definitions()
        self.read = 0

    def take(self, where: str, name: str) -> None:
        """Count a metric that is read; :class:`InputError` for one too many, or a name that no table can show."""
        self.read += 1
        if self.read > MOST_METRICS:
            raise InputError(where, self.read, f"an evaluation has at most {MOST_METRICS} metrics")
        if len(name) > LONGEST_NAME:
            raise InputError(where, name[:80], f"the name of a metric has at most {LONGEST_NAME} characters")


def flag_code(flag: str) -> str:
    """The code of a flag: the text before its colon."""
    return flag.partition(":")[0]


def metric_of(
    entry: Mapping[str, Any], name: str, flags: Flags, where: str, *, label: str = ""
) -> MetricResult:
    """One metric from its entry (``value``, and perhaps ``unit, direction, samples, stderr, low, high``).

    What contradicts itself, its unit or its definition is flagged; :class:`InputError` for what cannot be read.
    """
    flags.take(where, name)
    try:
        value, not_finite = finite(entry.get("value"))
    except ValueError as error:
        raise InputError(f"{where}: {name}", entry.get("value"), str(error)) from error
    direction, unit = entry.get("direction"), str(entry.get("unit") or "")
    if direction not in (None, "lower", "higher"):  # it may be a list, which no set can be asked for
        raise InputError(f"{where}: {name} direction", direction, "expected lower or higher")
    defined = flags.definitions.of(name)
    if defined is not None:
        metric = defined[1]
        if direction and direction != metric.direction:
            meant = metric.direction
            flags.append(
                f"contradictory: {label}{name} has direction {direction}, its definition says {meant}"
            )
        if unit and not same_unit(unit, metric.unit):
            flags.append(f"contradictory: {label}{name} has unit {unit}, its definition says {metric.unit}")
        direction, unit = direction or metric.direction, unit or metric.unit
    samples = _samples(entry.get("samples"), flags, f"{label}{name}")
    if not_finite:
        flags.append(f"not_finite: {label}{name} is {not_finite}")
    stderr = _stderr(entry.get("stderr"), flags, f"{label}{name}")
    low, high, source = _interval(entry, value, unit, samples, stderr)
    _contradictions(flags, f"{label}{name}", value, unit, (low, high))
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
        stderr=stderr,
        interval=source,
        defined_by=flags.definitions.label_of(name),
    )


def _samples(samples: Any, flags: Flags, name: str) -> int | None:
    if samples is None:
        flags.append(f"no_samples: {name}")
        return None
    if not isinstance(samples, int) or isinstance(samples, bool) or not 1 <= samples < 1 << 53:
        flags.append(f"no_samples: {name} counts {str(samples)[:80]!r} samples")
        return None
    return samples


def _stderr(stderr: Any, flags: Flags, name: str) -> float | None:
    """A standard error; one that is not a finite number of at least 0 is flagged and left out."""
    if stderr is None:
        return None
    try:
        value, not_finite = finite(stderr)
    except ValueError:
        flags.append(f"contradictory: the standard error of {name} is {str(stderr)[:80]!r}")
        return None
    if not_finite:
        flags.append(f"not_finite: the standard error of {name} is {not_finite}")
    elif value is not None and value < 0:
        flags.append(f"contradictory: the standard error of {name} is {value:g}")
        return None
    return value


def _contradictions(
    flags: Flags, name: str, value: float | None, unit: str, ends: tuple[float | None, float | None]
) -> None:
    if value is None:
        return
    low, high = ends
    if low is not None and high is not None and not low <= value <= high:
        flags.append(f"contradictory: {name} is {value:g}, outside its interval {low:g} to {high:g}")
    lowest, highest = RANGES.get(unit.lower(), (float("-inf"), float("inf")))
    if not lowest <= value <= highest:
        flags.append(f"contradictory: {name} is {value:g}, outside what {unit} can be")


_Ends = tuple[float | None, float | None, Literal["", "stated", "wilson", "normal"]]


def _interval(
    entry: Mapping[str, Any], value: float | None, unit: str, samples: int | None, stderr: float | None
) -> _Ends:
    """The interval that the program states, else that of Wilson for a share of counts, else by standard error."""
    if value is None:
        return None, None, ""
    ends: list[tuple[float | None, NotFinite]] = []
    try:
        ends = [finite(entry[name]) for name in ("low", "high")]
    except (KeyError, ValueError):
        ends = []
    if ends and all(end is not None for end, _ in ends):
        return ends[0][0], ends[1][0], "stated"
    if samples is not None and unit.lower() in SHARE_UNITS and 0 <= value <= 1:
        return (*wilson(value, samples), "wilson")
    if stderr is not None:
        low, high = normal(value, stderr)
        if abs(low) != float("inf") and abs(high) != float("inf"):
            return low, high, "normal"
    return None, None, ""
