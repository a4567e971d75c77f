"""Whether a plan still holds while it is carried out: it is made again batch by batch, and news are heeded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.deletion import Stay
from pretrain_archive.retention.files import ArtifactFiles
from pretrain_archive.retention.liveness import busy
from pretrain_archive.retention.plan import decide
from pretrain_archive.retention.subjects import Subject, SubjectSource
from pretrain_archive.retention.world import find_others, observe, require_clock

RULED_BY = ("checkpoint.classified", "evaluation.reported", "evaluation.started", "checkpoint.registered")
"""Kinds that change what the rules say of a checkpoint that was registered before."""


class LedgerJudge:
    """Judges a batch by the rules as they stand, with a look at the bytes, and each item by the ledger's news."""

    def __init__(
        self,
        ledger: Ledger,
        policies: Mapping[str, LoadedPolicy],
        places: Sequence[ArtifactFiles],
        *,
        sources: Sequence[SubjectSource] = (),
        now: datetime | None = None,
    ) -> None:
        self._policies = policies
        self._sources = sources
        self._now = now
        self._world = observe(ledger, places, now=now, policies=policies)
        self._seen = self._world.position

    def judge(self, items: Sequence[Mapping[str, Any]]) -> Mapping[str, Stay]:
        """See :class:`Judge`."""
        self._world.refresh()
        self._seen = self._world.position
        moment = self._now or datetime.now(UTC)  # a pass can be long: the clock is read each time
        require_clock(self._world, moment)
        decided = decide(list(self._subjects(items)), self._policies, now=moment)
        fresh = {str(item["id"]): item for item in decided}
        return {str(item["id"]): stay for item in items if (stay := _stay(item, fresh.get(str(item["id"]))))}

    def moved(self, items: Sequence[Mapping[str, Any]]) -> Mapping[str, Stay]:
        """See :class:`Judge`."""
        self._world.refresh()
        if self._world.position == self._seen:
            return {}
        since, self._seen = self._seen, self._world.position
        new = self._world.ledger.records(kinds=["checkpoint.registered"], after=since)
        news = [str(record.payload["location"]) for record in new]
        refs = [str(item["id"]) for item in items if str(item["id"]) not in self._world.tombstones]
        found = busy(self._world.liveness, refs, now=self._now)
        stays = {ref: Stay(reason=f"since the plan: {why}") for ref, why in found.items()}
        return {**self._judged_anew(items, since), **_registered(items, news), **stays}

    def _judged_anew(self, items: Sequence[Mapping[str, Any]], since: int) -> Mapping[str, Stay]:
        """What the rules keep now, if somebody said what they go by: a class, a purpose, a measured value, a use."""
        if not any(self._world.ledger.records(kinds=RULED_BY, after=since, limit=1)):
            return {}
        checkpoints = [item for item in items if _kind(item) == "checkpoint"]
        runs = dict.fromkeys(str(item["run"]) for item in checkpoints)
        subjects = [subject for uid in runs for subject in self._world.judged(uid, look=False)]
        moment = self._now or datetime.now(UTC)
        fresh = {str(item["id"]): item for item in decide(subjects, self._policies, now=moment)}
        found = {str(item["id"]): fresh.get(str(item["id"])) for item in checkpoints}
        return {ref: stay for item in checkpoints if (stay := _stay(item, found[ref := str(item["id"])]))}

    def _subjects(self, items: Sequence[Mapping[str, Any]]) -> Iterable[Subject]:
        """The things of the batch with their peers: a rule that keeps the last needs all of a run in view."""
        for run_uid in dict.fromkeys(str(item["run"]) for item in items if _kind(item) == "checkpoint"):
            yield from self._world.judged(run_uid, look=True)
        if any(_kind(item) != "checkpoint" for item in items):
            yield from find_others(self._world, self._sources)


def _kind(item: Mapping[str, Any]) -> str:
    return str(item.get("kind") or "checkpoint")


def _registered(items: Sequence[Mapping[str, Any]], news: Sequence[str]) -> Mapping[str, Stay]:
    """What is no checkpoint by the plan and has become one, or part of one, or holds one."""
    found: dict[str, Stay] = {}
    for item in items if news else ():
        own = str(item["location"]).rstrip("/")
        if _kind(item) == "checkpoint":
            continue
        for location in news:
            if location == own or location.startswith(own + "/") or own.startswith(location + "/"):
                found[str(item["id"])] = Stay(
                    reason=f"since the plan: a checkpoint is registered at {location}"
                )
    return found


def _stay(item: Mapping[str, Any], fresh: Mapping[str, Any] | None) -> Stay | None:
    if fresh is None:
        if _kind(item) == "checkpoint":
            return None  # no record names it, or its tombstone stands: the deletion says so
        return Stay(reason="since the plan: it is not found any more", later=True, other=True)
    if fresh["digest"] != item["digest"]:
        reason = "since the plan: it was written again, with another content"
        return Stay(reason=reason, other=_kind(item) != "checkpoint")
    if fresh["action"] == "blocked":
        return Stay(reason=str(fresh["reason"]), later=True)
    if fresh["action"] == "keep" or (fresh["action"] == "delete_parts" and item["action"] == "delete"):
        return Stay(reason=f"since the plan: {fresh['reason']}")
    return None
