"""What the pages read from the ledger: lists, gates, stale signatures, who may sign."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi import Request
from tests.unit.web.gated_run import UID, GatedRun, demo_policy, gated_run

from pretrain_archive.domain import kinds
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Actor, Origin
from pretrain_archive.gates.service import gate_view, load_run
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.withdrawing import find_source, withdraw
from pretrain_archive.storage.port import ObjectStore
from pretrain_archive.web import read_runs
from pretrain_archive.web.app import show_record
from pretrain_archive.web.gate_cards import card_of
from pretrain_archive.web.read_gate import GatePage, gate_page, signer
from pretrain_archive.web.read_run import run_page
from pretrain_archive.web.read_runs import runs_page
from pretrain_archive.web.sources import KnownDags, whole_run


class Known:
    """Sources as a test knows them."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def ledger(self) -> Ledger:
        """The test's ledger."""
        return self._ledger

    def policy(self, project: str) -> LoadedPolicy:
        """The demo policy."""
        assert project == "demo"
        return demo_policy()


def gate_of(
    ledger: Ledger, run: GatedRun, gate: str = "prepare", *, user: str = "bob", role: bool = True
) -> GatePage:
    """The gate's page as ``user`` sees it."""
    return gate_page(Known(ledger), ledger, whole_run(ledger, run.uid), gate, user=user, role_may=role)


def change_configuration(run: GatedRun) -> None:
    """Declare another learning rate after the gate was signed."""
    declared = load_run(run.ledger, run.uid).latest(kinds.ConfigurationDeclared)
    assert declared is not None
    configuration = {**declared.configuration, "learning_rate": 0.9}
    run.add(
        "prepare_gate",
        declared.model_copy(
            update={"configuration": configuration, "configuration_digest": digest_of(configuration)}
        ),
    )


@pytest.fixture
def run(ledger: Ledger, store: ObjectStore, tmp_path: Path) -> GatedRun:
    """A run that waits at its prepare gate."""
    found = gated_run(ledger, store, tmp_path / "work")
    found.waiting_at_prepare()
    return found


def test_a_waiting_gate_shows_the_fresh_digest_and_says_that_the_question_is_the_same(
    ledger: Ledger, run: GatedRun
) -> None:
    """The page's digest is that of the dossier now, and of the question while nothing changed."""
    page = gate_of(ledger, run)

    assert page.asked is not None
    assert (True, page.digest) == (page.asked.fresh, page.asked.digest)
    assert ("prepare_gate", "waiting") == (page.asked.task_id, page.card.state)
    assert ("prepare.masking", "prepare.collected_at") == tuple(item.id for item in page.advisory)[:2]


@pytest.mark.case("G01")
def test_a_question_for_older_evidence_is_not_fresh(ledger: Ledger, run: GatedRun) -> None:
    """After a change the page shows another digest than the question, and says so."""
    change_configuration(run)
    page = gate_of(ledger, run)

    assert page.asked is not None
    assert not page.asked.fresh
    assert page.digest != page.asked.digest


@pytest.mark.requirement("R133")
def test_a_signature_for_older_evidence_is_stale_and_names_the_change(ledger: Ledger, run: GatedRun) -> None:
    """An approval is never shown as such once a bound fact changed; the fact is named."""
    run.answer("prepare")
    assert "approve" == card_of(ledger, whole_run(ledger, run.uid), "prepare").state
    change_configuration(run)
    card, page = card_of(ledger, whole_run(ledger, run.uid), "prepare"), gate_of(ledger, run)

    assert "stale" == card.state
    assert any("configuration_digest" in name for name in card.stale)
    assert page.since_answer == page.stale


@pytest.mark.parametrize(
    ("user", "role", "may", "words"),
    [
        pytest.param("bob", True, True, "You may sign", id="approver"),
        pytest.param("bob", False, False, "role", id="approver without the role"),
        pytest.param("alice", True, False, "You started this run", id="submitter"),
        pytest.param("carol", True, False, "does not name you", id="somebody else"),
    ],
)
def test_the_page_says_who_may_sign_and_why_not(
    ledger: Ledger, run: GatedRun, user: str, role: bool, may: bool, words: str
) -> None:
    """Each person reads whether they may sign, else who can."""
    found = signer(gate_view(ledger, whole_run(ledger, run.uid), "prepare"), user=user, role_may=role)

    assert may == found.may
    assert words in found.why.en
    assert may or "bob" in found.why.zh


def test_a_rejected_gate_says_by_whom_and_why(ledger: Ledger, run: GatedRun) -> None:
    """The card of a rejection carries person and reason."""
    run.answer("prepare", option="Reject", reason="Too dear.")
    card = run_page(ledger, whole_run(ledger, run.uid)).gates[0]

    assert ("reject", "bob", "Too dear.") == (card.state, card.person, card.reason)


def test_a_whole_run_is_told_in_six_sentences(ledger: Ledger, store: ObjectStore, tmp_path: Path) -> None:
    """Data, conditions, events, checkpoint, signatures and use are each one sentence in both languages."""
    seeded = gated_run(ledger, store, tmp_path / "work")
    seeded.whole()
    page = run_page(ledger, whole_run(ledger, seeded.uid))
    said = {sentence.name: sentence.text for sentence in page.sentences}

    assert ["data", "conditions", "events", "checkpoint", "signatures", "use"] == list(said)
    assert "python-stdlib@1 went in (" in said["data"].en
    assert "steps lost: 12, repeated: 12" in said["events"].en
    assert "Prepare gate: bob (approved); Run gate: bob (approved)" in said["signatures"].en
    assert "准备关口：bob（已批准）" in said["signatures"].zh
    assert [12, 0] == [line.ended.steps_lost for line in page.attempts if line.ended]


def test_an_empty_run_says_what_is_unrecorded(ledger: Ledger, store: ObjectStore, tmp_path: Path) -> None:
    """A run that was only opened claims nothing."""
    seeded = gated_run(ledger, store, tmp_path / "work")
    seeded.open(seeded.objective)
    page = run_page(ledger, whole_run(ledger, seeded.uid))

    assert "Which data goes in is unrecorded." == page.sentences[0].text.en
    assert ["none", "none", "none"] == [card.state for card in page.gates]
    assert page.curve is None


def seed_list(ledger: Ledger, store: ObjectStore, folder: Path, states: dict[int, str]) -> None:
    """Runs that are opened, or wait at their prepare gate."""
    for number, state in states.items():
        found = gated_run(ledger, store, folder / str(number), number=number, objective=f"Purpose {number}")
        if state == "waiting":
            found.waiting_at_prepare()
        else:
            found.open(found.objective)


def listed(ledger: Ledger, **more: Any) -> read_runs.RunsPage:
    """A page of the list."""
    query = {"dag_ids": {"pretraining_reference"}, "text": "", "state": "", "before": None, **more}
    return runs_page(ledger, **query)


def test_waiting_gates_come_first_and_lists_are_paged_by_key(
    ledger: Ledger, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three pages of two hold every run once, newest first; the gates that wait stand above the first page."""
    monkeypatch.setattr(read_runs, "PAGE", 2)
    seed_list(ledger, store, tmp_path, {1: "open", 2: "waiting", 3: "open", 4: "waiting", 5: "open"})
    pages, before = [], None
    while True:
        pages.append(listed(ledger, before=before))
        before = pages[-1].older
        if before is None:
            break

    assert [5, 4, 3, 2, 1] == [int(line.row.objective[-1]) for page in pages for line in page.lines]
    assert [2, 2, 1] == [len(page.lines) for page in pages]
    assert [UID.format(2), UID.format(4)] == [line.row.run_uid for line in pages[0].waiting]
    assert () == pages[1].waiting


def test_the_state_filter_finds_what_stands_on_later_pages(
    ledger: Ledger, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter looks past runs of other states."""
    monkeypatch.setattr(read_runs, "PAGE", 2)
    seed_list(ledger, store, tmp_path, {1: "waiting", 2: "open", 3: "open", 4: "open", 5: "open"})
    found = listed(ledger, state="waiting")

    assert ([UID.format(1)], None) == ([line.row.run_uid for line in found.lines], found.older)


def test_a_filter_that_stops_looking_says_where(
    ledger: Ledger, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is dropped silently: the page knows how many runs it looked through and where to go on."""
    monkeypatch.setattr(read_runs, "PAGE", 2)
    monkeypatch.setattr(read_runs, "LOOK_AT_MOST", 2)
    seed_list(ledger, store, tmp_path, {1: "waiting", 2: "open", 3: "open", 4: "open"})
    first = listed(ledger, state="waiting")
    second = listed(ledger, state="waiting", before=first.older)

    assert ((), 2) == (first.lines, first.looked)
    assert [UID.format(1)] == [line.row.run_uid for line in second.lines]


def test_a_list_counts_what_the_run_page_counts(ledger: Ledger, store: ObjectStore, tmp_path: Path) -> None:
    """The verdicts of a run are the same in the list and on its page."""
    seeded = gated_run(ledger, store, tmp_path / "work")
    seeded.whole()

    assert listed(ledger).lines[0].counts == run_page(ledger, whole_run(ledger, seeded.uid)).counts


def test_runs_of_other_dags_are_not_listed(ledger: Ledger, store: ObjectStore, tmp_path: Path) -> None:
    """Only the Dags that are asked for are read; no Dag means no run."""
    seed_list(ledger, store, tmp_path, {1: "waiting"})

    assert () == listed(ledger, dag_ids={"other_dag"}).lines
    assert ((), ()) == (listed(ledger, dag_ids=set()).lines, listed(ledger, dag_ids=set()).waiting)


def test_dags_are_learnt_step_by_step(ledger: Ledger, store: ObjectStore, tmp_path: Path) -> None:
    """A Dag that opens its first run later is known at the next request."""
    known = KnownDags()
    assert set() == known.names(ledger)
    gated_run(ledger, store, tmp_path / "1", number=1).waiting_at_prepare()
    assert {"pretraining_reference"} == known.names(ledger)
    gated_run(ledger, store, tmp_path / "2", number=2, dag_id="other_dag").waiting_at_prepare()

    assert {"pretraining_reference", "other_dag"} == known.names(ledger)


@pytest.mark.requirement("R037")
def test_a_withdrawn_source_is_on_the_timeline_of_its_runs(
    ledger: Ledger, store: ObjectStore, tmp_path: Path
) -> None:
    """What is recorded of the source in a stream of its own is told with the run, newest first, and opens."""
    run = gated_run(ledger, store, tmp_path)
    run.waiting_at_prepare()
    caller = Caller(
        origin=Origin(dag_id="cli", dag_run_id="call", task_id="withdraw"),
        actor=Actor(type="cli", name="dana"),
    )
    [source] = load_run(ledger, run.uid).all(kinds.SourceRegistered)
    withdraw(ledger, caller, find_source(ledger, source[1].name), reason="the contract ended")
    view = whole_run(ledger, run.uid)
    newest = run_page(ledger, view).timeline[0]
    shown = show_record(_request(), view, newest.record_id)

    assert "source.withdrawn" == newest.kind
    assert 200 == shown.status_code
    assert "the contract ended" in bytes(shown.body).decode()


def _request() -> Request:
    """A request of a browser to the pages."""
    return Request({"type": "http", "method": "GET", "path": "/", "headers": [], "root_path": "/pages"})


def test_a_waiting_exploration_is_marked_in_list_and_inbox(
    ledger: Ledger, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever answers a gate from the inbox sees before that nothing of the run was signed for."""
    monkeypatch.setattr(read_runs, "WAITING_WITHIN", 10)
    seed_list(ledger, store, tmp_path, {1: "waiting"})
    real = GatedRun.opened_with_policy

    def exploring(run: GatedRun, payload: kinds.RunOpened) -> kinds.RunOpened:
        opened = real(run, payload)
        return opened.model_copy(update={"conf": opened.conf | {"scope": "exploration"}})

    monkeypatch.setattr(GatedRun, "opened_with_policy", exploring)
    seed_list(ledger, store, tmp_path, {2: "waiting"})
    page = listed(ledger)
    assert [(1, False), (2, True)] == [
        (int(line.row.objective[-1]), line.exploration) for line in page.waiting
    ]
    assert [True, False] == [line.exploration for line in page.lines]
