"""Whether a run shows that a value holds: read from the ledger, never taken from whoever says so (R229, R230)."""

from __future__ import annotations

from dataclasses import dataclass, field

from pretrain_archive.domain import kinds
from pretrain_archive.domain.exploration import is_exploration
from pretrain_archive.domain.governance_changes import ChangeView
from pretrain_archive.domain.governance_drill import drill_gaps
from pretrain_archive.domain.governance_observed import nodes_of, same_value, values_of, workers_of
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_diff import compare
from pretrain_archive.domain.run_view import RunView


@dataclass
class Look:
    """What was looked up in one run: ``against`` names what forbids it as evidence.

    ``attempt`` is the one that came through, ``attempts`` are all that the evidence rests on.
    """

    attempt: int = 0
    attempts: tuple[int, ...] = ()
    found: list[str] = field(default_factory=list)
    against: list[str] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)

    def take(self, text: str, *records: Record | str) -> None:
        """Something that holds, with its records."""
        self.found.append(text)
        self.evidence += [r if isinstance(r, str) else r.record_id for r in records]


def verification(change: ChangeView, view: RunView, reference: RunView | None) -> Look:
    """Whether the change's scenario came through in ``view``, inside the controlled scope, after the proposal."""
    regression, look = change.proposed.regression, Look()
    if regression.kind == "drill":
        _drill(look, change, view)
    else:
        _completed(look, view)
        _like(look, change, view, reference)
    _after(look, view, change.begin, "the change was proposed")
    _on_value(look, change, view)
    _scope(look, change, view)
    return look


def acceptance(change: ChangeView, view: RunView, project: str) -> Look:
    """Whether a run of ``project`` itself came through on the new value since the change was verified."""
    look = Look()
    opened = view.opened
    if opened is None or opened.project != project:
        look.against.append(f"it is no run of project {project}")
    if is_exploration(view) or view.last(kinds.DrillFiled):
        look.against.append("it is a drill or an exploration, and no task of the project")
    _completed(look, view)
    verified = next((r for r in reversed(change.records) if r.kind == "platform.verified"), None)
    _after(look, view, verified.position if verified else change.begin, "the change was verified")
    _on_value(look, change, view)
    return look


def _drill(look: Look, change: ChangeView, view: RunView) -> None:
    wanted = change.proposed.regression.name
    found = view.last(kinds.DrillFiled)
    if found is None:
        look.against.append("no drill was filed in it")
        return
    record, drill = found
    look.attempt = drill.recovered_attempt or drill.attempt
    look.attempts = tuple(dict.fromkeys((drill.attempt, look.attempt)))
    if drill.injected != wanted:
        look.against.append(f"its drill injected {drill.injected}, and {wanted} was named")
    if drill.recovered_attempt is None:
        look.against.append("no attempt took over in its drill")
    else:
        _ended(look, view)
    if gaps := drill_gaps(drill):
        look.against.append(f"its drill did not pass: {', '.join(gaps)}")
    look.take(f"drill {drill.injected} {'did not pass' if gaps else 'passed'}", record)


def _completed(look: Look, view: RunView) -> None:
    """The newest attempt completed, and what was measured of it passed."""
    look.attempt, look.attempts = view.attempts, (view.attempts,)
    if not view.attempts:
        look.against.append("it has no attempt")
        return
    _ended(look, view)
    if (report := view.last(kinds.EvaluationReported)) is not None:
        if not report[1].passed:
            look.against.append("its evaluation did not pass")
        look.take(f"evaluation {'passed' if report[1].passed else 'not passed'}", report[0])


def _ended(look: Look, view: RunView) -> None:
    """The attempt that came through has an end, and it is a completed one."""
    ended = [found for found in view.all(kinds.AttemptEnded) if found[1].attempt == look.attempt]
    if not ended:
        look.against.append(f"its attempt {look.attempt} has no end")
        return
    record, end = ended[-1]
    if end.state != "completed":
        look.against.append(f"its attempt {end.attempt} {end.state}: {end.reason}")
    look.take(f"attempt {end.attempt} {end.state}", record)


def _like(look: Look, change: ChangeView, view: RunView, reference: RunView | None) -> None:
    """The scenario is the reference run done again: nothing but the environment may differ."""
    if reference is None or reference.opened is None:
        look.against.append(f"the reference run {change.proposed.regression.name} is not in the ledger")
        return
    differ = sorted({c.cause for c in compare(reference, [view]).changed} - {"environment"})
    if view.run_uid == reference.run_uid:
        look.against.append("it is the reference run itself")
    if differ:
        look.against.append(f"it differs from the reference run in {', '.join(differ)}")
    else:
        look.take(f"data, code, configuration and resources as in {reference.run_uid}")


def _after(look: Look, view: RunView, position: int, what: str) -> None:
    launches = {r.attempt: r for r in reversed(view.records) if r.kind == "launch.intended"}
    for attempt in look.attempts:
        launched = launches.get(attempt)
        if launched is None:
            look.against.append(f"no launch of attempt {attempt} is recorded")
        elif launched.position < position:
            look.against.append(f"attempt {attempt} was launched before {what}")
        else:
            look.take(f"attempt {attempt} launched after {what}", launched)


def _on_value(look: Look, change: ChangeView, view: RunView) -> None:
    """Every worker had the new value whenever it was looked at; one that nobody looked at is unrecorded."""
    where, after = change.proposed.where, change.proposed.after
    for attempt in look.attempts:
        seen = values_of(view, where, attempt)
        wrong = {(s.worker, s.value): s for s in seen if not same_value(where, s.value, after)}
        who = {s.worker for s in seen}
        silent = [] if None in who else sorted(workers_of(view, attempt) - who)
        if not seen:
            look.against.append(f"{where} of attempt {attempt} is unrecorded")
        elif silent:
            look.against.append(f"{where} of attempt {attempt} is unrecorded in {_workers(silent)}")
        for one in list(wrong.values())[:5]:
            name = "the run" if one.worker is None else f"worker {one.worker}"
            look.against.append(f"{name} of attempt {attempt} had {where} {one.value}, not {after}")
        if seen and not wrong and not silent:
            look.take(f"attempt {attempt}: {where} {after} in {len(who)} places", *(s.record for s in seen))


def _workers(numbers: list[int]) -> str:
    more = f" and {len(numbers) - 5} more" if len(numbers) > 5 else ""
    return f"worker{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers[:5]))}{more}"


def _scope(look: Look, change: ChangeView, view: RunView) -> None:
    """It ran where the change may be tried."""
    proposed, project = change.proposed, view.opened.project if view.opened else ""
    if proposed.scope_projects and project not in proposed.scope_projects:
        look.against.append(f"project {project} is outside the controlled scope")
    if not proposed.scope_nodes:
        return
    for attempt in look.attempts:
        placed = nodes_of(view, attempt)
        nodes = {node for names in placed.values() for node in names}
        outside = sorted(nodes - set(proposed.scope_nodes))
        silent = sorted(workers_of(view, attempt) - placed.keys())
        if not nodes:
            look.against.append(f"on which nodes attempt {attempt} ran is unrecorded")
        elif silent:
            look.against.append(f"on which nodes attempt {attempt} ran is unrecorded of {_workers(silent)}")
        if outside:
            look.against.append(f"nodes outside the controlled scope: {', '.join(outside)}")
        elif nodes and not silent:
            look.take(f"attempt {attempt} on {', '.join(sorted(nodes))}")
