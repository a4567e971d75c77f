"""What a recovery drill has to show before anything may rest on it."""

from __future__ import annotations

from typing import get_args

from pretrain_archive.domain.kinds import DrillFiled

FAULTS: tuple[str, ...] = get_args(DrillFiled.model_fields["injected"].annotation)
"""What a drill injects."""

CHECKS = ("detected", "stopped", "rescheduled", "loaded", "continued", "reconciled")
"""What it shows, in this order."""


def drill_gaps(drill: DrillFiled) -> list[str]:
    """The checks that the drill does not hold as verified, in their order; empty where it passed.

    A drill that says of itself that it passed, and shows less than all of them, did not.
    """
    verified = {str(check.get("name")) for check in drill.checks if check.get("verdict") == "verified"}
    other = {str(check.get("name")) for check in drill.checks if check.get("verdict") != "verified"}
    gaps = [name for name in CHECKS if name not in verified or name in other]
    gaps += sorted(other - set(CHECKS))
    return gaps or ([] if drill.passed else ["the drill as a whole"])
