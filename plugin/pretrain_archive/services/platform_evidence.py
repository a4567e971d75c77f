"""Whether a run shows that a value holds: read from the ledger, never taken from whoever says so (R229, R230)."""

from __future__ import annotations

from dataclasses import dataclass, field

from pretrain_archive.domain import kinds
from pretrain_archive.domain.exploration import is_exploration
from pretrain_archive.domain.governance_changes import ChangeView
from pretrain_archive.domain.governance_observed import POLICY, newest_values, same_value
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_diff import compare
from pretrain_archive.domain.run_view import RunView


@dataclass
class Look:
    """What was looked up in one run: ``against`` names what forbids it as evidence."""

    attempt: int = 0
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
    _on_value(look, change, view, [look.attempt])
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
    _on_value(look, change, view, [look.attempt])
    return look


def _drill(look: Look, change: ChangeView, view: RunView) -> None:
    wanted = change.proposed.regression.name
    found = view.last(kinds.DrillFiled)
    if found is None:
        look.against.append("no drill was filed in it")
        return
    record, drill = found
    look.attempt = drill.recovered_attempt or drill.attempt
    if drill.injected != wanted:
        look.against.append(f"its drill injected {drill.injected}, and {wanted} was named")
    if not drill.passed:
        gaps = [str(c.get("name")) for c in drill.checks if c.get("verdict") != "verified"]
        look.against.append(f"its drill did not pass: {', '.join(gaps)}")
    look.take(f"drill {drill.injected} {'passed' if drill.passed else 'did not pass'}", record)


def _completed(look: Look, view: RunView) -> None:
    """The newest attempt completed, and what was measured of it passed."""
    look.attempt = view.attempts
    ended = [found for found in view.all(kinds.AttemptEnded) if found[1].attempt == view.attempts]
    if not ended:
        look.against.append("its newest attempt has no end" if view.attempts else "it has no attempt")
        return
    record, end = ended[-1]
    if end.state != "completed":
        look.against.append(f"its attempt {end.attempt} {end.state}: {end.reason}")
    look.take(f"attempt {end.attempt} {end.state}", record)
    if (report := view.last(kinds.EvaluationReported)) is not None:
        if not report[1].passed:
            look.against.append("its evaluation did not pass")
        look.take(f"evaluation {'passed' if report[1].passed else 'not passed'}", report[0])


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
    launched = next(
        (r for r in view.records if r.kind == "launch.intended" and r.attempt == look.attempt), None
    )
    if launched is None:
        look.against.append(f"no launch of attempt {look.attempt} is recorded")
    elif launched.position < position:
        look.against.append(f"attempt {look.attempt} was launched before {what}")
    else:
        look.take(f"attempt {look.attempt} launched after {what}", launched)


def _on_value(look: Look, change: ChangeView, view: RunView, attempts: list[int]) -> None:
    """Each worker that was looked at had the new value; of an attempt that nobody looked at nothing is known."""
    where, after = change.proposed.where, change.proposed.after
    for attempt in attempts:
        seen = newest_values(view, where, attempt=None if where.startswith(POLICY) else attempt)
        wrong = [s for s in seen if not same_value(where, s.value, after)]
        if not seen:
            look.against.append(f"{where} of attempt {attempt} is unrecorded")
        for one in wrong[:5]:
            who = "the run" if one.worker is None else f"worker {one.worker}"
            look.against.append(f"{who} of attempt {attempt} had {where} {one.value}, not {after}")
        if seen and not wrong:
            look.take(f"{where} {after} in {len(seen)} places", *(s.record for s in seen))


def _scope(look: Look, change: ChangeView, view: RunView) -> None:
    """It ran where the change may be tried."""
    proposed, project = change.proposed, view.opened.project if view.opened else ""
    if proposed.scope_projects and project not in proposed.scope_projects:
        look.against.append(f"project {project} is outside the controlled scope")
    if not proposed.scope_nodes:
        return
    nodes = {m.node for _, m in view.all(kinds.MemberObserved) if m.attempt == look.attempt and m.node}
    nodes |= {
        str(node)
        for record, o in view.all(kinds.EnvironmentObserved)
        if record.attempt == look.attempt and (node := o.environment.get("node"))
    }
    outside = sorted(nodes - set(proposed.scope_nodes))
    if not nodes:
        look.against.append("on which nodes it ran is unrecorded")
    elif outside:
        look.against.append(f"nodes outside the controlled scope: {', '.join(outside)}")
    else:
        look.take(f"on {', '.join(sorted(nodes))}")
