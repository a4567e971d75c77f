"""Candidates with their reasons, and exactly one release per run, on a real ledger."""

from __future__ import annotations

import dataclasses
import threading

import pytest
from tests.support.artifact_files import write_checkpoint
from tests.support.artifact_run import ACTOR, CONFIGURATION, Run

from pretrain_archive.artifacts.candidates import name_candidate, propose
from pretrain_archive.artifacts.classes import effective_class
from pretrain_archive.artifacts.evaluation import record_evaluation
from pretrain_archive.artifacts.registration import Claim, register_checkpoint, registered
from pretrain_archive.artifacts.releases import Terms, make_release
from pretrain_archive.artifacts.rules import Limit
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import CheckpointError, RefusedError
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.factory import open_ledger

TERMS = Terms(
    name="stdlib-bytes",
    version="1",
    applicable=["research"],
    not_applicable=["production"],
    known_limits=["short context"],
    rollback="use the release before it",
    take_down="delete the folder",
    usage_scope=["research"],
)


@pytest.fixture
def run(ledger, store, tmp_path):
    """Three evaluated checkpoints: step 200 is the best, step 300 does not pass."""
    made = Run(ledger, store, tmp_path / "checkpoints").open()
    for step, loss in ((100, 1.9), (200, 1.5), (300, 2.5)):
        made.evaluate(made.checkpoint(step), loss)
    return made


def view(run: Run) -> RunView:
    """The run as it is recorded now."""
    return RunView.of(run.uid, run.ledger.records(streams=[run.uid]))


def by_step(run: Run) -> dict[int, str]:
    """Checkpoint ids by step."""
    return {fact.step: fact.checkpoint_id for _, fact in registered(run.ledger, run.uid)}


def name(run: Run, step: int, **more) -> kinds.CandidateNamed:
    """Name the checkpoint of ``step``."""
    known = {"kept": True, "reason": "the best", "actor": ACTOR, "origin": run.origin()}
    return name_candidate(run.ledger, run_uid=run.uid, checkpoint_id=by_step(run)[step], **{**known, **more})


def release(run: Run, decision, candidate, terms=TERMS, *, ledger=None):
    """Make the release from a task try of its own."""
    return make_release(
        ledger or run.ledger,
        run_uid=run.uid,
        decision=decision,
        candidate=candidate,
        terms=terms,
        actor=ACTOR,
        origin=run.origin(),
    )


@pytest.mark.requirement("R103")
def test_the_proposal_keeps_the_best_and_says_why_not_the_others(run):
    """One is kept; each other one has its own reason."""
    found = {entry.checkpoint.step: (entry.kept, entry.reason) for entry in propose(view(run))}

    assert {100: False, 200: True, 300: False} == {step: kept for step, (kept, _) in found.items()}
    assert "loss 1.9 is worse than 1.5 of step 200" == found[100][1]
    assert "1.5" in found[200][1]
    assert "not passed: loss at most 2" in found[300][1]


@pytest.mark.requirement("R103", "R110")
def test_a_candidate_leads_back_to_checkpoint_evaluation_and_data(run):
    """The edges are on record and can be followed to the snapshot."""
    fact = name(run, 200)

    trace = run.ledger.trace(Ref(type="candidate", id=fact.candidate_id), direction="backward")
    assert {"checkpoint", "evaluation", "snapshot", "configuration", "run"} <= {
        ref.type for ref in trace.nodes
    }


def test_naming_again_adds_nothing(run):
    """A retry is the recorded fact."""
    assert name(run, 200) == name(run, 200)
    assert 1 == len(list(view(run).all(kinds.CandidateNamed)))


@pytest.mark.requirement("R103")
def test_another_than_the_best_needs_its_reason(run):
    """Without it nothing is recorded; with it the reason names the better one."""
    with pytest.raises(RefusedError, match="step 200 has the better loss"):
        name(run, 100)

    fact = name(run, 100, why_not_best="step 200 repeats licence texts")

    assert "not step 200 (loss 1.5): step 200 repeats licence texts" in fact.reason


def test_a_better_one_that_did_not_pass_is_named_without_asking(run):
    """The machine's own proposal can be recorded as it is."""
    run.evaluate(run.checkpoint(400), 0.5)
    document = run.folder / "evaluation-400.json"
    document.write_text(document.read_text().replace('"samples": 10', '"samples": 0', 1))
    fact = registered(run.ledger, run.uid)[-1][1]
    record_evaluation(
        run.ledger,
        run.store,
        run_uid=run.uid,
        checkpoint=fact,
        output=document,
        rules=(Limit(metric="loss", direction="lower", limit=2.0),),
        actor=ACTOR,
        origin=run.origin(),
    )

    assert [200] == [entry.checkpoint.step for entry in propose(view(run)) if entry.kept]
    assert "not step 400 (loss 0.5): its evaluation did not pass" in name(run, 200).reason


@pytest.mark.requirement("R098", "R099", "R100")
def test_the_class_follows_from_what_happened(run):
    """Recovery, evaluated, candidate, released: by records alone."""
    run.checkpoint(400)
    candidate = name(run, 200)

    def classes() -> dict[int, str]:
        return {fact.step: effective_class(view(run), fact) for _, fact in registered(run.ledger, run.uid)}

    assert {100: "evaluation", 200: "candidate", 300: "evaluation", 400: "recovery"} == classes()
    release(run, run.decide(), candidate)
    assert "release" == classes()[200]


@pytest.mark.parametrize(
    ("step", "more", "words"),
    [
        pytest.param(300, {}, "did not pass", id="not passed"),
        pytest.param(200, {"reason": " "}, "reason is missing", id="no reason"),
        pytest.param(200, {"kept": False, "reason": ""}, "reason is missing", id="dropped without reason"),
    ],
)
def test_a_candidate_that_does_not_hold_is_refused(run, step, more, words):
    """Nothing is recorded."""
    with pytest.raises(RefusedError, match=words):
        name(run, step, **more)

    assert [] == list(view(run).all(kinds.CandidateNamed))


def test_an_exploration_has_no_candidates(run):
    """A launch without a full sign-off is never a candidate's source."""
    run.append(
        kinds.LaunchIntended(
            token_digest=CONFIGURATION,
            token={"scope": "exploration"},
            target="local",
            checkpoint_size=1,
            checkpoint_root="00",
            signer="key",
        ),
        attempt=1,
    )

    with pytest.raises(RefusedError, match="exploration"):
        name(run, 200)


@pytest.mark.requirement("R104", "R105", "R106", "R113")
@pytest.mark.case("A05")
def test_retried_and_repeated_closes_give_one_release(run):
    """The first creates, every other is handed the same."""
    candidate, decision = name(run, 200), run.decide()

    first = release(run, decision, candidate)
    again = [release(run, decision, candidate) for _ in range(3)]

    assert [True, False, False, False] == [first.created, *(other.created for other in again)]
    assert {first.record.record_id} == {other.record.record_id for other in again}
    assert 1 == len(list(view(run).all(kinds.ReleaseMade)))
    trace = run.ledger.trace(first.record.edges[0].subject, direction="backward")
    assert {"candidate", "decision", "person", "checkpoint"} <= {ref.type for ref in trace.nodes}


@pytest.mark.case("A05")
def test_parallel_closes_give_one_release(run, ledger_url):
    """Several writers at the same moment: one creates, the others are told which stands."""
    candidate, decision = name(run, 200), run.decide()
    start, found, faults = threading.Barrier(6), [], []

    def close() -> None:
        own = open_ledger(ledger_url, signing_key=None, anchors=())
        start.wait()
        try:
            found.append(release(run, decision, candidate, ledger=own))
        except Exception as error:  # noqa: BLE001 - every fault of a thread is the test's
            faults.append(error)

    threads = [threading.Thread(target=close) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [] == faults
    assert 1 == sum(entry.created for entry in found)
    assert 1 == len({entry.record.record_id for entry in found})


def test_another_release_of_the_run_is_refused(run):
    """A run is released once."""
    candidate, decision = name(run, 200), run.decide()
    release(run, decision, candidate)

    with pytest.raises(RefusedError, match=r"released stdlib-bytes 1 .* stdlib-bytes 2"):
        release(run, decision, candidate, dataclasses.replace(TERMS, version="2"))


def other_run(run, folder):
    """A second run whose best checkpoint may be released, too."""
    made = Run(run.ledger, run.store, folder).open()
    made.evaluate(made.checkpoint(200, content=(7).to_bytes(8, "little") * 2), 1.4)
    return made


@pytest.mark.requirement("R105")
def test_a_name_and_version_is_one_model(run, tmp_path):
    """Another run cannot make a release of the same name and version; the run that holds it is named."""
    other = other_run(run, tmp_path / "other")
    release(run, run.decide(), name(run, 200))
    candidate, decision = name(other, 200), other.decide()

    with pytest.raises(RefusedError, match=rf"stdlib-bytes@1 is taken: run {run.uid} made it") as raised:
        release(other, decision, candidate)
    assert raised.value.hint
    assert view(other).latest(kinds.ReleaseMade) is None

    assert release(other, decision, candidate, dataclasses.replace(TERMS, version="2")).created


def test_names_do_not_run_together(run, tmp_path):
    """Name ``a@1`` version ``2`` is not name ``a`` version ``1@2``."""
    other = other_run(run, tmp_path / "other")
    release(run, run.decide(), name(run, 200), dataclasses.replace(TERMS, name="a@1", version="2"))

    terms = dataclasses.replace(TERMS, name="a", version="1@2")

    assert release(other, other.decide(), name(other, 200), terms).created


def test_unsaid_versions_do_not_collide(run, tmp_path):
    """A version that was knowingly left unsaid names nothing: two runs may leave it out."""
    other, terms = other_run(run, tmp_path / "other"), dataclasses.replace(TERMS, version=None)

    made = [
        release(r, r.decide(acknowledged=("release.version",)), name(r, 200), terms) for r in (run, other)
    ]

    assert [True, True] == [entry.created for entry in made]


def test_parallel_releases_of_one_name(run, tmp_path, ledger_url):
    """Two runs release the same name at the same moment: one does, the other is told which."""
    other = other_run(run, tmp_path / "other")
    inputs = [(r, r.decide(), name(r, 200)) for r in (run, other)]
    start, made, refused = threading.Barrier(2), [], []

    def close(entry) -> None:
        own = open_ledger(ledger_url, signing_key=None, anchors=())
        start.wait()
        try:
            made.append(release(*entry, ledger=own))
        except RefusedError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=close, args=(entry,)) for entry in inputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (1, 1) == (len(made), len(refused))
    assert f"is taken: run {made[0].record.stream} made it" in refused[0]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param({"decision": "reject"}, "not approved", id="rejected"),
        pytest.param({"outcome": "continue"}, "'continue', not 'register'", id="continue"),
        pytest.param({"outcome": None}, "no outcome", id="no outcome"),
    ],
)
def test_only_an_approved_register_decision_releases(run, answer, words):
    """Whatever else was answered, nothing is released."""
    candidate = name(run, 200)

    with pytest.raises(RefusedError, match=words):
        release(run, run.decide(**answer), candidate)


def test_an_overruled_decision_releases_nothing(run):
    """Only the newest answer counts."""
    candidate, old = name(run, 200), run.decide()
    run.decide(decision="reject")

    with pytest.raises(RefusedError, match="not the newest"):
        release(run, old, candidate)


@pytest.mark.requirement("R113")
def test_what_a_release_does_not_say_is_named_unless_acknowledged(run):
    """A gap stops the release; acknowledged by the approver it stays on record as unrecorded."""
    candidate = name(run, 200)
    terms = dataclasses.replace(TERMS, rollback=None, take_down=None, not_applicable=[])
    with pytest.raises(
        RefusedError, match="not applicable is missing; rollback is missing; take down is missing"
    ):
        release(run, run.decide(), candidate, terms)

    decision = run.decide(acknowledged=("release.rollback", "release.not_applicable"))
    made = release(run, decision, candidate, terms).release

    assert ("unrecorded", "unrecorded", []) == (made.rollback, made.take_down, made.not_applicable)


def test_a_dropped_candidate_is_not_released(run):
    """Kept first, dropped later: the newest fact counts."""
    kept = name(run, 200)
    dropped = name(run, 200, kept=False, reason="found licence texts")
    decision = run.decide()

    for candidate in (kept, dropped):
        with pytest.raises(RefusedError):
            release(run, decision, candidate)


def test_parallel_registrations_of_one_step_leave_one_record(run, ledger_url, tmp_path):
    """Writers that race for a step agree on the first record; other bytes lose with both digests."""
    twin = write_checkpoint(tmp_path / "twin", 900)
    other = write_checkpoint(tmp_path / "other", 900, content=b"\x07" * 16)
    claim = Claim(
        run_uid=run.uid,
        attempt=1,
        step=900,
        tokens=None,
        snapshot="stdlib@1",
        configuration_digest=CONFIGURATION,
        responsible="alice",
    )
    start, found, faults = threading.Barrier(6), [], []

    def register(number: int) -> None:
        own = open_ledger(ledger_url, signing_key=None, anchors=())
        folder = other if number % 2 else twin
        start.wait()
        try:
            found.append(register_checkpoint(own, folder, claim, actor=ACTOR, origin=run.origin()))
        except CheckpointError as error:
            faults.append(str(error))

    threads = [threading.Thread(target=register, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (3, 1) == (len(found), len({fact.checkpoint_id for fact in found}))
    assert 3 == sum("other content" in fault for fault in faults)
    assert 1 == sum(fact.step == 900 for _, fact in registered(run.ledger, run.uid))
