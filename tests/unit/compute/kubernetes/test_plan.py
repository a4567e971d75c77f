"""A dry run shows what a launch would create and what forbids it, and leaves everything as it was."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.main_line import Line, line_policy, line_policy_text

from pretrain_archive.cli import run_command
from pretrain_archive.domain.policy import parse_policy
from pretrain_archive.domain.policy_compute import Compute, Kubernetes
from pretrain_archive.services.launch_bench import Bench
from pretrain_archive.services.planning import Plan, plan_launch

PINNED = "registry.example.org/trainer@sha256:" + "c" * 64


def plan(line: Line) -> Plan:
    """The plan of the line's run."""
    bench = Bench(store=line.store, policies=lambda _: line.policy, runs_folder=line.runs_folder)
    return plan_launch(line.ledger, line.view(), bench)


def everything(line: Line) -> tuple[int, list[str]]:
    """What a launch would change: the ledger's records, and the files of runs."""
    files = sorted(str(path) for path in line.runs_folder.rglob("*"))
    return sum(1 for _ in line.ledger.records(streams=[line.run_uid])), files


def on_cluster(folder: Path, **changes: Any) -> Line:
    """A line whose policy launches on a cluster that shares this folder."""
    policy = line_policy(min_documents="5", max_unclean_rate="1.0")
    cluster = Kubernetes(
        **({"image": PINNED, "claim": "archive", "mount_path": str(folder), "namespace": "ml"} | changes)
    )
    compute = Compute(target="kubernetes", kubernetes=cluster)
    return Line(folder, policy=replace(policy, policy=policy.policy.model_copy(update={"compute": compute})))


def test_a_signed_run_may_start_here(tmp_path: Path):
    """The wrapper's process is shown as the launch builds it; nothing is written or consumed."""
    line = Line(tmp_path)
    line.to_signed_launch()
    before = everything(line)
    found = plan(line)

    assert (True, (), 1, "local") == (found.allowed, found.reasons, found.attempt, found.target)
    assert found.process is not None
    assert str(line.program / "train.py") == found.process.argv[-1]
    assert "--not-after" in found.process.argv
    assert before == everything(line)
    assert "completed" == line.launch().state


def test_an_unsigned_run_may_not(tmp_path: Path):
    """What is missing is named, and what would be created is shown all the same."""
    line = Line(tmp_path)
    line.open()
    line.prepare_data()
    found = plan(line)

    assert not found.allowed
    assert any("prepare gate has no decision" in reason for reason in found.reasons)
    assert found.process is not None


def test_a_changed_program_is_refused(tmp_path: Path):
    """Code that changed after the signature forbids the launch, as it does at the launch itself."""
    line = Line(tmp_path)
    line.to_signed_launch()
    (line.program / "train.py").write_text("print('another')")

    assert any("code changed" in reason for reason in plan(line).reasons)


def test_a_completed_run_starts_nothing(tmp_path: Path):
    """After a completed attempt there is nothing to launch."""
    line = Line(tmp_path)
    line.to_signed_launch()
    line.launch()

    assert any("completed with exactly these inputs" in reason for reason in plan(line).reasons)


def test_a_resumed_attempt_names_its_checkpoint(tmp_path: Path):
    """The second attempt begins at the newest verified checkpoint of the first."""
    line = Line(tmp_path)
    line.to_signed_launch(configuration={"steps": 40, "die_at": 25})
    line.launch()
    found = plan(line)

    assert (2, 20) == (found.attempt, found.resume_step)
    assert found.process is not None
    assert found.process.environment["PRETRAIN_ARCHIVE_RESUME_FROM"].endswith("step_00000020")


def test_an_exploration_needs_no_signature(tmp_path: Path):
    """Its plan says so, holds its deadline, and takes no share of the day's ceiling."""
    line = Line(tmp_path)
    line.open(scope="exploration", budget_minutes=1)
    line.prepare_data()
    line.ledger.seal()
    before = everything(line)
    found = plan(line)

    assert ((), "exploration") == (found.reasons, found.scope)
    assert found.process is not None
    assert float(found.process.argv[found.process.argv.index("--max-seconds") + 1]) <= 60
    assert before == everything(line)


def test_a_job_of_the_cluster(tmp_path: Path):
    """On a cluster the manifest is shown, held back, without a token's digits in its name."""
    line = on_cluster(tmp_path)
    line.to_signed_launch(train_command=["{python}", "/opt/train.py"])
    before = everything(line)
    found = plan(line)

    assert () == found.reasons
    assert found.objects is not None
    assert found.objects.job["spec"]["suspend"] is True
    assert "0" * 40 == found.objects.labels["pretrain-archive/token"]
    [container] = found.objects.job["spec"]["template"]["spec"]["containers"]
    assert PINNED == container["image"]
    assert ["--", "python3", "/opt/train.py"] == container["command"][-3:]
    assert before == everything(line)


def test_an_image_that_changed_is_refused(tmp_path: Path):
    """The image that stands in the policy now is not the signed one."""
    line = on_cluster(tmp_path)
    line.to_signed_launch(train_command=["{python}", "/opt/train.py"])
    line.policy = on_cluster(tmp_path, image=PINNED.replace("c" * 64, "d" * 64)).policy

    assert any("the image changed after it was signed" in reason for reason in plan(line).reasons)


def test_a_folder_that_is_not_shared_is_named(tmp_path: Path):
    """Evidence that would not travel forbids the launch before anything starts."""
    line = on_cluster(tmp_path, mount_path="/elsewhere")
    line.to_signed_launch(train_command=["{python}", "/opt/train.py"])
    found = plan(line)

    assert any("is not below /elsewhere" in reason for reason in found.reasons)
    assert found.objects is None


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Line:
    """A line that the program finds by its settings."""
    text = line_policy_text(min_documents="5", max_unclean_rate="1.0")
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "line.toml").write_text(text)
    settings = {
        "database_url": f"sqlite:///{tmp_path}/ledger.db",
        "signing_key": f"{tmp_path}/ledger.key",
        "anchors": f"file://{tmp_path}/anchors",
        "store_url": f"file://{tmp_path}/store",
        "work_folder": f"{tmp_path}/work",
        "policies_folder": str(policies),
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"AIRFLOW__PRETRAIN_ARCHIVE__{name.upper()}", value)
    return Line(tmp_path, policy=parse_policy(text.encode(), name="line.toml"))


def test_the_command_s_answer(home: Line, capsys: pytest.CaptureFixture[str]):
    """One JSON document, and exit 4 as long as something forbids the launch."""
    home.open()
    home.prepare_data()
    refused = run_command(["launch", "plan", home.run_uid, "--json"])
    document = json.loads(capsys.readouterr().out)

    assert (4, False) == (refused, document["allowed"])
    assert document["reasons"]

    home.sign("prepare")
    allowed = run_command(["launch", "plan", home.run_uid[-8:]])
    text = capsys.readouterr().out
    assert 0 == allowed
    assert "nothing forbids it" in text
    assert f"PRETRAIN_ARCHIVE_RUN_UID={home.run_uid}" in text
    assert os.environ["PATH"] not in text


def test_an_unknown_run_is_wrong_use(home: Line, capsys: pytest.CaptureFixture[str]):
    """A name that is no run is answered in one line."""
    home.open()
    assert 2 == run_command(["launch", "plan", "run_none"])
    assert "is not in the ledger" in capsys.readouterr().err
