"""Plan and carry out over any finders, without the steps around it: for tests of what is found and removed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from tests.support.artifact_run import ACTOR, Run

from pretrain_archive.domain import kinds
from pretrain_archive.domain.policy import LoadedPolicy, parse_policy
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.deletion import Applied, Deletion
from pretrain_archive.retention.folders import FolderFiles
from pretrain_archive.retention.judging import LedgerJudge
from pretrain_archive.retention.plan import decide
from pretrain_archive.retention.world import find_others, observe
from pretrain_archive.storage.bulk import BulkAnswer, delete_many, versions_of

PLAN = "sha256:" + "e" * 64

RULE = """
[[retention.rules]]
name = "{name}"
kinds = {kinds}
classes = {classes}
action = "{action}"
{more}
"""


def ruled(text: str, *rules: str) -> dict[str, LoadedPolicy]:
    """The policy ``text`` with rules behind it."""
    return {"demo": parse_policy((text + "".join(rules)).encode(), name="demo.toml")}


def rule(
    name: str, kinds_: list[str], *, classes: Sequence[str] = (), action: str = "delete", more: str
) -> str:
    """A rule in TOML."""
    return RULE.format(name=name, kinds=kinds_, classes=list(classes), action=action, more=more)


def plan_over(
    ledger: Ledger, policies: dict[str, LoadedPolicy], finders: Sequence[Any], *, now: datetime | None = None
) -> list[dict[str, Any]]:
    """The items of a plan over checkpoints and whatever ``finders`` find."""
    world = observe(ledger, (FolderFiles(),), now=now)
    subjects = [*world.subjects, *find_others(world, finders)]
    return decide(subjects, policies, now=now or datetime.now(UTC))


def carry_out(
    ledger: Ledger, policies: dict[str, LoadedPolicy], items: Sequence[dict[str, Any]], finders: Sequence[Any], *,
    places: Sequence[Any] | None = None, now: datetime | None = None,
) -> Applied:  # fmt: skip
    """One pass over the items, with a person's word."""
    where = (FolderFiles(),) if places is None else places
    approval = kinds.RetentionApproved(plan_digest=PLAN, approved_by="bob", person=True, reason="old")
    deletion = Deletion(
        ledger=ledger, judge=LedgerJudge(ledger, policies, where, sources=finders, now=now), places=where,
        approval=approval, actor=ACTOR, origin=Run.origin(), undertakers=finders,
    )  # fmt: skip
    return deletion.run(items)


def stones(ledger: Ledger) -> dict[str, kinds.TombstoneWritten]:
    """Every tombstone by the reference that it is for."""
    records = ledger.records(kinds=["tombstone.written"])
    return {str(r.payload["ref"]): kinds.read_payload(r, kinds.TombstoneWritten) for r in records}


class Free:
    """A judge that lets everything go: what may go is tested elsewhere."""

    def judge(self, items: Sequence[Any]) -> dict[str, Any]:
        """Nothing stays."""
        del items
        return {}

    moved = judge


class Stepping:
    """A store that tells a step before and after each write, and in the middle of a deletion of many."""

    def __init__(self, store: Any, step: Any) -> None:
        self._store, self._step = store, step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def versions(self, prefix: str) -> Any:
        """Every version, as :func:`versions_of` tells them."""
        return versions_of(self._store, prefix)

    def put_if_absent(self, key: str, data: Any) -> bool:
        """A step before it and after it."""
        self._step(f"put {key}")
        made = self._store.put_if_absent(key, data)
        self._step(f"put {key} done")
        return made

    def delete(self, key: str) -> None:
        """A step before it and after it."""
        self._step(f"delete {key}")
        self._store.delete(key)
        self._step(f"delete {key} done")

    def delete_versions(self, versions: Any) -> BulkAnswer:
        """Half of them, a step, and the other half."""
        entries = list(versions)
        half = len(entries) // 2
        self._step("delete many")
        answer = delete_many(self._store, entries[:half])
        self._step("half of many")
        answer += delete_many(self._store, entries[half:])
        self._step("delete many done")
        return answer
