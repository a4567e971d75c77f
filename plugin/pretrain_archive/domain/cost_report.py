"""Accounts of many runs put together, one run at a time: sums by group, shares, and trends by month. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from pretrain_archive.domain.cost import RunAccount
from pretrain_archive.domain.cost_bins import BINS, Bin, Device, as_seconds

By = Literal["project", "team", "person", "budget", "priority", "training_type", "month"]

UNRECORDED = "unrecorded"
FAILED = {"failed", "lost", "stopped"}


@dataclass(kw_only=True)
class Group:
    """What the runs of one group took. Attempts count as succeeded (completed), failed (failed, lost, stopped) or
    neither (interrupted: somebody wanted the end); ``queued`` are attempts that ever began.
    """

    runs: int = 0
    attempts: int = 0
    succeeded: int = 0
    failed: int = 0
    queue_us: int = 0
    longest_queue_us: int = 0
    bins: dict[Device, dict[Bin, int]] = field(default_factory=dict)
    unevidenced: dict[Device, int] = field(default_factory=dict)
    waits: dict[str, int] = field(default_factory=dict)
    byte_days: float = 0.0
    sent_bytes: int | None = None
    money: dict[str, float] = field(default_factory=dict)

    def add(self, account: RunAccount) -> None:
        """Count one run in."""
        self.runs += 1
        for one in account.attempts:
            self.attempts += 1
            self.succeeded += one.state == "completed"
            self.failed += one.state in FAILED
            self.queue_us += one.queue_us
            self.longest_queue_us = max(self.longest_queue_us, one.queue_us)
        for device in account.devices:
            mine = self.bins.setdefault(device, dict.fromkeys(BINS, 0))
            for name, us in account.bins(device).items():
                mine[name] += us
            self.unevidenced[device] = self.unevidenced.get(device, 0) + account.unevidenced_us(device)
        for reason, us in account.waits.items():
            self.waits[reason] = self.waits.get(reason, 0) + us
        self.byte_days += account.storage.checkpoint_byte_days + account.storage.snapshot_byte_days
        if account.storage.sent_bytes is not None:
            self.sent_bytes = (self.sent_bytes or 0) + account.storage.sent_bytes
        if account.money is not None:
            known = account.money.to_dict()["known"]
            if isinstance(known, float):
                currency = account.money.currency
                self.money[currency] = round(self.money.get(currency, 0.0) + known, 6)

    def allocated_us(self, device: Device) -> int:
        """Device-microseconds in all."""
        return sum(self.bins.get(device, {}).values())

    def to_dict(self, total: Group) -> dict[str, Any]:
        """Plain JSON; ``share`` is of all that was held of the device by every group."""
        return {
            "runs": self.runs, "attempts": self.attempts, "succeeded": self.succeeded, "failed": self.failed,
            "queue_seconds": as_seconds(self.queue_us),
            "mean_queue_seconds": as_seconds(self.queue_us // self.attempts) if self.attempts else None,
            "longest_queue_seconds": as_seconds(self.longest_queue_us),
            "devices": [self._device(device, total) for device in self.bins],
            "waits": {reason: as_seconds(us) for reason, us in sorted(self.waits.items())},
            "stored_byte_days": round(self.byte_days, 3), "sent_bytes": self.sent_bytes, "money": dict(self.money),
        }  # fmt: skip

    def _device(self, device: Device, total: Group) -> dict[str, Any]:
        mine, everything = self.allocated_us(device), total.allocated_us(device)
        return {
            "device": device,
            "allocated_seconds": as_seconds(mine),
            "share": round(mine / everything, 6) if everything else None,
            "bins": {name: as_seconds(us) for name, us in self.bins[device].items()},
            "unevidenced_seconds": as_seconds(self.unevidenced.get(device, 0)),
        }


@dataclass(kw_only=True)
class Report:
    """Sums by one attribute, and of everything; memory grows with the number of groups, not of runs."""

    by: By
    groups: dict[str, Group] = field(default_factory=dict)
    total: Group = field(default_factory=Group)

    def add_all(self, accounts: Iterable[RunAccount]) -> Report:
        """Count runs in, one after the other."""
        for account in accounts:
            key = getattr(account.attribution, self.by) or UNRECORDED
            self.groups.setdefault(key, Group()).add(account)
            self.total.add(account)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: months in order, other groups by what they held."""
        order = sorted(self.groups) if self.by == "month" else sorted(self.groups, key=self._held)
        return {
            "by": self.by,
            "groups": [{"group": name, **self.groups[name].to_dict(self.total)} for name in order],
            "total": self.total.to_dict(self.total),
        }

    def _held(self, name: str) -> tuple[int, int, str]:
        group = self.groups[name]
        return -group.allocated_us("accelerator"), -group.allocated_us("machine"), name
