"""The main line as the data walks it, without Airflow: from a folder to a package that verifies."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.main_line import Line

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import ArchiveError, RefusedError, StillRunningError
from pretrain_archive.gates.service import gate_view
from pretrain_archive.services import launch_spec


@pytest.fixture
def line(tmp_path: Path) -> Line:
    """A line of its own."""
    return Line(folder=tmp_path)


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait until ``condition`` holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition never held"
        time.sleep(0.05)


def launches(line: Line) -> int:
    """How many launch tokens were consumed."""
    return sum(1 for record in line.view().records if record.kind == "launch.intended")


@pytest.mark.requirement("R001", "R018", "R058", "R107", "R110", "R112")
def test_from_a_folder_to_a_verified_package(line: Line) -> None:
    """Every step in its order ends in a closed run whose package verifies, and is only intact without the key."""
    line.to_signed_launch()
    assert line.launch().state == "completed"
    assert [c.step for c in line.register().kept] == [10, 20, 30, 40]
    assert line.evaluate().report.passed
    line.sign("run")
    line.sign("close")
    closed = line.close()
    assert closed.release is not None
    assert line.view().state == "closed"
    checked = line.verify(closed.folder)
    assert (checked.returncode, json.loads(checked.stdout)["verdict"]) == (0, "verified"), checked.stdout[
        -1500:
    ]
    assert line.verify(closed.folder, key=False).returncode == 3


@pytest.mark.requirement("R024", "R025", "R027", "R082")
def test_failed_attempt_is_kept_and_the_next_one_resumes(line: Line) -> None:
    """A program that dies leaves a failed attempt; the next resumes from the last verified checkpoint."""
    line.to_signed_launch(configuration={"steps": 40, "die_at": 25})
    first = line.launch()
    assert (first.state, first.exit_code) == ("failed", 9)
    second = line.launch(try_number=2)
    assert (second.attempt, second.state) == (2, "completed")
    started = [fact for _, fact in line.view().all(kinds.AttemptStarted)][-1]
    assert started.resume_step == 20
    assert (second.steps_repeated, second.steps_lost) == (5, 0)


@pytest.mark.requirement("R125", "R067", "R052")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param("code", "the training code changed after it was signed", id="training code edited"),
        pytest.param("data", "data changed after it was signed", id="stored data edited"),
        pytest.param("policy", "changed since the run was opened", id="policy edited"),
        pytest.param("snapshot", "stale approval", id="new snapshot recorded"),
        pytest.param("unsigned", "no decision in the ledger", id="gate never answered"),
    ],
)
def test_nothing_starts_when_what_was_signed_is_not_what_would_run(
    line: Line, change: str, words: str
) -> None:
    """Each change after the signature stops the launch before a token is consumed, and is named."""
    if change == "unsigned":
        line.open()
        line.prepare_data()
        line.ask("prepare")
    else:
        line.to_signed_launch()
    if change == "code":
        (line.program / "train.py").write_text("print('something else')\n")
    if change == "data":
        blob = next(p for p in sorted((line.folder / "store" / "blobs").rglob("*")) if p.is_file())
        blob.chmod(0o644)
        blob.write_bytes(blob.read_bytes()[:-1] + b"!")
    if change == "policy":
        line.policy = type(line.policy)(
            policy=line.policy.policy, digest="sha256:" + "0" * 64, name="line.toml"
        )
    if change == "snapshot":
        (line.folder / "source" / "doc00.txt").write_text("changed after the signature\n" * 9)
        line.prepare_data(try_number=2)
    with pytest.raises(RefusedError, match=words):
        line.launch()
    assert launches(line) == 0
    assert not list(line.runs_folder.glob("*/attempt-*"))


def test_completed_attempt_is_not_repeated(line: Line) -> None:
    """A launch that is cleared after it completed gives the same attempt again and occupies nothing."""
    line.to_signed_launch()
    line.launch()
    before = [record.stored for record in line.view().records]
    assert line.launch(try_number=2).attempt == 1
    assert [record.stored for record in line.view().records] == before
    assert launches(line) == 1


@pytest.mark.requirement("R093", "R125")
@pytest.mark.parametrize("event", ["rejected meanwhile", "code edited meanwhile"])
def test_what_changes_while_data_is_laid_out_stops_the_launch(
    line: Line, event: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permission is asked again after the long work: a rejection or an edit in between starts nothing."""
    line.to_signed_launch()
    lay_out = launch_spec.lay_out

    def slow(*words: Any, **named: Any) -> Path:
        if event == "rejected meanwhile":
            line.answer(
                "prepare", line.ask("prepare", try_number=2), option="Reject", reason="on second thoughts"
            )
        else:
            (line.program / "train.py").write_text("print('something else')\n")
        return lay_out(*words, **named)

    monkeypatch.setattr(launch_spec, "lay_out", slow)
    with pytest.raises(RefusedError, match="closed" if "rejected" in event else "code changed"):
        line.launch()
    assert launches(line) == 0


def test_living_attempt_is_neither_ended_nor_doubled(line: Line) -> None:
    """Another task that launches the same run while an attempt lives is refused and harms nothing."""
    line.to_signed_launch(configuration={"steps": 40, "seconds": 0.1})
    found: list[str] = []

    def second(_job: object) -> None:
        other = Line(folder=line.folder, run_uid=line.run_uid, policy=line.policy)

        def intrude() -> None:
            wait_for(lambda: any(r.kind == "attempt.started" for r in other.view().records))
            try:
                other.launch(try_number=1)
            except StillRunningError as error:
                found.append(str(error))

        threading.Thread(target=intrude, daemon=True).start()

    assert line.launch(hold=second).state == "completed"
    wait_for(lambda: found)
    assert "is running" in found[0]
    assert launches(line) == 1


@pytest.mark.case("P07")
def test_mapped_evaluations_are_kept_by_name_not_by_place(line: Line) -> None:
    """Four mapped evaluations, one failing, are filed under their checkpoints; a shorter rerun removes nothing."""
    line.to_signed_launch(configuration={"steps": 40, "cannot_evaluate": [20]})
    line.launch()
    names = [c.checkpoint_id for c in line.register().kept]
    for place, name in enumerate(names):
        if place == 1:
            with pytest.raises(ArchiveError, match="cannot be evaluated"):
                line.evaluate(name, map_index=place)
        else:
            assert line.evaluate(name, map_index=place).report.checkpoint_id == name
    reported = {r.checkpoint_id: r.metrics[0].value for _, r in line.view().all(kinds.EvaluationReported)}
    assert reported == {names[0]: 3.9, names[2]: 3.7, names[3]: 3.6}
    line.evaluate(names[0], map_index=0, try_number=2)
    line.evaluate(names[2], map_index=1, try_number=2)
    again = {r.checkpoint_id: r.metrics[0].value for _, r in line.view().all(kinds.EvaluationReported)}
    assert again == reported


@pytest.mark.case("P07")
def test_nothing_evaluated_is_not_taken_as_a_pass(line: Line) -> None:
    """An empty list of evaluations leaves an unrecorded item at the run gate and forbids the close."""
    line.to_signed_launch()
    line.launch()
    line.register()
    items = {item.id: item.verdict.value for item in gate_view(line.ledger, line.view(), "run").dossier.items}
    assert items["run.evaluated"] == "unrecorded"
    close = gate_view(line.ledger, line.view(), "close").dossier
    assert "close.evaluation" in {item.id for item in close.blocked_by()}


@pytest.mark.requirement("R094")
def test_repeated_failure_waits_for_a_person(line: Line) -> None:
    """Two attempts that die at the same step are enough: the third is refused and the stop is recorded."""
    line.to_signed_launch(configuration={"steps": 40, "die_at": 5})
    line.launch()
    line.launch(try_number=2)
    with pytest.raises(RefusedError, match="same failure repeats"):
        line.launch(try_number=3)
    assert [s.rule for _, s in line.view().all(kinds.StopFired)] == ["repeated_failure"]


@pytest.mark.case("A05")
def test_close_is_repeated_without_a_second_release_or_package(line: Line) -> None:
    """However often close is tried, there is one release, one close and one package digest."""
    line.to_signed_launch()
    line.launch()
    line.register()
    line.evaluate()
    line.sign("run")
    line.sign("close")
    first, second = line.close(), line.close(try_number=2)
    assert first.package.digest == second.package.digest
    names = [record.kind for record in line.view().records]
    assert [names.count(kind) for kind in ("release.made", "run.closed", "package.written")] == [1, 1, 1]


@pytest.mark.requirement("R104", "R106", "R113")
def test_taken_release_name_is_known_before_signing(line: Line) -> None:
    """A second run cannot register the same name and version: the close gate says who holds it."""
    line.to_signed_launch()
    line.launch()
    line.register()
    line.evaluate()
    line.sign("run")
    line.sign("close")
    line.close()
    other = Line(folder=line.folder, policy=line.policy, dag_run_id="manual__other")
    other.to_signed_launch(configuration={"steps": 30})
    other.launch()
    other.register()
    other.evaluate()
    other.sign("run")
    outcome = other.answer("close", other.ask("close"))
    assert outcome.refusal is not None
    assert "register needs release.version" in outcome.refusal.detail
    found = {item.id: item for item in gate_view(other.ledger, other.view(), "close").dossier.items}
    assert line.run_uid in found["release.version"].found
    assert other.answer("close", other.ask("close", try_number=2), outcome="continue").decision is not None
    assert other.close().release is None
