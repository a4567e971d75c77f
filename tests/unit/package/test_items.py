# ruff: noqa: E501 - one case, one line
"""The verdict of each item: verified only by a check, unrecorded with a hint, changed with both values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.packages import memory_ledger
from tests.support.seeded_run import seed_run

from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Verdict
from pretrain_archive.gates.sources import with_sources
from pretrain_archive.package.items import evidence_items
from pretrain_archive.storage.files import FileStore

TEN = {
    "run.summary", "data.snapshot", "compute.configuration", "compute.events", "artifact.checkpoints",
    "artifact.candidate", "artifact.evaluation", "artifact.limits", "run.people", "artifact.retention",
}  # fmt: skip
TRACKS_AND_GATES = {
    "track.data", "track.compute", "track.artifact", "gate.prepare", "gate.run", "gate.close",
}  # fmt: skip


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    """A complete run."""
    folder = tmp_path_factory.mktemp("run")
    ledger = memory_ledger()
    run_uid = seed_run(ledger, FileStore(folder / "store"), folder)
    return with_sources(ledger, RunView.of(run_uid, ledger.records(streams=[run_uid])))


def verdicts(view: RunView) -> dict[str, str]:
    """Item id → verdict."""
    return {item.id: item.verdict.value for item in evidence_items(view)}


def altered(view: RunView, kind: str, change: Callable[[dict[str, Any]], None]) -> RunView:
    """The view with the payload of the last record of ``kind`` changed."""
    records = list(view.records)
    at = max(n for n, record in enumerate(records) if record.kind == kind)
    payload = {**records[at].payload}
    change(payload)
    fields = {name: getattr(records[at], name) for name in Record.__slots__}
    records[at] = Record(**{**fields, "payload": payload})
    return RunView.of(view.run_uid, records, view.around)


def without(view: RunView, *kinds: str) -> RunView:
    """The view without some kinds."""
    return RunView.of(
        view.run_uid, [record for record in view.records if record.kind not in kinds], view.around
    )


@pytest.mark.requirement("R143", "R142", "R146", "R079")
def test_complete_run_has_every_item_verified(full: RunView) -> None:
    """Three tracks, three gates, the ten items and the origin: all present, all verified, each by a check."""
    items = evidence_items(full)

    assert TEN | TRACKS_AND_GATES | {
        "data.source",
        "data.quality",
        "data.rights",
        "data.access",
        "data.processing",
        "data.rebuilding",
    } == {item.id for item in items}
    assert {Verdict.VERIFIED} == {item.verdict for item in items}
    assert all(item.check and item.checked_at for item in items)
    assert items == evidence_items(full)


@pytest.mark.parametrize(
    ("kinds", "item"),
    [
        pytest.param(["source.registered"], "data.source", id="source"),
        pytest.param(["snapshot.created"], "data.snapshot", id="snapshot"),
        pytest.param(["quality.reported"], "data.quality", id="quality"),
        pytest.param(["configuration.declared"], "compute.configuration", id="configuration"),
        pytest.param(["environment.observed"], "compute.configuration", id="no worker's environment"),
        pytest.param(["attempt.started", "attempt.ended"], "compute.events", id="no attempt"),
        pytest.param(["attempt.ended"], "compute.events", id="attempt without an end"),
        pytest.param(["candidate.named"], "artifact.candidate", id="candidate"),
        pytest.param(["evaluation.reported"], "artifact.evaluation", id="evaluation"),
        pytest.param(["release.made"], "artifact.limits", id="limits"),
        pytest.param(["gate.decision"], "gate.run", id="sign-off"),
        pytest.param(["run.opened"], "run.summary", id="summary"),
        pytest.param(["run.opened"], "run.people", id="people"),
    ],
)
@pytest.mark.requirement("R143", "R079")
def test_what_is_missing_is_unrecorded_with_a_hint(full: RunView, kinds: list[str], item: str) -> None:
    """Nothing is guessed: the item says what to do."""
    found = {i.id: i for i in evidence_items(without(full, *kinds))}

    assert Verdict.UNRECORDED is found[item].verdict
    assert found[item].hint


@pytest.mark.parametrize(
    ("kind", "change", "item"),
    [
        pytest.param("run.opened", {"conf": {"steps": 1}}, "run.summary", id="form"),
        pytest.param("configuration.declared", {"configuration": {}}, "compute.configuration", id="configuration"),
        pytest.param("candidate.named", {"checkpoint_digest": "sha256:" + "0" * 64}, "artifact.candidate", id="candidate"),
        pytest.param("evaluation.reported", {"checkpoint_digest": "sha256:" + "0" * 64}, "artifact.evaluation", id="evaluation"),
        pytest.param("quality.reported", {"snapshot": "other@1"}, "data.quality", id="quality of other data"),
        pytest.param("checkpoint.registered", {"snapshot": "other@1"}, "data.snapshot", id="trained on other data"),
        pytest.param("gate.dossier", {"document": {}}, "gate.close", id="dossier"),
        pytest.param("gate.dossier", {"eligible": ["mallory"]}, "gate.close", id="who may sign"),
        pytest.param("environment.observed", {"differences": [{"field": "torch"}]}, "compute.configuration", id="drift"),
    ],
)  # fmt: skip
@pytest.mark.requirement("R079")
def test_what_contradicts_is_changed(full: RunView, kind: str, change: dict[str, Any], item: str) -> None:
    """Both values are told, and the track falls with its item."""
    view = altered(full, kind, lambda payload: payload.update(change))
    found = {i.id: i for i in evidence_items(view)}

    assert Verdict.CHANGED is found[item].verdict
    assert found[item].expected
    assert found[item].found
    track = f"track.{found[item].track}"
    assert track not in found or Verdict.CHANGED is found[track].verdict


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        pytest.param({"baselines": []}, "baseline", id="no baseline"),
        pytest.param({"metrics": []}, "baseline", id="no metric"),
        pytest.param(
            {
                "metrics": [
                    {"name": "m", "unit": "u", "direction": "lower", "value": None, "not_finite": "nan"}
                ]
            },
            "finite",
            id="NaN",
        ),
    ],
)
def test_evaluation_without_ground_claims_nothing(full: RunView, change: dict[str, Any], hint: str) -> None:
    """No finite value or no baseline: unrecorded, not passed."""
    view = altered(full, "evaluation.reported", lambda payload: payload.update(change))
    item = next(i for i in evidence_items(view) if i.id == "artifact.evaluation")

    assert Verdict.UNRECORDED is item.verdict
    assert hint in item.hint


def test_rejected_and_older_sign_offs_are_not_verified(full: RunView) -> None:
    """A rejection and a decision on an older dossier never look like an approval."""
    rejected = altered(full, "gate.decision", lambda payload: payload.update(decision="reject"))
    records = list(full.records)
    older = RunView.of(full.run_uid, [*records, newer_question(records)])

    assert "unrecorded" == verdicts(rejected)["gate.close"]
    assert "unrecorded" == verdicts(older)["gate.close"]


def newer_question(records: list[Record]) -> Record:
    """The last dossier once more, asked after everything else."""
    last = next(record for record in reversed(records) if record.kind == "gate.dossier")
    fields = {name: getattr(last, name) for name in Record.__slots__}
    return Record(**{**fields, "record_id": "rec_newer", "sequence": len(records)})


def test_empty_run_is_unrecorded_throughout(tmp_path: Path) -> None:
    """Nothing recorded, nothing verified."""
    del tmp_path
    assert {"unrecorded"} == set(verdicts(RunView.of("run_x", [])).values())


@pytest.mark.requirement("R055", "R056")
@pytest.mark.parametrize(
    ("change", "verdict", "found"),
    [
        pytest.param({"access_granted_at": None}, Verdict.UNRECORDED, "", id="nobody said"),
        pytest.param(
            {"access_granted_at": None, "access_open": "public data"},
            Verdict.VERIFIED,
            "no permission needed: public data",
            id="not needed",
        ),
        pytest.param(
            {"access_identity": "svc", "access_identity_observed": "root@host"},
            Verdict.VERIFIED,
            "read by root@host, which is not the declared svc, since ",
            id="another reader than declared",
        ),
    ],
)
def test_that_no_permission_is_needed_is_not_the_same_as_none_recorded(
    full: RunView, change: dict[str, Any], verdict: Verdict, found: str
) -> None:
    """Both are values of their own; who was seen to read stands beside who was declared."""
    view = altered(full, "source.registered", lambda payload: payload.update(change))
    [item] = [item for item in evidence_items(view) if item.id == "data.access"]

    assert verdict == item.verdict
    assert found in item.found
