"""``checkpoint …`` and the use cases behind it, on a run that trained for real."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.artifact_files import write_checkpoint, write_sharded
from tests.support.main_line import Line

from pretrain_archive.artifacts import verification
from pretrain_archive.artifacts.formats.parts import component_of
from pretrain_archive.artifacts.location import to_path
from pretrain_archive.cli import run_command
from pretrain_archive.domain.errors import CheckpointError
from pretrain_archive.domain.kinds import (
    CheckpointOverwritten,
    CheckpointRefused,
    CheckpointRegistered,
    TombstoneWritten,
)
from pretrain_archive.domain.records import Draft
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.services import checkpoint_desk as desk
from pretrain_archive.services import checkpoints, progress


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """A run with one attempt whose four checkpoints were registered while it trained."""
    line = Line(folder=tmp_path_factory.mktemp("line"))
    line.to_signed_launch()
    assert line.launch().state == "completed"
    yield line
    line.ledger.close()


@pytest.fixture
def ask(trained: Line, monkeypatch: pytest.MonkeyPatch):
    """Call the program with the run's ledger; code and printed document."""
    options = {
        "DATABASE_URL": f"sqlite:///{trained.folder}/ledger.db", "SIGNING_KEY": str(trained.folder / "ledger.key"),
        "ANCHORS": f"file://{trained.folder}/anchors", "WORK_FOLDER": str(trained.folder),
    }  # fmt: skip
    for name, value in options.items():
        monkeypatch.setenv(f"AIRFLOW__PRETRAIN_ARCHIVE__{name}", value)

    def call(*arguments: str) -> tuple[int, dict[str, Any]]:
        out, text = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(text):
            code = run_command(["checkpoint", *arguments, "--json"])
        return code, json.loads(out.getvalue())

    return call


def facts(line: Line) -> dict[int, CheckpointRegistered]:
    """The registered checkpoints by step, as they are recorded now."""
    return {fact.step: fact for _, fact in line.view().all(CheckpointRegistered)}


@pytest.mark.requirement("R100", "R101", "R102", "R193")
def test_a_registered_checkpoint_states_everything(trained):
    """Task, attempt, data, configuration, model, parts, integrity, person, class and purpose."""
    fact, record = (
        facts(trained)[40],
        next(r for r in trained.view().records if r.kind == "checkpoint.registered"),
    )

    assert (40, 1, 400, "line@1") == (fact.step, fact.attempt, fact.tokens, fact.model)
    assert fact.snapshot.startswith("corpus")
    assert trained.view().latest(type(fact)).configuration_digest == fact.configuration_digest
    assert (256, 0) == (fact.components["weights"], fact.components["optimizer"])
    assert "alice" == fact.responsible
    assert ("recovery", "resume the run after an interruption") == (fact.artifact_class, fact.purpose)
    assert "every byte of 3 files read" in fact.check
    assert "gpu_launch" == record.origin.task_id


def test_the_task_finds_what_was_registered_while_training(trained):
    """Nothing is recorded twice."""
    before = len(trained.view().records)

    kept = trained.register().kept

    assert [10, 20, 30, 40] == [fact.step for fact in kept]
    assert before == sum(1 for record in trained.view().records if record.kind != "attempt.reconciled")


def test_the_newest_is_that_of_the_latest_attempt(tmp_path):
    """What an attempt reached that was rewound past is registered, and is not what comes next."""
    line = Line(folder=tmp_path)
    line.to_signed_launch(configuration={"steps": 40, "die_at": 25}, max_attempts=2)
    assert ["failed", "completed"] == [line.launch().state, line.launch(try_number=2).state]
    root = to_path(facts(line)[40].location).parent
    write_checkpoint(root, 50, name="step_00000050.attempt_1", state={"step": 50})

    kept = line.register().kept
    newest = verification.newest_verified(line.view())

    order = [(1, 10), (1, 20), (1, 50), (2, 30), (2, 40)]
    assert order == [(fact.attempt, fact.step) for fact in kept]
    assert newest is not None
    assert newest[0].checkpoint_id == kept[-1].checkpoint_id
    line.ledger.close()


def test_list_shows_class_sizes_and_last_use(trained, ask):
    """One row for each checkpoint, in the order of steps."""
    code, document = ask("list", trained.run_uid)

    assert (0, [10, 20, 30, 40]) == (code, [each["step"] for each in document["checkpoints"]])
    row = document["checkpoints"][0]
    assert {"recovery"} == {each["class"] for each in document["checkpoints"]}
    assert "registration" == row["last_use"]["how"]
    assert facts(trained)[10].checkpoint_id == row["checkpoint_id"]
    assert sum(facts(trained)[10].components.values()) == row["bytes"]


def test_verify_reads_and_names_what_changed(trained, ask, tmp_path):
    """By id and by place; a changed file is a finding with its path."""
    fact = facts(trained)[20]
    folder = to_path(fact.location)
    assert (0, "verified") == (ask("verify", fact.checkpoint_id)[0], ask("verify", str(folder))[1]["verdict"])
    kept = (folder / "weights.bin").read_bytes()
    (folder / "weights.bin").write_bytes(kept[:-1] + b"\0")
    try:
        code, document = ask("verify", fact.checkpoint_id)
    finally:
        (folder / "weights.bin").write_bytes(kept)

    assert (1, "changed", ["weights.bin"]) == (
        code, document["verdict"], [each["path"] for each in document["items"]],
    )  # fmt: skip
    assert 0 == ask("verify", fact.checkpoint_id, "--trust-stamps")[0]
    assert (2, "bad_input") == (
        ask("verify", "ckpt_nobody")[0],
        ask("verify", "ckpt_nobody")[1]["error"]["code"],
    )
    assert 1 == ask("verify", str(tmp_path))[0]


def test_newest_passes_over_what_does_not_hold(trained, ask):
    """The reason is told; with nothing left the exit code says so."""
    fact = facts(trained)[40]
    path = to_path(fact.location) / "weights.bin"
    kept = path.read_bytes()
    path.write_bytes(kept[:-1] + b"\0")
    try:
        code, document = ask("newest", trained.run_uid)
    finally:
        path.write_bytes(kept)

    assert (0, 30) == (code, document["checkpoint"]["step"])
    assert "step 40 does not hold: weights.bin" in document["skipped"][0]


def test_inspect_says_what_would_be_refused(ask, tmp_path):
    """Without recording anything; exit 1 where it is not complete or not finite."""
    whole = write_checkpoint(tmp_path, 100)
    code, document = ask("inspect", str(whole), "--values")
    assert (0, True, 100, 2) == (code, document["complete"], document["step"], document["tensors"])
    assert {"F32": 2} == document["dtypes"]

    code, document = ask("inspect", str(write_checkpoint(tmp_path, 200, complete=False)))
    assert (1, False) == (code, document["complete"])
    assert "no .complete marker" in document["problems"][0]

    code, _ = ask("inspect", str(write_checkpoint(tmp_path, 300, content=b"\0\0\xc0\x7f" * 4)), "--values")
    assert 1 == code
    assert 2 == ask("inspect", "gs://bucket/x")[0]
    assert 1 == ask("inspect", str(tmp_path / "nowhere"))[0]


@pytest.mark.case("C05")
def test_register_takes_what_a_pointer_names(trained, ask, tmp_path):
    """A checkpoint from elsewhere, of a step that its name states; the pointer's name is not recorded."""
    write_checkpoint(tmp_path, 60, state={"step": 60, "tokens": 600})
    (tmp_path / "latest").symlink_to("step_00000060")

    code, made = ask(
        "register", trained.run_uid, str(tmp_path), "--pointer", "latest", "--class", "evaluation", "--values",
        "--responsible", "carol", "--purpose", "compare",
    )  # fmt: skip

    assert (0, 60, 600, 1) == (code, made["step"], made["tokens"], made["attempt"])
    assert ("evaluation", "compare", "carol", 2) == (
        made["artifact_class"], made["purpose"], made["responsible"], made["scan"]["tensors"],
    )  # fmt: skip
    assert (tmp_path / "step_00000060").resolve() == to_path(made["location"])
    assert "latest" not in json.dumps(made)


@pytest.mark.case("C05")
def test_the_newest_complete_one_is_taken_only_when_asked_for(trained, ask, tmp_path):
    """A pointer to an incomplete one is refused; who asks for the newest complete one gets it."""
    write_checkpoint(tmp_path, 61, state={"step": 61})
    write_checkpoint(tmp_path, 62, state={"step": 62}, complete=False)
    (tmp_path / "latest").symlink_to("step_00000062")

    code, document = ask("register", trained.run_uid, str(tmp_path), "--pointer", "latest")
    assert (1, True) == (code, "step 61 (step_00000061)" in document["error"]["hint"])
    assert 61 not in facts(trained)

    code, made = ask("register", trained.run_uid, str(tmp_path), "--newest")
    assert (0, 61) == (code, made["step"])


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        pytest.param((), 2, "states a step", id="no step"),
        pytest.param(("--step", "70", "--attempt", "9"), 2, "the run has 1 attempts", id="no such attempt"),
        pytest.param(("--pointer", "nowhere"), 1, "cannot be read", id="no pointer"),
        pytest.param(("--pointer", "../latest"), 1, "is not a name beside", id="pointer elsewhere"),
    ],
)
def test_register_refuses_what_is_not_said(trained, ask, tmp_path, options, code, words):
    """In one line, with the option."""
    (write_sharded(tmp_path / "model") / "latest").write_text("step_1")

    got, document = ask("register", trained.run_uid, str(tmp_path / "model"), *options)

    assert code == got
    assert words in document["error"]["message"]
    assert bool(options) or "with --pointer latest" in document["error"]["hint"]


def test_a_refusal_is_recorded_with_its_reason(trained, ask, tmp_path):
    """Exit 1, and the reason is in the ledger."""
    folder = write_checkpoint(tmp_path, 80, complete=False, state={"step": 80})

    code, document = ask("register", trained.run_uid, str(folder))

    assert (1, "bad_checkpoint") == (code, document["error"]["code"])
    refused = [fact for _, fact in trained.view().all(CheckpointRefused)][-1]
    assert (80, folder.resolve()) == (refused.step, to_path(refused.location))


def test_classify_is_late_and_keeps_bytes_and_id(trained, ask):
    """A run's own fact, shown by the list."""
    fact = facts(trained)[30]

    code, made = ask("classify", fact.checkpoint_id, "--class", "candidate", "--purpose", "lowest loss")

    assert (0, "candidate", fact.digest) == (code, made["artifact_class"], made["digest"])
    rows = {each["step"]: each for each in ask("list", trained.run_uid)[1]["checkpoints"]}
    assert ("candidate", "lowest loss") == (rows[30]["class"], rows[30]["purpose"])


@pytest.mark.case("C09")
def test_a_second_attempt_in_the_same_folder_is_a_second_generation(tmp_path, monkeypatch):
    """A program that dies and writes its steps again in place, without a word: the task finds both generations."""
    line = Line(folder=tmp_path)
    line.to_signed_launch(configuration={"steps": 20, "die_at": 15})
    line.launch()
    line.launch(try_number=2)
    line.register()
    first = facts(line)[10]
    folder = to_path(first.location)
    shutil.rmtree(folder)
    write_checkpoint(folder.parent, 10, name=folder.name, state={"step": 10, "tokens": 100})

    monkeypatch.setattr(checkpoints, "every", partial(progress.every, seconds=0))
    registered = line.register()

    view: RunView = line.view()
    marks = [fact for _, fact in view.all(CheckpointOverwritten)]
    generations = [fact for _, fact in view.all(CheckpointRegistered) if fact.step == 10]
    assert [(first.attempt, first.digest), (2, generations[1].digest)] == [
        (fact.attempt, fact.digest) for fact in generations
    ]
    assert [first.checkpoint_id] == [mark.checkpoint_id for mark in marks]
    assert generations[1].checkpoint_id == marks[0].replaced_by
    assert () == registered.refused
    told = [
        text
        for text in line.said
        if text.startswith("hashing the checkpoint of step 10: 4 of 4 files, 0.0 of ")
    ]
    assert told, line.said
    assert Path(folder).is_dir()


@pytest.mark.parametrize(("spell", "step"), [("{}", 63), ("file://{}", 64), ("file://{}/", 65)])
def test_a_place_is_found_however_it_is_spelled(trained, ask, tmp_path, spell, step):
    """A record holds the address percent-encoded; who types it need not."""
    folder = write_checkpoint(tmp_path, step, name="a b+100% ü", state={"step": step})
    code, made = ask("register", trained.run_uid, str(folder), "--step", str(step))
    assert 0 == code, made

    code, document = ask("verify", spell.format(folder))

    assert (0, "verified") == (code, document.get("verdict")), document


def test_the_same_bytes_under_another_step_overwrite_nothing(tmp_path):
    """A mistaken step is refused, and no checkpoint is said to be overwritten by its own bytes."""
    line = Line(folder=tmp_path)
    line.to_signed_launch()
    line.launch()
    fact = facts(line)[40]

    with pytest.raises(CheckpointError, match="step"):
        desk.register(line.ledger, line.caller("cli"), line.view(), desk.Wish(place=fact.location, step=41))

    assert [] == list(line.view().all(CheckpointOverwritten))
    line.ledger.close()


def test_what_a_tombstone_explains_is_not_missing(tmp_path):
    """Deleted as a whole: unrecorded, with the reason. Without one of its parts: the rest is read and holds."""
    line = Line(folder=tmp_path)
    line.to_signed_launch()
    line.launch()
    (whole, part), caller = list(facts(line).values())[:2], line.caller("clean_up")
    gone = component_of(part.files[-1].path)
    shutil.rmtree(to_path(whole.location))
    for file in part.files:
        if component_of(file.path) == gone:
            (to_path(part.location) / file.path).unlink()
    for number, (fact, parts) in enumerate(((whole, []), (part, [gone]))):
        stone = TombstoneWritten(
            ref=f"checkpoint:{fact.checkpoint_id}", digest=fact.digest, size=1, artifact_class="recovery",
            reason="policy", policy_digest=None, approved_by="policy", bytes_released=1, verified_absent=True,
            parts=parts,
        )  # fmt: skip
        line.ledger.append([
            Draft(stream=line.run_uid, kind="tombstone.written", payload=stone.to_json(), actor=caller.actor,
                  origin=caller.origin, ordinal=number)
        ])  # fmt: skip

    _, [item] = desk.verify(line.ledger, whole.checkpoint_id)
    _, rest = desk.verify_place(line.ledger, part.location)

    assert ("unrecorded", "The bytes were deleted: policy.") == (item.verdict, item.hint)
    assert (len(part.files), {"verified"}) == (len(rest), {one.verdict for one in rest})
    line.ledger.close()
