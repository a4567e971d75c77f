"""What still holds resources, told apart by the state of its task and not by whether a process runs (R226, R227).

Each candidate says what it is, since when, on which evidence, and who is to be asked. Nothing is reclaimed here: a
person decides, and records the action as a manual change or a plan of the clean-up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pretrain_archive.domain import kinds
from pretrain_archive.domain.cost_clock import moment
from pretrain_archive.domain.cost_evidence import AttemptEvidence, evidence_of
from pretrain_archive.domain.cost_held import holdings_of
from pretrain_archive.domain.run_view import RunView

IdleClass = Literal["finished", "failed", "idle", "long_retained"]
DAY = 86_400_000_000
MINUTE = 60_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleCandidate:
    """Something that could be given back. ``devices`` are held now; ``bytes`` are stored."""

    run_uid: str
    attempt: int | None
    idle_class: IdleClass
    since: str
    seconds: float
    devices: int
    bytes: int
    evidence: str
    ask: str | None
    exception: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)


def idle_candidates(
    view: RunView, now: str, *, retain_days: float = 14.0, silent_minutes: float | None = None
) -> Iterator[IdleCandidate]:
    """What of one run could be given back at ``now``.

    ``silent_minutes`` is how long an attempt without an end may report no step, by default its own stop condition;
    ``retain_days`` how long checkpoints of a run that nobody closed may lie.
    """
    at = moment(now)
    if at is None or view.opened is None:
        return
    removed = {gone.attempt for _, gone in view.all(kinds.JobRemoved) if gone.verified_absent}
    jobs = {job.attempt: record.recorded_at for record, job in view.all(kinds.JobCreated)}
    for one in evidence_of(view):
        held, _ = holdings_of(view, one)
        devices = sum(holding.devices for holding in held)
        if one.state is not None and one.attempt in jobs and one.attempt not in removed:
            yield _left(view, one, at, devices)
        elif one.state is None and one.started:
            yield from _silent(view, one, at, devices, silent_minutes)
    yield from _retained(view, at, retain_days)


def _left(view: RunView, one: AttemptEvidence, at: int, devices: int) -> IdleCandidate:
    """The attempt ended, and nobody proved that its job is gone."""
    end = next(r for r, e in view.all(kinds.AttemptEnded) if e.attempt == one.attempt)
    return _candidate(
        view, one.attempt, "finished" if one.state == "completed" else "failed", end.recorded_at, at,
        devices=devices, evidence=f"the attempt ended as {one.state}; no record proves that its job is gone",
    )  # fmt: skip


def _silent(
    view: RunView, one: AttemptEvidence, at: int, devices: int, minutes: float | None
) -> Iterator[IdleCandidate]:
    """The attempt has no end, and no step for longer than its stop condition allows."""
    declared = view.latest(kinds.ConfigurationDeclared)
    limit = minutes if minutes is not None else declared.stop.no_progress_minutes if declared else None
    mine = [r for r in view.records if r.attempt == one.attempt and r.kind == "metrics.recorded"]
    start = next(r for r, s in view.all(kinds.AttemptStarted) if s.attempt == one.attempt)
    newest = mine[-1] if mine else start
    since = moment(newest.recorded_at)
    if limit is None or since is None or at - since < limit * MINUTE:
        return
    what = "no step was reported since" if mine else "no step was ever reported since its start"
    yield _candidate(
        view, one.attempt, "idle", newest.recorded_at, at, devices=devices,
        evidence=f"the attempt has no end and {what}; its limit is {limit:g} min",
    )  # fmt: skip


def _retained(view: RunView, at: int, days: float) -> Iterator[IdleCandidate]:
    """Checkpoints of a run that ended its training long ago, was never closed, and whose bytes still lie there."""
    if view.state in {"closed", "training"} or not view.records:
        return
    gone = {t.ref.partition(":")[2] for _, t in view.all(kinds.TombstoneWritten) if not t.parts}
    kept = [
        sum(file.size for file in c.files)
        for _, c in view.all(kinds.CheckpointRegistered)
        if c.checkpoint_id not in gone
    ]
    last = view.records[-1].recorded_at
    since = moment(last)
    if not kept or since is None or at - since < days * DAY:
        return
    yield _candidate(
        view, None, "long_retained", last, at, stored=sum(kept),
        evidence=f"{len(kept)} checkpoints lie there, the run is {view.state}, nothing was recorded of it since",
    )  # fmt: skip


def _candidate(
    view: RunView, attempt: int | None, name: IdleClass, since: str, at: int, *, devices: int = 0, stored: int = 0,
    evidence: str,
) -> IdleCandidate:  # fmt: skip
    opened = view.opened
    people = opened.people if opened else {}
    return IdleCandidate(
        run_uid=view.run_uid, attempt=attempt, idle_class=name, since=since,
        seconds=max(0, at - (moment(since) or at)) / 1e6, devices=devices, bytes=stored, evidence=evidence,
        ask=(opened.submitter if opened else None) or people.get("platform_owner"), exception=_exception(view),
    )  # fmt: skip


def _exception(view: RunView) -> str:
    """Why it may have to stay: a gate that waits for a person, or a legal hold of the policy."""
    if gate := view.waiting_gate():
        return f"the {gate} gate waits for a person"
    retention = (view.opened.policy if view.opened else {}).get("retention")
    holds = retention.get("legal_hold") if isinstance(retention, dict) else None
    return "the policy names legal holds" if holds else ""
