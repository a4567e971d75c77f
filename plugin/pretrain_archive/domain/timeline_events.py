"""What members and programs told, as entries of the timeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView

NETWORK = ("network", "nccl", "gloo", "collective", "rendezvous")
"""Words in an event that point to the network."""

_STORAGE = {"data_read", "data_error", "unusable_lines"}
_ENVIRONMENT = {"libraries", "environment"}
_BAD = {"not_started", "job_edited", "worker_restarted", "data_error", "unusable_lines", "signal"}


class Around:
    """What entries need of the rest of the run, read once."""

    def __init__(self, view: RunView) -> None:
        self.node_before: dict[int, str | None] = {}
        self.next_wait: dict[int, str] = {}
        self.with_members: set[int] = set()
        self.ended_at = {r.attempt: r.recorded_at for r in view.records if r.kind == "attempt.ended"}
        nodes: dict[tuple[int, int], str] = {}
        waiting: dict[int, int] = {}
        for record in view.records:
            if record.kind == "member.observed":
                member = kinds.read_payload(record, kinds.MemberObserved)
                self.with_members.add(member.attempt)
                self.node_before[record.position] = nodes.get((member.attempt, member.worker))
                if member.node:
                    nodes[member.attempt, member.worker] = member.node
            elif record.kind == "wait.observed":
                wait = kinds.read_payload(record, kinds.WaitObserved)
                if wait.attempt in waiting:
                    self.next_wait[waiting[wait.attempt]] = wait.at
                waiting[wait.attempt] = record.position


def member_entries(around: Around, record: Record) -> Iterator[dict[str, Any]]:
    """A member's change, and the node that it came to."""
    member = kinds.read_payload(record, kinds.MemberObserved)
    how = [
        member.phase,
        f"exit code {member.exit_code}" if member.exit_code is not None else "",
        member.exit_class or "", member.reason, member.condition, member.message,
    ]  # fmt: skip
    ended = member.exit_class is not None
    same = {"at": member.at, "clock": "cluster", "worker": member.worker}
    tone = "plain" if not ended else "good" if member.exit_class == "completed" else "bad"
    what = f"worker {member.worker} {', '.join(dict.fromkeys(part for part in how if part))}"
    yield {"lane": "members", "name": member.phase, "what": what, "tone": tone, **same}
    before = around.node_before.get(record.position)
    if member.node and member.node != before:
        moved = f", before {before}" if before else ""
        what = f"worker {member.worker} on node {member.node}{moved}"
        yield {"lane": "nodes", "name": member.node, "what": what, **same}


def event_entry(_around: Around, record: Record) -> Iterator[dict[str, Any]]:
    """An event of a program or its wrapper, in the lane that it speaks of."""
    event = kinds.read_payload(record, kinds.EventRecorded)
    if event.event == "progress":
        return
    words = f"{event.event} {event.data.get('text', '')} {event.data.get('reason', '')}".lower()
    lane = "attempts"
    if event.event.startswith("checkpoint"):
        lane = "checkpoints"
    elif any(word in words for word in NETWORK):
        lane = "network"
    elif event.event in _STORAGE:
        lane = "storage"
    elif event.event in _ENVIRONMENT:
        lane = "environment"
    step = f" at step {event.step}" if event.step is not None else ""
    text = str(event.data.get("text") or event.data.get("problem") or event.data.get("reason") or "")
    refused = event.event == "checkpoint" and event.data.get("registered") is False
    yield {
        "lane": lane, "name": event.event, "what": f"{event.event}{step}" + (f": {text[:200]}" if text else ""),
        "at": event.at, "clock": "worker", "worker": _worker(event.data),
        "tone": "bad" if event.event in _BAD or refused else "plain",
    }  # fmt: skip


def _worker(data: Any) -> int | None:
    worker = data.get("worker")
    return worker if isinstance(worker, int) and not isinstance(worker, bool) else None
