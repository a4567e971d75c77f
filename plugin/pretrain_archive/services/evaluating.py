"""Evaluate a run's checkpoint with the programs that were signed, and name the candidate."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrain_archive.artifacts.candidates import name_candidate, propose
from pretrain_archive.artifacts.evaluation import record_evaluation
from pretrain_archive.artifacts.evaluation_report import Setting
from pretrain_archive.artifacts.rules import fixed_rules
from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.domain.kinds import CandidateNamed, EvaluationReported
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.evaluation_ground import Ground, ground_of
from pretrain_archive.services.evaluation_plans import Plan, plans_of
from pretrain_archive.services.evaluation_running import Hold, keep_log, run_program, took
from pretrain_archive.services.evaluation_table import table_of
from pretrain_archive.services.evaluation_tries import Try, begin, next_ordinal
from pretrain_archive.services.human_files import SAMPLES, keep_samples
from pretrain_archive.services.runs import policy_of, run_of
from pretrain_archive.storage.port import ObjectStore


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """The recorded evaluation, those of further programs, and the candidate that was named from it, if any."""

    report: EvaluationReported
    candidate: CandidateNamed | None
    further: tuple[EvaluationReported, ...] = ()


def evaluate(
    ledger: Ledger, store: ObjectStore, caller: Caller, run_uid: str, runs_folder: Path, *, hold: Hold,
    checkpoint_id: str | None = None,
) -> Evaluated:  # fmt: skip
    """Run the signed evaluation programs on a checkpoint and record what they measured.

    ``checkpoint_id`` names the checkpoint, by default it is the newest verified one. The record is kept under
    that name, whatever place a mapped task has in its list. ``hold`` is given each process, so that a signal
    can end it. Rules that were fixed before the launch decide, measured by the programs that were signed then:
    :class:`RefusedError` names what changed in them. Every try is on record; one that gave no numbers is raised
    after the others were measured.
    """
    view = run_of(ledger, caller, run_uid)
    plans = plans_of(view)
    work = runs_folder / run_uid
    work.mkdir(parents=True, exist_ok=True)
    with ground_of(view, caller, checkpoint_id, work) as ground:
        bench = _Bench(
            ledger=ledger, store=store, caller=caller, view=view, work=work, hold=hold, ground=ground
        )  # fmt: skip
        return _measured(bench, plans)


def _measured(bench: _Bench, plans: list[Plan]) -> Evaluated:
    """The further programs, then the request's own with their outcomes as rules; then the candidate is named."""
    also: list[dict[str, Any]] = []
    further: list[EvaluationReported] = []
    failed: ArchiveError | None = None
    for plan in plans[:-1]:
        try:
            further.append(bench.measure(plan))
        except ArchiveError as error:
            failed = failed or error
        also += _required(bench.view, plan, further)
    report = bench.measure(plans[-1], also=tuple(also))
    candidate = _name(bench.ledger, bench.caller, bench.view.run_uid)
    if failed is not None:
        raise failed
    return Evaluated(report=report, candidate=candidate, further=tuple(further))


@dataclass(frozen=True, kw_only=True)
class _Bench:
    """One checkpoint under evaluation."""

    ledger: Ledger
    store: ObjectStore
    caller: Caller
    view: RunView
    work: Path
    hold: Hold
    ground: Ground

    def measure(self, plan: Plan, also: tuple[dict[str, Any], ...] = ()) -> EvaluationReported:
        """Run one program and record its numbers, or why there are none; the try is on record either way."""
        rules = fixed_rules(self.view, plan.program)
        asked = policy_of(self.view).evaluation
        tried = begin(
            self.ledger, self.caller, load_run(self.ledger, self.view.run_uid), self.ground.checkpoint,
            program=plan.program, evaluator_digest=plan.code_digest, minutes=asked.max_minutes,
        )  # fmt: skip
        with tempfile.TemporaryDirectory(dir=self.work, prefix="evaluation-") as name:
            scratch = Path(name)
            try:
                folder = self.ground.folder()
                ran = run_program(
                    self.view, self.store, self.caller, plan, checkpoint=folder, scratch=scratch,
                    work=self.work, hold=self.hold,
                )  # fmt: skip
                setting = self._setting(plan, tried, also)
                report = record_evaluation(
                    self.ledger, self.store, run_uid=self.view.run_uid, checkpoint=self.ground.checkpoint,
                    output=ran.output, rules=rules, actor=self.caller.actor, origin=self.caller.origin,
                    evaluator_digest=plan.code_digest, seconds=ran.seconds, devices=ran.devices,
                    ordinal=self._ordinal(), setting=setting, copy=self.ground.copied,
                )  # fmt: skip
                samples = None
                if policy_of(self.view).human_evaluation is not None:
                    samples = keep_samples(
                        self.store, self.view.run_uid, report.evaluation_id, scratch / SAMPLES
                    )
            except ArchiveError as error:
                self._failed(tried, error, scratch)
                raise
        tried.finished([report.evaluation_id], samples=samples)
        for line in table_of(report):
            self.caller.say(line)
        return report

    def _setting(self, plan: Plan, tried: Try, also: tuple[dict[str, Any], ...]) -> Setting:
        policy = policy_of(self.view)
        return Setting(
            program=plan.program, try_id=tried.started.try_id, suites=plan.suites, group=policy.evaluation.group,
            runs=plan.runs, baselines=tuple(policy.evaluation.baselines) if not plan.program else (),
            also=also, language=policy.language,
        )  # fmt: skip

    def _ordinal(self) -> int:
        view = load_run(self.ledger, self.view.run_uid)
        return next_ordinal(view, "evaluation.reported", self.caller.origin)

    def _failed(self, tried: Try, error: ArchiveError, scratch: Path) -> None:
        """Record the failure; a ledger or store that is gone must not hide it."""
        try:
            log = keep_log(self.store, self.view.run_uid, tried.started.try_id, scratch)
            tried.failed(error, log=log, took=took(scratch))
        except ArchiveError as second:
            self.caller.say(f"the failed try could not be recorded: {second}")


def _required(view: RunView, plan: Plan, made: list[EvaluationReported]) -> list[dict[str, Any]]:
    """The outcome of a further program as a rule of the whole, where rules were fixed for it."""
    if not fixed_rules(view, plan.program):
        return []
    report = next((one for one in made if one.program == plan.program), None)
    reason = (
        "it gave no numbers" if report is None else "" if report.passed else f"see {report.evaluation_id}"
    )
    return [
        {
            "name": f"program {plan.program} passed",
            "metric": "",
            "passed": report is not None and report.passed,
            "observed": None,
            "limit": None,
            "reason": reason,
        }
    ]


def _name(ledger: Ledger, caller: Caller, run_uid: str) -> CandidateNamed | None:
    """Record every evaluated checkpoint as kept or dropped; return the kept one."""
    kept: CandidateNamed | None = None
    for ordinal, proposal in enumerate(propose(load_run(ledger, run_uid))):
        named = name_candidate(
            ledger, run_uid=run_uid, checkpoint_id=proposal.checkpoint.checkpoint_id, kept=proposal.kept,
            reason=proposal.reason, actor=caller.actor, origin=caller.origin, ordinal=ordinal,
        )  # fmt: skip
        kept = named if proposal.kept else kept
    return kept
