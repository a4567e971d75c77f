"""What an evaluation program left: one result file, or a folder of several, read as one.

Two files that give one metric two values are refused, unless the runs are named: then each metric carries the name of
its file. Sample records (``samples_*.jsonl``) are kept by digest: they explain a change, and may hold texts.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pretrain_archive.artifacts import metric_files
from pretrain_archive.artifacts.metrics import Direction, Reading, read_output
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.identity import path_to_text
from pretrain_archive.domain.kinds import Baseline, MetricResult
from pretrain_archive.domain.policy_evaluation import Suite
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.storage.regular import open_regular

MAX_FILES = 1000
MAX_BYTES = 256 * 1024 * 1024
SUFFIXES = (".json", ".jsonl")
CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """The result files by name, what they say together, and the sample records beside them (name, bytes, digest)."""

    files: tuple[tuple[str, bytes], ...]
    documents: tuple[Any, ...]
    reading: Reading
    samples: tuple[dict[str, Any], ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 as hex: of the one file, else over the names and digests of all."""
        if len(self.files) == 1:
            return hashlib.sha256(self.files[0][1]).hexdigest()
        named = {name: hashlib.sha256(raw).hexdigest() for name, raw in self.files}
        return digest_of(named).removeprefix("sha256:")


def read_files(
    output: Path,
    *,
    directions: Mapping[str, Direction] | None = None,
    suites: Sequence[Suite] = (),
    runs: Literal["refuse", "named"] = "refuse",
) -> Output:
    """Read a result file or folder; :class:`InputError` names file and fault."""
    if not output.is_dir() or output.is_symlink():
        found, samples = [(output.name, output)], list[dict[str, Any]]()
    else:
        found, samples = _listed(output)
    read: list[tuple[str, bytes, metric_files.Parsed, Reading]] = []
    total = 0
    for name, path in found:
        raw, parsed = metric_files.read(path, name=name)
        total += len(raw)
        if total > MAX_BYTES:
            raise InputError(
                "evaluation output", output.name, f"result files have at most {MAX_BYTES} bytes together"
            )
        reading = _read(parsed, name, directions, suites)
        read.append((name, raw, parsed, named_run(reading, name) if runs == "named" else reading))
    return Output(
        files=tuple((name, raw) for name, raw, _, _ in read),
        documents=tuple(document for _, _, parsed, _ in read for document in parsed.documents),
        reading=merged([(name, reading) for name, _, _, reading in read]),
        samples=tuple(samples),
    )


def _read(
    parsed: metric_files.Parsed,
    name: str,
    directions: Mapping[str, Direction] | None,
    suites: Sequence[Suite],
) -> Reading:
    try:
        return read_output(parsed, where=name, directions=directions, suites=suites)
    except RecursionError as error:
        raise InputError("evaluation output", name, "is nested too deeply") from error


def _listed(folder: Path) -> tuple[list[tuple[str, Path]], list[dict[str, Any]]]:
    """Result files and sample records below ``folder``, in the order of their names."""
    results: list[tuple[str, Path]] = []
    samples: list[dict[str, Any]] = []
    for root, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(root) / name
            text = path_to_text(os.fsencode(os.path.relpath(path, folder)))
            if name.startswith("samples_"):
                samples.append(_digest(path, text))
            elif name.endswith(SUFFIXES):
                results.append((text, path))
            if len(results) + len(samples) > MAX_FILES:
                raise InputError("evaluation output", folder.name, f"has more than {MAX_FILES} files")
    if not results:
        raise InputError(
            "evaluation output", folder.name, "holds no result file (*.json, *.jsonl)",
            hint="The evaluation program must write one before it ends with exit code 0.",
        )  # fmt: skip
    return results, samples


def _digest(path: Path, name: str) -> dict[str, Any]:
    digest, size = hashlib.sha256(), 0
    try:
        with open_regular(path) as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                size += len(chunk)
    except OSError as error:
        raise InputError("evaluation output", name, f"cannot be read: {error.strerror}") from error
    return {"name": name, "bytes": size, "digest": f"sha256:{digest.hexdigest()}"}


def named_run(reading: Reading, name: str) -> Reading:
    """``reading`` with each metric, also those of baselines, named after its file (``run/metric``)."""
    run = Path(name).stem

    def of_run(metrics: Iterable[MetricResult]) -> list[MetricResult]:
        return [metric.model_copy(update={"name": f"{run}/{metric.name}"}) for metric in metrics]

    baselines = [one.model_copy(update={"metrics": of_run(one.metrics)}) for one in reading.baselines]
    names = {f"no_direction: {metric.name} does": f"{run}/{metric.name}" for metric in reading.metrics}
    flags = [_renamed(flag, names) for flag in reading.flags]
    return reading.with_(
        metrics=tuple(of_run(reading.metrics)), baselines=tuple(baselines), flags=tuple(flags)
    )


def _renamed(flag: str, names: Mapping[str, str]) -> str:
    """A flag about a direction names its metric as the reading does from now on."""
    start = flag.partition(" not say")[0]
    return f"no_direction: {names[start]} does{flag[len(start) :]}" if start in names else flag


def merged(readings: Sequence[tuple[str, Reading]]) -> Reading:
    """Several files' readings as one; raises where two of them give one metric or baseline two values."""
    if len(readings) == 1:
        return readings[0][1]
    first = {name: reading.data_set for name, reading in readings}
    digests = {name: reading.data_set_digest for name, reading in readings}
    definitions = {name: dict(reading.definition) for name, reading in readings}
    return Reading(
        metrics=tuple(_single_metrics(readings)),
        baselines=tuple(_single_baselines(readings)),
        definition=_one(definitions.values(), {"files": definitions}) if all(definitions.values()) else {},
        data_set=_one(first.values(), ", ".join(dict.fromkeys(filter(None, first.values()))) or None),
        data_set_digest=_one(
            digests.values(),
            digest_of(digests) if all(isinstance(d, str) for d in digests.values()) else None,
        ),
        subject={key: value for _, reading in readings for key, value in reading.subject.items()},
        limits=tuple(dict.fromkeys(limit for _, reading in readings for limit in reading.limits)),
        log={name: reading.log for name, reading in readings if reading.log} or None,
        flags=tuple(dict.fromkeys([*(f for _, r in readings for f in r.flags), *_two_subjects(readings)])),
    )


def _two_subjects(readings: Sequence[tuple[str, Reading]]) -> Iterable[str]:
    """A flag where two files name two checkpoints: one of them is a result left over from before."""
    said: dict[str, tuple[str, Any]] = {}
    for name, reading in readings:
        for key, value in reading.subject.items():
            file, before = said.setdefault(key, (name, value))
            if before != value:
                yield f"contradictory: {file} is of {key} {str(before)[:80]}, {name} of {str(value)[:80]}"


def _one(values: Iterable[Any], otherwise: Any) -> Any:
    """The value that all share, else the one given."""
    several = list(values)
    return several[0] if all(value == several[0] for value in several) else otherwise


def _single_metrics(readings: Sequence[tuple[str, Reading]]) -> list[MetricResult]:
    seen: dict[str, tuple[str, MetricResult]] = {}
    for name, reading in readings:
        for metric in reading.metrics:
            file, before = seen.setdefault(metric.name, (name, metric))
            if before != metric:
                raise metric_files.RepeatedMetricError(
                    f"{file} and {name}", metric.name, _shown(before), _shown(metric)
                )
    return [metric for _, metric in seen.values()]


def _single_baselines(readings: Sequence[tuple[str, Reading]]) -> list[Baseline]:
    """Baselines by name; files may each tell some of one's metrics."""
    seen: dict[str, tuple[str, Baseline]] = {}
    for name, reading in readings:
        for baseline in reading.baselines:
            file, before = seen.setdefault(baseline.name, (name, baseline))
            told = {metric.name: metric for metric in before.metrics}
            same: dict[str, Any] = {"metrics": []}
            if before.model_copy(update=same) != baseline.model_copy(update=same) or any(
                told.get(metric.name, metric) != metric for metric in baseline.metrics
            ):
                raise metric_files.RepeatedMetricError(
                    f"{file} and {name}", f"baseline {baseline.name}", "one", "another"
                )
            told |= {metric.name: metric for metric in baseline.metrics}
            seen[baseline.name] = (file, before.model_copy(update={"metrics": [*told.values()]}))
    return [baseline for _, baseline in seen.values()]


def _shown(metric: MetricResult) -> float | str:
    return metric.value if metric.value is not None else metric.not_finite
