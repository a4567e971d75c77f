"""Which baselines count: other bytes than the candidate's, the same definition, and known to the ledger.

What an output calls a previous version must be a release of the ledger, what it calls another data version a
checkpoint that was measured on other data: otherwise the comparison is flagged and not counted. Where the policy asks
for them and the output has none, the ledger's own evaluations serve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pretrain_archive.artifacts.metric_files import strict
from pretrain_archive.artifacts.reading import Reading, same_unit, share_and_percent
from pretrain_archive.domain.evaluations import decides
from pretrain_archive.domain.kinds import (
    Baseline,
    CandidateNamed,
    CheckpointRegistered,
    EvaluationReported,
    MetricResult,
    ReleaseMade,
    RunOpened,
    read_payload,
)
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.ledger.port import Ledger

LOOKED_AT = 200
"""Evaluations of other runs that are looked at, newest first, for one on another data version."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """What the ledger says of other models: releases by digest, and reports of other runs, oldest first."""

    releases: Mapping[str, tuple[str, ReleaseMade]] = field(default_factory=dict)
    reports: Sequence[tuple[str, str, EvaluationReported]] = ()
    """(run, record, report)"""
    ledger: Ledger | None = None

    @property
    def deciding(self) -> list[tuple[str, str, EvaluationReported]]:
        """The reports that were measured here; what was filed from elsewhere supports no claim."""
        return [entry for entry in self.reports if decides(entry[2])]

    def snapshot_of(self, entry: tuple[str, str, EvaluationReported]) -> str | None:
        """The data snapshot that a report's checkpoint was made from, None if that is not recorded."""
        if self.ledger is None:
            return None
        run_uid, _, report = entry
        records = self.ledger.records(streams=[run_uid], kinds=["checkpoint.registered"])
        made = (read_payload(record, CheckpointRegistered) for record in records)
        return next((c.snapshot for c in made if c.checkpoint_id == report.checkpoint_id), None)

    @classmethod
    def of(cls, ledger: Ledger, run_uid: str) -> Known:
        """Read releases and reports of every run but ``run_uid``."""
        releases: dict[str, tuple[str, ReleaseMade]] = {}
        reports: list[tuple[str, str, EvaluationReported]] = []
        for record in ledger.records(kinds=("release.made", "evaluation.reported")):
            if record.stream == run_uid:
                continue
            if record.kind == "release.made":
                release = read_payload(record, ReleaseMade)
                releases[release.checkpoint_digest] = (record.record_id, release)
            else:
                reports.append((record.stream, record.record_id, read_payload(record, EvaluationReported)))
        return cls(releases=releases, reports=tuple(reports), ledger=ledger)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is evaluated: its checkpoint, the run's name for releases, and what else the run trained."""

    checkpoint: CheckpointRegistered
    project: str = ""
    release_name: str = ""
    trained: Mapping[str, int] = field(default_factory=dict)
    """The run's own checkpoints beyond step 0: digest → step."""


def judged(reading: Reading, subject: Subject, known: Known | None) -> tuple[tuple[Baseline, ...], list[str]]:
    """The output's baselines with whether they count, and flags for those that do not.

    ``known`` None: nobody looked beyond the run, so that nothing is said about other versions.
    """
    flags: list[str] = []
    made = []
    for baseline in reading.baselines:
        reason, code, record_id = _fault(baseline, reading, subject, known)
        if reason and code:
            flags.append(f"{code}: {baseline.name}{': ' + reason if code != SAME else ''}")
        update = {
            "counted": baseline.counted and not reason,
            "reason": baseline.reason or reason,
            "record_id": record_id,
        }
        made.append(baseline.model_copy(update=update))
    return tuple(made), flags


SAME = "baseline_same_as_candidate"


def _fault(
    baseline: Baseline, reading: Reading, subject: Subject, known: Known | None
) -> tuple[str, str, str | None]:
    """Why a baseline does not count, the flag's code, and the ledger's record of it where there is one."""
    checkpoint = subject.checkpoint
    own = {checkpoint.digest, *(f"sha256:{file.sha256}" for file in checkpoint.files if file.size)}
    if baseline.subject_digest in own:
        return "is the candidate itself", SAME, None
    if baseline.kind == "untrained model" and baseline.subject_digest in subject.trained:
        step = subject.trained[baseline.subject_digest]
        return f"is called untrained and is the checkpoint of step {step} of this run", "contradictory", None
    if otherwise := _measured_otherwise(baseline, reading):
        return *otherwise, None
    return _unsupported(baseline, checkpoint, known)


def _unsupported(
    baseline: Baseline, checkpoint: CheckpointRegistered, known: Known | None
) -> tuple[str, str, str | None]:
    """Why the ledger does not bear out what a baseline is called, or the record that does."""
    if known is None or baseline.kind not in {"previous version", "other data version"}:
        return "", "", None
    if baseline.kind == "previous version":
        release = known.releases.get(baseline.subject_digest)
        unknown = "no release of another run has this digest"
        return ("", "", release[0]) if release else (unknown, "baseline_unknown", None)
    found = [
        entry for entry in known.deciding
        if entry[2].checkpoint_digest == baseline.subject_digest
        and known.snapshot_of(entry) not in {None, checkpoint.snapshot}
    ]  # fmt: skip
    if not found:
        unknown = "no measured checkpoint of another run that was made from other data has this digest"
        return unknown, "baseline_unknown", None
    return "", "", found[-1][1]


def from_ledger(
    ledger: Ledger, known: Known, wanted: Sequence[str], reading: Reading, subject: Subject
) -> tuple[list[Baseline], list[str], list[str]]:
    """Baselines that the policy asks for and the output has not: (baselines, flags, what there was none of).

    A first release has no previous version: that is told, not flagged. An untrained model is measured or missing.
    """
    added: list[Baseline] = []
    flags: list[str] = []
    none: list[str] = []
    present = {baseline.kind for baseline in reading.counted}
    for kind in (one for one in wanted if one not in present):
        if kind == "untrained model":
            flags.append("no_baseline: the policy asks for an untrained model, which the output has not")
            continue
        source = _previous(ledger, known, subject) if kind == "previous version" else None
        if kind == "other data version":
            source = _other_data(ledger, known, reading, subject)
        if source is None:
            none.append(f"{kind}: the ledger has none to compare with")
            continue
        baseline, fault = _as_baseline(kind, source, reading, subject)
        added.append(baseline)
        flags.extend(fault)
    return added, flags, none


def _measured_otherwise(baseline: Baseline, reading: Reading) -> tuple[str, str] | None:
    """Why a baseline's numbers are of another kind than the candidate's, with the flag's code; None if they are not."""
    pairs = [(own, theirs) for theirs in baseline.metrics if (own := _counterpart(theirs, reading.metrics))]
    if not any(own.value is not None and theirs.value is not None for own, theirs in pairs):
        return "has no number that the candidate has too", "no_baseline"
    for own, theirs in pairs:
        if not same_unit(own.unit, theirs.unit) or own.direction != theirs.direction:
            text = f"{own.name} is in {own.unit!r} here and in {theirs.unit!r} there, or points the other way"
            return text, "contradictory"
        if own.samples != theirs.samples and None not in {own.samples, theirs.samples}:
            return (
                f"{own.name} rests on {own.samples} samples here, on {theirs.samples} there",
                "definition_differs",
            )
        if _share_and_percent(own, theirs):
            return (
                f"{own.name} looks like a share on one side and like a percentage on the other",
                "contradictory",
            )
    return None


def _counterpart(theirs: MetricResult, ours: Sequence[MetricResult]) -> MetricResult | None:
    """The candidate's metric of the same name, else the only one of the same definition."""
    exact = next((metric for metric in ours if metric.name == theirs.name), None)
    alike = [metric for metric in ours if theirs.defined_by and metric.defined_by == theirs.defined_by]
    return exact or (alike[0] if len(alike) == 1 else None)


def _share_and_percent(left: MetricResult, right: MetricResult) -> bool:
    """Whether two values without a unit are of sizes that a share and a percentage have."""
    if left.unit or right.unit or left.value is None or right.value is None:
        return False
    return share_and_percent(left.name, left.value, right.value)


@dataclass(frozen=True, kw_only=True)
class _Source:
    name: str
    record_id: str
    report: EvaluationReported


def _previous(ledger: Ledger, known: Known, subject: Subject) -> _Source | None:
    """The newest release of the same name, with the evaluation that it was chosen by."""
    for record_id, release in reversed(list(known.releases.values())):
        if not subject.release_name or release.name != subject.release_name:
            continue
        found = [e for e in known.deciding if e[2].checkpoint_digest == release.checkpoint_digest]
        for run_uid, report_id, report in reversed(found):
            if report.evaluation_id in _chosen(ledger, run_uid, release.candidate_id):
                return _Source(name=f"{release.name} {release.version}", record_id=report_id, report=report)
        if found:
            return _Source(name=f"{release.name} {release.version}", record_id=record_id, report=found[-1][2])
    return None


def _chosen(ledger: Ledger, run_uid: str, candidate: str) -> set[str]:
    named = (
        read_payload(r, CandidateNamed) for r in ledger.records(streams=[run_uid], kinds=["candidate.named"])
    )
    return {fact.evaluation_id for fact in named if fact.candidate_id == candidate}


def _other_data(ledger: Ledger, known: Known, reading: Reading, subject: Subject) -> _Source | None:
    """The newest passed evaluation of the project's other runs whose checkpoint was made from another snapshot."""
    wanted = digest_of(strict(reading.definition))
    looked = 0
    for run_uid, record_id, report in reversed(known.reports):
        if not (report.passed and decides(report) and report.definition_digest == wanted):
            continue
        looked += 1
        if looked > LOOKED_AT:
            break
        view = RunView.of(
            run_uid, ledger.records(streams=[run_uid], kinds=["run.opened", "checkpoint.registered"])
        )
        opened = view.latest(RunOpened)
        made = next(
            (c for _, c in view.all(CheckpointRegistered) if c.checkpoint_id == report.checkpoint_id), None
        )
        if not opened or not made or opened.project != subject.project:
            continue
        if made.snapshot != subject.checkpoint.snapshot:
            return _Source(name=f"{made.snapshot} ({run_uid})", record_id=record_id, report=report)
    return None


def _as_baseline(
    kind: str, source: _Source, reading: Reading, subject: Subject
) -> tuple[Baseline, list[str]]:
    """A recorded evaluation as a baseline; not counted where it was measured otherwise."""
    report = source.report
    same = (report.definition_digest, report.data_set_digest) == (
        digest_of(strict(reading.definition)), reading.data_set_digest,
    )  # fmt: skip
    baseline = Baseline(
        name=source.name, kind=kind, subject_digest=report.checkpoint_digest, metrics=report.metrics,
        record_id=source.record_id,
    )  # fmt: skip
    if same:  # known to the ledger already: what is left is whether it can be compared
        reason, code, _ = _fault(baseline, reading, subject, None)
    else:
        reason, code = "was measured by another definition or on other data", "definition_differs"
    if not reason:
        return baseline, []
    return baseline.model_copy(update={"counted": False, "reason": reason}), [
        f"{code}: baseline {source.name} {reason}"
    ]
