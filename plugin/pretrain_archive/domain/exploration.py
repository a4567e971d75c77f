"""Exploration runs: launched without a full sign-off, under the policy's ceiling, and never a candidate's source."""

from __future__ import annotations

from typing import Any, Literal

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.request import RunRequest
from pretrain_archive.domain.run_view import RunView

Scope = Literal["full", "exploration"]
REASON = "the run is an exploration: it was launched without a full sign-off, and what it made is never a candidate"

TOLD = (
    f"{REASON[:1].upper()}{REASON[1:]}.",
    "这是探索训练：未经完整签批启动，受策略上限约束；其产物不得成为候选。",
)
"""The same as a sentence, in English and 简体中文."""


def scope_of(opened: kinds.RunOpened | None) -> Scope:
    """The scope that a run was opened with; whatever is neither unsaid nor ``full`` counts as exploration.

    Exploration is the narrower right: nothing that cannot be read may widen it.
    """
    said: Any = opened.conf.get("scope") if opened else None
    return "full" if said is None or said == "full" else "exploration"


def is_exploration(view: RunView) -> bool:
    """Whether a run was opened as an exploration, or any launch of it was one."""
    if scope_of(view.opened) == "exploration":
        return True
    launches = (launch for _, launch in view.all(kinds.LaunchIntended))
    return any("exploration" in (launch.scope, launch.token.get("scope")) for launch in launches)


def units_of(budget: kinds.Budget) -> int:
    """What a launch holds: accelerators, or machines where there are fewer of those."""
    return max(1, budget.accelerators, budget.nodes)


def check_exploration(request: RunRequest, policy: Policy) -> None:
    """Refuse an exploration that the policy's ceiling can never allow: the earliest place to learn of it."""
    ceiling = policy.exploration
    if request.scope != "exploration":
        return
    if ceiling is None:
        raise InputError(
            "scope", request.scope, "the policy has no [exploration] section: nothing runs unsigned",
            hint=f"Ask for a full run, or have {policy.people.budget_owner} add a ceiling to the policy.",
        )  # fmt: skip
    units = units_of(request.budget(policy))
    machines = max(1, ceiling.max_accelerators)
    for field, asked, used, limit in (
        ("accelerators", request.accelerators, request.accelerators, ceiling.max_accelerators),
        ("nodes", request.nodes, units, machines),
        (
            "budget_minutes",
            request.budget_minutes,
            request.budget_minutes * units,
            ceiling.accelerator_minutes,
        ),
    ):
        if used > limit:
            raise InputError(
                field, asked, f"above the ceiling of an exploration ({used:g}, at most {limit:g})",
                hint="Ask for less, or for a full run that is signed.",
            )  # fmt: skip
