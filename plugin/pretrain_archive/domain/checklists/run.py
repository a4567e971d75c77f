"""The run gate: after training, failure, change and recovery are explainable (R135–R137)."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.changes import changes_of, told, unexplained_drift
from pretrain_archive.domain.checklists.common import item, last, short
from pretrain_archive.domain.checklists.inspection import metrics_moving, resources_used
from pretrain_archive.domain.checklists.recovery import RECOVERY
from pretrain_archive.domain.evaluations import last_deciding, last_failure
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item


def _ends(view: RunView) -> dict[int, tuple[Record, kinds.AttemptEnded]]:
    return {ended.attempt: (record, ended) for record, ended in view.all(kinds.AttemptEnded)}


def completed(view: RunView, policy: Policy) -> Item:
    """The last attempt reached its end."""
    ends = _ends(view)
    record, ended = ends.get(view.attempts, (None, None))
    return item(
        "run.completed",
        "compute",
        evidence=(record,),
        expected="completed",
        holds=None if ended is None else ended.state == "completed",
        found=f"attempt {ended.attempt}: {ended.state}, step {ended.last_step}, {ended.reason}"
        if ended
        else "",
        check="the last attempt ended with exit code 0, and with the end marker or at the configured last step",
        owner=policy.people.platform_owner,
        requirement="R088",
        hint="Let the run finish, or reject it.",
    )


def explainable(view: RunView, policy: Policy) -> Item:
    """Every attempt that was launched has an end with a reason, and every loss is counted (R135)."""
    ends = _ends(view)
    intents = [record for record, _ in view.all(kinds.LaunchIntended)]
    unexplained = [record.attempt for record in intents if record.attempt not in ends]
    resumed = {
        started.attempt for _, started in view.all(kinds.AttemptStarted) if started.resume_step is not None
    }
    uncounted = [n for n, (_, ended) in ends.items() if n in resumed and ended.steps_repeated is None]
    stops = [record for record, _ in view.all(kinds.StopFired)]
    holds: bool | None = None
    if intents and not unexplained:
        holds = all(ended.reason for _, ended in ends.values()) and not uncounted
    repeated = sum(ended.steps_repeated or 0 for _, ended in ends.values())
    lost = sum(ended.steps_lost or 0 for _, ended in ends.values())
    return item(
        "run.explainable",
        "compute",
        evidence=(*intents, *(record for record, _ in ends.values()), *stops),
        holds=holds,
        expected="a reason for every end, every lost step counted",
        found=f"{len(ends)} attempt(s), {lost} steps lost, {repeated} repeated, {len(stops)} stop rule(s) fired",
        check="each launch has an end with a reason and counted steps",
        owner=policy.people.platform_owner,
        requirement="R135",
        hint=f"Attempts without an end: {', '.join(map(str, unexplained))}." if unexplained else "",
    )


def evidence_location(view: RunView, policy: Policy) -> Item:
    """The raw log of each attempt can be found and checked (R136)."""
    started = {fact.attempt for _, fact in view.all(kinds.AttemptStarted)}
    ends = [found for attempt, found in _ends(view).items() if attempt in started]
    missing = [ended.attempt for _, ended in ends if not (ended.log_uri and ended.log_digest)]
    return item(
        "run.evidence_location",
        "compute",
        evidence=tuple(record for record, _ in ends),
        holds=True if ends and not missing else None,
        expected="a location and a digest per attempt",
        found="; ".join(f"attempt {e.attempt}: {short(e.log_digest or '')}" for _, e in ends),
        check="the log of each attempt that started is recorded with location and digest",
        owner=policy.people.platform_owner,
        requirement="R136",
        hint=f"No log is recorded for attempts {', '.join(map(str, missing))}." if missing else "",
    )


def environment(view: RunView, policy: Policy) -> Item:
    """What ran is what was declared (R071)."""
    declared_record, _ = last(view, kinds.EnvironmentDeclared)
    seen = list(view.all(kinds.EnvironmentObserved))
    named = sorted(
        {
            str(d.get("field"))
            for _, observed in seen
            for d in observed.differences
            if d.get("grade") != "info"
        }
    )
    return item(
        "run.environment",
        "compute",
        evidence=(declared_record, *(record for record, _ in seen)),
        holds=None if not seen else not named,
        expected="no difference",
        found=", ".join(named) or "no difference",
        check="the environment observed in the worker equals the declared one",
        blocking=policy.environment.drift == "stop",
        owner=policy.people.platform_owner,
        requirement="R071",
        hint="Read the differences on the run's page; they are part of what you sign.",
    )


def changes(view: RunView, policy: Policy) -> Item:
    """Manual changes are recorded with reason, person and scope, and explain every drift between attempts (R093)."""
    recorded, drift = changes_of(view), unexplained_drift(view)
    seen = [record for record, _ in view.all(kinds.EnvironmentObserved)]
    listed = "; ".join(told(change) for _, change in recorded) or "no manual change recorded"
    return item(
        "run.changes",
        "compute",
        evidence=(*(record for record, _ in recorded), *seen),
        holds=None if not seen and not recorded else not drift,
        expected="a recorded change for every drift between attempts",
        found=f"unexplained: {'; '.join(drift)}" if drift else listed,
        check="each manual change has reason, person and scope; each drift between attempts has a recorded change",
        blocking=False,
        owner=policy.people.platform_owner,
        requirement="R093",
        hint="Record what was changed: pretrain-archive run change.",
    )


def metrics(view: RunView, policy: Policy) -> Item:
    """Training loss is recorded and finite at the end (R091)."""
    newest = view.last(kinds.MetricsRecorded)
    end = view.losses[-1] if view.losses else None
    return item(
        "run.metrics",
        "compute",
        evidence=(newest[0] if newest else None,),
        holds=None if end is None else end[1] is not None,
        expected="a finite loss at the end",
        found=f"loss {end[1]:.4g} at step {end[0]}" if end and end[1] is not None else "not finite",
        check="the loss was reported during the run and is finite at its end",
        owner=policy.people.model_owner,
        requirement="R091",
        hint="Report the metric 'loss' from the program.",
    )


def recoverable(view: RunView, policy: Policy) -> Item:
    """At least one checkpoint was verified (R095)."""
    kept = list(view.all(kinds.CheckpointRegistered))
    refused = list(view.all(kinds.CheckpointRefused))
    newest = kept[-1][1] if kept else None
    return item(
        "run.checkpoints",
        "artifact",
        evidence=tuple(record for record, _ in kept + refused),
        holds=None if newest is None else True,
        expected="at least one verified checkpoint",
        found=f"{len(kept)} verified (newest step {newest.step}), {len(refused)} refused" if newest else "",
        check="each registered checkpoint was read back, hashed and its tensors checked",
        owner=policy.people.restore_owner,
        requirement="R095",
        hint="Register a complete checkpoint.",
    )


def evaluated(view: RunView, policy: Policy) -> Item:
    """An evaluation with baselines exists for the run's checkpoint (R119)."""
    record, report = last_deciding(view) or (None, None)
    failed = last_failure(view)
    found = ""
    if report is not None:
        shown = ", ".join(
            f"{m.name} {m.value:.4g}" if m.value is not None else f"{m.name} {m.not_finite}"
            for m in report.metrics
        )
        counted = sum(baseline.counted for baseline in report.baselines)
        found = f"{shown}; {counted} baseline(s)" + (
            f"; flags: {', '.join(report.flags)}" if report.flags else ""
        )
    return item(
        "run.evaluated",
        "artifact",
        evidence=(record, failed[0] if failed else None),
        expected="metrics and baselines of one definition",
        holds=None if report is None else any(b.counted for b in report.baselines) and not report.flags,
        found=found,
        check="the evaluation has samples, finite metrics and baselines of the same definition",
        blocking=False,
        owner=policy.people.model_owner,
        requirement="R119",
        hint=f"The last try failed: {failed[1].detail}" if failed else "Evaluate the checkpoint.",
    )


def own_signature(view: RunView, policy: Policy) -> Item:
    """Every launch rests on an approval that was signed before it, separately from this gate (R137)."""
    decisions = {record.record_id: (record, d) for record, d in view.all(kinds.GateDecision)}
    launches = list(view.all(kinds.LaunchIntended))
    pairs = [
        (record, decisions.get(str(launch.token.get("prepare_decision"))))
        for record, launch in launches
        if launch.scope != "exploration"
    ]
    explored = len(launches) - len(pairs)
    unsigned = [
        record.attempt
        for record, found in pairs
        if found is None
        or found[1].gate != "prepare"
        or found[1].decision != "approve"
        or found[0].position >= record.position
    ]
    signers = sorted({found[1].person_name for _, found in pairs if found})
    return item(
        "run.signed_apart",
        "gates",
        evidence=(*(record for record, _ in pairs), *(found[0] for _, found in pairs if found)),
        holds=not unsigned if launches else None,
        expected="signed before each launch",
        found=f"{len(pairs)} launch(es), prepare signed by {', '.join(signers) or 'nobody'}"
        + (f"; {explored} explored under the policy's ceiling" if explored else ""),
        check="the approval that each launch names stands before it in the log; this gate has a signature of its own",
        owner=policy.people.platform_owner,
        requirement="R137",
        hint=f"Launches without one: {', '.join(map(str, unsigned))}."
        if unsigned
        else "Launch the run first.",
    )


CHECKS = (
    completed,
    resources_used,
    metrics,
    metrics_moving,
    explainable,
    evidence_location,
    environment,
    changes,
    *RECOVERY,
    recoverable,
    evaluated,
    own_signature,
)
