"""Who pays, for what is stored and sent, and how much money that is where the policy names a price."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.cost_bins import MICRO
from pretrain_archive.domain.cost_clock import moment
from pretrain_archive.domain.run_view import RunView

DAY_US = 86_400 * MICRO
GIGABYTE = 1_000_000_000
MONTH_DAYS = 30.4375
"""A month of a price per month: a twelfth of 365.25 days."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attribution:
    """To whom a run's cost belongs; None is unrecorded."""

    project: str | None
    team: str | None
    person: str | None
    budget: str | None
    budget_owner: str | None
    priority: str | None
    training_type: str | None
    month: str | None

    def to_dict(self) -> dict[str, str | None]:
        """Plain JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Storage:
    """Byte-days of the run's checkpoints and of the snapshot it made, and bytes that were read and sent.

    A snapshot that was there already costs this run nothing. ``sent_bytes`` are the program's own word;
    ``node_sent_bytes`` and ``node_received_bytes`` are what the network interfaces of its nodes counted while the
    attempts ran, whoever caused it. None is unrecorded.
    """

    checkpoint_byte_days: float
    snapshot_byte_days: float
    checkpoint_bytes: int
    snapshot_bytes: int
    read_bytes: int | None
    sent_bytes: int | None
    node_sent_bytes: int | None = None
    node_received_bytes: int | None = None

    def to_dict(self) -> dict[str, float | int | None]:
        """Plain JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Money:
    """Amounts in ``currency``; None where the policy names no price or nothing was recorded."""

    currency: str
    devices: float | None
    storage: float | None
    network: float | None

    def to_dict(self) -> dict[str, float | str | None]:
        """Plain JSON with the sum of what is known."""
        known = [v for v in (self.devices, self.storage, self.network) if v is not None]
        return {**asdict(self), "known": round(sum(known), 6) if known else None}


def attribution_of(view: RunView) -> Attribution:
    """Read from how the run was opened, its policy as it stood then, and its last job."""
    record = next((r for r in view.records if r.kind == "run.opened"), None)
    opened = view.opened
    if opened is None or record is None:
        return Attribution(**dict.fromkeys(Attribution.__dataclass_fields__))
    cost = _section(opened.policy, "cost")
    return Attribution(
        project=opened.project or None, team=_text(cost.get("team")), person=opened.submitter,
        budget=_text(cost.get("budget")), budget_owner=_text(opened.people.get("budget_owner")),
        priority=_priority(view, opened.policy),
        training_type=opened.purpose.training_type if opened.purpose else None, month=record.recorded_at[:7],
    )  # fmt: skip


def _priority(view: RunView, policy: Mapping[str, Any]) -> str | None:
    """The priority that the job asked for, else the one of the policy's cluster."""
    names = ("workload_priority", "priority_class", "priority")
    job = view.latest(kinds.JobCreated)
    cluster = _section(_section(policy, "compute"), "kubernetes")
    on_cluster = _section(policy, "compute").get("target") == "kubernetes"
    for place in (job.requested if job else {}, cluster if on_cluster else {}):
        for name in names:
            if text := _text(place.get(name)):
                return text
    return None


def storage_of(view: RunView, as_of: str | None) -> Storage:
    """Bytes × days from the record of each thing to its tombstone, or to ``as_of``."""
    newest = view.records[-1].recorded_at if view.records else None
    until = moment(as_of) or moment(newest) or 0
    stones = list(view.all(kinds.TombstoneWritten))
    gone = {t.ref.partition(":")[2]: moment(r.recorded_at) or until for r, t in stones if not t.parts}
    saved = {
        c.checkpoint_id: (r, sum(f.size for f in c.files)) for r, c in view.all(kinds.CheckpointRegistered)
    }
    checkpoints = [_byte_days(size, r.recorded_at, gone.get(i, until)) for i, (r, size) in saved.items()]
    checkpoints += [  # a part that went is not kept from then on
        -_byte_days(t.size, r.recorded_at, gone.get(t.ref.partition(":")[2], until))
        for r, t in stones
        if t.parts
    ]
    made = {
        f"{s.name}@{s.version}": (r, s.total_bytes)
        for r, s in view.all(kinds.SnapshotCreated)
        if not s.unchanged and s.mode == "copy"
    }
    snapshots = [_byte_days(size, r.recorded_at, gone.get(i, until)) for i, (r, size) in made.items()]
    return Storage(
        checkpoint_byte_days=round(sum(checkpoints), 3), snapshot_byte_days=round(sum(snapshots), 3),
        checkpoint_bytes=sum(size for _, size in saved.values()),
        snapshot_bytes=sum(size for _, size in made.values()),
        read_bytes=_points(view, "data_read_bytes"), sent_bytes=_sent(view),
        node_sent_bytes=_counted(e.node_sent_bytes for _, e in view.all(kinds.AttemptEnded)),
        node_received_bytes=_counted(e.node_received_bytes for _, e in view.all(kinds.AttemptEnded)),
    )  # fmt: skip


def _byte_days(size: int, since: str, until: int) -> float:
    return size * max(0, until - (moment(since) or until)) / DAY_US


def _points(view: RunView, name: str) -> int | None:
    values = [
        point["value"]
        for record in view.records
        if record.kind == "metrics.recorded"
        for point in record.payload.get("points", ())
        if point.get("name") == name and point.get("value") is not None
    ]
    return round(sum(values)) if values else None


def _sent(view: RunView) -> int | None:
    """What ``network`` events of programs say they sent since their last one."""
    told = [
        event.data.get("sent_bytes") for _, event in view.all(kinds.EventRecorded) if event.event == "network"
    ]
    known = [v for v in told if isinstance(v, int) and not isinstance(v, bool) and v >= 0]
    return sum(known) if known else None


def _counted(told: Iterable[int | None]) -> int | None:
    """The sum of what attempts tell; attempts that do not tell add nothing."""
    known = [value for value in told if value is not None]
    return sum(known) if known else None


def money_of(view: RunView, accelerator_us: int, storage: Storage) -> Money | None:
    """Amounts by the prices of the policy under which the run was opened; None without any price."""
    prices = _section(view.opened.policy if view.opened else {}, "cost")
    hour, month, sent = (
        _price(prices.get(k)) for k in ("per_device_hour", "per_gigabyte_month", "per_gigabyte_sent")
    )
    if hour is None and month is None and sent is None:
        return None
    kept = (storage.checkpoint_byte_days + storage.snapshot_byte_days) / GIGABYTE / MONTH_DAYS
    return Money(
        currency=_text(prices.get("currency")) or "EUR",
        devices=None if hour is None else round(accelerator_us / MICRO / 3600 * hour, 6),
        storage=None if month is None else round(kept * month, 6),
        network=None if sent is None or storage.sent_bytes is None else round(storage.sent_bytes / GIGABYTE * sent, 6),
    )  # fmt: skip


def _section(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = data.get(name)
    return found if isinstance(found, Mapping) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _price(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
