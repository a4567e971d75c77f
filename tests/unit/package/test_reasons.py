"""The ten items of a package: each is proven or says why it is not, in both languages."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.packages import Built, build, run_verifier
from tests.support.seeded_run import seed_run

from pretrain_archive.domain import kinds
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Verdict
from pretrain_archive.package import reasons
from pretrain_archive.package.evidence import Reference
from pretrain_archive.package.items import evidence_items
from pretrain_archive.package.reasons import CODES, why, why_reference

TEN = {
    "run.summary": "run.opened",
    "data.snapshot": "snapshot.created",
    "compute.configuration": "configuration.declared",
    "compute.events": "attempt.started",
    "artifact.checkpoints": "checkpoint.registered",
    "artifact.candidate": "candidate.named",
    "artifact.evaluation": "evaluation.reported",
    "artifact.limits": "release.made",
    "run.people": "run.opened",
    "artifact.retention": "configuration.declared",
}
"""Item → the kind of record without which it is unrecorded."""
HAN = re.compile(r"[\u4e00-\u9fff]")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A closed run with its package."""
    return build(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def view(built: Built) -> RunView:
    """Its records."""
    return RunView.of(built.run_uid, built.ledger.records(streams=[built.run_uid]))


def without(view: RunView, *names: str) -> RunView:
    """The run without some kinds."""
    return RunView.of(view.run_uid, [record for record in view.records if record.kind not in names])


def reason_of(view: RunView, name: str) -> reasons.Reason:
    """Why the item is unrecorded."""
    item = next(item for item in evidence_items(view) if item.id == name)
    found = why(view, item)
    assert found is not None, item
    return found


def like(record: Record, payload: kinds.Payload, **changes: Any) -> Record:
    """Another fact in the place of a record."""
    return replace(record, kind=kinds.BY_MODEL[type(payload)], payload=payload.to_json(), **changes)


@pytest.mark.requirement("R143", "R138", "R123")
@pytest.mark.parametrize("name", TEN)
def test_each_of_the_ten_items_is_proven_in_the_package(built: Built, name: str) -> None:
    """Its verdict stands on records that lie in the package, each of which the verifier proves against the log."""
    items = {i["id"]: i for i in json.loads((built.folder / "evidence/items.json").read_bytes())["items"]}
    records = {json.loads(p.read_bytes())["record_id"]: p for p in (built.folder / "records").iterdir()}
    code, report = run_verifier(built.folder, "--key", str(built.key))
    proven = {item["id"] for item in report["items"] if item["verdict"] == "verified"}

    item = items[name]
    assert (0, "verified", True) == (code, item["verdict"], bool(item["evidence"]))
    assert {f"records/{records[record].name}" for record in item["evidence"]} <= proven
    assert "reason" not in item


@pytest.mark.requirement("R143", "R144")
@pytest.mark.parametrize(("name", "kind"), TEN.items())
def test_each_of_the_ten_items_says_why_it_is_unrecorded(view: RunView, name: str, kind: str) -> None:
    """Without its record the item is unrecorded, with a reason in both languages."""
    found = reason_of(
        without(view, kind, "attempt.ended") if name == "compute.events" else without(view, kind), name
    )

    assert found.code in CODES
    assert found.en
    assert HAN.search(found.zh)


def test_a_verified_item_needs_no_reason(view: RunView) -> None:
    """Only a gap is explained."""
    assert {None} == {why(view, item) for item in evidence_items(view) if item.verdict is Verdict.VERIFIED}


def test_refused_checkpoints_are_the_reason(view: RunView) -> None:
    """There were some, none counts: how many and what was wrong."""
    last = view.records[-1]
    refused = kinds.CheckpointRefused(
        location="file:///x", step=1, attempt=1, problems=["a shard is missing", "cut"]
    )
    found = reason_of(
        RunView.of(view.run_uid, [*without(view, "checkpoint.registered").records, like(last, refused)]),
        "artifact.checkpoints",
    )

    assert ("refused", "1 checkpoints were refused: a shard is missing") == (found.code, found.en)


def test_dropped_candidates_are_the_reason(view: RunView) -> None:
    """Every candidate was looked at and dropped: that is a decision, and no gap in the records."""
    records = [
        replace(r, payload={**r.payload, "kept": False, "reason": "too bad"})
        if r.kind == "candidate.named"
        else r
        for r in view.records
    ]
    found = reason_of(RunView.of(view.run_uid, records), "artifact.candidate")

    assert ("refused", True) == (found.code, found.en.endswith("candidates were dropped: too bad"))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param({"metrics": [{"name": "m", "unit": "", "direction": "lower", "value": None, "not_finite": "nan"}]},
                     "not_finite", id="NaN"),
        pytest.param({"baselines": []}, "no_baseline", id="no baseline"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_evaluation_is_the_reason(
    view: RunView, change: dict[str, Any], code: str
) -> None:
    """A number that is none, and a number without another one beside it."""
    records = [
        replace(r, payload=r.payload | change) if r.kind == "evaluation.reported" else r for r in view.records
    ]

    assert code == reason_of(RunView.of(view.run_uid, records), "artifact.evaluation").code


@pytest.mark.requirement("R141")
@pytest.mark.parametrize(
    ("payload", "code", "told"),
    [
        pytest.param(None, "unanswered", "nobody answered", id="unanswered"),
        pytest.param(kinds.GateExpired(gate="close", deadline_seconds=1.0), "expired", "deadline", id="expired"),
        pytest.param(
            kinds.GateRefused(gate="close", person_id="eve", person_name="E", cause="not_entitled", detail="not named"),
            "refused", "not named", id="refused",
        ),
    ],
)  # fmt: skip
def test_what_became_of_a_question_is_the_reason(view: RunView, payload: Any, code: str, told: str) -> None:
    """The close gate was asked: nobody answered, the deadline passed, or an answer did not count."""
    records = [r for r in view.records if not (r.kind == "gate.decision" and r.payload["gate"] == "close")]
    extra = [like(view.records[-1], payload)] if payload else []
    found = reason_of(RunView.of(view.run_uid, [*records, *extra]), "gate.close")

    assert (code, True) == (found.code, told in found.en)


def test_a_rejection_is_told_with_person_and_reason(view: RunView) -> None:
    """Who said no, and why."""
    records = [
        replace(r, payload={**r.payload, "decision": "reject", "reason": "too early"})
        if r.kind == "gate.decision" and r.payload["gate"] == "run"
        else r
        for r in view.records
    ]
    found = reason_of(RunView.of(view.run_uid, records), "gate.run")

    assert ("rejected", "rejected by Bob Approver: too early") == (found.code, found.en)


@pytest.mark.parametrize(
    ("until", "item", "code"),
    [
        pytest.param("open", "compute.events", "not_reached", id="never launched"),
        pytest.param("prepare", "artifact.candidate", "not_reached", id="no candidate before a launch"),
        pytest.param("data", "gate.prepare", "not_reached", id="gate never asked"),
        pytest.param("open", "data.snapshot", "not_captured", id="nobody captured it"),
    ],
)
def test_a_run_that_ended_early_says_how_far_it_came(
    tmp_path: Path, until: str, item: str, code: str
) -> None:
    """What was not reached is told apart from what was not captured."""
    from tests.support.packages import memory_ledger

    from pretrain_archive.storage.files import FileStore

    ledger = memory_ledger()
    uid = seed_run(ledger, FileStore(tmp_path / "store"), tmp_path, until=until)

    assert code == reason_of(RunView.of(uid, ledger.records(streams=[uid])), item).code


def test_a_failure_is_the_reason_of_what_follows_it(view: RunView) -> None:
    """The run failed at a task before this was recorded."""
    failed = kinds.RunFailed(task_id="snapshot", error_code="storage", reason="disk full")
    some = [
        r
        for r in without(view, "snapshot.created").records
        if r.kind not in {"package.written", "run.closed"}
    ]
    found = reason_of(RunView.of(view.run_uid, [*some, like(view.records[-1], failed)]), "data.snapshot")

    assert ("failed", "the run failed at snapshot before this was recorded: disk full") == (
        found.code,
        found.en,
    )


@pytest.mark.requirement("R150")
def test_a_reference_to_deleted_bytes_names_the_tombstone(view: RunView) -> None:
    """The link still resolves after the deletion: to the tombstone's reason and who approved it."""
    digest = "sha256:" + "1" * 64
    gone = kinds.TombstoneWritten(
        ref="log:x", digest=digest, size=1, artifact_class="log", reason="older than the rule", policy_digest=None,
        approved_by="bob", bytes_released=1, verified_absent=True,
    )  # fmt: skip
    reference = Reference(
        id="000001-x.log", record="rec", field="log_digest", digest=digest, location="file:///gone", size=None,
        access="", verdict=Verdict.UNRECORDED, check="",
    )  # fmt: skip
    deleted = why_reference(
        RunView.of(view.run_uid, [*view.records, like(view.records[-1], gone)]), reference
    )
    unread = why_reference(view, reference)

    assert deleted is not None
    assert ("deleted", True, True) == (deleted.code, "older than the rule" in deleted.en, "bob" in deleted.zh)
    assert unread is not None
    assert "unreadable" == unread.code


def test_every_reason_has_a_chinese_sentence() -> None:
    """Each place in the code that makes a reason gives both languages and a known code."""
    tree = ast.parse(Path(reasons.__file__).read_text("utf-8"))
    made = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "Reason"
    ]

    assert 15 < len(made)
    for call in made:
        given = {word.arg: ast.unparse(word.value) for word in call.keywords}
        assert ast.literal_eval(given["code"]) in CODES
        assert HAN.search(given["zh"]), given
