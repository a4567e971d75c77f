"""What a run's page shows of its account, the inspection, the hints and the checkpoint interval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pretrain_archive.domain.advice import Advice, History, advise
from pretrain_archive.domain.cost import RunAccount, account
from pretrain_archive.domain.cost_bins import BINS, MICRO
from pretrain_archive.domain.diagnosis import diagnose
from pretrain_archive.domain.diagnosis_inspection import Look, inspection
from pretrain_archive.domain.identity import utc_now
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.web.texts import Text, say

MOST_CAUSES = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class BinRow:
    """One bin: device-seconds, share in percent, and where its part of the bar begins."""

    name: str
    seconds: float
    percent: float
    x: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DevicePanel:
    """The bins of one kind of device that hold something."""

    device: str
    seconds: float
    unevidenced: float
    rows: tuple[BinRow, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """Time in a bin and the record that brought it there."""

    record: str
    attempt: int
    bin: str
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class HintLine:
    """A hint in both languages with the records behind it."""

    text: Text
    records: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LookLine:
    """One of the three questions with its answer."""

    question: str
    holds: bool | None
    text: Text


@dataclass(frozen=True, kw_only=True, slots=True)
class CostPanel:
    """Everything that the two sections show."""

    account: RunAccount
    devices: tuple[DevicePanel, ...]
    causes: tuple[Cause, ...]
    notes: tuple[Text, ...]
    queue_seconds: float
    gigabyte_days: str
    money: float | None
    looks: tuple[LookLine, ...]
    hints: tuple[HintLine, ...]
    advice: Text


def cost_panel(view: RunView, others: Iterable[History] = ()) -> CostPanel:
    """Read the account of a run; sums are those of ``pretrain-archive cost show``.

    ``others`` is what the project's other runs tell of failures.
    """
    found = account(view, as_of=utc_now())
    said = [*found.notes, *(note for one in found.attempts for note in one.notes)]
    notes = tuple(dict.fromkeys(Text(note.text(), note.text("zh")) for note in said))
    hints = diagnose(view, found)
    known = found.money.to_dict()["known"] if found.money else None
    causes = sorted(found.causes(), key=lambda cause: -cause[4])[:MOST_CAUSES]
    stored = found.storage.checkpoint_byte_days + found.storage.snapshot_byte_days
    return CostPanel(
        account=found, devices=tuple(_device(found, device) for device in found.devices), notes=notes,
        causes=tuple(Cause(record=r, attempt=a, bin=b, seconds=us / MICRO) for r, a, b, _, us in causes),
        queue_seconds=found.queue_us / MICRO, gigabyte_days=_amount(stored / 1e9),
        money=known if isinstance(known, float) else None, looks=tuple(_look(look) for look in inspection(view, found)),
        hints=tuple(HintLine(text=Text(h.text(), h.text("zh")), records=h.records[:5]) for h in hints),
        advice=_advice(advise(view, found, others)),
    )  # fmt: skip


def _look(look: Look) -> LookLine:
    return LookLine(question=look.question, holds=look.holds, text=Text(look.found(), look.found("zh")))


def _device(found: RunAccount, device: str) -> DevicePanel:
    name = next(known for known in found.devices if known == device)
    bins, whole = found.inner(name), found.allocated_us(name)
    rows, x = [], 0.0
    for bin_name in BINS:
        percent = 100 * bins[bin_name] / whole if whole else 0.0
        if bins[bin_name]:
            rows.append(
                BinRow(
                    name=bin_name, seconds=bins[bin_name] / MICRO, percent=round(percent, 3), x=round(x, 3)
                )
            )
        x += percent
    return DevicePanel(
        device=name, seconds=whole / MICRO, unevidenced=found.unevidenced_us(name) / MICRO, rows=tuple(rows)
    )


def _advice(found: Advice) -> Text:
    if found.missing or found.interval_seconds is None or found.interval_low is None:
        return say("advice.missing")
    same = {
        "steps": found.interval_steps,
        "seconds": _short(found.interval_seconds),
        "now": found.current_steps,
    }
    if found.bound_only:
        return say("advice.bound", **same)
    high = f"{_short(found.interval_high)} s" if found.interval_high is not None else say("advice.unlimited")
    return say(
        "advice.best", **same, low=_short(found.interval_low), high=high, failures=found.failures,
        saving=f"{100 * (found.saving or 0):.1f} %",
    )  # fmt: skip


def _short(seconds: float) -> str:
    """Seconds with the digits that matter, and never as a power of ten."""
    return f"{seconds:.0f}" if seconds >= 100 else f"{seconds:.3g}"


def _amount(value: float) -> str:
    """An amount with the digits that matter, and never as a power of ten."""
    if 0 < value < 0.001:
        return "< 0.001"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
