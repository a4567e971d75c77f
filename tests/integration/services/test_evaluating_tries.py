"""Evaluations on the main line: several programs, tries that fail, leases, rules fixed before the launch."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.lm_eval_result import lm_eval_result
from tests.support.main_line import Line, line_policy

from pretrain_archive.artifacts.location import to_path
from pretrain_archive.cli import run_command
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import CheckpointError, EvaluationFailedError, InputError, RefusedError
from pretrain_archive.domain.evaluations import in_use, leases
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.policy_evaluation import Evaluation
from pretrain_archive.gates.service import gate_view
from pretrain_archive.services import evaluating
from pretrain_archive.services.evaluation_import import Imported, import_result

FLAKY = """
import os, pathlib, runpy, sys
flag = pathlib.Path(__file__).with_name("evaluated-once")
if not flag.exists():
    flag.touch()
    sys.exit(1)
runpy.run_path(str(pathlib.Path(__file__).with_name("measure.py")), run_name="__main__")
"""

CODE = """
import json, os, pathlib
metric = lambda name, value: {"name": name, "value": value, "samples": 50}
target = pathlib.Path(os.environ["PRETRAIN_ARCHIVE_EVALUATION"])
target.mkdir()
digest = "sha256:" + "1" * 64
(target / "samples_tasks.jsonl").write_text('{"task": 1}\\n')
(target / "results.json").write_text(json.dumps({
    "metrics": [metric("pass@1", 0.4), metric("errors.syntax", 0.2)],
    "baselines": [{"name": "untrained", "kind": "untrained model", "subject_digest": digest,
                   "metrics": [metric("pass@1", 0.0)]}],
    "definition": {"tests": "all"}, "data_set": "tasks", "data_set_digest": digest,
    "limits": ["one language only"],
}))
"""


def policy_with(**evaluation: Any) -> LoadedPolicy:
    """The line's policy with a section about evaluation."""
    loaded = line_policy(min_documents="5", max_unclean_rate="1.0")
    section = Evaluation.model_validate(evaluation)
    return LoadedPolicy(
        policy=loaded.policy.model_copy(update={"evaluation": section}),
        digest=loaded.digest,
        name=loaded.name,
    )


def trained(tmp_path: Path, *, steps: int = 20, program: str = "", **evaluation: Any) -> Line:
    """A line with registered checkpoints; ``program`` replaces the evaluation program, which stays as measure.py."""
    tmp_path.mkdir(exist_ok=True)
    line = Line(folder=tmp_path, policy=policy_with(**evaluation))
    folder = tmp_path / "evaluator"
    folder.mkdir()
    (line.program / "evaluate.py").rename(folder / "measure.py")
    (folder / "evaluate.py").write_text(program or (folder / "measure.py").read_text())
    line.to_signed_launch(
        configuration={"steps": steps}, evaluate_command=["{python}", str(folder / "evaluate.py")]
    )
    assert "completed" == line.launch().state
    line.register()
    return line


def counts(line: Line) -> list[int]:
    """How many tries began, failed, finished, and how many evaluations are reported."""
    kinds_of = [record.kind for record in line.view().records]
    names = ("evaluation.started", "evaluation.failed", "evaluation.finished", "evaluation.reported")
    return [kinds_of.count(name) for name in names]


@pytest.mark.case("E07")
def test_a_failed_try_and_the_one_that_worked_are_both_recorded(tmp_path: Path) -> None:
    """The metric command exits 1 once: no number is stored then, and the retry measures instead of skipping."""
    line = trained(
        tmp_path, program=FLAKY.replace('with_name("evaluated-once")', 'parents[1] / "evaluated-once"')
    )
    with pytest.raises(EvaluationFailedError, match="exit code 1"):
        line.evaluate()

    [failed] = [fact for _, fact in line.view().all(kinds.EvaluationFailed)]
    assert ("program", 1, "the program ended with exit code 1") == (
        failed.cause,
        failed.exit_code,
        failed.detail,
    )
    assert failed.log_digest is not None
    assert [1, 1, 0, 0] == counts(line)
    items = {
        i.id: i for gate in ("run", "close") for i in gate_view(line.ledger, line.view(), gate).dossier.items
    }
    assert ("unrecorded", "unrecorded") == (items["run.evaluated"].verdict, items["close.evaluation"].verdict)
    assert "exit code 1" in items["close.evaluation"].hint

    report = line.evaluate(try_number=2).report

    assert [2, 1, 1, 1] == counts(line)
    assert report.metrics
    assert report.try_id != failed.try_id
    assert [] == list(leases(line.view()))
    [finished] = [fact for _, fact in line.view().all(kinds.EvaluationFinished)]
    assert (report.try_id, [report.evaluation_id]) == (finished.try_id, finished.evaluations)


@pytest.mark.case("E07")
def test_a_checkpoint_that_vanishes_meanwhile_stores_no_numbers(tmp_path: Path) -> None:
    """Its folder is removed while the program runs: the failure says so, and the checkpoint is not evaluated."""
    slow = (
        "import time, runpy, pathlib\n"
        "runpy.run_path(str(pathlib.Path(__file__).with_name('measure.py')), run_name='__main__')\ntime.sleep(1)\n"
    )
    line = trained(tmp_path, program=slow)
    newest = [c for _, c in line.view().all(kinds.CheckpointRegistered)][-1]
    place = to_path(newest.location)
    assert place is not None

    def remove(process: subprocess.Popen[bytes]) -> None:
        del process
        for _ in range(1200):
            if list(line.runs_folder.glob("*/evaluation-*/evaluation.json")):
                break
            wait()
        shutil.rmtree(place)

    with pytest.raises(CheckpointError, match="was removed"):
        evaluate(line, hold=remove)

    [failed] = [fact for _, fact in line.view().all(kinds.EvaluationFailed)]
    assert "checkpoint" == failed.cause
    assert "was removed" in failed.detail
    assert [1, 1, 0, 0] == counts(line)


def wait() -> None:
    """A moment, until the condition is looked at again."""
    import time

    time.sleep(0.05)


def evaluate(
    line: Line, *, hold: Callable[[subprocess.Popen[bytes]], None], try_number: int = 1
) -> evaluating.Evaluated:
    """Evaluate with a hand on the process."""
    return evaluating.evaluate(
        line.ledger, line.store, line.caller("evaluate", try_number=try_number), line.run_uid, line.runs_folder,
        hold=hold,
    )  # fmt: skip


@pytest.mark.case("E07")
def test_a_checkpoint_is_in_use_while_a_program_reads_it(tmp_path: Path) -> None:
    """The lease stands from before the program starts until its numbers are recorded, and no longer than its end."""
    line = trained(tmp_path, max_minutes=30)
    seen: list[Any] = []

    def look(process: subprocess.Popen[bytes]) -> None:
        del process
        view = line.view()
        newest = [c for _, c in view.all(kinds.CheckpointRegistered)][-1].checkpoint_id
        now = datetime.now(UTC)
        seen.extend(
            [
                in_use(view, newest, now),
                in_use(view, newest, now + timedelta(hours=1)),
                in_use(view, "x", now),
            ]
        )

    report = evaluate(line, hold=look).report

    lease, later, other = seen
    assert report.checkpoint_id == lease.checkpoint_id
    assert (None, None) == (later, other)
    assert in_use(line.view(), report.checkpoint_id, datetime.now(UTC)) is None


def test_a_killed_try_is_abandoned_by_the_next_one(tmp_path: Path) -> None:
    """A worker that was killed left no end: its lease holds until the same task tries again, which says so."""
    line = trained(tmp_path)

    def die(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(line, hold=die)
    assert [1, 0, 0, 0] == counts(line)
    assert 1 == len(list(leases(line.view())))

    line.evaluate(try_number=2)

    assert ["abandoned"] == [fact.cause for _, fact in line.view().all(kinds.EvaluationFailed)]
    assert [] == list(leases(line.view()))


def test_a_program_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    """The policy bounds it, and with it the lease; nothing is left running."""
    program = (
        "import pathlib, time, os\n"
        "pathlib.Path(__file__).parents[1].joinpath('pid').write_text(str(os.getpid()))\n"
        "time.sleep(600)\n"
    )
    line = trained(tmp_path, program=program, max_minutes=0.03)

    with pytest.raises(EvaluationFailedError, match="ran longer than"):
        line.evaluate()

    assert ["timeout"] == [fact.cause for _, fact in line.view().all(kinds.EvaluationFailed)]
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


@pytest.mark.case("E03")
def test_an_output_with_a_metric_twice_is_a_recorded_failure(tmp_path: Path) -> None:
    """Nothing is picked: no evaluation, and the gates see why."""
    program = (
        "import os, pathlib\n"
        "target = pathlib.Path(os.environ['PRETRAIN_ARCHIVE_EVALUATION'])\n"
        'target.write_text(\'{"acc": 0.41, "acc": 0.93}\')\n'
    )
    line = trained(tmp_path, program=program)

    with pytest.raises(InputError, match=r"acc given twice: 0\.41, 0\.93"):
        line.evaluate()

    [failed] = [fact for _, fact in line.view().all(kinds.EvaluationFailed)]
    assert "output" == failed.cause
    assert ["repeated_metric: evaluation.json: acc given twice: 0.41, 0.93"] == failed.flags
    assert [1, 1, 0, 0] == counts(line)


@pytest.mark.requirement("R117", "R122", "R123")
def test_several_programs_with_their_suites_measure_one_checkpoint(tmp_path: Path) -> None:
    """Each is signed, held to its suites and judged by its rules; the request's own decides and needs the other."""
    code = tmp_path / "code" / "measure_code.py"
    code.parent.mkdir(parents=True)
    code.write_text(CODE)
    line = trained(
        tmp_path, suites=["language-modelling-1"],
        programs=[{"name": "code", "command": ["{python}", str(code)], "suites": ["code-1"]}],
        rules=[{"metric": "pass_rate", "direction": "higher", "limit": 0.3, "program": "code"}],
    )  # fmt: skip
    facts = dict(gate_view(line.ledger, line.view(), "prepare").dossier.facts)
    assert "code" in facts["evaluations"]
    assert "language-modelling-1@1" in facts["evaluations"]

    done = line.evaluate()

    [further] = done.further
    assert ("code", True, []) == (further.program, further.passed, further.flags)
    assert [("pass@1", 0.4), ("errors.syntax", 0.2)] == [(m.name, m.value) for m in further.metrics]
    assert ["code-1"] == [suite.name for suite in further.suites]
    assert further.scope is not None
    assert ["code-1@1/executability"] == further.scope["not_evaluated"]
    assert ["knows nothing", "one language only"] == further.scope["limits"]
    assert done.report.passed
    assert "program code passed" in [rule["name"] for rule in done.report.rules]
    assert done.candidate is not None
    assert done.report.evaluation_id == done.candidate.evaluation_id
    assert any("bits_per_byte" in said for said in line.said)


def test_a_further_program_that_fails_its_rule_fails_the_whole(tmp_path: Path) -> None:
    """The request's own numbers pass alone, and no candidate is kept."""
    code = tmp_path / "code" / "measure_code.py"
    code.parent.mkdir(parents=True)
    code.write_text(CODE)
    line = trained(
        tmp_path, programs=[{"name": "code", "command": ["{python}", str(code)], "suites": ["code-1"]}],
        rules=[{"metric": "pass@1", "direction": "higher", "limit": 0.9, "program": "code"}],
    )  # fmt: skip

    done = line.evaluate()

    assert (False, False, None) == (done.further[0].passed, done.report.passed, done.candidate)
    assert ["program code passed"] == [rule["name"] for rule in done.report.rules if not rule["passed"]]

    code.write_text(CODE + "# better\n")
    with pytest.raises(RefusedError, match="changed after it was signed"):
        line.evaluate(try_number=2)


@pytest.mark.requirement("R108", "R109", "R115", "R123")
def test_a_result_leads_back_to_its_experiment_and_says_its_reach(tmp_path: Path) -> None:
    """Report, page, dossier and package hold performance, reach, limits, and what the numbers came from."""
    line = trained(tmp_path, suites=["language-modelling-1"])
    report = line.evaluate().report
    checkpoint = next(
        c for _, c in line.view().all(kinds.CheckpointRegistered) if c.digest == report.checkpoint_digest
    )

    stored = json.loads(
        line.store.open(f"runs/{line.run_uid}/evaluations/{report.evaluation_id}/report.json").read()
    )
    assert {
        "attempt": 1, "step": checkpoint.step, "snapshot": checkpoint.snapshot,
        "configuration_digest": checkpoint.configuration_digest,
    } == stored["source"]  # fmt: skip
    assert stored["scope"] == report.scope
    assert ("Walk the main line in a few seconds", 100, ["knows nothing"]) == tuple(
        stored["scope"][key] for key in ("objective", "samples", "limits")
    )
    line.sign("run")
    [item] = [
        i for i in gate_view(line.ledger, line.view(), "close").dossier.items if i.id == "close.evaluation"
    ]
    assert "100 samples; not evaluated: language-modelling-1@1/perplexity" in item.found
    assert "limits: knows nothing" in item.found
    line.sign("close")
    closed = line.close()
    names = [path.name for path in (closed.folder / "evidence").iterdir()]
    assert any(name.endswith("-evaluation-report.html") for name in names)
    assert 0 == line.verify(closed.folder).returncode


def test_a_result_from_elsewhere_is_filed_and_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is marked as imported, keeps the candidate as it was, and is refused once the run is closed."""
    line = trained(tmp_path)
    own = line.evaluate()
    file = tmp_path / "results_elsewhere.json"
    file.write_text(json.dumps(lm_eval_result()))

    for option, value in (
        ("DATABASE_URL", f"sqlite:///{tmp_path}/ledger.db"), ("SIGNING_KEY", str(tmp_path / "ledger.key")),
        ("ANCHORS", (tmp_path / "anchors").as_uri()), ("STORE_URL", (tmp_path / "store").as_uri()),
    ):  # fmt: skip
        monkeypatch.setenv(f"AIRFLOW__PRETRAIN_ARCHIVE__{option}", value)
    told = ["evaluation", "import", line.run_uid, str(file), "--suite", "question-answering-1", "--json"]
    assert 0 == run_command(told)
    made = kinds.EvaluationReported.model_validate_json(capsys.readouterr().out)

    assert (True, False, None) == (made.imported, made.passed, made.evaluator_digest)
    assert "imported: measured elsewhere, by a program that is unrecorded" in made.flags
    again = line.evaluate(try_number=2).candidate
    assert own.candidate is not None
    assert again is not None
    assert (own.candidate.candidate_id, own.report.evaluation_id) == (again.candidate_id, again.evaluation_id)
    [item] = [
        i for i in gate_view(line.ledger, line.view(), "close").dossier.items if i.id == "close.evaluation"
    ]
    assert "verified" == item.verdict
    line.sign("run")
    line.sign("close")
    line.close()
    with pytest.raises(RefusedError, match="closed"):
        import_result(line.ledger, line.store, line.caller("import"), line.view(), Imported(output=file))


def test_a_suite_that_changed_after_it_was_signed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file beside the policy is held to its digest in the prepare dossier."""
    policies = tmp_path / "policies"
    policies.mkdir()
    suite = policies / "own.toml"
    suite.write_text(
        'name = "own"\nobjective = "text"\n[[metrics]]\n'
        'name = "bits_per_byte"\nunit = "bits/byte"\ndirection = "lower"\n'
    )
    monkeypatch.setenv("AIRFLOW__PRETRAIN_ARCHIVE__POLICIES_FOLDER", str(policies))
    line = trained(tmp_path / "line", suites=["own.toml"])
    assert line.evaluate().report.passed

    suite.write_text(suite.read_text().replace("lower", "higher"))
    with pytest.raises(RefusedError, match="metric definitions changed after they were signed"):
        line.evaluate(try_number=2)
