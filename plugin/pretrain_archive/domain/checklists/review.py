"""The review after a stop: what happened, what it cost, and whether the same run may go on (R094–R096).

No item blocks: a run can always be stopped. Those of :data:`~pretrain_archive.domain.gates.RESUME_REQUIRED` forbid
that it is resumed.
"""

from __future__ import annotations

from dataclasses import replace

from pretrain_archive.domain import kinds
from pretrain_archive.domain.changes import changes_of, unexplained_drift
from pretrain_archive.domain.checklists import sources
from pretrain_archive.domain.checklists.common import item
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.reviews import attempts_left, cause_of, figures, kept_checkpoint, last_end
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item

MOST_NAMED = 10


def cause(view: RunView, policy: Policy) -> Item:
    """Which attempt ended how, and which rule with which limit ended it."""
    found = cause_of(view)
    end = last_end(view)
    state = f"attempt {end[1].attempt} {end[1].state} at step {end[1].last_step}" if end else ""
    return item(
        "review.cause",
        "compute",
        evidence=found.evidence if found else (),
        holds=None if found is None else bool(found.observed),
        expected="a reason for the end",
        found=f"{state}; {found.text()}" if found else "",
        check="the end of the attempt is recorded with its reason, and the stop rule with what it saw and its limit",
        blocking=False,
        owner=policy.people.platform_owner,
        requirement="R096",
        hint="Read the log of the attempt.",
    )


def checkpoint(view: RunView, policy: Policy) -> Item:
    """From which verified checkpoint a next attempt would start; without any it starts over."""
    kept = kept_checkpoint(view)
    return item(
        "review.checkpoint",
        "artifact",
        evidence=(kept[0] if kept else None,),
        holds=True if kept else None,
        expected="a verified checkpoint",
        found=f"step {kept[1].step} of attempt {kept[0].attempt}" if kept else "",
        check="the newest registered checkpoint was read back and hashed, and its bytes were not deleted",
        blocking=False,
        owner=policy.people.restore_owner,
        requirement="R095",
        hint="Without one a further attempt starts from the first step.",
    )


def lost(view: RunView, policy: Policy) -> Item:
    """How many steps the end cost."""
    end = last_end(view)
    counted = end is not None and end[1].steps_lost is not None
    return item(
        "review.lost",
        "compute",
        evidence=(end[0] if end else None,),
        holds=True if counted else None,
        expected="lost steps counted",
        found=f"{end[1].steps_lost} steps lost" if end and counted else "",
        check="steps after the last verified checkpoint of the attempt were counted",
        blocking=False,
        owner=policy.people.platform_owner,
        requirement="R088",
        hint="The program reported no step.",
    )


def budget(view: RunView, policy: Policy) -> Item:
    """Whether anything of the budget is left."""
    told = figures(view)
    left = told.get("minutes_left")
    declared = view.last(kinds.ConfigurationDeclared)
    ends = [record for record, _ in view.all(kinds.AttemptEnded)]
    return item(
        "review.budget",
        "compute",
        evidence=(declared[0] if declared else None, *ends),
        holds=None if left is None else float(left) > 0,
        expected="budget left",
        found=f"{told['minutes_spent']} min taken, {left} min left" if left is not None else "",
        check="the charged time of all attempts is below the signed budget",
        blocking=False,
        owner=policy.people.budget_owner,
        requirement="R096",
        hint="A run cannot get more: trigger a new run with a larger budget.",
    )


def attempts(view: RunView, policy: Policy) -> Item:
    """Whether any attempt is left."""
    left = attempts_left(view)
    ends = [record for record, _ in view.all(kinds.AttemptEnded)]
    return item(
        "review.attempts",
        "compute",
        evidence=tuple(ends),
        holds=None if left is None else left > 0,
        expected="at least one attempt left",
        found=f"{view.attempts} used, {left} left" if left is not None else "",
        check="fewer attempts were launched than the signed stop conditions allow",
        blocking=False,
        owner=policy.people.platform_owner,
        requirement="R094",
        hint="A run cannot get more: trigger a new run with what you change.",
    )


def environment(view: RunView, policy: Policy) -> Item:
    """Whether the workers' environment was the signed one."""
    end = last_end(view)
    seen = [f for f in view.all(kinds.EnvironmentObserved) if end and f[0].attempt == end[1].attempt]
    named = sorted({
        f"{d.get('field')}: {d.get('observed')}" for _, observed in seen for d in observed.differences
        if d.get("grade") != "info"
    })  # fmt: skip
    return item(
        "review.environment",
        "compute",
        evidence=tuple(record for record, _ in seen),
        holds=None if not seen else not named,
        expected="no difference",
        found="; ".join(named[:MOST_NAMED]) or "no difference",
        check="the environment that the workers of the attempt observed equals the signed one",
        blocking=False,
        owner=policy.people.platform_owner,
        requirement="R071",
        hint="Mend the machine, or trigger a new run under the environment that is there.",
    )


def data(view: RunView, policy: Policy) -> Item:
    """Whether the program met data that it could not read, or other data than the signed ones."""
    end = last_end(view)
    number = end[1].attempt if end else 0
    told = [f for f in view.all(kinds.EventRecorded) if f[0].attempt == number and f[1].event == "data_read"]
    stops = [f for f in view.all(kinds.StopFired) if f[1].attempt == number and f[1].rule == "data_anomaly"]
    reads = [
        record for record, batch in view.all(kinds.MetricsRecorded)
        if record.attempt == number and any(point.name.startswith("data_read_") for point in batch.points)
    ]  # fmt: skip
    bad = [f"step {event.step}: {event.data['problem']}" for _, event in told if event.data.get("problem")]
    bad += [stop.observed for _, stop in stops if not bad]
    return item(
        "review.data",
        "data",
        evidence=(*(r for r, _ in told), *(r for r, _ in stops), *reads[-1:]),
        holds=False if bad else True if reads or told else None,
        expected="every read gave what was signed",
        found="; ".join(bad[:MOST_NAMED]) or "no anomaly",
        check="the program reported what it read, without an unreadable shard, another digest or empty reads",
        blocking=False,
        owner=policy.people.data_owner,
        requirement="R092",
        hint="Report data_read from the program; verify the snapshot's bytes.",
    )


def source_rights(view: RunView, policy: Policy) -> Item:
    """Whether the run's sources may still be read."""
    return replace(sources.source_rights(view, policy), id="review.sources", blocking=False)


def changes(view: RunView, policy: Policy) -> Item:
    """What persons changed by hand since the launch, and drift that nobody recorded a change for."""
    recorded, open_drift = changes_of(view), unexplained_drift(view)
    told = [change.what for _, change in recorded]
    return item(
        "review.changes",
        "compute",
        evidence=tuple(record for record, _ in recorded),
        holds=not open_drift,
        expected="a recorded change for every drift between attempts",
        found="; ".join(open_drift) or (", ".join(told) if told else "no manual change recorded"),
        check="manual changes are listed; a drift between attempts has a recorded change",
        blocking=False,
        owner=policy.people.platform_owner,
        requirement="R093",
        hint="Record it: pretrain-archive run change.",
    )


CHECKS = (cause, checkpoint, lost, budget, attempts, environment, data, source_rights, changes)
