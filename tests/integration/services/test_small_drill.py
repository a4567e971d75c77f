"""The first small drill: one small fine-tuning for a domain, item by item from the data version to the archive."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from tests.support.main_line import Line, line_policy

from pretrain_archive.domain import kinds
from pretrain_archive.domain.cost import account
from pretrain_archive.domain.cost_bins import MICRO
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.package.reading import read_package
from pretrain_archive.package.story import tell
from pretrain_archive.services.concluding import Conclusion, conclude
from pretrain_archive.services.incidents import Grounds
from pretrain_archive.services.oncall import bundle
from pretrain_archive.services.platform_said import Speaker
from pretrain_archive.services.timelines import timeline_of

BASE = "small-base-model@2"
STEPS = """
[[data.steps]]
name = "one-of-each"
version = 1
kind = "deduplicate"
effective_from = 2025-01-01T00:00:00Z
by = "normalised"

[[data.steps]]
name = "by-content"
version = 1
kind = "split"
effective_from = 2025-01-01T00:00:00Z
"""
CONFIGURATION: dict[str, Any] = {
    "steps": 40, "method": "full fine-tuning", "learning_rate": 0.0003, "batch_size": 8, "epochs": 2, "seed": 17,
    "parallel": {"strategy": "data", "size": 1}, "precision": "float32", "output": "checkpoints",
    "evaluate_every": 20,
}  # fmt: skip


def walk(line: Line) -> Path:
    """The whole line, with a conclusion, to the package's folder."""
    line.to_signed_launch(
        training_type="fine-tuning", objective="Answer questions about one small domain", base_model=BASE,
        configuration=CONFIGURATION,
    )  # fmt: skip
    assert "completed" == line.launch().state
    line.register()
    line.evaluate()
    line.sign("run")
    told = Conclusion(
        outcome="improved", improved="bits per byte from 8.0 to 3.6", against="untrained",
        learnt="forty steps are enough for this domain", evidence=(line.view().records[-1].record_id,),
    )  # fmt: skip
    conclude(line.ledger, line.view(), told, Speaker(person="alice", authentication="a test"))
    line.sign("close")
    return line.close().folder


@pytest.fixture(scope="module")
def drill(tmp_path_factory: pytest.TempPathFactory) -> tuple[Line, Path]:
    """A line that was walked to its end, and its package."""
    policy = line_policy(STEPS, min_documents="5", max_unclean_rate="1.0")
    line = Line(folder=tmp_path_factory.mktemp("drill"), policy=policy)
    return line, walk(line)


def one(view: RunView, model: type[Any]) -> Any:
    """The newest payload of a kind, which is there."""
    found = view.latest(model)
    assert found is not None, model.__name__
    return found


def signed(view: RunView, gate: str) -> kinds.GateDecision:
    """The decision of a gate, which is there."""
    found = view.decision(gate)
    assert found is not None, gate
    return found[1]


ITEMS: dict[str, Callable[[RunView], Any]] = {
    "source and licence": lambda v: one(v, kinds.SourceRegistered).licence,
    "data version": lambda v: one(v, kinds.SnapshotCreated).manifest_digest,
    "processing": lambda v: one(v, kinds.ProcessingApplied).rule.name,
    "split": lambda v: one(v, kinds.SplitCreated).split_digest,
    "quality": lambda v: one(v, kinds.QualityReported).report_digest,
    "base model": lambda v: one(v, kinds.ConfigurationDeclared).base_model,
    "code": lambda v: one(v, kinds.ConfigurationDeclared).code_digest,
    "configuration": lambda v: one(v, kinds.ConfigurationDeclared).configuration_digest,
    "environment": lambda v: one(v, kinds.EnvironmentDeclared).environment_digest,
    "dependencies": lambda v: one(v, kinds.EnvironmentDeclared).environment["packages"],
    "budget and its owner": lambda v: one(v, kinds.ConfigurationDeclared).budget.owner,
    "stop conditions": lambda v: one(v, kinds.ConfigurationDeclared).stop.wall_minutes,
    "sign-off before the launch": lambda v: signed(v, "prepare").person_id,
    "launch token": lambda v: one(v, kinds.LaunchIntended).token_digest,
    "resources asked and given": lambda v: (
        one(v, kinds.AttemptStarted).requested and one(v, kinds.AttemptStarted).allocated
    ),
    "environment inside the worker": lambda v: one(v, kinds.EnvironmentObserved).environment_digest,
    "training curve": lambda v: one(v, kinds.MetricsRecorded).points,
    "log": lambda v: one(v, kinds.AttemptEnded).log_digest,
    "checkpoints": lambda v: one(v, kinds.CheckpointRegistered).digest,
    "evaluation beside a baseline": lambda v: one(v, kinds.EvaluationReported).baselines,
    "candidate and why": lambda v: one(v, kinds.CandidateNamed).reason,
    "sign-off after training": lambda v: signed(v, "run").person_id,
    "conclusion": lambda v: one(v, kinds.ExperimentConcluded).learnt,
    "sign-off of the close": lambda v: signed(v, "close").outcome,
    "release": lambda v: one(v, kinds.ReleaseMade).version,
    "archive": lambda v: one(v, kinds.PackageWritten).digest,
}  # fmt: skip
"""What a drill has to leave behind, in the order of the work."""


@pytest.mark.requirement("R239")
@pytest.mark.parametrize("item", ITEMS)
def test_every_item_is_on_record(drill: tuple[Line, Path], item: str) -> None:
    """From the data version to the archive each item is there, not empty, and read from the ledger alone."""
    assert ITEMS[item](drill[0].view())


@pytest.mark.requirement("R239", "R097")
def test_the_archive_tells_it_alone(drill: tuple[Line, Path]) -> None:
    """The package verifies by itself, holds the records of every item, and tells what was learnt."""
    line, folder = drill
    checked = line.verify(folder)
    package = read_package(folder, key=line.folder / "ledger.pub")
    held = {record.kind for record in package.view.records}

    assert (0, "verified") == (checked.returncode, json.loads(checked.stdout)["verdict"])
    assert set() == {r.kind for r in line.view().records} - held - {
        "run.closed",
        "package.written",
        "release.made",
    }
    assert "forty steps are enough" in " ".join(sentence.en for sentence in tell(package.view))


@pytest.mark.requirement("R193", "R062")
def test_a_checkpoint_leads_to_task_model_and_data(drill: tuple[Line, Path]) -> None:
    """From the checkpoint back: the run, the base model at its version, the data version, the configuration."""
    line, _ = drill
    view = line.view()
    kept = one(view, kinds.CheckpointRegistered)
    [start] = {
        edge.subject for r in view.records if r.kind == "checkpoint.registered" for edge in r.edges
        if kept.checkpoint_id in str(edge.subject)
    }  # fmt: skip
    trace = line.ledger.trace(start, direction="backward")
    snapshot = one(view, kinds.SnapshotCreated)
    nodes = {(node.type, node.id, node.version) for node in trace.nodes}

    assert ("run", line.run_uid, "") in {(t, i, "") for t, i, _ in nodes}
    assert Ref(type="model", id=BASE) in trace.nodes
    assert ("snapshot", snapshot.name, str(snapshot.version)) in nodes
    assert f"{snapshot.name}@{snapshot.version}" == kept.snapshot.removeprefix("snapshot:")
    assert one(view, kinds.ConfigurationDeclared).configuration_digest == kept.configuration_digest
    forward = line.ledger.trace(Ref(type="model", id=BASE), direction="forward")
    assert start in forward.nodes


@pytest.mark.requirement("R062", "R063", "R064", "R066", "R070")
def test_what_decides_the_result_is_on_record(drill: tuple[Line, Path]) -> None:
    """Versions, hyper-parameters, method, parallel mode, scale, precision, intervals: and each under a stable id."""
    view = drill[0].view()
    declared = one(view, kinds.ConfigurationDeclared)
    environment = one(view, kinds.EnvironmentDeclared)
    started = one(view, kinds.AttemptStarted)

    assert CONFIGURATION == {k: declared.configuration[k] for k in CONFIGURATION}
    assert (10, BASE) == (declared.checkpoints.every_steps, declared.base_model)
    assert declared.code_digest
    assert declared.code_files
    assert {"python", "packages"} <= set(environment.environment)
    assert (0, 1) == (declared.budget.accelerators, declared.budget.nodes)
    assert started.requested["accelerators"] == declared.budget.accelerators
    turned = dict(reversed(list({**CONFIGURATION, "checkpoint_every": 10}.items())))
    assert digest_of(turned) == declared.configuration_digest  # an id of what it says, in whatever order
    assert digest_of(environment.environment) == environment.environment_digest
    assert {declared.configuration_digest} == {
        c.configuration_digest for _, c in view.all(kinds.CheckpointRegistered)
    }
    observed = one(view, kinds.EnvironmentObserved)
    assert {"python", "packages"} <= set(observed.environment)
    assert environment.image is None  # no container here: unrecorded, and no name was made up


@pytest.mark.requirement("R247")
def test_logs_and_outputs_are_saved_and_linked(drill: tuple[Line, Path]) -> None:
    """The log lies where its record says with the bytes that it says; outputs, curve and cost stand beside it."""
    view = drill[0].view()
    ended = one(view, kinds.AttemptEnded)
    path = Path(unquote(urlsplit(ended.log_uri).path))
    assert ended.log_digest == "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
    assert ended.accelerator_seconds == 0
    assert (ended.cpu_seconds or 0) > 0
    assert (ended.max_rss_bytes or 0) > 0
    outputs = [c for _, c in view.all(kinds.CheckpointRegistered)]
    assert all(Path(unquote(urlsplit(c.location).path) or c.location).is_dir() for c in outputs)


@pytest.mark.requirement("R083", "R085")
def test_one_answer_holds_logs_metrics_use_and_cost(drill: tuple[Line, Path]) -> None:
    """Events, the newest metrics, the log and what was used stand together; every second of it is in one account."""
    line, _ = drill
    grounds = Grounds(root=line.folder, policies=lambda _: line.policy)
    told = bundle(line.ledger, line.view(), grounds, today=date(2026, 11, 30))
    [end] = told["exits"]

    assert {"gates", "attempts", "checkpoints"} <= {entry.lane for entry in timeline_of(line.view(), [])}
    assert told["events"]
    newest = {m["name"]: (m["step"], m["value"]) for m in told["metrics"]}
    assert (40, 0.125) == newest["loss"]
    assert any(name.startswith("system/") for name in newest)
    assert end["log_uri"]
    assert end["resources"]["cpu_seconds"] > 0
    assert end["resources"]["max_rss_bytes"] > 0
    found = account(line.view())
    assert end["resources"]["seconds"] * MICRO == pytest.approx(
        sum(a.allocated_us for a in found.attempts), abs=10
    )
    assert sum(found.bins("machine").values()) >= found.attempts[0].allocated_us
    assert found.attribution.budget_owner == "bob"
