"""What a package holds: every kind of record, every checkpoint with its fate, the model's life."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.support.packages import ACTOR, ORIGIN, Built, build

from pretrain_archive.domain.kinds import NoteAdded, TombstoneWritten
from pretrain_archive.domain.records import Draft
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.package.holdings import artifacts, inventory
from pretrain_archive.package.html import MOST_CHECKPOINTS, MOST_EVENTS, render_index
from pretrain_archive.package.items import evidence_items
from pretrain_archive.package.verify import verify
from pretrain_archive.package.writer import Writer, write_package


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A closed run with its package."""
    return build(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def view(built: Built) -> RunView:
    """Its records."""
    return RunView.of(built.run_uid, built.ledger.records(streams=[built.run_uid]))


def tombstone(ref: str, *parts: str) -> TombstoneWritten:
    """What stays of a checkpoint, or of parts of it."""
    return TombstoneWritten(
        ref=ref, digest="sha256:" + "2" * 64, size=10, artifact_class="recovery", reason="rule recovery",
        policy_digest=None, approved_by="bob", bytes_released=10, verified_absent=True, parts=list(parts),
    )  # fmt: skip


def added(view: RunView, *payloads: tuple[str, dict[str, Any]]) -> RunView:
    """The run with further facts."""
    last = view.records[-1]
    more = [
        replace(last, kind=kind, payload=payload, record_id=f"rec_{n}")
        for n, (kind, payload) in enumerate(payloads)
    ]
    return RunView.of(view.run_uid, [*view.records, *more])


@pytest.mark.requirement("R144", "R112")
def test_every_record_is_counted_under_its_kind(view: RunView) -> None:
    """Nothing is left out, whatever pages know of it."""
    listed = inventory(view)

    assert len(view.records) == sum(entry["records"] for entry in listed)
    assert {record.kind for record in view.records} == {entry["kind"] for entry in listed}
    assert all(entry["known"] for entry in listed)


@pytest.mark.requirement("R145")
def test_a_kind_of_a_later_release_is_listed_in_file_and_page(built: Built) -> None:
    """A record that no page knows is packaged, proven, counted and named on the page."""
    ledger, store = built.ledger, built.store
    draft = Draft(
        stream=built.run_uid, kind="future.thing", payload={"said": "so"}, actor=ACTOR, origin=ORIGIN
    )
    ledger.append([draft])
    view = RunView.of(built.run_uid, ledger.records(streams=[built.run_uid]))
    folder = built.folder.with_name("later")
    writer = Writer(actor=ACTOR, origin=ORIGIN, verifier_key=built.key.read_text().strip())
    write_package(ledger, store, view, folder=folder, writer=writer, renew=True)

    kinds = {k["kind"]: k for k in json.loads((folder / "evidence/inventory.json").read_bytes())["kinds"]}
    page = (folder / "index.html").read_text("utf-8")
    assert (1, False) == (kinds["future.thing"]["records"], kinds["future.thing"]["known"])
    assert (folder / kinds["future.thing"]["file"]).is_file()
    assert "future.thing" in page
    assert "来自更高版本" in page
    assert "intact" == verify(str(folder))["verdict"]


@pytest.mark.requirement("R116", "R150")
def test_each_checkpoint_has_its_fate(view: RunView) -> None:
    """Kept, deleted, or deleted in part: with the tombstones behind it, and the candidate with its reason."""
    names = [c["checkpoint_id"] for c in artifacts(view)["checkpoints"]]
    told = artifacts(
        added(
            view,
            ("tombstone.written", tombstone(f"checkpoint:{names[0]}").to_json()),
            ("tombstone.written", tombstone(f"checkpoint:{names[1]}", "optimizer").to_json()),
        )
    )
    fates = {c["checkpoint_id"]: (c["state"], len(c["tombstones"])) for c in told["checkpoints"]}

    assert [("deleted", 1), ("deleted in part", 1), ("kept", 0)] == [fates[name] for name in names[:3]]
    assert 2 == len(told["deleted"])
    chosen = next(c for c in told["checkpoints"] if c.get("candidates"))
    assert (True, 1) == (chosen["candidates"][0]["kept"], len(chosen["evaluations"]))


@pytest.mark.requirement("R115", "R158")
def test_class_policy_and_life_stand_beside_the_checkpoints(view: RunView) -> None:
    """A class given later counts; the policy's rules and its digest are told; feedback is part of the model's life."""
    name = artifacts(view)["checkpoints"][0]["checkpoint_id"]
    late = {
        "checkpoint_id": name,
        "artifact_class": "evaluation",
        "purpose": "kept for a paper",
        "reason": "asked",
    }
    life = {"text": "works", "at": "2026-12-01T00:00:00Z"}
    told = artifacts(added(view, ("checkpoint.classified", late), ("model.feedback", life)))

    assert ("evaluation", "kept for a paper") == (
        told["checkpoints"][0]["class"],
        told["checkpoints"][0]["purpose"],
    )
    assert view.opened is not None
    assert view.opened.policy_digest == told["policy_digest"]
    assert told["retention_policy"] == view.opened.policy.get("retention")
    assert ["model.feedback"] == [entry["kind"] for entry in told["model_life"]]


def test_a_page_of_a_long_run_can_be_read(view: RunView) -> None:
    """Thousands of checkpoints and events: the page shows some, counts the rest and names the file that holds it."""
    one = next(record for record in view.records if record.kind == "checkpoint.registered")
    note = NoteAdded(topic="note", text="t").to_json()
    many = [
        replace(
            one, payload={**one.payload, "checkpoint_id": f"c{n}", "step": 1_000 + n}, record_id=f"rec_c{n}"
        )
        for n in range(3_000)
    ]
    notes = [replace(one, kind="note.added", payload=note, record_id=f"rec_n{n}") for n in range(3_000)]
    long = RunView.of(view.run_uid, [*view.records, *many, *notes])
    page = render_index(long, evidence_items(long), ()).decode()

    assert len(page) < 600_000
    assert f"{3_005 - MOST_CHECKPOINTS} more checkpoints" in page
    assert 'href="evidence/artifacts.json"' in page
    assert page.count('<li class="') <= MOST_EVENTS + 80
    assert "gate.decision" in page  # what happened once is not pushed out by what happened often


def test_heading_of_the_gates_names_a_review_where_there_was_one(view: RunView) -> None:
    """Three gates are called three; a review beside them is named, and shown as a card."""
    plain = render_index(view, evidence_items(view), ()).decode()
    records = [
        replace(r, payload={**r.payload, "gate": "review"}, record_id=f"{r.record_id}x")
        for r in view.records
        if r.kind in {"gate.dossier", "gate.decision"} and r.payload["gate"] == "run"
    ]
    reviewed = RunView.of(view.run_uid, [*view.records, *records])
    page = render_index(reviewed, evidence_items(reviewed), ()).decode()

    assert (True, False) == ("Three gates<" in plain, "Three gates and a review" in plain)
    assert "三道关口与复审" in page
    assert "gate.review" in page


def test_page_says_what_it_counts_and_what_the_verifier_counts(built: Built) -> None:
    """Items of evidence on the page, checks of files and records in the verifier: two numbers, both explained."""
    page = (built.folder / "index.html").read_text("utf-8")
    items = json.loads((built.folder / "evidence/items.json").read_bytes())["items"]
    shown = [item for item in items if not item["id"].startswith("track.")]

    assert f"These are the {len(shown)} items of evidence" in page
    assert "verify.py 另行统计自身的核验" in page
