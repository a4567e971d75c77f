"""Words for tests of plans: plan, approve, carry out, and what a second run says about the first one's checkpoints."""

from __future__ import annotations

import json
from typing import Any

from tests.support.artifact_run import ACTOR, DIGEST, Run
from tests.unit.retention.subjects import policy_with

from pretrain_archive.domain import kinds
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.retention import service
from pretrain_archive.retention.deletion import Applied

Policies = dict[str, LoadedPolicy]
LOW = {"metric": "loss", "direction": "lower", "count": 1}
EVERY_CLASS = {"action": "delete", "keep_last": 1, "keep_best": LOW}


def plan(run: Run, policies: Policies | None = None, **more: Any) -> kinds.RetentionPlanned:
    """A recorded plan."""
    return service.plan(run.ledger, policies or policy_with(), actor=ACTOR, origin=run.origin(), **more)


def carry_out(
    run: Run, planned: kinds.RetentionPlanned, policies: Policies | None = None, **more: Any
) -> Applied:
    """Approve by a person and apply."""
    known = policies or policy_with()
    approval = service.approve(
        run.ledger, planned, known, person="bob", reason="seen", actor=ACTOR, origin=run.origin()
    )
    return service.apply(run.ledger, planned, approval, known, actor=ACTOR, origin=run.origin(), **more)


def ask(run: Run, *named: str, gate: str = "close") -> None:
    """A gate of the run opens; its dossier mentions ``named``."""
    document = {"items": [{"id": "artifact.candidate", "found": f"{name}: the best"} for name in named]}
    run.append(kinds.GateDossier(gate=gate, digest=DIGEST, document=document, eligible=["bob"]))  # type: ignore[arg-type]


def begin_from(run: Run, name: str) -> None:
    """An attempt of the run begins from somebody's checkpoint, and ends."""
    run.append(
        kinds.AttemptStarted(attempt=1, host="h", resume_from=name, requested={}, allocated={}), attempt=1
    )


def steps(planned: kinds.RetentionPlanned, action: str = "delete") -> set[int]:
    """The steps with an action."""
    return {item["step"] for item in planned.items if item["action"] == action}


def of_step(planned: kinds.RetentionPlanned, step: int) -> dict[str, Any]:
    """The item of a step; JSON that a record can hold."""
    assert json.dumps(planned.items)
    return next(item for item in planned.items if item["step"] == step)
