"""Record what a run taught: what improved against what, and the evidence, each looked up before it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.domain.governance_conclusion import conclusion_of, conclusion_told
from pretrain_archive.domain.identity import RUN_UID, Ref
from pretrain_archive.domain.kinds import EvaluationReported, ExperimentConcluded
from pretrain_archive.domain.records import Edge, Record, Relation
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.platform_said import Speaker, optional, sentence, state

OUTCOMES: tuple[str, ...] = get_args(ExperimentConcluded.model_fields["outcome"].annotation)


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """What a person says of a run. ``against`` is the uid of a run or the name of a baseline of the evaluation."""

    outcome: str
    learnt: str
    improved: str = ""
    against: str = ""
    evidence: tuple[str, ...] = ()


def conclude(ledger: Ledger, view: RunView, told: Conclusion, who: Speaker) -> Record:
    """Append the conclusion; a later one stands beside it, and the newest counts.

    Raises ``InputError`` for an improvement without what or against what, for evidence that is not in the ledger, and
    for a comparison with a thing that was never measured; ``RefusedError`` for a run that is not there.
    """
    if view.opened is None:
        raise RefusedError(f"run {view.run_uid!r} is not in the ledger")
    if told.outcome not in OUTCOMES:
        raise InputError("outcome", told.outcome, f"is none of {', '.join(OUTCOMES)}")
    improved, against = optional("improved", told.improved), optional("against", told.against)
    if told.outcome == "improved" and (improved is None or against is None):
        name = "improved" if improved is None else "against"
        raise InputError(name, "", "an improvement says what improved, and against what", hint="Name both.")
    if told.outcome != "improved" and improved is not None:
        raise InputError("improved", improved, f"is said of the outcome {told.outcome}", hint="Leave it out.")
    evidence = _evidence(ledger, view, told.evidence)
    payload = ExperimentConcluded(
        outcome=told.outcome, improved=improved, against=against, learnt=sentence("learnt", told.learnt),
        against_kind=_kind_of(ledger, view, against) if against else None, evidence=evidence, **who.said,
    )  # fmt: skip
    run = Ref(type="run", id=view.run_uid)
    others = [uid for uid in (*evidence, against or "") if RUN_UID.fullmatch(uid) and uid != view.run_uid]
    edges = [
        Edge(subject=run, relation=Relation.USED, object=Ref(type="run", id=uid))
        for uid in dict.fromkeys(others)
    ]
    return state(ledger, who, view.run_uid, payload, about=run, edges=tuple(edges), attempt=view.attempts)


def _evidence(ledger: Ledger, view: RunView, named: tuple[str, ...]) -> list[str]:
    """The evidence, each found: a record of the run, or another run of the ledger."""
    if not named:
        raise InputError(
            "evidence",
            "",
            "a conclusion rests on something",
            hint="Name a record of the run (run timeline --json).",
        )
    known = {record.record_id for record in view.records if record.kind != "experiment.concluded"}
    for name in named:
        if name not in known and (name == view.run_uid or not _is_run(ledger, name)):
            raise InputError(
                "evidence", name, "is no record of this run and no other run of the ledger",
                hint="Record ids stand in: pretrain-archive run timeline RUN --json.",
            )  # fmt: skip
    return list(dict.fromkeys(named))


def _kind_of(ledger: Ledger, view: RunView, against: str) -> Literal["run", "baseline"]:
    """What the run is compared with; a run compared with itself says nothing."""
    if against == view.run_uid:
        raise InputError("against", against, "is this run itself")
    if _is_run(ledger, against):
        return "run"
    baselines = {b.name for _, report in view.all(EvaluationReported) for b in report.baselines}
    if against in baselines:
        return "baseline"
    known = ", ".join(sorted(baselines)) or "none"
    raise InputError(
        "against", against, f"is no run of the ledger and no baseline of the run's evaluation ({known})"
    )


def _is_run(ledger: Ledger, name: str) -> bool:
    return bool(RUN_UID.fullmatch(name)) and any(
        True for _ in ledger.records(streams=[name], kinds=["run.opened"], limit=1)
    )


def conclusion_document(view: RunView) -> dict[str, Any] | None:
    """The newest conclusion with its record and its sentence in both languages, None if there is none."""
    found = conclusion_of(view)
    if found is None:
        return None
    en, zh = conclusion_told(found[1])
    return {"record_id": found[0].record_id, **found[1].to_json(), "told": {"en": en, "zh": zh}}
