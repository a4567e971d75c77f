"""Human evaluation on a real ledger and store: sample, pages, answers, result, the close gate."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.human_run import (
    ITEMS,
    answer,
    asking,
    draw,
    gate_items,
    put_samples,
    sampled_of,
    take,
    total,
    values,
    write_items,
)
from tests.support.ledgers import Place
from tests.support.s3 import S3Server, s3, s3_endpoint  # noqa: F401 - fixtures
from tests.unit.gates.asked_run import UID, AskedRun

from pretrain_archive.cli import run_command
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError, RefusedError, StorageError
from pretrain_archive.domain.identity import Ref, format_time
from pretrain_archive.domain.verdicts import Verdict
from pretrain_archive.gates.service import gate_view
from pretrain_archive.services import human_evaluating as human
from pretrain_archive.services.human_files import kept_items
from pretrain_archive.services.human_form import build_page, fenced, items_of, page_digest, pages_of
from pretrain_archive.services.human_lookup import check_outputs
from pretrain_archive.storage.files import FileStore

TOMORROW = format_time(datetime.now(UTC) + timedelta(days=1))
HUMAN, CAVEATS = "close.human_evaluation", "close.human_caveats"


@pytest.fixture
def asked(make_run: Any) -> AskedRun:
    """A run whose sample of seven outputs is drawn: two pages for each of two reviewers."""
    run = asking(make_run)
    draw(run)
    return run


@pytest.fixture
def closing(make_run: Any) -> AskedRun:
    """The same past its run gate."""
    run = asking(make_run, stage="run")
    draw(run)
    return run


@pytest.fixture(scope="module")
def refusing(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskedRun]:
    """One such run for tests that record nothing but refusals."""
    folder = tmp_path_factory.mktemp("refusing")
    shutil.copy(sqlite_template, folder / "ledger.db")
    place = Place(url=f"sqlite:///{folder / 'ledger.db'}", folder=folder)
    more = {
        "ledger": place.open(),
        "store": FileStore(folder / "store"),
        "folder": folder,
        "uid": UID.format(1),
    }
    run = asking(partial(AskedRun, seed=17, dag_run_id="manual__1", **more))
    draw(run)
    yield run
    for opened in place.opened:
        opened.close()


@pytest.fixture
def paired(make_run: Any) -> AskedRun:
    """The same with all twelve pairs."""
    run = asking(make_run, "pairs", sample="12", fewest="10")
    draw(run)
    return run


def ask(run: AskedRun, page: int = 1, reviewer: int = 1) -> human.OutputAsk:
    """Put the question of a page."""
    caller = run.caller("human_review", map_index=page)
    return human.ask_outputs(run.ledger, run.store, caller, run.uid, page=page, reviewer=reviewer)


def finish(run: AskedRun, **second: Any) -> kinds.HumanEvaluationReported:
    """Bob and carol answer every page; ``second`` is what carol says otherwise on the first."""
    for page in range(1, pages_of(sampled_of(run)) + 1):
        take(run, page)
        take(run, page, 2, person="carol", **(second if page == 1 else {}))
    return total(run)


# -- the whole way -------------------------------------------------------------------------------------


@pytest.mark.requirement("R118")
def test_from_sample_to_gate(closing: AskedRun) -> None:
    """Sampled, scored by two persons, problems logged, summed up; until then nothing can be registered."""
    before = gate_items(closing)
    problem = {"problem_01": "invented", "severity_01": "major", "note_01": "no such number"}
    report = finish(closing, score_01="score:1", **problem)
    after = gate_items(closing)

    assert {HUMAN: (Verdict.UNRECORDED, False), CAVEATS: (Verdict.UNRECORDED, False)} == {
        name: (item.verdict, item.blocking) for name, item in before.items()
    }
    assert (7, 7, 14, ["bob", "carol"], True) == (
        report.items, report.scored, report.answers, report.reviewers, report.passed,
    )  # fmt: skip
    assert (6 / 7, {"3": 13, "2": 0, "1": 1}) == (report.agreement, report.points)
    assert [("invented", "major", "carol", "no such number")] == [
        (p.category, p.severity, p.by, p.note) for p in report.problems
    ]
    assert {Verdict.VERIFIED} == {item.verdict for item in after.values()}
    assert "7 of 7 items by bob, carol; mean 2.86; agreement 0.857" in after[HUMAN].found
    assert "1 problems" in after[HUMAN].found


@pytest.mark.requirement("R118")
def test_bad_scores_cannot_be_registered(closing: AskedRun) -> None:
    """Reviewers who do not agree: the item is changed, and the outcome register is refused when it is answered."""
    second = {f"score_{number:02}": "score:1" for number in range(1, 6)}
    report = finish(closing, **second)
    closing.ask("close")
    refused = closing.answer("close", outcome="register")
    kept = closing.answer("close", outcome="continue", try_number=2)

    assert ["agreement_below: 0.286, at least 0.5 is wanted"] == report.flags
    assert Verdict.CHANGED is gate_items(closing)[HUMAN].verdict
    assert refused.refusal is not None
    assert HUMAN in refused.refusal.detail
    assert kept.decision is not None
    assert HUMAN in kept.decision.acknowledged


def test_one_reviewer_is_acknowledged_by_name(make_run: Any) -> None:
    """A policy with one reviewer: the numbers stand, and the caveat is acknowledged before anything is registered."""
    run = asking(make_run, stage="run", wanted="1")
    draw(run)
    for page in (1, 2):
        take(run, page)
    total(run)
    run.ask("close")
    silent = run.answer("close", outcome="register", acknowledge=False)
    done = run.answer("close", outcome="register", try_number=2)

    found = gate_items(run)
    assert (Verdict.VERIFIED, Verdict.CHANGED) == (found[HUMAN].verdict, found[CAVEATS].verdict)
    assert "one_reviewer_only" in found[CAVEATS].found
    assert silent.refusal is not None
    assert CAVEATS in silent.refusal.detail
    assert done.decision is not None
    assert CAVEATS in done.decision.acknowledged


@pytest.mark.requirement("R118")
def test_an_answer_after_the_report(closing: AskedRun) -> None:
    """A page that is answered anew is not in the report: nothing is verified until it is summed up again."""
    finish(closing)
    take(closing, 1, score="1", try_number=9)
    stale = gate_items(closing)[HUMAN]
    total(closing, try_number=2)

    assert (Verdict.CHANGED, True) == (stale.verdict, "1 pages were answered after" in stale.found)
    assert "answered after" not in gate_items(closing)[HUMAN].found


@pytest.mark.requirement("R118")
def test_drawn_until_the_scores_please(make_run: Any, tmp_path: Path) -> None:
    """Another file after a first page of bad scores: the new numbers stand, and the approver is told of the old."""
    path = tmp_path / "items.jsonl"
    run = asking(make_run, conf={"human_items": str(path)}, stage="run")
    candidate = run.view().latest(kinds.CandidateNamed)
    assert candidate is not None
    named = [item | {"checkpoint": candidate.checkpoint_id} for item in ITEMS]
    write_items(path, named)
    draw(run)
    take(run, 1, score="1")
    write_items(path, named[:9])
    draw(run, try_number=2)
    for page in (1, 2):
        take(run, page, try_number=2)
        take(run, page, 2, person="carol", try_number=2)
    total(run)

    found = gate_items(run)
    assert (Verdict.VERIFIED, Verdict.CHANGED) == (found[HUMAN].verdict, found[CAVEATS].verdict)
    assert "sampled_again: 1 other samples" in found[CAVEATS].found


def test_not_asked_for(run: AskedRun) -> None:
    """A policy without the section: no items, nothing to draw."""
    run.until("run")

    assert {} == gate_items(run)
    assert human.asked_for(run.ledger, run.caller("human_sample"), run.uid) is None
    with pytest.raises(RefusedError, match="asks for no human evaluation"):
        draw(run)


def test_another_candidate(asked: AskedRun) -> None:
    """Scores of one checkpoint say nothing of another: the gate shows it, and the sample is to be drawn anew."""
    finish(asked)
    other = [c for _, c in asked.view().all(kinds.CheckpointRegistered)][-2]
    evaluation = {"checkpoint_id": other.checkpoint_id, "checkpoint_digest": other.digest}
    asked.replace("evaluate", kinds.EvaluationReported, **evaluation, evaluation_id="eval_other")
    asked.replace(
        "evaluate", kinds.CandidateNamed, candidate_id="cand_other", evaluation_id="eval_other", **evaluation
    )

    assert Verdict.CHANGED is gate_items(asked)[HUMAN].verdict
    assert "not the candidate" in gate_items(asked)[HUMAN].found
    with pytest.raises(RefusedError, match="no sample of its candidate"):
        ask(asked)
    assert "verified" == check_outputs(asked.store, asked.view()).verdict.value


# -- the sample ----------------------------------------------------------------------------------------


def test_sample_is_recorded_once(asked: AskedRun) -> None:
    """Drawn again it is the same; its edges lead to the checkpoint, the file and the run, and keep nothing alive."""
    again = draw(asked, try_number=2)
    [record] = [r for r in asked.view().records if r.kind == "human_evaluation.sampled"]

    assert sampled_of(asked) == again
    assert ("evaluation_program", 12, 7) == (again.subject, again.source_items, len(again.items))
    targets = {(edge.relation.value, edge.object.type) for edge in record.edges}
    assert {("used", "checkpoint"), ("was_derived_from", "sample"), ("was_generated_by", "run")} == targets
    assert {"evaluation"} == {edge.subject.type for edge in record.edges}
    candidate = asked.view().latest(kinds.CandidateNamed)
    assert candidate is not None
    assert candidate.checkpoint_digest == again.checkpoint_digest
    start = Ref(type="checkpoint", id=again.checkpoint_id)
    assert record.edges[0].subject in asked.ledger.trace(start, direction="forward").nodes


def test_no_text_in_the_ledger(asked: AskedRun) -> None:
    """Prompts and outputs stay in the store: no record holds any of them."""
    finish(asked)
    stored = b"".join(record.stored for record in asked.view().records).decode()

    assert [] == [item["id"] for item in ITEMS if item["output"] in stored or item["prompt"] in stored]
    kept = kept_items(asked.store, asked.uid, sampled_of(asked).items_digest)
    assert [item.digest for item in sampled_of(asked).items] == [item.digest for item in kept]


def test_requested_items(make_run: Any, tmp_path: Path) -> None:
    """A file that the request names; without a word on the checkpoint that stands as a caveat."""
    path = write_items(tmp_path / "items.jsonl")
    run = asking(make_run, conf={"human_items": str(path)})

    sampled = draw(run)
    path.unlink()  # the drawn lines are kept
    finish(run)

    assert ("unproven", path.as_uri()) == (sampled.subject, sampled.source_uri)
    assert "subject_unproven" in gate_items(run)[CAVEATS].found


@pytest.mark.requirement("R118")
def test_outputs_changed_before_they_are_drawn(make_run: Any, tmp_path: Path) -> None:
    """What lies in the store is read only if it is what the program wrote, by the digest on record."""
    run = asking(make_run)
    [kept] = (tmp_path / "store").rglob("samples/*.jsonl")
    kept.chmod(0o600)
    write_items(kept, ITEMS[:9])

    with pytest.raises(InputError, match="is not what the evaluation program wrote any more"):
        draw(run)
    assert run.view().latest(kinds.HumanEvaluationSampled) is None


def test_outputs_that_no_record_names(make_run: Any, tmp_path: Path) -> None:
    """A file that somebody put where a program's outputs lie is not read: no record says that a program wrote it."""
    run = asking(make_run, conf={})
    folder = tmp_path / "store" / "runs" / run.uid / "evaluations" / run.evaluation_id / "samples"
    folder.mkdir(parents=True)
    write_items(folder / f"{'0' * 64}.jsonl")

    with pytest.raises(RefusedError, match="its evaluation program wrote none"):
        draw(run)


def test_nothing_to_read(make_run: Any) -> None:
    """Neither the program nor the request gives outputs: refused, with both ways out."""
    run = asking(make_run, conf={})

    with pytest.raises(RefusedError, match="PRETRAIN_ARCHIVE_SAMPLES") as refused:
        draw(run)
    assert "human_items" in str(refused.value)


@pytest.mark.parametrize("apart", ["required", "off"])
def test_the_submitter_does_not_judge(make_run: Any, apart: str) -> None:
    """Under separation of duties who triggered the run is no reviewer, and too few left is refused at once."""
    run = asking(make_run, reviewers='["bob", "carol", "alice"]')
    policy = run.policy.policy
    gates = policy.gates.model_copy(update={"separation_of_duties": apart})
    rules = policy.human_evaluation
    assert rules is not None

    found = human.entitled(policy.model_copy(update={"gates": gates}), rules, "alice")

    assert (("bob", "carol") if apart == "required" else ("bob", "carol", "alice")) == found
    assert (apart == "off") is bool(human.entitled(policy.model_copy(update={"gates": gates}), rules, None))


def test_too_few_reviewers(make_run: Any) -> None:
    """Two are wanted and one of them triggered the run."""
    run = asking(make_run, reviewers='["bob", "alice"]')

    with pytest.raises(RefusedError, match="2 reviewers are wanted and 1 may answer"):
        draw(run)


# -- the question --------------------------------------------------------------------------------------


def test_question(asked: AskedRun) -> None:
    """It shows standard and scale in both languages, each prompt and output, and presets nothing."""
    asks = ask(asked)
    items = kept_items(asked.store, asked.uid, sampled_of(asked).items_digest)[:5]

    assert (("bob", "bob"), ("carol", "carol")) == asks.people
    assert 72 * 3600 == asks.deadline_seconds
    for text in ("Judge content only", "仅评判内容", "half right", "部分正确"):
        assert text in asks.form.body
    for item in items:
        assert fenced(item.prompt, 100) in asks.form.body
        assert fenced(item.output, 100) in asks.form.body
        assert str(item.baseline) not in asks.form.body
    fields = {name: field["default"] for name, field in asks.form.fields.items()}
    assert fields.pop("page_digest") == asks.form.fields["page_digest"]["const"]
    assert ({None}, 20) == (set(fields.values()), len(fields))


@pytest.mark.requirement("R118")
def test_blinded(paired: AskedRun) -> None:
    """Side by side in the drawn order, which differs between reviewers; nothing tells which is the candidate's."""
    first, second = ask(paired).form, ask(paired, reviewer=2).form
    sampled = sampled_of(paired)
    items = {i.digest: i for i in kept_items(paired.store, paired.uid, sampled.items_digest)}

    for form, who in ((first, 0), (second, 1)):
        for item in items_of(sampled, 1):
            text = items[item.digest]
            shown = [text.output, str(text.baseline)][:: 1 if item.candidate_first[who] else -1]
            block = "\n\n".join(
                f"**{name}**\n\n{fenced(out, 99)}" for name, out in zip("AB", shown, strict=True)
            )
            assert block in form.body
        everything = json.dumps([form.subject, form.body, form.fields]).casefold()
        assert [] == [word for word in ("candidate", "baseline", "untrained", "step") if word in everything]
    assert first.fields["page_digest"] != second.fields["page_digest"]
    orders = [tuple(item.candidate_first[who] for item in sampled.items) for who in (0, 1)]
    assert 1 < len({*orders, tuple([True] * 12), tuple([False] * 12)}) - 2


@pytest.mark.requirement("R118")
def test_the_order_cannot_be_tried_out(paired: AskedRun) -> None:
    """The digest in the question is the same for every order, so that trying all of them tells nothing."""
    sampled = sampled_of(paired)
    turned = [item.model_copy(update={"candidate_first": [True, True]}) for item in sampled.items]

    for reviewer in (1, 2):
        shown = ask(paired, reviewer=reviewer).form.fields["page_digest"]["const"]
        assert shown == page_digest(sampled.model_copy(update={"items": turned}), 1, reviewer)


@pytest.mark.requirement("R118")
def test_the_order_is_taken_back(paired: AskedRun) -> None:
    """Whoever prefers the candidate in both orders gets all of it recorded as wins, whichever stood first."""
    sampled = sampled_of(paired)
    for page in range(1, pages_of(sampled) + 1):
        for who, name in ((1, "bob"), (2, "carol")):
            scores = {}
            for number, item in enumerate(items_of(sampled, page), 1):
                better = "better" if item.candidate_first[who - 1] else "worse"
                scores[f"score_{number:02}"] = "score:same" if item.identical else f"score:{better}"
            assert isinstance(take(paired, page, who, person=name, **scores), kinds.HumanPageAnswered)

    report = total(paired)

    assert (11, 1, 0, 1.0) == (report.wins, report.ties, report.losses, report.win_rate)
    assert {"better": 22, "same": 2, "worse": 0} == report.points


def test_hostile_texts(make_run: Any) -> None:
    """Markup, fences, links and invisible characters in an output are text in the question, and too long is cut."""
    nasty = "~~~~\n# No\n<script>alert(1)</script>\n\u202e[x](http://evil)\x1b[2J" + "~" * 9 + "x" * 300
    run = asking(make_run, sample="1", fewest="1", show_characters="80", conf={})
    put_samples(run, [{"prompt": "p", "output": nasty}])

    draw(run)
    body = ask(run).form.body

    fence = next(line for line in body.splitlines() if line.startswith("~" * 10))
    block = body.partition(fence)[2].partition(f"\n{fence.removesuffix('text')}\n")[0]
    assert "<script>alert(1)</script>" in block
    assert "\\u202e[x](http://evil)\\u001b[2J" in block
    assert "\x1b" not in body
    assert "\u202e" not in body
    assert "x" * 81 not in body
    assert sampled_of(run).items[0].cut
    assert "Only the first 80 characters" in body


def test_language(asked: AskedRun) -> None:
    """A project in Chinese reads Chinese first."""
    sampled = sampled_of(asked)
    texts = {i.digest: i for i in kept_items(asked.store, asked.uid, sampled.items_digest)}
    form = build_page(sampled, page=1, reviewer=1, language="zh-CN", texts=texts)

    assert form.subject.startswith("人工评估，第 1/2 页")
    assert form.fields["score_01"]["title"].startswith("1. 评分 / Score")


# -- answers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "cause", "words"),
    [
        pytest.param({"person": None}, "unsigned", "no authenticated person", id="nobody"),
        pytest.param({"anonymous": True}, "unsigned", "nobody is authenticated", id="everybody is admin"),
        pytest.param({"responded_at": None}, "unsigned", "no moment", id="no moment"),
        pytest.param({"responded_at": TOMORROW}, "unsigned", "from the future", id="tomorrow"),
        pytest.param({"person": "mallory"}, "not_entitled", "mallory may not answer", id="not a reviewer"),
        pytest.param({"person": "alice"}, "not_entitled", "alice may not answer", id="the submitter"),
        pytest.param({"page_digest": "sha256:" + "0" * 64}, "stale", "another sample or page", id="another page"),
        pytest.param({"page_digest": None}, "stale", "another sample or page", id="no digest"),
        pytest.param({"option": "Approve"}, "invalid", "must be Submit", id="another option"),
        pytest.param({"score_02": None}, "invalid", "item 2 of the page is not answered", id="a gap"),
        pytest.param({"score_02": "score:4"}, "invalid", "item 2", id="not on the scale"),
        pytest.param({"score_02": ["score:3"]}, "invalid", "item 2", id="a list"),
        pytest.param({"score_02": "skip"}, "invalid", "item 2 of the page is skipped", id="skipped without why"),
        pytest.param({"problem_03": "unsafe", "severity_03": "major"}, "invalid", "item 3", id="problem without note"),
        pytest.param({"problem_03": "odd"}, "invalid", "unknown problem", id="unknown problem"),
        pytest.param({"note_03": "x" * 1001}, "invalid", "at most 1000", id="a long note"),
        pytest.param({"note_03": "\ud800"}, "invalid", "note", id="half a character"),
        pytest.param({"severity_03": "major"}, "contradictory", "item 3", id="severity without problem"),
        pytest.param(
            {"problem_03": "unsafe", "note_03": "x"}, "contradictory", "item 3", id="problem without severity"
        ),
        pytest.param(
            {"problem_03": "unsafe", "severity_03": "critical", "note_03": "x"}, "contradictory",
            "best score and a critical problem", id="best and critical",
        ),
    ],
)  # fmt: skip
def test_answers_that_do_not_count(
    refusing: AskedRun, changes: dict[str, Any], cause: str, words: str
) -> None:
    """Each is recorded with its cause and names the item; nothing of it counts."""
    tries = 1 + len(refusing.view().records)
    refused = take(refusing, 1, try_number=tries, **changes)

    assert isinstance(refused, kinds.HumanAnswerRefused)
    assert (cause, 1, 1) == (refused.cause, refused.page, refused.reviewer)
    assert words in refused.detail
    assert refusing.view().latest(kinds.HumanPageAnswered) is None


@pytest.mark.requirement("R118")
@pytest.mark.parametrize(("reviewer", "person"), [(1, "bob"), (2, "carol")])
def test_whose_problem(paired: AskedRun, reviewer: int, person: str) -> None:
    """In pairs a problem is of A, B or both; by the drawn order it is recorded whose, and only ours counts."""
    shown, problem = items_of(sampled_of(paired), 1), {}
    for number, of in enumerate(("A", "B", "both"), 1):
        problem |= {
            f"problem_{number:02}": "unsafe",
            f"severity_{number:02}": "critical",
            f"note_{number:02}": "x",
        }
        problem |= {f"whose_{number:02}": of}
    taken = take(paired, 1, reviewer, person=person, score="same", **problem)

    assert isinstance(taken, kinds.HumanPageAnswered)
    first = [item.candidate_first[reviewer - 1] for item in shown[:2]]
    expected = [
        "candidate" if first[0] else "baseline",
        "baseline" if first[1] else "candidate",
        "both",
        None,
        None,
    ]
    assert expected == [one.whose for one in taken.answers]
    assert values(sampled_of(paired), 1).keys() == ask(paired).form.fields.keys()


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        pytest.param(
            {"problem_03": "form", "severity_03": "minor", "note_03": "x"}, "contradictory", id="of none"
        ),
        pytest.param({"whose_03": "A"}, "contradictory", id="no problem"),
        pytest.param({"whose_03": "C"}, "invalid", id="no such output"),
        pytest.param({"whose_03": ["A"]}, "invalid", id="a list"),
    ],
)
def test_a_problem_of_no_output(paired: AskedRun, changes: dict[str, Any], cause: str) -> None:
    """A problem that names no output, or an output without a problem, does not count."""
    refused = take(paired, 1, score="same", **changes)

    assert isinstance(refused, kinds.HumanAnswerRefused)
    assert (cause, True) == (refused.cause, "item 3 of the page" in refused.detail)


def test_equal_outputs(paired: AskedRun) -> None:
    """To prefer one of two equal outputs denies itself."""
    sampled = sampled_of(paired)
    place = next(n for n, item in enumerate(sampled.items) if item.identical)
    page, number = place // 5 + 1, place % 5 + 1
    given = {"score": "same", f"score_{number:02}": "score:better"}

    refused = take(paired, page, **given)

    assert isinstance(refused, kinds.HumanAnswerRefused)
    assert ("contradictory", True) == (refused.cause, "shows the same output twice" in refused.detail)
    assert isinstance(take(paired, page, score="same", try_number=2), kinds.HumanPageAnswered)


def test_skipped_items_are_named(asked: AskedRun) -> None:
    """An item that a reviewer cannot judge is in the report with who skipped it and why."""
    report = finish(asked, score_02="skip", note_02="I do not know the subject")

    [skipped] = report.skipped
    assert (sampled_of(asked).items[1].digest, "carol", "I do not know the subject") == (
        skipped.digest, skipped.by, skipped.note,
    )  # fmt: skip
    assert (7, 6, 13) == (report.scored, report.both_scored, report.answers)


def test_one_person_one_reviewer(asked: AskedRun) -> None:
    """The pages of a reviewer are one person's, and nobody is both reviewers."""
    take(asked, 1)
    other = take(asked, 2, person="carol")
    twice = take(asked, 1, 2, person="bob")

    assert ["not_entitled", "not_entitled"] == [r.cause for r in (other, twice)]  # type: ignore[union-attr]
    assert (("bob", "bob"),) == ask(asked, 2).people
    assert (("carol", "carol"),) == ask(asked, 1, 2).people


def test_acknowledgement_lost(asked: AskedRun) -> None:
    """The same answer taken again is the recorded one; a later one of the same person replaces it."""
    given = answer(asked, 1)
    caller = asked.caller("human_review_1", map_index=0)
    where = {"page": 1, "reviewer": 1}
    first, again = (
        human.take_outputs(asked.ledger, caller, asked.uid, answer=given, **where) for _ in (1, 2)
    )
    take(asked, 1, score="2", try_number=2)
    take(asked, 2)
    for page in (1, 2):
        take(asked, page, 2, person="carol", score="2")

    assert first == again
    assert {"3": 2, "2": 12, "1": 0} == total(asked).points


def test_nothing_is_summed_up_early(asked: AskedRun) -> None:
    """Pages without an answer are named, also one that timed out: no answer in time is never a score."""
    take(asked, 1)
    late = human.let_outputs_expire(
        asked.ledger, asked.caller("human_review_1", map_index=1), asked.uid, page=2, reviewer=1
    )

    assert ("timed_out", None) == (late.cause, late.person_name)
    with pytest.raises(
        RefusedError, match="3 pages are not answered: page 2 of reviewer 1, page 1 of reviewer 2"
    ):
        total(asked)


def test_summed_up_once(asked: AskedRun) -> None:
    """A retry of the report records nothing new."""
    first = finish(asked)

    assert first == total(asked, try_number=2)
    assert 1 == sum(record.kind == "human_evaluation.reported" for record in asked.view().records)


def test_unknown_page(asked: AskedRun) -> None:
    """There is no third page and no third reviewer."""
    for page, reviewer in ((3, 1), (1, 3), (0, 1)):
        with pytest.raises(InputError, match="has no such page"):
            ask(asked, page, reviewer)


def test_answers_side_by_side(asked: AskedRun) -> None:
    """Four pages answered at the same moment are all recorded."""
    sample, done = sampled_of(asked), []

    def work(page: int, reviewer: int, name: str) -> None:
        given = answer(asked, page, reviewer, person=name)
        caller = asked.caller(f"human_review_{reviewer}", map_index=page - 1)
        done.append(
            human.take_outputs(asked.ledger, caller, asked.uid, page=page, reviewer=reviewer, answer=given)
        )

    threads = [
        threading.Thread(target=work, args=(page, who, name))
        for page in (1, 2)
        for who, name in ((1, "bob"), (2, "carol"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [kinds.HumanPageAnswered] * 4 == [type(one) for one in done]
    assert {(1, 1), (1, 2), (2, 1), (2, 2)} == human.answers_of(asked.view(), sample).keys()


def test_closed_run_takes_nothing(asked: AskedRun) -> None:
    """A run that is closed is frozen: no sample, no answer, no report."""
    asked.close_run()

    with pytest.raises(RefusedError, match="closed and frozen"):
        take(asked, 1)


def test_signed_dossier_goes_stale(closing: AskedRun) -> None:
    """Scores that come after the close gate was signed change what was signed."""
    for page in (1, 2):
        take(closing, page)
        take(closing, page, 2, person="carol")
    closing.pass_gate("close", outcome="continue")
    total(closing)

    gate = gate_view(closing.ledger, closing.view(), "close")
    assert not gate.approved
    assert any(HUMAN in change for change in gate.stale)


def test_values_help(asked: AskedRun) -> None:
    """What the tests fill in is what the form asks for: each name is a field of the question."""
    assert values(sampled_of(asked), 1).keys() == ask(asked).form.fields.keys()


# -- looking at it afterwards --------------------------------------------------------------------------


@pytest.mark.requirement("R118")
@pytest.mark.parametrize(
    ("harm", "source", "kept"),
    [
        pytest.param("nothing", "verified", "verified", id="untouched"),
        pytest.param("another item", "changed", "verified", id="another item in the file"),
        pytest.param("no items", "changed", "verified", id="no file of items any more"),
        pytest.param("gone", "unrecorded", "verified", id="the file is gone"),
        pytest.param("kept lines", "verified", "changed", id="the kept lines were edited"),
    ],
)
def test_sample_is_drawn_again(make_run: Any, tmp_path: Path, harm: str, source: str, kept: str) -> None:
    """Each of both is compared by itself; nothing is written by looking."""
    path = write_items(tmp_path / "items.jsonl")
    run = asking(make_run, conf={"human_items": str(path)}, sample="12")
    sampled = draw(run)
    [lines] = (tmp_path / "store").rglob("human/*.jsonl")
    {
        "nothing": lambda: None,
        "another item": lambda: write_items(path, [*ITEMS[1:], {"prompt": "a", "output": "b"}]),
        "no items": lambda: path.write_text("{"),
        "gone": path.unlink,
        "kept lines": lambda: (lines.chmod(0o600), lines.write_text("{}")),
    }[harm]()
    before = sorted((tmp_path / "store").rglob("*"))

    found = check_outputs(run.store, run.view())

    assert (source, kept) == (found.source.value, found.kept.value)
    assert (found.found == sampled.sample_digest) is (source == "verified")
    assert before == sorted((tmp_path / "store").rglob("*"))


def test_outputs_command(
    asked: AskedRun, house: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """One document, or lines for a person: verdict, numbers, problems, skipped items, disagreements."""
    problem = {
        "problem_01": "invented",
        "severity_01": "major",
        "note_01": "no such\x1b number",
        "score_01": "score:1",
    }
    take(asked, 2, option="Approve")
    finish(asked, score_02="skip", note_02="not my subject", **problem)
    for name, value in {"DATABASE_URL": house.url, "SIGNING_KEY": str(house.key), "ANCHORS": "",
                        "STORE_URL": str(tmp_path / "store")}.items():  # fmt: skip
        monkeypatch.setenv(f"AIRFLOW__PRETRAIN_ARCHIVE__{name}", value)

    codes = [run_command(["evaluation", "outputs", asked.uid, *more]) for more in (["--json"], [])]
    out = capsys.readouterr().out
    document, end = json.JSONDecoder().raw_decode(out)

    assert [0, 0] == codes
    assert ("verified", "verified", "verified") == (document["verdict"], document["source"], document["kept"])
    assert (1, 7, ["invented"]) == (
        len(document["refused"]), document["report"]["scored"], [p["category"] for p in document["report"]["problems"]],
    )  # fmt: skip
    text = out[end:]
    for words in ("sample of 7 of 12 outputs", "answers that did not count: 1", "invented, major, by carol",
                  "by carol: not my subject", "opposite line", "bob 3, carol 1", "no such\\x1b number"):  # fmt: skip
        assert words in text


@pytest.mark.requirement("R118")
def test_requested_items_in_a_bucket(make_run: Any, tmp_path: Path, s3: S3Server, monkeypatch: Any) -> None:  # noqa: F811
    """A file that lies in a bucket is read as a stream; the run's names are filled into its address."""
    for name, value in {"AWS_ENDPOINT_URL": s3.endpoint, "AWS_ACCESS_KEY_ID": "test",
                        "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    run = asking(make_run, conf={"human_items": f"s3://{s3.bucket}/outputs/{{run_uid}}/items.jsonl"})
    body = write_items(tmp_path / "items.jsonl").read_bytes()

    with pytest.raises(StorageError):
        draw(run)
    s3.client().put_object(Bucket=s3.bucket, Key=f"outputs/{run.uid}/items.jsonl", Body=body)
    sampled = draw(run, try_number=2)

    assert f"s3://{s3.bucket}/outputs/{run.uid}/items.jsonl" == sampled.source_uri
    assert (12, "sha256:" + hashlib.sha256(body).hexdigest()) == (sampled.source_items, sampled.source_digest)
    assert "verified" == check_outputs(run.store, run.view()).verdict.value
