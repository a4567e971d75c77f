"""What is on record of an attempt on a cluster, and how it grows: a member or a wait once for each change.

Each record's unique key names the record before it, so of two visitors that see the same change one writes it, and
the other takes what was written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from pretrain_archive.compute.kubernetes.exits import with_replacements
from pretrain_archive.compute.kubernetes.waiting import Wait
from pretrain_archive.compute.seen import Writer
from pretrain_archive.domain.errors import AlreadyRecordedError, IdempotencyConflictError
from pretrain_archive.domain.identity import format_time, parse_time
from pretrain_archive.domain.kinds import (
    AttemptEnded,
    AttemptStarted,
    EventRecorded,
    JobEnded,
    JobRemoved,
    MemberObserved,
    Payload,
    WaitObserved,
    read_payload,
)
from pretrain_archive.domain.kinds.cluster import ExitClass
from pretrain_archive.domain.records import Record

KINDS = ("member.observed", "wait.observed", "attempt.started", "job.ended", "job.removed", "attempt.ended")
GONE = "Deleted"
"""The phase of a member whose pod went before its end was seen; the cluster has no such phase."""
PASSING = {"at", "message", "replaces"}
"""What of a member is no change by itself."""


class Facts:
    """The records of one attempt. Appending raises ``LedgerUnavailableError`` and may be repeated."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.edits: set[str] = set()
        self.reload()

    def reload(self) -> None:
        """Read them anew."""
        self.members: list[MemberObserved] = []
        self.last_wait: WaitObserved | None = None
        self.started: AttemptStarted | None = None
        self.over: JobEnded | None = None
        self.removed: JobRemoved | None = None
        self.ended: AttemptEnded | None = None
        self._last: dict[str, str] = {}
        for record in self.writer.ledger.records(streams=[self.writer.run_uid], kinds=KINDS):
            if record.attempt == self.writer.attempt:
                self._take(record)

    def _take(self, record: Record) -> None:
        match record.kind:
            case "member.observed":
                member = read_payload(record, MemberObserved)
                self.members.append(member)
                self._last[f"member/{member.worker}"] = record.record_id
            case "wait.observed":
                self.last_wait = read_payload(record, WaitObserved)
                self._last["wait"] = record.record_id
            case "attempt.started":
                self.started = read_payload(record, AttemptStarted)
            case "job.ended":
                self.over = read_payload(record, JobEnded)
            case "job.removed":
                self.removed = read_payload(record, JobRemoved)
                self._last["removed"] = record.record_id
            case "attempt.ended":
                self.ended = read_payload(record, AttemptEnded)

    # -- members -------------------------------------------------------------------------------------

    def observe(self, seen: Sequence[MemberObserved]) -> list[MemberObserved]:
        """Record the members that changed and return them."""
        changed = []
        for member in with_replacements([*self.members, *seen])[len(self.members) :]:
            before = self.newest_of(member)
            if before is not None and (_same(before, member) or _backwards(before, member)):
                continue
            if self._append(f"member/{member.worker}", member):
                changed.append(member)
        return changed

    def missing(self, present: Collection[str]) -> list[MemberObserved]:
        """Members that were alive when they were seen last and whose pod is no longer there."""
        return [m for m in self.newest if not _over(m) and m.uid not in present]

    def vanished(
        self, present: Collection[str], *, at: datetime, how: Callable[[MemberObserved], ExitClass | None]
    ) -> list[MemberObserved]:
        """Record the members whose pod is gone and whose end nobody saw, and return them.

        ``ended_at`` is then the moment at which they were missed: they were gone by that time. ``how`` says from
        elsewhere what their end was; None stays unrecorded.
        """
        moment = format_time(at)
        missed = [
            member.model_copy(update={
                "phase": GONE, "at": moment, "ended_at": moment, "exit_class": how(member),
                "reason": "the pod is gone, its end was not seen", "replaces": None,
            })
            for member in self.missing(present)
        ]  # fmt: skip
        return [member for member in missed if self._append(f"member/{member.worker}", member)]

    def newest_of(self, member: MemberObserved) -> MemberObserved | None:
        """What was recorded last of the same pod."""
        return next(
            (
                known
                for known in reversed(self.members)
                if (known.worker, known.uid) == (member.worker, member.uid)
            ),
            None,
        )

    @property
    def newest(self) -> list[MemberObserved]:
        """The newest record of each pod, in the order in which the pods came."""
        return list({(member.worker, member.uid): member for member in self.members}.values())

    def allocated_seconds(self, until: datetime) -> float:
        """Seconds for which the members held their nodes, added up; one that is still there until ``until``."""
        total, newest = 0.0, self.newest
        for number, member in enumerate(newest):
            begin = member.allocated_at or member.started_at
            if begin is None:
                continue
            later = [
                parse_time(other.allocated_at)
                for other in newest[number + 1 :]
                if other.worker == member.worker and other.allocated_at
            ]
            end = parse_time(member.ended_at) if member.ended_at else min([until, *later])
            total += max(0.0, (end - parse_time(begin)).total_seconds())
        return total

    # -- waiting -------------------------------------------------------------------------------------

    def wait(self, wait: Wait | None, *, at: datetime) -> WaitObserved | None:
        """Record that the reason to wait changed, or that there is none any more; the record, None if neither."""
        last = self.last_wait
        if wait is None:
            if last is None or last.ended:
                return None
            ended = last.model_copy(update={"ended": True, "at": format_time(at)})
            return ended if self._append("wait", ended) else None
        if (
            last is not None
            and not last.ended
            and (last.reason, _hopeless(last)) == (wait.reason, wait.hopeless)
        ):
            return None
        told = WaitObserved(
            attempt=self.writer.attempt, reason=wait.reason, message=wait.message[:2000], object=wait.object,
            at=format_time(at), details={**wait.details, "hopeless": wait.hopeless},
        )  # fmt: skip
        return told if self._append("wait", told) else None

    # -- start and removal ---------------------------------------------------------------------------

    def start(self, started: AttemptStarted) -> None:
        """Record what was asked for and what is there, once."""
        if self.started is None:
            key = f"attempt.started/{self.writer.run_uid}/{self.writer.attempt}"
            self._once(started, 0, key)

    def end(self, over: JobEnded) -> None:
        """Record how the job ended, once; what was recorded first stands."""
        if self.over is None:
            self._once(over, 0, f"job.ended/{self.writer.run_uid}/{self.writer.attempt}")

    def remove(self, removed: JobRemoved) -> None:
        """Record that the job was taken away; what was not verified is followed by another record."""
        if self.removed is None or not self.removed.verified_absent:
            self._append("removed", removed)

    def edited(self, text: str, *, at: datetime) -> bool:
        """Record that the job was changed by somebody after its release, once for each difference."""
        if text in self.edits:
            return False
        event = EventRecorded(
            attempt=self.writer.attempt, event="job_edited", at=format_time(at), data={"reason": text}
        )
        key = f"job.edited/{self.writer.run_uid}/{self.writer.attempt}/{text}"
        made = self._once(event, int(hashlib.sha256(key.encode()).hexdigest()[:8], 16) & 0x7FFFFFFF, key)
        self.edits.add(text)  # whoever was first: it is on record
        return made

    # -- appending -----------------------------------------------------------------------------------

    def _append(self, chain: str, payload: Payload) -> bool:
        """Append as the one successor of the chain's last record; False if another visitor was first."""
        seed = f"{chain}/{self.writer.run_uid}/{self.writer.attempt}/{self._last.get(chain, '')}"
        ordinal = int(hashlib.sha256(seed.encode()).hexdigest()[:8], 16) & 0x7FFFFFFF
        return self._once(payload, ordinal, seed)

    def _once(self, payload: Payload, ordinal: int, key: str) -> bool:
        try:
            [record] = self.writer.ledger.append([self.writer.draft(payload, ordinal, unique=key)])
        except (AlreadyRecordedError, IdempotencyConflictError):
            self.reload()
            return False
        self._take(record)
        return True


def _over(member: MemberObserved) -> bool:
    return member.exit_class is not None or member.phase == GONE


def _same(before: MemberObserved, now: MemberObserved) -> bool:
    return before.model_dump(exclude=PASSING) == now.model_dump(exclude=PASSING)


def _backwards(before: MemberObserved, now: MemberObserved) -> bool:
    """Whether ``now`` was seen earlier than ``before``: a pod never comes back to life."""
    if _over(before) and now.exit_class is None:
        return True
    return before.phase != "Pending" and now.phase == "Pending"


def _hopeless(wait: WaitObserved) -> bool:
    return bool(wait.details.get("hopeless"))


def allocated_at(pod: Mapping[str, Any]) -> str | None:
    """When the scheduler gave the pod its node."""
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            found = condition.get("lastTransitionTime")
            return str(found) if found else None
    return None


def started_payload(
    members: Sequence[MemberObserved], *, requested: Mapping[str, Any],
    environments: Mapping[int, Mapping[str, Any] | None], attempt: int, resume_from: str | None,
    resume_step: int | None, resume_refused: Sequence[str] = (),
) -> AttemptStarted:  # fmt: skip
    """What was asked for and what is there, side by side; the probe inside a worker names devices, else the pod."""
    devices = {
        member.worker: _devices(environments.get(member.worker)) or member.devices for member in members
    }
    known = [names for names in devices.values() if names is not None]
    nodes = list(dict.fromkeys(member.node for member in members if member.node))
    return AttemptStarted(
        attempt=attempt, host=nodes[0] if nodes else "", resume_from=resume_from, resume_step=resume_step,
        resume_refused=list(resume_refused), requested=dict(requested),
        allocated={
            "accelerators": sum(map(len, known)) if len(known) == len(members) else None,
            "devices": [name for names in known for name in names],
            "nodes": nodes,
            "image_digests": sorted({m.image_digest for m in members if m.image_digest}),
            "members": [
                {
                    "worker": m.worker, "pod": m.name, "node": m.node, "image_digest": m.image_digest,
                    "devices": devices[m.worker], "allocated_at": m.allocated_at, "started_at": m.started_at,
                }
                for m in members
            ],
        },
    )  # fmt: skip


def _devices(environment: Mapping[str, Any] | None) -> list[str] | None:
    found = (environment or {}).get("accelerators")
    if not isinstance(found, list):
        return None
    return [str(device.get("uuid")) for device in found if isinstance(device, dict)]
