"""The report of an evaluation: every number with its interval, baselines, rules, flags and reach, as canonical JSON.

It lies in the store beside what the program wrote and beside the page for people. It holds no time: the same output
of the same checkpoint under the same rules gives the same report.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pretrain_archive.artifacts.intervals import difference
from pretrain_archive.artifacts.metric_files import strict
from pretrain_archive.artifacts.outputs import Output
from pretrain_archive.artifacts.reading import Reading
from pretrain_archive.artifacts.suites import Definitions, described, label, used
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.identity import DIGEST
from pretrain_archive.domain.kinds import CheckpointRegistered, EvaluationReported, RunOpened
from pretrain_archive.domain.policy_evaluation import Suite
from pretrain_archive.ledger.canonical import canonical_bytes, digest_of
from pretrain_archive.storage.port import ObjectStore

FORMAT = "pretrain-archive/evaluation/2"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Under what an output is judged, beside its rules.

    ``program`` is empty for the request's own; ``imported`` was measured elsewhere. ``suites`` are what it is held to,
    ``group`` names runs whose definitions must be alike, ``runs`` says what several files for one task are,
    ``baselines`` which kinds the policy asks for. ``also`` are outcomes of other programs that must have passed.
    """

    program: str = ""
    try_id: str | None = None
    imported: bool = False
    suites: tuple[Suite, ...] = ()
    group: str = ""
    runs: Literal["refuse", "named"] = "refuse"
    baselines: tuple[str, ...] = ()
    also: tuple[Mapping[str, Any], ...] = ()
    language: str = "en"


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Everything that a report says."""

    run_uid: str
    checkpoint: CheckpointRegistered
    opened: RunOpened | None
    output: Output
    reading: Reading
    outcomes: Sequence[Mapping[str, Any]]
    flags: Sequence[str]
    none: Sequence[str]
    setting: Setting
    evaluator_digest: str | None

    @property
    def passed(self) -> bool:
        """It has rules, every one holds, and no flag stands."""
        return bool(self.outcomes) and all(one["passed"] for one in self.outcomes) and not self.flags


def report_of(judged: Judged) -> dict[str, Any]:
    """The whole report as plain JSON."""
    reading, setting, checkpoint = judged.reading, judged.setting, judged.checkpoint
    data_set, data_digest = _data_set(reading)
    return {
        "format": FORMAT,
        "run_uid": judged.run_uid,
        "program": setting.program,
        "imported": setting.imported,
        "group": setting.group,
        "checkpoint_id": checkpoint.checkpoint_id,
        "checkpoint_digest": checkpoint.digest,
        # What the numbers lead back to (R115): the checkpoint's own experiment.
        "source": {
            "attempt": checkpoint.attempt,
            "step": checkpoint.step,
            "snapshot": checkpoint.snapshot,
            "configuration_digest": checkpoint.configuration_digest,
        },
        "data_set": data_set,
        "data_set_digest": data_digest,
        "definition": strict(reading.definition),
        "suites": described(setting.suites),
        "metrics": [metric.to_json() for metric in reading.metrics],
        "baselines": [baseline.to_json() for baseline in reading.baselines],
        "comparisons": comparisons(reading),
        "rules": list(judged.outcomes),
        "flags": list(judged.flags),
        "passed": judged.passed,
        "scope": scope_of(judged),
        "log": strict(reading.log) if reading.log else None,
        "output_sha256": judged.output.digest,
        "outputs": [
            {"name": name, "bytes": len(raw), "digest": "sha256:" + hashlib.sha256(raw).hexdigest()}
            for name, raw in judged.output.files
        ],
        "sample_records": list(judged.output.samples),
        "evaluator_digest": judged.evaluator_digest,
    }


def comparisons(reading: Reading) -> list[dict[str, Any]]:
    """The difference of each metric to each baseline that counts."""
    found = []
    for baseline in reading.counted:
        theirs = {metric.name: metric for metric in baseline.metrics}
        found += [
            difference(metric, theirs[metric.name], name=baseline.name).to_json()
            for metric in reading.metrics
            if metric.name in theirs
        ]
    return found


def scope_of(judged: Judged) -> dict[str, Any]:
    """How far the numbers reach: on what and how much, what was not evaluated, and the limits that are known (R123)."""
    reading, opened = judged.reading, judged.opened
    counts = [metric.samples for metric in reading.metrics if metric.samples is not None]
    definitions = Definitions(suites=judged.setting.suites)
    missing = definitions.missing([metric.name for metric in reading.metrics])
    stated = opened.conf.get("known_limits") if opened else None
    known = [str(text).strip() for text in stated if str(text).strip()] if isinstance(stated, list) else []
    purpose = opened.purpose if opened else None
    return {
        "objective": purpose.objective if purpose else None,
        "intended_use": purpose.intended_use if purpose else None,
        "data_set": reading.data_set,
        "data_set_digest": reading.data_set_digest,
        "samples": min(counts) if counts and len(counts) == len(reading.metrics) else None,
        "measured": [metric.name for metric in reading.metrics],
        "not_evaluated": [
            label(suite, metric) + (" (by persons)" if metric.measured_by == "persons" else "")
            for suite, metric in missing
        ]
        + list(judged.none),
        "limits": [*dict.fromkeys([*known, *reading.limits])],
    }


def suite_flags(reading: Reading, suites: Sequence[Suite]) -> list[str]:
    """What the declared suites demand and the output has not."""
    flags = []
    names = [metric.name for metric in reading.metrics]
    for suite, metric in Definitions(suites=tuple(suites)).missing(names):
        if metric.required:
            flags.append(f"missing_metric: {label(suite, metric)} was not measured")
    for suite in suites:
        if not any(m.defined_by.startswith(f"{suite.name}@") for m in reading.metrics):
            flags.append(f"missing_metric: nothing of suite {suite.name} was measured")
        for what, wanted, found in (
            ("data_set", suite.data_set, reading.data_set),
            ("data_set_digest", suite.data_set_digest, reading.data_set_digest),
        ):
            if wanted is not None and wanted != found:
                flags.append(f"definition_differs: suite {suite.name} has the {what} {wanted}, found {found}")
    return list(dict.fromkeys(flags))


def made_payload(
    store: ObjectStore, judged: Judged, **more: Any
) -> tuple[EvaluationReported, Mapping[str, bytes]]:
    """The payload and the files that it names, by key; nothing is written."""
    from pretrain_archive.artifacts.evaluation_page import render_page  # noqa: PLC0415 - only where one is made

    report = report_of(judged)
    body = canonical_bytes(report)
    page = render_page(report, language=judged.setting.language)
    evaluation_id = "eval_" + hashlib.sha256(body).hexdigest()[:32]
    key = f"runs/{judged.run_uid}/evaluations/{evaluation_id}"
    outputs = judged.output.files
    files = {
        f"{key}/{'output.json' if len(outputs) == 1 else f'output-{number:04d}.json'}": raw
        for number, (_, raw) in enumerate(outputs)
    }
    files |= {f"{key}/report.html": page, f"{key}/report.json": body}
    same = (
        "checkpoint_id", "checkpoint_digest", "data_set", "data_set_digest", "definition", "evaluator_digest",
        "metrics", "baselines", "flags", "passed", "rules", "comparisons", "scope", "program", "imported", "group",
    )  # fmt: skip
    payload = EvaluationReported(
        evaluation_id=evaluation_id,
        definition_digest=digest_of(report["definition"]),
        report_uri=store.location(f"{key}/report.json"),
        report_digest="sha256:" + hashlib.sha256(body).hexdigest(),
        page_uri=store.location(f"{key}/report.html"),
        page_digest="sha256:" + hashlib.sha256(page).hexdigest(),
        suites=[used(suite) for suite in judged.setting.suites],
        try_id=judged.setting.try_id,
        **{name: report[name] for name in same},
        **more,
    )
    return payload, files


def stored(store: ObjectStore, judged: Judged, **more: Any) -> EvaluationReported:
    """Put output, page and report into the store, the report last, and return the payload that names them."""
    payload, files = made_payload(store, judged, **more)
    for key, content in files.items():
        store.put_if_absent(key, io.BytesIO(content))
    return payload


def _data_set(reading: Reading) -> tuple[str, str]:
    """The data set's name and digest: numbers without them belong to nothing and are refused."""
    name, digest = reading.data_set, reading.data_set_digest
    if not isinstance(name, str) or not name:
        raise InputError(
            "data_set", name, "the evaluation output must name its data set",
            hint="Let the program write it, declare it in the suite, or import the result with --data-set NAME.",
        )  # fmt: skip
    if not isinstance(digest, str) or not re.fullmatch(DIGEST, digest):
        raise InputError(
            "data_set_digest", digest, "expected sha256: and 64 hex digits",
            hint="Let the program write it (lm-evaluation-harness: --log_samples), declare it in the suite, or import "
            "the result with --data-digest sha256:….",
        )  # fmt: skip
    return name, digest
