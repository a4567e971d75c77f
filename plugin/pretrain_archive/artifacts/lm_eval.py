"""Result files of lm-evaluation-harness (``results_*.json``), as its release 0.4 and later write them.

``results`` maps a task to ``metric,filter`` → number, ``metric_stderr,filter`` → number or ``"N/A"``, beside
``alias``, ``name`` and ``sample_len``. ``configs``, ``versions``, ``n-shot``, ``higher_is_better`` and ``n-samples``
(``original``, ``effective``) are by task; ``groups`` holds aggregates over tasks; ``config`` says how the harness was
called; ``task_hashes`` (written with logged samples) is what the data were. Format: lm_eval/result_schema.py and
lm_eval/loggers/evaluation_tracker.py of https://github.com/EleutherAI/lm-evaluation-harness.

A metric is named ``task.metric``, with ``,filter`` behind it unless that is ``none``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pretrain_archive.artifacts.metric_files import RepeatedMetricError
from pretrain_archive.artifacts.reading import Flags, Reading, metric_of
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.kinds import MetricResult
from pretrain_archive.ledger.canonical import digest_of

BESIDE = frozenset({"alias", "name", "sample_len", "sample_count"})
"""Keys of a task that are no metric."""

PARTS = ("configs", "versions", "n-shot", "n-samples", "higher_is_better")
STDERR = "_stderr"
NOT_MEASURED = "N/A"
UNLIKE = frozenset({"metadata", "dataset_kwargs"})
"""Of a task's configuration: its metadata repeats the model's arguments, and data files have another path on another
machine. Neither is how it is measured; what the data were is in the data set's digest."""

MOST_DEEP = 8
"""Groups within groups that are followed."""

UNITS: Mapping[str, str] = {
    **dict.fromkeys(
        ("acc", "acc_norm", "acc_bytes", "exact_match", "em", "acc_mutual_info", "pass@1"), "share"
    ),
    **dict.fromkeys(("word_perplexity", "byte_perplexity", "perplexity"), "perplexity"),
    "bits_per_byte": "bits per byte",
}
"""Units of the harness's own metrics; a mean of 0 and 1 over the samples is a share of counts."""

CALL = ("limit", "bootstrap_iters", "gen_kwargs", "random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
"""What of the harness's call changes how something is measured; the model's own settings do not."""

SETTING = (
    "lm_eval_version",
    "git_hash",
    "chat_template_sha",
    "system_instruction_sha",
    "fewshot_as_multiturn",
)


def fits(document: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a result of the harness."""
    return isinstance(document.get("results"), dict) and any(part in document for part in PARTS)


def read(document: Mapping[str, Any], flags: Flags, where: str) -> Reading:
    """Type a result; :class:`InputError` names the entry that cannot be read."""
    for part in (*PARTS, "groups", "config", "task_hashes"):
        if not isinstance(document.get(part) or {}, dict):
            raise InputError(f"{where}: {part}", document[part], "expected an object")
    metrics = list(_all(document, flags, where))
    if not metrics:
        flags.append("no_value: the result holds no metric")
    tasks = sorted(document["results"])
    names = [task for task in tasks if task not in _groups(document)]
    return Reading(
        metrics=tuple(metrics),
        definition=_definition(document, names),
        data_set=f"lm-evaluation-harness: {', '.join(names)}" if names else None,
        data_set_digest=_data_digest(document, names),
        limits=tuple(_limits(document)),
        flags=tuple(flags),
    )


def _groups(document: Mapping[str, Any]) -> set[str]:
    """Names that are an aggregate over tasks."""
    members = _part(document, "group_subtasks")
    return {*_part(document, "groups"), *(name for name, tasks in members.items() if tasks)}


def _part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name) or {}
    return found if isinstance(found, dict) else {}


def _all(document: Mapping[str, Any], flags: Flags, where: str) -> Iterator[MetricResult]:
    """The metrics of every task, then of groups; a group that stands in both must say the same."""
    results, groups = document["results"], _part(document, "groups")
    for task, values in results.items():
        if not isinstance(values, dict):
            raise InputError(f"{where}: {task}", values, "expected an object of metrics")
        yield from _task(document, str(task), values, flags, where)
    for group, values in groups.items():
        if group not in results and isinstance(values, dict):
            yield from _task(document, str(group), values, flags, where)
        elif group in results:
            _require_same(group, results[group], values, where)


def _require_same(group: str, left: Any, right: Any, where: str) -> None:
    for key in left.keys() & (right.keys() if isinstance(right, dict) else set()):
        if key not in BESIDE and repr(left[key]) != repr(right[key]):
            raise RepeatedMetricError(where, f"{group}.{key}", left[key], right[key])


def _task(
    document: Mapping[str, Any], task: str, values: Mapping[str, Any], flags: Flags, where: str
) -> Iterator[MetricResult]:
    seen: dict[str, Any] = {}
    for key, value in values.items():
        metric, _, filter_name = key.partition(",")
        if key in BESIDE or metric.endswith(STDERR) or not key.strip():
            continue  # a group without an aggregate of its own has a blank for key and value
        name = f"{task}.{metric.strip()}" + (
            f",{filter_name}" if filter_name.strip() not in {"", "none"} else ""
        )
        if name in seen:
            raise RepeatedMetricError(where, name, seen[name], value)
        seen[name] = value
        if value is None or value == NOT_MEASURED:
            flags.append(f"no_value: {name} is {value!r}")
            continue
        stderr = values.get(f"{metric}{STDERR},{filter_name}" if filter_name else f"{metric}{STDERR}")
        group = task in _groups(document)
        unit = UNITS.get(metric, "")
        entry = {
            "value": value,
            "stderr": None if stderr == NOT_MEASURED else stderr,
            "direction": _direction(document, task, metric),
            "samples": _samples(document, task, key, values, flags),
            # Of tasks of different size the mean of means is no count over a count.
            "unit": "mean share" if group and unit == "share" else unit,
        }
        yield metric_of(entry, name, flags, where)


def _direction(document: Mapping[str, Any], task: str, metric: str) -> str | None:
    stated = _part(document, "higher_is_better").get(task)
    higher = stated.get(metric) if isinstance(stated, dict) else None
    return {True: "higher", False: "lower"}.get(higher) if isinstance(higher, bool) else None


def _samples(
    document: Mapping[str, Any], task: str, key: str, values: Mapping[str, Any], flags: Flags
) -> Any:
    """How many samples a metric rests on; counts that cannot both be right are flagged."""
    per_metric = values.get("sample_count")
    if isinstance(per_metric, dict) and key in per_metric:
        return per_metric[key]
    counts = _part(document, "n-samples").get(task)
    counts = counts if isinstance(counts, dict) else {}
    effective, original = counts.get("effective"), counts.get("original")
    if isinstance(effective, int) and isinstance(original, int) and effective > original:
        flags.append(f"contradictory: {task} counts {effective} of {original} samples")
    if effective is None and task in _groups(document):
        return _of_members(document, task, frozenset())
    return effective if effective is not None else values.get("sample_len")


def _of_members(document: Mapping[str, Any], group: str, above: frozenset[str]) -> int | None:
    """The samples of a group's tasks together, None unless each of them has a count."""
    total = 0
    members = _part(document, "group_subtasks").get(group)
    if not isinstance(members, list) or not members or group in above or len(above) > MOST_DEEP:
        return None
    for member in members:
        counts = _part(document, "n-samples").get(member)
        count = counts.get("effective") if isinstance(counts, dict) else None
        if count is None:
            count = _of_members(document, str(member), above | {group})
        if not isinstance(count, int) or isinstance(count, bool):
            return None
        total += count
    return total


def _definition(document: Mapping[str, Any], tasks: list[str]) -> dict[str, Any]:
    """How each task was measured, without what names the model."""
    call = _part(document, "config")
    return {
        "program": "lm-evaluation-harness",
        **{key: document[key] for key in SETTING if document.get(key) is not None},
        "call": {key: call[key] for key in CALL if call.get(key) is not None},
        "tasks": {task: _task_definition(document, task) for task in tasks},
    }


def _task_definition(document: Mapping[str, Any], task: str) -> dict[str, Any]:
    config = _part(document, "configs").get(task)
    shown = {k: v for k, v in config.items() if k not in UNLIKE} if isinstance(config, dict) else None
    return {
        "version": _part(document, "versions").get(task),
        "n_shot": _part(document, "n-shot").get(task),
        "config_digest": None if shown is None else _digest(shown),
    }


def _data_digest(document: Mapping[str, Any], tasks: list[str]) -> str | None:
    """The digest over the hashes of each task's samples; None unless every task has one."""
    hashes = _part(document, "task_hashes")
    if not tasks or not all(isinstance(hashes.get(task), str) and hashes[task] for task in tasks):
        return None
    return _digest({task: hashes[task] for task in tasks})


def _digest(value: Any) -> str:
    """The digest of a value whose numbers strict JSON may not hold: those stand as their text."""
    return digest_of(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value if value is None or isinstance(value, bool) else repr(value)


def _limits(document: Mapping[str, Any]) -> Iterator[str]:
    limit = _part(document, "config").get("limit")
    if limit is not None:
        yield f"only the first samples of each task: limit {limit}"
    for task, counts in _part(document, "n-samples").items():
        if isinstance(counts, dict) and counts.get("effective") != counts.get("original"):
            yield f"{task}: {counts.get('effective')} of {counts.get('original')} samples"
