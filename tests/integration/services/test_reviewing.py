"""The sampled review of labels on a real ledger and store: sample, pages, answers, result, gate."""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.labelled_data import SECRET_WORDS, LabelledRun, policy_text
from tests.support.ledgers import Place

from pretrain_archive.domain import kinds
from pretrain_archive.domain.checklists import checklist
from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.domain.gates import recorded_policy
from pretrain_archive.domain.identity import format_time
from pretrain_archive.domain.verdicts import Verdict
from pretrain_archive.services.quality import quality
from pretrain_archive.services.review_form import pages_of
from pretrain_archive.services.review_sample import texts_of
from pretrain_archive.services.reviewing import ask_page, draw_sample, let_page_expire, sum_up, take_page
from pretrain_archive.services.runs import snapshot_of
from pretrain_archive.storage.files import FileStore

TOMORROW = format_time(datetime.now(UTC) + timedelta(days=1))
ONE = "sample = 25\nseed = 3\nmin_agreement = 0.9"
TWO = "sample = 12\nseed = 3\nreviewers = 2\nmin_agreement = 0.5"


@pytest.fixture(autouse=True)
def policies(tmp_path, monkeypatch):
    """The folder of policies, which also holds the label definition."""
    monkeypatch.setenv("AIRFLOW__PRETRAIN_ARCHIVE__POLICIES_FOLDER", str(tmp_path / "policies"))
    monkeypatch.setenv("AIRFLOW__PRETRAIN_ARCHIVE__WORK_FOLDER", str(tmp_path / "work"))


@pytest.fixture
def labelled(ledger, store, tmp_path):
    """Makes the run, with a policy of the test's."""

    def make(**policy):
        return LabelledRun(ledger=ledger, store=store, folder=tmp_path, policy=policy_text(**policy))

    return make


@pytest.fixture(scope="module")
def asked(sqlite_template, tmp_path_factory):
    """One run whose sample is drawn, for tests that record nothing but refusals."""
    folder = tmp_path_factory.mktemp("asked")
    shutil.copy(sqlite_template, folder / "ledger.db")
    place = Place(url=f"sqlite:///{folder / 'ledger.db'}", folder=folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__PRETRAIN_ARCHIVE__POLICIES_FOLDER", str(folder / "policies"))
        run = LabelledRun(
            ledger=place.open(),
            store=FileStore(folder / "store"),
            folder=folder,
            policy=policy_text(review=ONE),
        )
        draw(run)
    yield run
    for opened in place.opened:
        opened.close()


def draw(run, **origin):
    """Draw the sample."""
    return draw_sample(run.ledger, run.store, run.caller("label_sample", **origin), run.uid)


def take(run, page, reviewer=1, **more):
    """Answer a page; each is a task of its own."""
    caller = run.caller("label_review", map_index=10 * reviewer + page, try_number=more.pop("try_number", 1))
    return take_page(
        run.ledger, caller, run.uid, page=page, reviewer=reviewer, answer=run.answer(page, reviewer, **more)
    )


def ask(run, page=1, reviewer=1):
    """Put the question of a page."""
    caller = run.caller("label_review", map_index=10 * reviewer + page)
    return ask_page(run.ledger, run.store, caller, run.uid, page=page, reviewer=reviewer)


def total(run, **origin):
    """Sum the review up."""
    return sum_up(run.ledger, run.caller("label_summary", **origin), run.uid)


def gate_item(run):
    """What the prepare gate says of the review."""
    view = run.view()
    found = {item.id: item for item in checklist("prepare", view, recorded_policy(view))}
    return found.get("prepare.label_review")


@pytest.mark.requirement("R048", "R049")
def test_from_sample_to_gate(labelled):
    """A sample is drawn, answered page by page, summed up, and the prepare gate's item is verified."""
    run = labelled(review=ONE)
    sampled = draw(run)
    before = gate_item(run)
    taken = [
        take(run, 1),
        take(run, 2, answer_01="wrong:rare", note_01="signed by a machine"),
        take(run, 3),
    ]
    review = total(run)

    assert {"ham": (140, 18), "spam": (50, 6), "rare": (10, 1)} == {
        s.label: (s.documents, s.sampled) for s in sampled.strata
    }
    assert (25, 3, "mail", "2") == (
        len(sampled.items), pages_of(sampled), sampled.definition_name, sampled.definition_version,
    )  # fmt: skip
    assert Verdict.UNRECORDED is before.verdict
    assert before.blocking
    assert [10, 10, 5] == [len(page.answers) for page in taken]
    assert (25, 24, 1, 0, 24 / 25, None, True) == (
        review.answers, review.agreed, review.wrong, review.problems, review.agreement, review.kappa, review.passed,
    )  # fmt: skip
    assert [("rare", "signed by a machine")] == [(o.label, o.note) for o in review.objections]
    assert Verdict.VERIFIED is gate_item(run).verdict
    assert "agreement 0.960 in 25 answers by bob" == gate_item(run).found


def test_drawn_again(labelled):
    """The sample is the same whenever it is drawn, and recorded once; another seed gives another one."""
    run = labelled(review=ONE)
    first = draw(run)

    assert first == draw(run, try_number=2)
    assert 1 == len(list(run.view().all(kinds.LabelsSampled)))


def test_items_are_what_the_snapshot_holds(labelled):
    """Each item is found again by its place, with exactly the digest that the sample names."""
    run = labelled(review=ONE)
    sampled = draw(run)
    texts = dict(texts_of(run.store, snapshot_of(run.view()), sampled.items))
    moved = [sampled.items[0].model_copy(update={"line": sampled.items[0].line + 1})]

    assert {item.digest for item in sampled.items} == texts.keys()
    with pytest.raises(InputError, match="another digest"):
        list(texts_of(run.store, snapshot_of(run.view()), moved))
    gone = [sampled.items[0].model_copy(update={"line": 5000})]
    with pytest.raises(InputError, match="not in the snapshot"):
        list(texts_of(run.store, snapshot_of(run.view()), gone))


@pytest.mark.parametrize(
    ("changes", "cause", "detail"),
    [
        pytest.param({"person": None}, "unsigned", "no authenticated person", id="nobody"),
        pytest.param({"anonymous": True}, "unsigned", "nobody is authenticated", id="everybody is admin"),
        pytest.param({"responded_at": None}, "unsigned", "no moment", id="no moment"),
        pytest.param({"responded_at": TOMORROW}, "unsigned", "from the future", id="the future"),
        pytest.param({"person": "alice"}, "not_entitled", "alice may not answer", id="who triggered the run"),
        pytest.param({"person": "mallory"}, "not_entitled", "mallory may not answer", id="a stranger"),
        pytest.param({"page_digest": "sha256:" + "0" * 64}, "stale", "another sample or page", id="another sample"),
        pytest.param({"page_digest": None}, "stale", "another sample or page", id="no digest"),
        pytest.param({"option": "Approve"}, "invalid", "must be Submit", id="another option"),
        pytest.param({"answer_07": None}, "invalid", "document 7 of the page is not answered", id="one left out"),
        pytest.param({"answer_07": "agreed"}, "invalid", "document 7 of the page is not answered", id="no choice"),
        pytest.param({"answer_07": 1}, "invalid", "document 7 of the page is not answered", id="an odd type"),
        pytest.param({"answer_02": "problem"}, "invalid", "needs a note", id="a problem without a note"),
        pytest.param({"answer_02": "wrong", "note_02": " "}, "invalid", "needs a note", id="a blank note"),
        pytest.param({"note_02": "x" * 1001}, "invalid", "at most 1000", id="a long note"),
        pytest.param({"note_02": "a\0b"}, "invalid", "no text", id="a NUL"),
        pytest.param({"note_02": "\ud800"}, "invalid", "no text", id="half a character"),
        pytest.param({"note_02": ["x"]}, "invalid", "no text", id="a note of another shape"),
    ],
)  # fmt: skip
def test_answers_that_do_not_count(asked, changes, cause, detail):
    """Whatever is wrong with an answer is recorded with its cause, and nothing is reviewed by it."""
    refused = take(asked, 1, try_number=1 + len(asked.view().records), **changes)

    assert isinstance(refused, kinds.LabelAnswerRefused)
    assert cause == refused.cause
    assert detail in refused.detail
    assert refused == asked.view().latest(kinds.LabelAnswerRefused)
    with pytest.raises(RefusedError, match="3 pages are not answered: page 1"):
        total(asked)


def test_known_id(labelled):
    """Where the policy knows a person's id the answer must have it."""
    run = labelled(review=ONE)
    text = run.policy.replace("[gates]", '[gates]\nuser_ids = { bob = "77" }')
    again = LabelledRunWith(run, text)

    draw(again)
    refused = take(again, 1)

    assert ("not_entitled", "bob has id 'bob', the policy says '77'") == (refused.cause, refused.detail)
    assert ("carol", "carol") in ask(again).people
    assert ("bob", "77") in ask(again).people


def LabelledRunWith(run, text):  # noqa: N802 - reads as the class that it makes
    """Another run of the same place under another policy."""
    folder = run.folder / "second"
    folder.mkdir()
    (run.folder / "policies" / "demo.toml").write_text(text)
    return LabelledRun(ledger=run.ledger, store=run.store, folder=folder, policy=text)


def test_two_reviewers(labelled):
    """Two persons answer the whole sample apart from each other; Cohen's kappa is that of their labels."""
    run = labelled(review=TWO)
    sampled = draw(run)
    disagree = {"answer_01": "problem", "note_01": "cut off"}
    taken = [
        take(run, 1),
        take(run, 2),
        take(run, 1, 2, person="carol", **disagree),
        take(run, 2, 2, person="carol"),
    ]
    review = total(run)

    assert [kinds.LabelPageAnswered] * 4 == [type(one) for one in taken]
    assert (["bob", "carol"], 24, 23, 1) == (review.reviewers, review.answers, review.agreed, review.problems)
    left = [item.label for item in sampled.items]
    right = ["problem", *left[1:]]
    chance = sum(left.count(c) * right.count(c) for c in set(left)) / 144
    assert (11 / 12 - chance) / (1 - chance) == pytest.approx(review.kappa)


def test_one_person_is_one_reviewer(labelled):
    """Who answered as the first reviewer is not the second, and one reviewer's pages are one person's."""
    run = labelled(review=TWO)
    draw(run)
    take(run, 1)

    assert "not_entitled" == take(run, 1, 2, person="bob").cause
    assert "not_entitled" == take(run, 2, 1, person="carol").cause
    assert (("bob", "bob"),) == ask(run, 2, 1).people
    assert (("carol", "carol"),) == ask(run, 1, 2).people


def test_low_agreement_blocks(labelled):
    """Too little agreement is recorded, and the prepare gate's item is changed."""
    run = labelled(review="sample = 5\nmin_agreement = 0.9")
    draw(run)
    take(run, 1, answer_01="wrong", note_01="none of them", answer_02="problem", note_02="empty")

    assert not total(run).passed
    assert Verdict.CHANGED is gate_item(run).verdict


def test_another_snapshot(labelled):
    """A review of an earlier snapshot counts for nothing: it is drawn and answered anew."""
    run = labelled(review="sample = 5")
    draw(run)
    take(run, 1)
    total(run)
    stale = run.answer(1)
    (run.folder / "source" / "more.jsonl").write_text(
        json.dumps({"text": "another letter", "label": "ham"}) + "\n"
    )
    run.snapshot(try_number=2)

    assert Verdict.CHANGED is gate_item(run).verdict
    with pytest.raises(RefusedError, match="no sample of its snapshot"):
        ask(run)
    draw(run, try_number=2)
    caller = run.caller("label_review", map_index=11)
    assert "stale" == take_page(run.ledger, caller, run.uid, page=1, reviewer=1, answer=stale).cause
    with pytest.raises(RefusedError, match="1 pages are not answered"):
        total(run, try_number=2)


def test_taken_twice(labelled):
    """The same answer taken again is the same record; a corrected one counts instead."""
    run = labelled(review="sample = 5")
    draw(run)
    answer = run.answer(1)
    caller = run.caller("label_review", map_index=11)

    def one(answer, caller=caller):
        return take_page(run.ledger, caller, run.uid, page=1, reviewer=1, answer=answer)

    assert one(answer) == one(answer)
    assert 1 == len(list(run.view().all(kinds.LabelPageAnswered)))
    corrected = replace(answer, values=run.values(1, answer_01="wrong", note_01="seen again"),
                        responded_at=format_time(datetime.now(UTC) + timedelta(seconds=1)))  # fmt: skip
    one(corrected, run.caller("label_review", map_index=11, try_number=2))
    assert 1 == total(run).wrong


def test_pages_side_by_side(labelled):
    """Pages that are answered at the same moment are all recorded."""
    run = labelled(review="sample = 60\nseed = 3")
    draw(run)
    answers = {page: run.answer(page) for page in range(1, 7)}
    taken, faults = {}, []

    def give(page):
        try:
            caller = run.caller("label_review", map_index=page)
            taken[page] = take_page(run.ledger, caller, run.uid, page=page, reviewer=1, answer=answers[page])
        except Exception as error:  # noqa: BLE001 - shown by the assertion
            faults.append(error)

    threads = [threading.Thread(target=give, args=(page,)) for page in answers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [] == faults
    assert 60 == total(run).answers


def test_expired(labelled):
    """A page that nobody answered in time is recorded as such, and is never agreement."""
    run = labelled(review="sample = 5")
    draw(run)

    let_page_expire(run.ledger, run.caller("label_review", map_index=1), run.uid, page=1, reviewer=1)

    assert "timed_out" == run.view().latest(kinds.LabelAnswerRefused).cause
    assert Verdict.UNRECORDED is gate_item(run).verdict


@pytest.mark.requirement("R049")
def test_form(labelled):
    """A question has at most ten documents, nothing preset, both languages, and no text of the data."""
    run = labelled(review=ONE)
    draw(run)
    form = ask(run).form
    answers = {name: spec for name, spec in form.fields.items() if name.startswith("answer")}

    assert 10 == len(answers)
    assert [None] * 20 == [spec["default"] for name, spec in form.fields.items() if name != "page_digest"]
    assert ("Submit",) == form.options
    assert "Label review, page 1 of 3 / 标签复核，第 1/3 页" in form.subject
    assert "advertisement that nobody asked for" in form.body
    assert "`pretrain-archive labels show" in form.body
    assert SECRET_WORDS not in form.body
    shown = [spec["values_display"]["agree"] for spec in answers.values()]
    assert all("agree: " in words and "同意" in words for words in shown)


def test_form_with_excerpts(labelled):
    """Where the policy says so a question shows the beginning of each text, as text and never as markup."""
    run = labelled(review=ONE + '\nshow = "excerpt"')
    draw(run)
    body = ask(run).form.body

    assert 10 == body.count(SECRET_WORDS)
    assert "<b>" not in body.replace("\\<b\\>", "")
    assert "*jumps*" not in body.replace("\\*jumps\\*", "")


@pytest.mark.requirement("R048", "R053")
def test_review_of_a_recipe(labelled):
    """Of data that are kept as a recipe the sample and its excerpts are drawn too; the store keeps no content."""
    run = labelled(review=ONE + '\nshow = "excerpt"', mode="recipe")
    sampled = draw(run)

    assert 25 == len(sampled.items)
    assert 10 == ask(run).form.body.count(SECRET_WORDS)
    assert [] == list(run.store.list("blobs/"))


def test_records_hold_no_text(labelled):
    """What the ledger keeps of a review is digests, places and what reviewers wrote."""
    run = labelled(review=ONE + '\nshow = "excerpt"')
    draw(run)
    take(run, 1)

    kept = json.dumps([record.payload for record in run.view().records if record.kind.startswith("labels.")])
    assert SECRET_WORDS not in kept


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        pytest.param(
            {"reviewers": '["alice"]'}, "1 reviewers are wanted and 0 may answer", id="only who triggered it"
        ),
        pytest.param(
            {"review": TWO, "reviewers": '["alice", "bob"]'}, "2 reviewers are wanted and 1", id="one too few"
        ),
    ],
)
def test_nobody_may_review(labelled, policy, message):
    """Too few persons are an error at once, never an endless wait."""
    with pytest.raises(RefusedError, match=message):
        draw(labelled(**policy))


def test_definition_is_read(labelled):
    """A definition that is missing or none is named, before anybody is asked."""
    run = labelled(review=ONE)
    path = run.folder / "policies" / "labels.toml"
    path.unlink()
    with pytest.raises(InputError, match="cannot be read"):
        draw(run)
    path.write_text("name = 'x'\nversion = '1'\n")
    with pytest.raises(InputError, match="defines no label"):
        draw(run)


def test_no_review_asked_for(ledger, store, tmp_path):
    """Without a section on labels there is no item at the gate, and the task says that nothing is asked for."""
    text = policy_text().partition("[data.labels]")[0]
    run = LabelledRun(ledger=ledger, store=store, folder=tmp_path, policy=text)

    assert gate_item(run) is None
    with pytest.raises(RefusedError, match="asks for no review"):
        draw(run)


def test_no_such_page(labelled):
    """A page or reviewer that the sample does not have is refused."""
    run = labelled(review=ONE)
    draw(run)

    for page, reviewer in ((0, 1), (4, 1), (1, 2)):
        with pytest.raises(InputError, match="has no such page"):
            ask(run, page, reviewer)


@pytest.mark.requirement("R048")
def test_quality_check_judges_labels(labelled):
    """The quality check holds labels against the definition beside the policies: 8 of 208 have none that it knows."""
    run = labelled(review=ONE)

    report = quality(run.ledger, run.store, run.caller("quality_check"), run.uid)

    [gate] = [gate for gate in report.gates if gate.name == "labels"]
    assert (8 / 208, False) == (pytest.approx(gate.observed), gate.passed)
