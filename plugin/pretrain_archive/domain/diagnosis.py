"""Hints from joined signals, each with its evidence (R246). Pure.

A hint is a place to look, never a finding: it says what was seen together and what that does not show.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pretrain_archive.domain import kinds
from pretrain_archive.domain.cost import AttemptAccount, RunAccount
from pretrain_archive.domain.cost_bins import MICRO
from pretrain_archive.domain.cost_report import FAILED
from pretrain_archive.domain.diagnosis_inspection import BUSY, busy_share
from pretrain_archive.domain.diagnosis_texts import HINTS, REASONS, WORDS
from pretrain_archive.domain.run_view import RunView

READING, SAVING, STILL, UNKNOWN = 0.2, 0.1, 0.1, 0.2
"""Shares from which a hint is given: rules of thumb, told with the measured value."""
SLOWER, LONGER, LEAST_SAVES = 1.2, 5.0, 4

BATCHES = ("batch", "batch_size", "micro_batch_size", "global_batch_size", "per_device_train_batch_size")
LENGTHS = (
    "sequence_length",
    "seq_length",
    "seq_len",
    "max_seq_len",
    "context",
    "context_length",
    "block_size",
    "window",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Hint:
    """What was seen together: ``values`` fill the text of ``code``, ``records`` are its evidence."""

    code: str
    values: Mapping[str, str]
    records: tuple[str, ...]

    def text(self, language: Literal["en", "zh"] = "en") -> str:
        """The hint in words."""
        place = 0 if language == "en" else 1
        known = {**WORDS, **(REASONS if self.code == "waited" else {})}
        values = {name: known.get(value, (value, value))[place] for name, value in self.values.items()}
        return HINTS[self.code][place].format_map(values)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "code": self.code,
            "text": self.text(),
            "values": dict(self.values),
            "records": list(self.records),
        }


def diagnose(view: RunView, account: RunAccount) -> list[Hint]:
    """All hints that the records of a run give, the most telling first."""
    found = (_memory, _node, _across, _reads, _saves, _still, _waits)
    return [hint for hints in found for hint in hints(view, account)]


def _memory(view: RunView, _account: RunAccount) -> Iterator[Hint]:
    declared = view.last(kinds.ConfigurationDeclared)
    killed: dict[int, list[str]] = {}
    for record, end in view.all(kinds.AttemptEnded):
        if end.exit_class == "oom":
            killed.setdefault(end.attempt, []).append(record.record_id)
    for record, member in view.all(kinds.MemberObserved):
        if member.exit_class == "oom":
            killed.setdefault(member.attempt, []).append(record.record_id)
    for attempt, records in killed.items():
        pairs = list(_settings(declared[1].configuration)) if declared else []
        settings = ", ".join(f"{name} = {value}" for name, value in pairs) or "no_settings"
        evidence = (*records, *([declared[0].record_id] if declared else []))
        yield Hint(
            code="out_of_memory", values={"attempt": str(attempt), "settings": settings}, records=evidence
        )


def _settings(configuration: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Batch and sequence length wherever the configuration names them."""
    for name, value in configuration.items():
        where = f"{path}.{name}" if path else str(name)
        if isinstance(value, Mapping):
            yield from _settings(value, where)
        elif str(name).lower() in {*BATCHES, *LENGTHS} and isinstance(value, int | float):
            yield where, f"{value:g}"


def _node(view: RunView, account: RunAccount) -> Iterator[Hint]:
    """Broken-off attempts and members by node: two or more on one, and more than half of all.

    A node on which an attempt ran to its end is not named: it can do it.
    """
    states = {one.attempt: one.state for one in account.attempts}
    places: dict[str, set[tuple[int, str]]] = {}
    evidence: dict[str, list[str]] = {}
    members = {m.attempt for _, m in view.all(kinds.MemberObserved)}
    told = [
        (m.node, m.attempt, m.name, r.record_id)
        for r, m in view.all(kinds.MemberObserved)
        if m.node and m.exit_class not in {None, "completed", "stopped", "requeued"}
    ]
    told += [
        (s.host, s.attempt, "", r.record_id)
        for r, s in view.all(kinds.AttemptStarted)
        if s.attempt not in members and states.get(s.attempt) in {"failed", "lost"}
    ]
    for node, attempt, name, record in told:
        places.setdefault(node, set()).add((attempt, name))
        evidence.setdefault(node, []).append(record)
    good = {s.host for _, s in view.all(kinds.AttemptStarted) if states.get(s.attempt) == "completed"}
    good |= {
        m.node for _, m in view.all(kinds.MemberObserved) if m.node and states.get(m.attempt) == "completed"
    }
    everything = sum(len(found) for found in places.values())
    for node, found in places.items():
        if node not in good and len({attempt for attempt, _ in found}) >= 2 and len(found) * 2 > everything:
            values = {"node": node, "count": str(len(found)), "all": str(everything)}
            yield Hint(code="one_node", values=values, records=tuple(evidence[node]))


def _across(view: RunView, account: RunAccount) -> Iterator[Hint]:
    nodes: dict[int, set[str]] = {}
    for _, member in view.all(kinds.MemberObserved):
        if member.node:
            nodes.setdefault(member.attempt, set()).add(member.node)
    ends = {end.attempt: record.record_id for record, end in view.all(kinds.AttemptEnded)}
    timed = [(len(nodes[o.attempt]), o) for o in account.attempts if o.attempt in nodes and o.step_us]
    for many, slow in timed:
        for few, fast in timed:
            if many > few and (slow.step_us or 0) >= SLOWER * (fast.step_us or 0):
                values = {
                    "many": str(many), "few": str(few), "slow": _seconds(slow), "fast": _seconds(fast),
                }  # fmt: skip
                records = tuple(ends[o.attempt] for o in (slow, fast) if o.attempt in ends)
                yield Hint(code="across_nodes", values=values, records=records)
    for attempt, names in nodes.items():
        said = [
            r.record_id
            for r, e in view.all(kinds.EventRecorded)
            if e.attempt == attempt
            and ("network" in e.event or "nccl" in str(e.data).lower())
            and "sent_bytes" not in e.data
        ]
        if len(names) > 1 and said:
            values = {"attempt": str(attempt), "many": str(len(names)), "count": str(len(said))}
            yield Hint(code="network_events", values=values, records=tuple(said[:20]))


def _seconds(one: AttemptAccount) -> str:
    return f"{(one.step_us or 0) / MICRO:.3g}"


def _reads(view: RunView, account: RunAccount) -> Iterator[Hint]:
    busy = busy_share(view)
    worked = sum(
        p.device_us / max(1, one.devices)
        for one in account.attempts
        for p in one.slices
        if p.bin in {"productive", "lost", "recomputed"}
    )
    if busy is None or busy[0] >= BUSY or worked <= 0:
        return
    reads = [
        (record.record_id, float(point["value"]))
        for record in view.records
        if record.kind == "metrics.recorded"
        for point in record.payload.get("points", ())
        if point.get("name") == "data_read_seconds" and point.get("step") and point.get("value") is not None
    ]
    share = sum(seconds for _, seconds in reads) * MICRO / worked
    if not reads:
        yield Hint(code="low_use_unread", values={"busy": f"{busy[0]:.0%}"}, records=())
        return
    yield Hint(
        code="slow_reads" if share >= READING else "low_use",
        values={"busy": f"{busy[0]:.0%}", "read": f"{min(1.0, share):.0%}"},
        records=tuple(dict.fromkeys(record for record, _ in reads))[:20],
    )  # fmt: skip


def _saves(view: RunView, account: RunAccount) -> Iterator[Hint]:
    saves = [seconds for one in account.attempts for seconds in one.save_seconds]
    told = {
        r.record_id: e.data.get("seconds")
        for r, e in view.all(kinds.EventRecorded)
        if e.event == "checkpoint"
    }
    if len(saves) >= LEAST_SAVES and max(saves) > LONGER * statistics.median(saves) and max(saves) >= 1:
        longest = tuple(record for record, seconds in told.items() if seconds == max(saves))
        values = {"longest": f"{max(saves):.3g}", "median": f"{statistics.median(saves):.3g}"}
        yield Hint(code="save_stall", values=values, records=longest)
    share = _share(account, lambda p: p.bin == "checkpoint_io")
    if share >= SAVING:
        yield Hint(code="saves_dear", values={"share": f"{share:.0%}"}, records=tuple(told)[:20])


def _still(view: RunView, account: RunAccount) -> Iterator[Hint]:
    ends = tuple(r.record_id for r, e in view.all(kinds.AttemptEnded) if e.state in FAILED)
    still = _share(account, lambda p: p.bin == "idle_hold" and p.detail in {"stall", "no_progress"})
    if still >= STILL:
        yield Hint(code="stood_still", values={"share": f"{still:.0%}"}, records=ends)
    unknown = _share(account, lambda p: not p.evidenced)
    if unknown >= UNKNOWN:
        yield Hint(code="without_evidence", values={"share": f"{unknown:.0%}"}, records=ends)


def _share(account: RunAccount, wanted: Any) -> float:
    """What of all time that attempts held lies in some slices."""
    pieces = [piece for one in account.attempts for piece in one.slices]
    whole = sum(piece.device_us for piece in pieces)
    return sum(piece.device_us for piece in pieces if wanted(piece)) / whole if whole else 0.0


def _waits(view: RunView, account: RunAccount) -> Iterator[Hint]:
    """Why attempts waited, where that was as long as a tenth of what was held, or half a minute (R086, R224)."""
    waits = Counter(account.waits)
    whole = sum(waits.values())
    held = sum(one.allocated_us // max(1, one.devices) for one in account.attempts)
    if whole >= min(30 * MICRO, held / 10) and whole > 0:
        reason, most = waits.most_common(1)[0]
        values = {"seconds": f"{whole / MICRO:.0f}", "most": f"{most / MICRO:.0f}", "reason": reason}
        records = tuple(r.record_id for r, w in view.all(kinds.WaitObserved) if w.reason == reason)
        yield Hint(code="waited", values=values, records=records[:20])
