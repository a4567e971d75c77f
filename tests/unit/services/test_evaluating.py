"""The program that measures is the one that was signed before the launch."""

from __future__ import annotations

import pytest
from tests.support.main_line import Line

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.gates.service import gate_view
from pretrain_archive.services.code import read_code


@pytest.fixture
def line(tmp_path) -> Line:
    """A run whose evaluation program stands in a folder of its own."""
    line = Line(folder=tmp_path)
    folder = tmp_path / "evaluator"
    folder.mkdir()
    (line.program / "evaluate.py").rename(folder / "evaluate.py")
    (folder / "scores.so").write_bytes(b"compiled")
    line.open(
        configuration={"steps": 10}, checkpoint_every=10,
        evaluate_command=["env", "LANG=C", "{python}", str(folder / "evaluate.py")],
    )  # fmt: skip
    return line


@pytest.fixture
def trained(line) -> Line:
    """The same with one registered checkpoint."""
    line.prepare_data()
    line.sign("prepare")
    assert "completed" == line.launch().state
    line.register()
    return line


def test_bound_when_opened(line):
    """Command and code of the evaluation are recorded with the run and shown at the prepare gate."""
    config = line.view().latest(kinds.ConfigurationDeclared)

    assert ["env", "LANG=C"] == config.evaluate_command[:2]
    assert {"evaluate.py", "scores.so"} == set(config.evaluate_code_files)
    assert read_code(config.evaluate_command).digest == config.evaluate_code_digest
    facts = dict(gate_view(line.ledger, line.view(), "prepare").dossier.facts)
    assert config.evaluate_code_digest == facts["evaluate_code_digest"]
    assert " ".join(config.evaluate_command) == facts["evaluate_command"]


def test_signed_program_measures(trained):
    """What ran is recorded with what it measured, and the close gate holds it to the signed digest."""
    config = trained.view().latest(kinds.ConfigurationDeclared)

    report = trained.evaluate().report

    assert config.evaluate_code_digest == report.evaluator_digest
    [item] = [
        i
        for i in gate_view(trained.ledger, trained.view(), "close").dossier.items
        if i.id == "close.evaluation"
    ]
    assert "verified" == item.verdict


CHANGES = {
    "a line": (lambda folder: (folder / "evaluate.py").open("a").write("# better\n"), ("evaluate.py",)),
    "a compiled file": (lambda folder: (folder / "scores.so").write_bytes(b"other"), ("scores.so",)),
    "an added module": (lambda folder: (folder / "json.py").write_text("x"), ("json.py",)),
    "many": (
        lambda folder: [(folder / f"m{n}.py").touch() for n in range(7)],
        ("m0.py", "m1.py", "m2.py", "m3.py", "m4.py", "and 2 more"),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_program_is_refused(trained, name):
    """A program that changed after the prepare gate measures nothing; the files are named."""
    change, named = CHANGES[name]
    change(trained.folder / "evaluator")

    with pytest.raises(RefusedError, match="the evaluation program changed after it was signed") as raised:
        trained.evaluate()

    assert named == raised.value.reasons
    assert trained.view().latest(kinds.EvaluationReported) is None


def test_another_program_is_another_run(line):
    """A changed evaluation program is another input of the run."""
    first = line.run_uid
    config = line.view().latest(kinds.ConfigurationDeclared)
    (line.folder / "evaluator" / "scores.so").write_bytes(b"other")

    second = line.open(
        configuration={"steps": 10}, checkpoint_every=10,
        evaluate_command=["env", "LANG=C", "{python}", config.evaluate_command[-1]],
    )  # fmt: skip

    assert first == second.derived_from


@pytest.mark.parametrize("field", ["train_command", "evaluate_command"])
def test_program_without_files_blocks(tmp_path, field):
    """Code without a file has no digest: the prepare gate cannot be approved, and nothing is evaluated with it."""
    line = Line(folder=tmp_path)
    line.open(**{field: ["sh", "-c", "true"]})

    dossier = gate_view(line.ledger, line.view(), "prepare").dossier

    [item] = [i for i in dossier.blocked_by() if i.id == "prepare.config_environment"]
    assert "unrecorded" == item.verdict
    assert field in item.hint
    config = line.view().latest(kinds.ConfigurationDeclared)
    assert {None} <= {config.code_digest, config.evaluate_code_digest}
