"""A recovery drill: a real job of several workers on a representative task, a fault, and evidence of what followed.

The job goes through the real launch, as an exploration under the ceiling of its project's policy. Everything that
the drill claims is read from the ledger or from the machine afterwards; what could not be seen is unrecorded, and a
drill with anything unrecorded has not passed.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pretrain_archive.compute.leftovers import processes_of
from pretrain_archive.compute.local import LocalLaunch
from pretrain_archive.compute.namespaces import Network, NoNamespacesError
from pretrain_archive.compute.spec import attempt_folder
from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.domain.governance_drill import CHECKS
from pretrain_archive.domain.identity import parse_time, utc_now
from pretrain_archive.domain.kinds import (
    AttemptEnded,
    AttemptReconciled,
    AttemptStarted,
    DrillFiled,
    JobRemoved,
    StopFired,
)
from pretrain_archive.domain.policy_compute import Kubernetes
from pretrain_archive.domain.records import Draft
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services import data, processing
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.drill_faults import Injected, LocalStrike, PodStrike, Saboteur
from pretrain_archive.services.drill_plan import Plan, conf_of, write_source
from pretrain_archive.services.launch_bench import Bench, cluster_of
from pretrain_archive.services.launching import launch
from pretrain_archive.services.opening import Host, open_run

__all__ = ["NAMES", "Drill", "Plan", "Review", "drill"]

NAMES = CHECKS
Review = Callable[[str], None]
"""Asks and answers the review of a stopped run; given the run's uid."""
Strike = Callable[[Plan, str, int], str]
"""Injects the fault by other means (a cluster's own tools) and says what was done; given plan, run and attempt."""


@dataclass(kw_only=True)
class Drill:
    """A drill on its way."""

    plan: Plan
    ledger: Ledger
    caller: Caller
    bench: Bench
    review: Review | None = None
    strike: Strike | None = None
    hold: Callable[[LocalLaunch], None] = lambda _job: None
    run_uid: str = ""
    injected: Injected | None = None
    problem: str = ""
    checks: list[dict[str, Any]] = field(default_factory=list)

    @property
    def cluster(self) -> Kubernetes | None:
        """The cluster that the project's policy launches on, None for this machine."""
        return cluster_of(self.bench.policies(self.plan.project).policy)

    def view(self) -> RunView:
        """The drill's run."""
        return load_run(self.ledger, self.run_uid)

    def task(self, name: str, try_number: int = 1) -> Caller:
        """The drill's caller for one of its steps."""
        origin = replace(
            self.caller.origin, task_id=f"{self.caller.origin.task_id}.{name}", try_number=try_number
        )
        return replace(self.caller, origin=origin)

    def check(self, name: str, holds: bool | None, expected: str, found: str) -> None:
        """Add a check; None is unrecorded."""
        verdict = "unrecorded" if holds is None else "verified" if holds else "changed"
        self.checks.append(
            {"name": name, "verdict": verdict, "expected": expected, "found": found, "at": utc_now()}
        )


def drill(
    ledger: Ledger, caller: Caller, bench: Bench, plan: Plan, *, review: Review | None = None,
    strike: Strike | None = None, hold: Callable[[LocalLaunch], None] = lambda _job: None,
) -> tuple[str, DrillFiled]:  # fmt: skip
    """Run the drill and file its evidence; returns the run's uid and what was filed.

    ``strike`` injects the fault by other means than this module's, such as a cluster's own tools. ``hold`` is given
    each launch on this machine before it starts, so that a signal can end it. Raises an ``ArchiveError`` where the
    drill cannot even begin (the policy forbids it, no program).
    """
    one = Drill(plan=plan, ledger=ledger, caller=caller, bench=bench, review=review, strike=strike, hold=hold)
    with ExitStack() as stack:
        network: Network | None = None
        if one.cluster is not None and strike is None and plan.inject != "worker_exit":
            one.problem = f"{plan.inject} cannot be injected through a cluster's API: use its own tools"
        elif one.cluster is None and plan.inject == "network_cut":
            try:
                network = stack.enter_context(Network(plan.nodes))
            except NoNamespacesError as error:
                one.problem = error.message
        # Outside of the archive's own folders, which are no source: the snapshot keeps what counts.
        source = Path(stack.enter_context(TemporaryDirectory(prefix="recovery-drill-")))
        _prepare(one, source, network)
        ended = None if one.problem else _first(one, network)
        if ended is not None:
            _judge_end(one, ended)
            if network is not None:
                network.mend(plan.node)
            _second(one, ended)
    return one.run_uid, _file(one, ended)


def _prepare(one: Drill, source: Path, network: Network | None) -> None:
    """Open the exploration run and make its data."""
    write_source(source)
    host = Host(policies=one.bench.policies, work_folder=one.bench.runs_folder)
    one.run_uid = open_run(
        one.ledger,
        one.task("open_run"),
        conf_of(one.plan, source, network, cluster=one.cluster is not None),
        host,
    ).run_uid
    one.caller.say(f"drill: run {one.run_uid}, {one.plan.nodes} nodes with {one.plan.workers} workers each")
    data.register(one.ledger, one.task("register_source"), one.run_uid)
    data.make_snapshot(one.ledger, one.bench.store, one.task("snapshot"), one.run_uid)
    processing.process(one.ledger, one.bench.store, one.task("process"), one.run_uid)


def _strike(one: Drill, network: Network | None, attempt: int) -> Callable[[], str]:
    """What injects the fault into this attempt."""
    plan = one.plan
    if one.strike is not None:
        return lambda: one.strike(plan, one.run_uid, attempt) if one.strike else ""
    if one.cluster is None:
        return LocalStrike(
            fault=plan.inject, run_uid=one.run_uid, attempt=attempt, node=plan.node, network=network
        )
    api = one.bench.clusters(one.cluster)
    return PodStrike(
        api=api, namespace=one.cluster.namespace, run_uid=one.run_uid, attempt=attempt, node=plan.node
    )


def _first(one: Drill, network: Network | None) -> AttemptEnded | None:
    """The attempt that the fault hits."""
    number = one.view().attempts + 1
    saboteur = Saboteur(
        at_step=one.plan.at_step, strike=_strike(one, network, number), say=one.caller.say,
        events=attempt_folder(one.bench.runs_folder, one.run_uid, number) / "events.jsonl",
    )  # fmt: skip
    saboteur.start()
    try:
        ended = launch(one.ledger, one.task("launch"), one.run_uid, one.bench, hold=one.hold)
    finally:
        saboteur.close()
        one.injected, one.problem = saboteur.injected, saboteur.problem
    if one.injected is None:
        one.problem = (
            one.problem or f"the job {ended.state} before step {one.plan.at_step}: nothing was injected"
        )
        return None
    return ended


def _judge_end(one: Drill, ended: AttemptEnded) -> None:
    assert one.injected is not None
    moment = ended.ended_at or utc_now()
    seconds = (parse_time(moment) - parse_time(one.injected.at)).total_seconds()
    fired = next((f for _, f in one.view().all(StopFired) if f.attempt == ended.attempt), None)
    by = f"the stop rule {fired.rule}" if fired else "the job itself"
    one.check(
        "detected", ended.state in {"failed", "stopped", "lost"}, "the attempt ends, and not as completed",
        f"{ended.state} {max(0.0, seconds):.1f} s after the fault, by {by}: {ended.reason}",
    )  # fmt: skip
    if one.cluster is not None:
        removed = [r for _, r in one.view().all(JobRemoved) if r.attempt == ended.attempt]
        gone = removed[-1].verified_absent if removed else None
        told = (
            f"job {removed[-1].name} deleted, pods left: {removed[-1].pods_left}"
            if removed
            else "no deletion"
        )
        one.check("stopped", gone, "neither the job nor a pod of it is left", told)
        return
    left = processes_of(one.run_uid, ended.attempt)
    one.check(
        "stopped", not left, "no process of the attempt is left",
        f"{len(left)} processes live" if left else f"none on {socket.gethostname()}",
    )  # fmt: skip


def _second(one: Drill, first: AttemptEnded) -> None:
    """The attempt that takes over."""
    if first.state == "stopped":
        if one.review is None:
            one.check(
                "rescheduled", None, "a next attempt",
                "a stop rule ended the attempt: a person has to review it before the next one",
            )  # fmt: skip
            return
        one.review(one.run_uid)
    try:
        ended = launch(one.ledger, one.task("launch", 2), one.run_uid, one.bench, hold=one.hold)
    except ArchiveError as error:
        one.check("rescheduled", holds=False, expected="a next attempt", found=str(error))
        return
    view = one.view()
    started = next((s for _, s in view.all(AttemptStarted) if s.attempt == ended.attempt), None)
    one.check(
        "rescheduled", started is not None and ended.attempt == first.attempt + 1,
        f"attempt {first.attempt + 1} from a verified checkpoint",
        f"attempt {ended.attempt} from step {started.resume_step}" if started else "no start is recorded",
    )  # fmt: skip
    _judge_recovery(one, first, ended, view)


def _judge_recovery(one: Drill, first: AttemptEnded, ended: AttemptEnded, view: RunView) -> None:
    done = next((r for _, r in view.all(AttemptReconciled) if r.attempt == ended.attempt), None)
    loaded = next((c for c in done.checks if c["name"] == "loaded"), None) if done else None
    members, all_of = (done.members_loaded, one.plan.nodes * one.plan.workers) if done else (None, 0)
    verdict = loaded["verdict"] if loaded else "unrecorded"
    holds = (
        None if verdict == "unrecorded" or members is None else verdict == "verified" and members == all_of
    )
    one.check(
        "loaded", holds, f"the checkpoint, by all {one.plan.nodes * one.plan.workers} workers",
        loaded["found"] if loaded else "nothing was reconciled",
    )  # fmt: skip
    further = (ended.last_step or 0) > (first.last_step or 0)
    one.check(
        "continued", further and ended.state == "completed", f"steps beyond {first.last_step}, to the end",
        f"attempt {ended.attempt} {ended.state} at step {ended.last_step}",
    )  # fmt: skip
    open_ones = [c for c in done.checks if c["verdict"] != "verified"] if done else []
    text = "; ".join(f"{c['name']} {c['verdict']}: {c['found']}" for c in open_ones)
    summary = f"{done.steps_lost} steps lost, {done.steps_repeated} done again" if done else ""
    one.check(
        "reconciled", not open_ones if done else None, "progress, duplicates, checkpoints, results, members, data",
        text or summary or "nothing was reconciled",
    )  # fmt: skip


def _file(one: Drill, first: AttemptEnded | None) -> DrillFiled:
    """File the evidence in the run's own stream; what was not reached is unrecorded."""
    known = {check["name"] for check in one.checks}
    for name in NAMES:
        if name not in known:
            one.check(name, None, "", one.problem or "the drill did not get so far")
    view = one.view()
    attempts = [end.attempt for _, end in view.all(AttemptEnded)]
    what = (
        f"{one.injected.detail} at step {one.injected.step}, {one.injected.at}"
        if one.injected
        else one.problem
    )
    payload = DrillFiled(
        target="kubernetes" if one.cluster else "local", injected=one.plan.inject, detail=what,
        attempt=first.attempt if first else 0,
        recovered_attempt=attempts[-1] if first and attempts and attempts[-1] > first.attempt else None,
        passed=all(check["verdict"] == "verified" for check in one.checks), checks=one.checks,
    )  # fmt: skip
    caller = one.task("file")
    one.ledger.append([
        Draft(stream=one.run_uid, kind="drill.filed", payload=payload.to_json(), actor=caller.actor,
              origin=caller.origin, attempt=view.attempts, unique=f"drill.filed/{one.run_uid}")
    ])  # fmt: skip
    return payload
