"""How a run's work is inspected, in a fixed order: the task lives, resources are used, metrics move (R090).

The first question is the run gate's item ``run.completed``; these are the second and the third. Both are advisory:
they say where to look, and what the approver has seen.
"""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.checklists.common import item
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item

BUSY = 0.05
"""Below this share of one CPU a training process waits for something."""


def resources_used(view: RunView, policy: Policy) -> Item:
    """The last attempt's process worked, instead of waiting (R090)."""
    found = view.last(kinds.AttemptEnded)
    ended = found[1] if found else None
    share = (
        ended.cpu_seconds / ended.seconds
        if ended and ended.seconds and ended.cpu_seconds is not None
        else None
    )
    return item(
        "run.resources",
        "compute",
        evidence=(found[0] if found else None,),
        holds=None if share is None else share >= BUSY,
        expected=f"at least {BUSY:g} of one CPU",
        found=f"{share:.2f} of one CPU" if share is not None else "",
        check="CPU seconds over wall seconds of the last attempt",
        blocking=False,
        owner=policy.people.platform_owner,
        requirement="R090",
        hint="Look at the log: what did the process wait for?",
    )


def metrics_moving(view: RunView, policy: Policy) -> Item:
    """The training loss moved towards the objective (R090)."""
    newest = view.last(kinds.MetricsRecorded)
    values = [value for _, value in view.losses if value is not None]
    holds: bool | None = None
    text = ""
    if len(values) < len(view.losses):
        holds, text = False, "not finite at some step"
    elif len(values) >= 2:
        part = max(1, len(values) // 5)
        first, last = sum(values[:part]) / part, sum(values[-part:]) / part
        holds, text = last < first, f"{first:.4g} to {last:.4g}"
    return item(
        "run.moving",
        "compute",
        evidence=(newest[0] if newest else None,),
        holds=holds,
        expected="lower at the end",
        found=text,
        check="the mean loss of the last fifth of the points is below that of the first fifth",
        blocking=False,
        owner=policy.people.model_owner,
        requirement="R090",
        hint="Look at the curve on the run's page.",
    )
