"""The whole dossier of a released model, years later, from records alone: origin, evaluations, data, life, problems.

What nobody recorded is None and shown as unrecorded. Nothing here needs the checkpoint's bytes, the run's package or
Airflow's own rows.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pretrain_archive.artifacts.classes import effective_class
from pretrain_archive.domain import kinds
from pretrain_archive.domain.candidates import chosen_evaluation
from pretrain_archive.domain.model_life import Life
from pretrain_archive.domain.run_view import GATES, RunView
from pretrain_archive.domain.source_rights import standings
from pretrain_archive.domain.withdrawal import source_document, withdrawal_document
from pretrain_archive.gates.service import load_run
from pretrain_archive.gates.sources import with_sources
from pretrain_archive.ledger.port import Ledger

KEPT = "the ledger deletes no record; no clean-up names records or packages"


def short(life: Life, days_now: float | None) -> dict[str, Any]:
    """A release in a list: identity, state, and how long its records are kept at least."""
    retired = life.retired
    return {
        "name": life.release.name, "version": life.release.version, "release_id": life.release.release_id,
        "run_uid": life.run_uid, "made_at": life.record.recorded_at, "state": life.state,
        "delivered": life.delivered, "places": list(life.places), "facts": len(life.facts),
        "retired": {**retired[1].to_json(), "record_id": retired[0].record_id} if retired else None,
        "records_kept_until": life.records_kept_until(days_now),
    }  # fmt: skip


def dossier(ledger: Ledger, life: Life, days_now: float | None) -> dict[str, Any]:
    """Everything that the ledger says of the model; ``days_now`` is the policy's word on keeping, as it stands."""
    view = with_sources(ledger, load_run(ledger, life.run_uid))
    return {
        **short(life, days_now),
        "records_kept": KEPT,
        "release": life.release.to_json(),
        "project": view.opened.project if view.opened else None,
        "purpose": view.opened.purpose.to_json() if view.opened and view.opened.purpose else None,
        "people": dict(view.opened.people) if view.opened else {},
        "derived_from": view.opened.derived_from if view.opened else None,
        "data": _data(view),
        "configuration": _configuration(view),
        "evaluations": _evaluations(view),
        "human_evaluation": _human(view),
        "checkpoints": _checkpoints(view, life),
        "signed": [_signed(view, gate) for gate in GATES],
        "release_records": [
            {"kind": r.kind, "record_id": r.record_id, "recorded_at": r.recorded_at}
            for r in view.records
            if r.kind.startswith("release.")
        ],
        "life": [
            {**fact.to_json(), "kind": r.kind, "record_id": r.record_id, "recorded_at": r.recorded_at}
            for r, fact in life.facts
        ],
        "open_problems": life.open_problems(),
    }  # fmt: skip


def _data(view: RunView) -> dict[str, Any]:
    snapshot, split = view.latest(kinds.SnapshotCreated), view.latest(kinds.SplitCreated)
    return {
        "snapshot": f"{snapshot.name}@{snapshot.version}" if snapshot else None,
        "manifest_digest": snapshot.manifest_digest if snapshot else None,
        "split_digest": split.split_digest if split else None,
        "sources": [{**source_document(s), "withdrawn": withdrawal_document(s)} for s in standings(view)],
    }


def _configuration(view: RunView) -> dict[str, Any]:
    config = view.latest(kinds.ConfigurationDeclared)
    names = ("configuration_digest", "code_digest", "evaluate_code_digest")
    return {name: getattr(config, name, None) for name in names}


def _evaluations(view: RunView) -> list[dict[str, Any]]:
    """Every evaluation of the run; ``decided`` is the one by which the released checkpoint was chosen."""
    chosen = chosen_evaluation(view)
    names = ("evaluation_id", "checkpoint_id", "data_set", "data_set_digest", "passed", "flags")
    return [
        {
            **{name: getattr(report, name) for name in names},
            "metrics": [metric.to_json() for metric in report.metrics],
            "baselines": [baseline.name for baseline in report.baselines],
            "decided": chosen is not None and chosen[1].evaluation_id == report.evaluation_id,
            "record_id": record.record_id,
        }
        for record, report in view.all(kinds.EvaluationReported)
    ]


def _human(view: RunView) -> dict[str, Any] | None:
    found = view.last(kinds.HumanEvaluationReported)
    return {**found[1].to_json(), "record_id": found[0].record_id} if found else None


def _checkpoints(view: RunView, life: Life) -> list[dict[str, Any]]:
    """The released checkpoint and the intermediates, each kept or gone with its clean-up record (R116).

    One of which only ``parts`` went, such as the optimizer state, is kept ``in_part``.
    """
    whole: dict[str, Any] = {}
    parts: dict[str, list[Any]] = defaultdict(list)
    for record, stone in view.all(kinds.TombstoneWritten):
        told = {**stone.to_json(), "record_id": record.record_id}
        if stone.parts:
            parts[stone.ref].append(told)
        else:
            whole[stone.ref] = told
    made = []
    for record, checkpoint in view.all(kinds.CheckpointRegistered):
        ref = f"checkpoint:{checkpoint.checkpoint_id}"
        gone, less = whole.get(ref), parts.get(ref, [])
        made.append({
            "checkpoint_id": checkpoint.checkpoint_id, "step": checkpoint.step, "digest": checkpoint.digest,
            "class": effective_class(view, checkpoint), "record_id": record.record_id,
            "released": checkpoint.digest == life.release.checkpoint_digest,
            "state": "deleted" if gone else "in_part" if less else "kept",
            "clean_up": gone, "parts_cleaned_up": less,
        })  # fmt: skip
    return made


def _signed(view: RunView, gate: str) -> dict[str, Any]:
    found = view.decision(gate)
    if found is None:
        return {"gate": gate, "person": None}
    record, decision = found
    return {
        "gate": gate, "person": decision.person_name, "decision": decision.decision, "at": decision.responded_at,
        "record_id": record.record_id,
    }  # fmt: skip
