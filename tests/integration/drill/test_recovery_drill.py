"""Drills with real torchrun agents and gloo workers: each fault, what is filed, and what nobody may claim."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.governed import by
from tests.support.main_line import Line

from pretrain_archive.compute import namespaces
from pretrain_archive.compute.leftovers import processes_of
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.domain.exploration import is_exploration
from pretrain_archive.domain.policy import LoadedPolicy, load_policy, parse_policy
from pretrain_archive.services import drilling
from pretrain_archive.services.launch_bench import Bench
from pretrain_archive.services.platform_changing import Proposal, change_of, propose, verify

ROOT = Path(__file__).parents[3]
TRAINER = ROOT / "docker" / "trainer"
POLICIES = ROOT / "dags" / "policies"


@pytest.fixture
def policy() -> LoadedPolicy:
    """The policy of drills."""
    return load_policy(POLICIES, "drill")


@pytest.fixture
def line(tmp_path: Path, policy: LoadedPolicy) -> Line:
    """A ledger and a store."""
    return Line(folder=tmp_path, policy=policy)


def drill(line: Line, *, review: drilling.Review | None = None, **plan: Any) -> kinds.DrillFiled:
    """Run a drill; the line then stands on its run."""
    bench = Bench(store=line.store, policies=lambda _: line.policy, runs_folder=line.runs_folder)
    asked = drilling.Plan(program=TRAINER, **({"at_step": 15, "steps": 50} | plan))
    line.run_uid, filed = drilling.drill(line.ledger, line.caller("drill"), bench, asked, review=review)
    return filed


def verdicts(filed: kinds.DrillFiled) -> dict[str, str]:
    """Verdict by check."""
    return {check["name"]: check["verdict"] for check in filed.checks}


def found(filed: kinds.DrillFiled, name: str) -> str:
    """What a check found."""
    return next(str(check["found"]) for check in filed.checks if check["name"] == name)


def require_recovered(line: Line, filed: kinds.DrillFiled) -> None:
    """Everything held, as the run's own records tell it too."""
    view = line.view()
    done = view.latest(kinds.AttemptReconciled)
    starts = [start for _, start in view.all(kinds.AttemptStarted)]

    assert dict.fromkeys(drilling.NAMES, "verified") == verdicts(filed), filed.checks
    assert (filed.passed, filed.attempt, filed.recovered_attempt) == (True, 1, 2)
    assert filed == view.latest(kinds.DrillFiled)
    assert done is not None
    assert (4, 4) == (done.members_loaded, done.members_expected)
    assert starts[0].resume_step is None
    assert 10 <= (starts[1].resume_step or 0)  # a program that is asked to end may save once more
    assert {0, 1, 2, 3} == {
        event.data["worker"]
        for _, event in view.all(kinds.EventRecorded)
        if event.event == "checkpoint_loaded"
    }
    assert {} == {**processes_of(line.run_uid, 1), **processes_of(line.run_uid, 2)}
    assert is_exploration(view)


@pytest.mark.requirement("R194", "R234", "R235", "R236")
@pytest.mark.skipif(bool(namespaces.unavailable()), reason=namespaces.unavailable() or "available")
def test_a_network_that_is_cut(line: Line) -> None:
    """The link of a node goes down: nobody is told, the workers' patience ends, the next attempt recovers."""
    filed = drill(line, inject="network_cut", patience=6)
    seconds = float(found(filed, "detected").split(" s after")[0].rpartition(" ")[2])

    require_recovered(line, filed)
    assert "the link of node 1 was cut" in filed.detail
    assert seconds >= 6  # nothing but the workers' patience can have told
    assert [] == list(namespaces.PLACES.glob(f"padrill-{os.getpid()}-*"))


@pytest.mark.requirement("R229", "R234")
def test_a_frozen_worker(line: Line) -> None:
    """One rank of four gets SIGSTOP: the others' patience ends, all are ended; such a drill verifies a change."""
    record = propose(line.ledger, lambda _: line.policy, Proposal(
        component="framework", where="python.version", before="3.0.0", after=platform.python_version(), reason="newer",
        regression="drill:worker_frozen", stages=(0.5, 1.0), key=True, projects=("drill",), rollback="3.0.0 again",
        limits=("none known",),
    ), by("pat"))  # fmt: skip
    filed = drill(line, inject="worker_frozen", patience=6)

    require_recovered(line, filed)
    assert "worker 3 on node 1 was frozen at step" in filed.detail
    verify(line.ledger, change_of(line.ledger, record.payload["change_id"]), line.view(), by("pat"))
    assert "verified" == change_of(line.ledger, record.payload["change_id"]).state


def test_without_namespaces_a_cut_network_is_unrecorded_and_never_passes(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the fault cannot be injected nothing is launched, and the drill says so."""
    monkeypatch.setenv("PATH", "/nonexistent")
    filed = drill(line, inject="network_cut")

    assert dict.fromkeys(drilling.NAMES, "unrecorded") == verdicts(filed)
    assert not filed.passed
    assert "no network namespaces here" in filed.detail
    assert 0 == line.view().attempts


def test_a_user_without_rights_has_no_namespaces() -> None:
    """Only root may make them; everyone else is told."""
    if os.geteuid() != 0:
        assert "only root" in namespaces.unavailable()
        return
    code = "import os; from pretrain_archive.compute import namespaces as n; os.setuid(65534); print(n.unavailable())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)

    assert "no network namespaces here: only root may make them" == done.stdout.strip(), done.stderr


@pytest.mark.skipif(bool(namespaces.unavailable()), reason=namespaces.unavailable() or "available")
def test_namespaces_of_a_killed_drill_are_removed_by_the_next() -> None:
    """What a killed drill left carries its process id; one of a living process stays."""
    code = (
        "import os, signal; from pretrain_archive.compute.namespaces import Network\n"
        "network = Network(1).__enter__(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    process.wait(30)
    left = {f"padrill-{process.pid}-0-0", f"padrill-{process.pid}-0-switch"}
    assert left == {path.name for path in namespaces.PLACES.glob(f"padrill-{process.pid}-*")}
    with namespaces.Network(1) as mine:
        assert not left & {path.name for path in namespaces.PLACES.iterdir()}
        assert (namespaces.PLACES / mine.names[0]).exists()


@pytest.mark.skipif(bool(namespaces.unavailable()), reason=namespaces.unavailable() or "available")
def test_two_networks_at_once_do_not_meet() -> None:
    """Each drill has its own, also two in one process; the end of one takes nothing from the other."""
    with namespaces.Network(1) as first:
        with namespaces.Network(1) as second:
            assert "" == namespaces.unavailable()
            assert not set(first.names) & set(second.names)
        assert {first.switch, *first.names} == {
            p.name for p in namespaces.PLACES.glob(f"padrill-{os.getpid()}-*")
        }


@pytest.mark.skipif(bool(namespaces.unavailable()), reason=namespaces.unavailable() or "available")
def test_a_network_that_is_broken_off_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends the task while the namespaces are made, they are removed."""
    network, done = namespaces.Network(2), namespaces._ip

    def asked(*words: str) -> None:
        if "bridge" in words and "master" in words:
            raise KeyboardInterrupt
        done(*words)

    monkeypatch.setattr(namespaces, "_ip", asked)
    with pytest.raises(KeyboardInterrupt):
        network.__enter__()

    assert [] == list(namespaces.PLACES.glob(f"padrill-{os.getpid()}-*"))


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        pytest.param({"node": 2}, "there are 2 nodes", id="no such node"),
        pytest.param({"nodes": 1, "workers": 1, "node": 0}, "one worker is no group", id="one worker"),
        pytest.param({"at_step": 5}, "must lie after the first checkpoint", id="before the first checkpoint"),
        pytest.param({"at_step": 110}, "20 steps before 120", id="too late"),
        pytest.param({"program": ROOT}, "no nodes.py there", id="no program"),
    ],
)
def test_a_plan_that_proves_nothing_is_refused(plan: dict[str, Any], says: str) -> None:
    """Wrong values are named before anything is opened."""
    with pytest.raises(InputError, match=says):
        drilling.Plan(**({"inject": "worker_exit", "program": TRAINER} | plan))


def test_a_policy_without_exploration_allows_no_drill(line: Line) -> None:
    """A drill takes resources: where nothing may run unsigned, none runs."""
    text = (POLICIES / "drill.toml").read_text().partition("[exploration]")[0]
    line.policy = parse_policy(text.encode(), name="drill.toml")

    with pytest.raises((InputError, RefusedError), match="exploration"):
        drill(line, inject="worker_exit")


@pytest.mark.requirement("R237")
def test_the_command_prints_one_document_and_exits_by_what_was_found(tmp_path: Path) -> None:
    """A node with its agent is killed; --json is one document on standard output, progress stands on standard error."""
    environment = {
        **os.environ, "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__PRETRAIN_ARCHIVE__DATABASE_URL": f"sqlite:///{tmp_path}/ledger.db",
        "AIRFLOW__PRETRAIN_ARCHIVE__POLICIES_FOLDER": str(POLICIES),
        "AIRFLOW__PRETRAIN_ARCHIVE__WORK_FOLDER": str(tmp_path / "work"),
        "AIRFLOW__PRETRAIN_ARCHIVE__STORE_URL": str(tmp_path / "store"),
    }  # fmt: skip
    command = [sys.executable, "-c", "from pretrain_archive.cli import main; main()", "drill", "run"]
    command += ["--inject", "node_lost", "--at-step", "15", "--steps", "50", "--json"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False, timeout=240
    )
    document = json.loads(done.stdout)

    assert (0, True) == (done.returncode, document["passed"]), done.stderr[-2000:]
    assert "node 1 was killed with its agent and 2 workers" in document["detail"]
    assert "drill: node 1 was killed" in done.stderr
    boundaries = {item["id"]: item["verdict"] for item in document["boundaries"]}
    assert (
        dict.fromkeys(
            ("boundary.training", "boundary.platform", "boundary.storage", "boundary.network"), "unrecorded"
        )
        == boundaries
    )  # nobody confirmed anything yet, and the drill says so without failing for it
