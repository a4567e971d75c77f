"""Reviewers read a sampled document by the command that the question names; a sample can be drawn again."""

from __future__ import annotations

import json

import pytest
from tests.support.labelled_data import DEFINITION, SECRET_WORDS, LabelledRun, policy_text

from pretrain_archive.cli import run_command
from pretrain_archive.services.review_form import build_page
from pretrain_archive.services.reviewing import draw_sample


@pytest.fixture
def drawn(house, ledger, store, tmp_path, monkeypatch):
    """A run with a sample, and the settings that the program reads."""
    settings = {
        "DATABASE_URL": house.url, "SIGNING_KEY": str(house.key), "STORE_URL": (tmp_path / "store").as_uri(),
        "POLICIES_FOLDER": str(tmp_path / "policies"), "WORK_FOLDER": str(tmp_path / "work"),
        "ANCHORS": (tmp_path / "anchors").as_uri(),
    }  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(f"AIRFLOW__PRETRAIN_ARCHIVE__{name}", value)
    run = LabelledRun(ledger=ledger, store=store, folder=tmp_path, policy=policy_text(review="sample = 6"))
    draw_sample(ledger, store, run.caller("label_sample"), run.uid)
    return run


@pytest.fixture
def ask(capsys):
    """Runs a command; gives its exit code and JSON."""

    def run(*arguments):
        capsys.readouterr()
        code = run_command([*arguments, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return run


@pytest.mark.requirement("R049")
def test_command_of_the_question(drawn, ask):
    """The command that the question prints for a document shows exactly this document's text."""
    body = build_page(drawn.sampled, page=1, reviewer=1, language="en").body
    commands = [line.strip("`") for line in body.splitlines() if line.startswith("`pretrain-archive")]

    for command, item in zip(commands, drawn.sampled.items, strict=True):
        code, shown = ask(*command.split()[1:])
        assert (0, item.digest, item.path, item.line) == (code, shown["digest"], shown["path"], shown["line"])
        assert SECRET_WORDS in shown["text"]


def test_shown_as_text(drawn, capsys):
    """Without JSON the document is printed line by line, with where it lies."""
    item = drawn.sampled.items[0]

    assert 0 == run_command(["labels", "show", drawn.sampled.snapshot, item.digest])
    assert f"{item.label}  {item.path}, line {item.line}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("digest", "message"),
    [
        pytest.param("ffffffffffff", "names no document", id="unknown"),
        pytest.param("sha256:", "names several documents", id="all of them"),
    ],
)
def test_no_such_document(drawn, ask, digest, message):
    """A digest that names none or several is one clear line."""
    code, said = ask("labels", "show", drawn.sampled.snapshot, digest)

    assert 2 == code
    assert message in said["error"]["message"]


@pytest.mark.requirement("R049")
def test_drawn_again(drawn, ask):
    """The recorded sample is what the snapshot gives; another definition is named as the change that it is."""
    same = ask("labels", "verify", drawn.uid)
    (drawn.folder / "policies" / "labels.toml").write_text(DEFINITION + "# a changed meaning\n")
    other = ask("labels", "verify", drawn.uid)

    assert (0, "verified", 6, True) == (
        same[0], same[1]["verdict"], same[1]["items"], same[1]["definition_unchanged"],
    )  # fmt: skip
    assert (1, "changed", False) == (other[0], other[1]["verdict"], other[1]["definition_unchanged"])


@pytest.mark.usefixtures("drawn")
def test_run_without_sample(ask):
    """A run that has no sample is said to have none."""
    code, said = ask("labels", "verify", "run_019a0000-0000-7000-8000-000000000000")

    assert 2 == code
    assert "has no sample of labels" in said["error"]["message"]
