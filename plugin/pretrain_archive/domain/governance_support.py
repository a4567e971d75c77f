"""What suppliers support, until when, and who answers inside (R233): told with a diagnosis and with every change."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import date, timedelta
from typing import Any, Literal

from pydantic import ValidationError

from pretrain_archive.domain.policy_platform import Platform
from pretrain_archive.domain.run_view import RunView

State = Literal["valid", "expiring", "expired"]

STATES: dict[str, tuple[str, str]] = {
    "valid": ("supported until {until}", "支持至 {until}"),
    "expiring": ("support ends on {until}, in {days} days", "支持将于 {until} 结束，还有 {days} 天"),
    "expired": ("support ended on {until}", "支持已于 {until} 结束"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Supported:
    """One component: who supports it, what stays inside, and whether that still holds on a day."""

    component: str
    supplier: str
    covers: str
    excludes: str
    inside: str
    contact: str
    until: str
    days: int
    state: State

    def told(self) -> tuple[str, str]:
        """A line in English and in 简体中文."""
        en, zh = (text.format(until=self.until, days=self.days) for text in STATES[self.state])
        return (
            f"{self.component}: {en} by {self.supplier} ({self.covers}); inside: {self.inside}",
            f"{self.component}：{zh}，供应方 {self.supplier}（{self.covers}）；内部负责人：{self.inside}",
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, with the line in both languages."""
        en, zh = self.told()
        return {**asdict(self), "told": {"en": en, "zh": zh}}


def supports(platform: Platform, today: date) -> list[Supported]:
    """Every component of the policy as it stands on ``today``; what has ended or ends soon comes first."""
    found = []
    for component, support in platform.support.items():
        days = (support.until - today).days
        state: State = "valid"
        if days < 0:
            state = "expired"
        elif support.until - timedelta(days=support.warn_days) <= today:
            state = "expiring"
        found.append(Supported(
            component=component, supplier=support.supplier, covers=support.covers, excludes=support.excludes,
            inside=support.inside, contact=support.contact, until=support.until.isoformat(), days=days, state=state,
        ))  # fmt: skip
    return sorted(found, key=lambda one: (one.state == "valid", one.days))


def recorded_platform(view: RunView) -> Platform:
    """The section of the policy that the run was opened under; empty where it says nothing or cannot be read."""
    told = view.opened.policy.get("platform") if view.opened else None
    try:
        return Platform.model_validate(told or {})
    except ValidationError:
        return Platform()
