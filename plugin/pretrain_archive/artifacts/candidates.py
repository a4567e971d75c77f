"""Which checkpoint may become the model, and why the others may not (R103).

The machine proposes by the request's acceptance metric among the evaluations that passed. Naming another one is
possible, but then the reason must say why not the best. A run of which any launch was an exploration has no
candidates.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from pretrain_archive.artifacts.candidate_account import candidate_account
from pretrain_archive.artifacts.parts import whole_stones
from pretrain_archive.artifacts.registration import current
from pretrain_archive.artifacts.rules import measured
from pretrain_archive.domain.candidates import named_candidates
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.evaluations import deciding
from pretrain_archive.domain.exploration import REASON, is_exploration
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import (
    CandidateNamed,
    CheckpointRegistered,
    EvaluationReported,
    read_payload,
)
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Relation
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.port import Ledger


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """One evaluated checkpoint: kept or dropped, with the reason. ``value`` is of the acceptance metric."""

    checkpoint: CheckpointRegistered
    evaluation: EvaluationReported
    value: float | None
    kept: bool
    reason: str


def candidate_id(run_uid: str, checkpoint: str) -> str:
    """The stable name of a checkpoint as a candidate."""
    return "cand_" + hashlib.sha256(f"{run_uid}\n{checkpoint}".encode()).hexdigest()[:32]


def propose(view: RunView) -> list[Proposal]:
    """Every evaluated checkpoint of the run, the best passed one kept; empty if none was evaluated.

    What an exploration made is measured and never proposed.

    Equal values: the later checkpoint is kept, and the reason of the other says so.
    """
    if is_exploration(view):
        return []
    evaluated = _evaluated(view)
    metric, lower = _acceptance(view)
    passed = [entry for entry in evaluated if entry[1].passed and entry[2] is not None]
    best = min(passed, key=lambda entry: _order(entry, lower=lower), default=None)
    return [_proposal(entry, best, metric) for entry in evaluated]


def name_candidate(
    ledger: Ledger,
    *,
    run_uid: str,
    checkpoint_id: str,
    kept: bool,
    reason: str,
    actor: Actor,
    origin: Origin,
    why_not_best: str = "",
    ordinal: int = 0,
) -> CandidateNamed:
    """Record that an evaluated checkpoint is kept or dropped; the same again is the recorded fact.

    ``why_not_best`` is demanded when another checkpoint passed with a better acceptance metric; that a better
    one did not pass is said without asking. Raises
    :class:`RefusedError` naming what is missing; nothing is recorded then.
    """
    view = RunView.of(run_uid, ledger.records(streams=[run_uid]))
    entry = next((e for e in reversed(_evaluated(view)) if e[0].checkpoint_id == checkpoint_id), None)
    problems = _problems(view, entry, kept=kept, reason=reason, why_not_best=why_not_best)
    if entry is None or problems:
        raise RefusedError(f"{checkpoint_id} is not named a candidate", reasons=tuple(problems))
    payload = _payload(view, entry, kept=kept, reason=reason, why_not_best=why_not_best)
    known = next((f for _, f in named_candidates(view) if f.candidate_id == payload.candidate_id), None)
    if known == payload:
        return known
    this = Ref(type="candidate", id=payload.candidate_id)
    source = Ref(type="checkpoint", id=checkpoint_id)
    measured = Ref(type="evaluation", id=payload.evaluation_id)
    draft = Draft(
        stream=run_uid,
        kind="candidate.named",
        payload=payload.to_json(),
        actor=actor,
        origin=origin,
        attempt=entry[0].attempt,
        ordinal=ordinal,
        edges=(
            Edge(subject=this, relation=Relation.WAS_DERIVED_FROM, object=source),
            Edge(subject=this, relation=Relation.USED, object=measured),
        ),
    )
    return read_payload(ledger.append([draft])[0], CandidateNamed)


_Entry = tuple[CheckpointRegistered, EvaluationReported, float | None]


def _evaluated(view: RunView) -> list[_Entry]:
    """Checkpoints with their newest evaluation and its acceptance value, by (attempt, step)."""
    metric, _ = _acceptance(view)
    newest = {fact.checkpoint_id: fact for _, fact in deciding(view)}
    return [
        (checkpoint, newest[key], _value(newest[key], metric))
        for key, checkpoint in current(view).items()
        if key in newest
    ]


def _acceptance(view: RunView) -> tuple[str, bool]:
    purpose = view.opened.purpose if view.opened else None
    if purpose is None:
        return "", True
    return purpose.acceptance_metric, purpose.acceptance_direction == "lower"


def _value(evaluation: EvaluationReported, metric: str) -> float | None:
    return measured(evaluation.metrics, metric)[0]


def _order(entry: _Entry, *, lower: bool) -> tuple[float, int, int]:
    value = entry[2] if entry[2] is not None else float("inf")
    return (value if lower else -value, -entry[0].attempt, -entry[0].step)


def _proposal(entry: _Entry, best: _Entry | None, metric: str) -> Proposal:
    checkpoint, evaluation, value = entry
    if best is not None and checkpoint.checkpoint_id == best[0].checkpoint_id:
        reason = f"best {metric} of the evaluated checkpoints that passed: {value:g}"
        return Proposal(checkpoint=checkpoint, evaluation=evaluation, value=value, kept=True, reason=reason)
    if not evaluation.passed:
        failed = [str(rule.get("name", "")) for rule in evaluation.rules if not rule.get("passed")]
        reason = "evaluation not passed: " + "; ".join([*failed, *evaluation.flags] or ["no rules"])
    elif value is None or best is None:
        reason = f"{metric} was not measured"
    elif value == best[2]:
        reason = f"{metric} {value:g} equals that of the later step {best[0].step}, which is kept"
    else:
        reason = f"{metric} {value:g} is worse than {best[2]:g} of step {best[0].step}"
    return Proposal(checkpoint=checkpoint, evaluation=evaluation, value=value, kept=False, reason=reason)


def _problems(
    view: RunView, entry: _Entry | None, *, kept: bool, reason: str, why_not_best: str
) -> list[str]:
    if entry is None:
        return ["it is not a registered and evaluated checkpoint of this run"]
    problems = [] if reason.strip() else ["the reason is missing"]
    if not kept:
        return problems
    checkpoint, evaluation, _ = entry
    if not evaluation.passed:
        problems.append("its evaluation did not pass")
    if evaluation.checkpoint_digest != checkpoint.digest:
        problems.append("its evaluation is of other bytes")
    if f"checkpoint:{checkpoint.checkpoint_id}" in whole_stones(view):
        problems.append("its bytes were deleted")
    if is_exploration(view):
        problems.append(REASON)
    best = _best(view)
    other = best is not None and best[0].checkpoint_id != checkpoint.checkpoint_id
    if best is not None and other and best[1].passed and not why_not_best.strip():
        problems.append(f"step {best[0].step} has the better {_acceptance(view)[0]}: say why it is not taken")
    return problems


def _best(view: RunView) -> _Entry | None:
    """The evaluated checkpoint with the best acceptance value, passed or not."""
    _, lower = _acceptance(view)
    measured = [entry for entry in _evaluated(view) if entry[2] is not None]
    return min(measured, key=lambda entry: _order(entry, lower=lower), default=None)


def _payload(view: RunView, entry: _Entry, *, kept: bool, reason: str, why_not_best: str) -> CandidateNamed:
    checkpoint, evaluation, _ = entry
    best = _best(view)
    if kept and best is not None and best[0].checkpoint_id != checkpoint.checkpoint_id:
        value = f"{_acceptance(view)[0]} {best[2]:g}"
        why_not_best = why_not_best or "its evaluation did not pass"
        reason = f"{reason}; not step {best[0].step} ({value}): {why_not_best}"
    account = candidate_account(
        view, checkpoint, [entry[0] for entry in _evaluated(view)], metric=_acceptance(view)[0], kept=kept
    )
    if kept and account.not_lowest_loss:
        reason = f"{reason}; {account.not_lowest_loss}"
    return CandidateNamed(
        candidate_id=candidate_id(view.run_uid, checkpoint.checkpoint_id),
        checkpoint_id=checkpoint.checkpoint_id,
        checkpoint_digest=checkpoint.digest,
        evaluation_id=evaluation.evaluation_id,
        kept=kept,
        reason=reason,
        account=account,
    )
