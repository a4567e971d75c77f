"""One timeline of a run: members, nodes, storage, network, checkpoints, waits, stops and persons in one order (R087).

Moments come from several clocks: the ledger's, the workers' and the cluster's. Each entry says which; a worker's
moments are led to the ledger's clock by the difference that the attempt's records show (see cost_clock.py), so that
the order is one. Where nothing but the record's own moment is known, that stands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from pretrain_archive.domain import kinds
from pretrain_archive.domain.cost_clock import moment, text_of
from pretrain_archive.domain.cost_evidence import evidence_of
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.timeline_events import Around, event_entry, member_entries

Lane = Literal[
    "gates", "operator", "attempts", "waits", "members", "nodes", "network", "environment", "storage", "checkpoints",
    "stops",
]  # fmt: skip
LANES: tuple[Lane, ...] = get_args(Lane)

Clock = Literal["ledger", "worker", "cluster"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """Something that happened at ``at`` (RFC 3339 on the ledger's clock), up to ``until`` where it lasted.

    ``what`` names it in English, ``kind`` and ``name`` for other languages; ``tone`` is good, bad or plain. ``count``
    above 1 stands for that many entries that lie close together.
    """

    at: str
    until: str | None = None
    lane: Lane
    kind: str
    name: str = ""
    what: str
    attempt: int | None = None
    worker: int | None = None
    record: str = ""
    clock: Clock = "ledger"
    tone: Literal["plain", "good", "bad"] = "plain"
    count: int = 1

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)


def timeline(view: RunView, *, lanes: Collection[str] = ()) -> list[Entry]:
    """Everything that happened in a run, in one order; ``lanes`` chooses some of them (empty: all)."""
    shifts = {one.attempt: one.shift for one in evidence_of(view)}
    around = Around(view)
    placed = [
        (moment(entry.at) or 0, record.position, number, entry)
        for record in view.records
        for number, entry in enumerate(_entries(around, record, shifts.get(record.attempt, 0)))
    ]
    ordered = [entry for *_, entry in sorted(placed, key=lambda item: item[:3])]
    return [entry for entry in ordered if not lanes or entry.lane in lanes]


def _entries(around: Around, record: Record, shift: int) -> Iterator[Entry]:
    """What one record tells; a payload that does not fit any more is told by its kind alone."""
    teller = _TELLERS.get(record.kind)
    try:
        told = list(teller(around, record)) if teller else []
    except (ValueError, KeyError):
        told = [dict(lane="storage", what=record.kind)]  # noqa: C408 (as the tellers write it)
    for fields in told:
        at = moment(fields.pop("at", None))
        clock = fields.pop("clock", "ledger")
        if at is not None and clock == "worker":
            at += shift
        until = moment(fields.pop("until", None))
        if until is not None and clock == "worker":
            until += shift
        yield Entry(
            at=text_of(at) if at is not None else record.recorded_at, clock=clock if at is not None else "ledger",
            until=text_of(until) if until is not None else None, kind=record.kind, record=record.record_id,
            attempt=record.attempt or None, **fields,
        )  # fmt: skip


Fields = dict[str, Any]


def _gate(_around: Around, record: Record) -> Iterator[Fields]:
    payload = record.payload
    name, verb = str(payload["gate"]), record.kind.partition(".")[2]
    if record.kind == "gate.decision":
        approved = payload["decision"] == "approve"
        what = f"{name} gate: {payload['decision']} by {payload['person_name']}: {payload['reason']}"
        yield {"lane": "gates", "name": name, "what": what, "tone": "good" if approved else "bad"}
    else:
        words = {"dossier": "asked", "refused": "an answer was refused", "expired": "expired"}
        bad = verb in {"expired", "refused"}
        yield {
            "lane": "gates",
            "name": name,
            "what": f"{name} gate: {words.get(verb, verb)}",
            "tone": "bad" if bad else "plain",
        }


def _run(_around: Around, record: Record) -> Iterator[Fields]:
    reason = record.payload.get("reason", "")
    yield {
        "lane": "gates", "what": record.kind.replace(".", " ") + (f": {reason}" if reason else ""),
        "tone": "bad" if record.kind == "run.failed" else "plain",
    }  # fmt: skip


def _launch(_around: Around, record: Record) -> Iterator[Fields]:
    intent = kinds.read_payload(record, kinds.LaunchIntended)
    scope = " (exploration)" if intent.scope == "exploration" else ""
    yield {
        "lane": "attempts",
        "name": intent.target,
        "what": f"launch token consumed, target {intent.target}{scope}",
    }


def _job(_around: Around, record: Record) -> Iterator[Fields]:
    if record.kind == "job.created":
        job = kinds.read_payload(record, kinds.JobCreated)
        what = f"{job.object_kind} {job.namespace}/{job.name} created"
        yield {"lane": "attempts", "name": job.name, "what": what}
        return
    if record.kind == "job.ended":
        over = kinds.read_payload(record, kinds.JobEnded)
        yield {
            "lane": "attempts", "name": over.name, "what": f"job {over.name} ended: {over.reason}", "at": over.at,
            "clock": "cluster", "tone": "plain" if over.succeeded else "bad",
        }  # fmt: skip
        return
    gone = kinds.read_payload(record, kinds.JobRemoved)
    proof = "proven absent" if gone.verified_absent else f"{len(gone.pods_left)} pods left"
    yield {
        "lane": "attempts", "name": gone.name, "what": f"job {gone.name} removed, {proof}: {gone.reason}",
        "at": gone.at,
        "clock": "cluster", "tone": "plain" if gone.verified_absent else "bad",
    }  # fmt: skip


def _started(around: Around, record: Record) -> Iterator[Fields]:
    start = kinds.read_payload(record, kinds.AttemptStarted)
    base = "from the beginning" if start.resume_step is None else f"from step {start.resume_step}"
    yield {
        "lane": "attempts",
        "name": start.host,
        "what": f"attempt {start.attempt} started {base} on {start.host}",
        "until": around.ended_at.get(start.attempt),
    }
    if start.attempt not in around.with_members:
        yield {"lane": "nodes", "name": start.host, "what": f"node {start.host}", "worker": 0}


def _ended(_around: Around, record: Record) -> Iterator[Fields]:
    end = kinds.read_payload(record, kinds.AttemptEnded)
    why = f" ({end.exit_class})" if end.exit_class else ""
    yield {
        "lane": "attempts", "name": end.state, "what": f"attempt {end.attempt} {end.state}{why}: {end.reason}",
        "tone": "good" if end.state == "completed" else "bad", "at": end.ended_at, "clock": "worker",
    }  # fmt: skip


def _wait(around: Around, record: Record) -> Iterator[Fields]:
    wait = kinds.read_payload(record, kinds.WaitObserved)
    if wait.ended:
        return
    yield {
        "lane": "waits", "name": wait.reason, "what": f"waits for {wait.reason}: {wait.message}", "at": wait.at,
        "clock": "cluster", "until": around.next_wait.get(record.position),
    }  # fmt: skip


def _checkpoint(_around: Around, record: Record) -> Iterator[Fields]:
    if record.kind == "checkpoint.registered":
        saved = kinds.read_payload(record, kinds.CheckpointRegistered)
        size = sum(file.size for file in saved.files)
        what = f"checkpoint of step {saved.step} registered, {size} bytes"
        yield {"lane": "checkpoints", "name": str(saved.step), "what": what, "tone": "good"}
        return
    bad = kinds.read_payload(record, kinds.CheckpointRefused)
    what = f"checkpoint of step {bad.step} refused: {'; '.join(bad.problems[:3])}"
    yield {"lane": "checkpoints", "name": str(bad.step), "what": what, "tone": "bad"}


def _environment(_around: Around, record: Record) -> Iterator[Fields]:
    seen = kinds.read_payload(record, kinds.EnvironmentObserved)
    names = [str(d.get("field", "")) for d in seen.differences]
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    text = f"differs from the declared one in {', '.join(names[:5])}{more}" if names else "as declared"
    bad = any(d.get("grade") == "blocking" for d in seen.differences)
    yield {
        "lane": "environment", "name": seen.moment, "what": f"environment at {seen.moment}: {text}",
        "worker": seen.worker, "tone": "bad" if bad else "plain",
    }  # fmt: skip


def _stop(_around: Around, record: Record) -> Iterator[Fields]:
    fired = kinds.read_payload(record, kinds.StopFired)
    what = f"stop rule {fired.rule}: {fired.observed}, limit {fired.limit}"
    yield {"lane": "stops", "name": fired.rule, "what": what, "tone": "bad"}


def _change(_around: Around, record: Record) -> Iterator[Fields]:
    change = kinds.read_payload(record, kinds.ChangeRecorded)
    shown = f"{change.before} → {change.after}, " if change.before or change.after else ""
    what = f"{change.person} changed {change.what} ({change.scope}): {shown}{change.reason}"
    yield {"lane": "operator", "name": change.what, "what": what, "at": change.at}
    if change.what == "network":
        yield {"lane": "network", "name": change.what, "what": what, "at": change.at}


def _note(_around: Around, record: Record) -> Iterator[Fields]:
    yield {
        "lane": "operator",
        "name": str(record.payload["topic"]),
        "what": f"{record.payload['topic']}: {record.payload['text']}",
    }


def _reconciled(_around: Around, record: Record) -> Iterator[Fields]:
    done = kinds.read_payload(record, kinds.AttemptReconciled)
    lost, again = ("unrecorded" if n is None else str(n) for n in (done.steps_lost, done.steps_repeated))
    yield {"lane": "attempts", "what": f"reconciled after the recovery: {lost} steps lost, {again} repeated"}


def _drill(_around: Around, record: Record) -> Iterator[Fields]:
    drill = kinds.read_payload(record, kinds.DrillFiled)
    what = f"drill {drill.injected}: {'passed' if drill.passed else 'not passed'}"
    yield {
        "lane": "operator",
        "name": drill.injected,
        "what": what,
        "tone": "good" if drill.passed else "bad",
    }
    if drill.injected == "network_cut":
        yield {"lane": "network", "name": drill.injected, "what": drill.detail}


def _storage(_around: Around, record: Record) -> Iterator[Fields]:
    payload = record.payload
    name = str(payload.get("ref") or f"{payload.get('name')}@{payload.get('version')}")
    yield {"lane": "storage", "name": name, "what": f"{record.kind.replace('.', ' ')} {name}"}


_TELLERS: dict[str, Callable[[Around, Record], Iterator[Fields]]] = {
    **dict.fromkeys(("gate.dossier", "gate.decision", "gate.refused", "gate.expired"), _gate),
    **dict.fromkeys(("run.opened", "run.failed", "run.closed"), _run),
    **dict.fromkeys(("job.created", "job.ended", "job.removed"), _job),
    **dict.fromkeys(("checkpoint.registered", "checkpoint.refused"), _checkpoint),
    **dict.fromkeys(("snapshot.created", "tombstone.written"), _storage),
    "launch.intended": _launch, "attempt.started": _started, "attempt.ended": _ended, "wait.observed": _wait,
    "member.observed": member_entries, "event.recorded": event_entry, "environment.observed": _environment,
    "stop.fired": _stop, "change.recorded": _change, "note.added": _note, "attempt.reconciled": _reconciled,
    "drill.filed": _drill,
}  # fmt: skip


KEPT = {"gates", "operator", "stops"}
"""Lanes of which nothing is put together: each entry is somebody's decision or its reason."""


def thinned(entries: list[Entry], most: int) -> list[Entry]:
    """At most about ``most`` entries: in lanes with many, those that lie close together become one with a count.

    Bad news are never put together with others; what is decided by persons stays whole up to the limit.
    """
    if len(entries) <= most:
        return entries
    kept = [entry for entry in entries if entry.lane in KEPT][-most // 2 :]
    rest = [entry for entry in entries if entry.lane not in KEPT]
    lanes = {entry.lane for entry in rest}
    share = max(4, (most - len(kept)) // max(1, 2 * len(lanes)))
    first, last = moment(entries[0].at) or 0, moment(entries[-1].at) or 0
    width = max(1, (last - first) // share)
    groups: dict[tuple[str, str, int], Entry] = {}
    for entry in rest:
        key = (entry.lane, entry.tone, ((moment(entry.at) or 0) - first) // width)
        known = groups.get(key)
        groups[key] = entry if known is None else _joined(known, entry)
    return sorted([*kept, *groups.values()], key=lambda entry: moment(entry.at) or 0)


def _joined(one: Entry, other: Entry) -> Entry:
    """Two entries as one: from the first moment to the last, with the newer one's words."""
    return replace(
        one, until=max(one.until or one.at, other.until or other.at), count=one.count + other.count,
        what=other.what, name=other.name if one.name == other.name else "", record=other.record,
    )  # fmt: skip
