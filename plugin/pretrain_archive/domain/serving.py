"""What is known of how a model would serve (R114): declared in the request, or checked on the candidate since.

A later word on an aspect replaces the earlier one. A value that was measured on other bytes than the candidate's says
nothing about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pretrain_archive.domain.candidates import chosen_candidate
from pretrain_archive.domain.kinds import ServingCheck
from pretrain_archive.domain.kinds.release import ASPECTS
from pretrain_archive.domain.policy_release import Release, parse_line
from pretrain_archive.domain.run_view import RunView


@dataclass(frozen=True, kw_only=True, slots=True)
class Serving:
    """What is known. ``gaps`` maps each demanded aspect that does not hold to the reason."""

    serves: bool
    checks: tuple[ServingCheck, ...]
    gaps: dict[str, str]

    def text(self) -> str:
        """The checks as one line for people."""
        return "; ".join(f"{c.aspect}: {c.value} ({c.how} by {c.by})" for c in self.checks)


def serving_of(view: RunView, policy: Release) -> Serving:
    """What the run's records say of serving, under the policy's demands."""
    opened = view.opened
    lines: list[str] = list((opened.conf.get("serving") if opened else None) or [])
    use = opened.purpose.intended_use if opened and opened.purpose else ""
    by = (opened.submitter if opened else None) or "the request"
    chosen = chosen_candidate(view)
    wanted = chosen[1].checkpoint_digest if chosen else None
    checks, elsewhere = _declared(lines, by), set[str]()
    for _, check in view.all(ServingCheck):
        if check.checkpoint_digest in {None, wanted}:
            checks[check.aspect] = check
            elsewhere.discard(check.aspect)
        else:
            elsewhere.add(check.aspect)
    serves = bool(lines) or use in policy.serving_uses
    gaps = _gaps(checks, elsewhere, policy) if serves else {}
    return Serving(serves=serves, checks=tuple(checks[a] for a in ASPECTS if a in checks), gaps=gaps)


def _declared(lines: Iterable[Any], by: str) -> dict[str, ServingCheck]:
    found = {}
    for line in lines:
        aspect, value = parse_line(str(line))
        found[aspect] = ServingCheck.model_validate(
            {"aspect": aspect, "value": value, "how": "declared", "by": by}
        )
    return found


def _gaps(checks: dict[str, ServingCheck], elsewhere: set[str], policy: Release) -> dict[str, str]:
    gaps: dict[str, str] = {}
    for aspect in ASPECTS:
        if aspect not in {*policy.serving_demanded, *policy.serving_measured}:
            continue
        check = checks.get(aspect)
        if check is None:
            gaps[aspect] = (
                "measured on another checkpoint" if aspect in elsewhere else "nobody declared or measured it"
            )
        elif aspect in policy.serving_measured and check.how != "measured":
            gaps[aspect] = "declared only; the policy demands a measured value"
    return gaps
