"""What a run's attempts took from its budget, for ``JobSpec.spent_seconds``."""

from __future__ import annotations

from pretrain_archive.domain.kinds import AttemptStarted, ConfigurationDeclared
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.training import charged_seconds


def spent_seconds(view: RunView) -> float:
    """Accelerator seconds that the ended attempts took: accelerators × charged seconds.

    Without accelerators the machine counts as one.
    """
    asked = {started.attempt: started.requested for _, started in view.all(AttemptStarted)}
    declared = view.latest(ConfigurationDeclared)
    default = declared.budget.accelerators if declared else 0
    return sum(
        seconds * max(1, int(asked.get(attempt, {}).get("accelerators", default) or 0))
        for attempt, seconds in charged_seconds(view).items()
    )
