"""The model card: made from records alone, in the Hugging Face format, in two languages, gaps printed as gaps."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

import pytest
from huggingface_hub import ModelCard
from tests.support.released import released_view

from pretrain_archive.domain import kinds
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.package.model_card import escape, sections, write_model_card
from pretrain_archive.package.model_card_parts import gaps


@pytest.fixture(scope="module")
def view(tmp_path_factory) -> RunView:
    """A released run."""
    return released_view(tmp_path_factory.mktemp("released"), packages={"torch": "2.13.0+cpu"})


def edited(view: RunView, model: type[kinds.Payload], **changes) -> RunView:
    """The run with fields of a kind's payloads replaced."""
    name = kinds.BY_MODEL[model]
    records = [
        replace(record, payload={**record.payload, **changes}) if record.kind == name else record
        for record in view.records
    ]
    return RunView.of(view.run_uid, records, view.around)


def without(view: RunView, model: type[kinds.Payload]) -> RunView:
    """The run without a kind."""
    kept = [record for record in view.records if record.kind != kinds.BY_MODEL[model]]
    return RunView.of(view.run_uid, kept, view.around)


@pytest.mark.requirement("R106", "R107", "R108", "R110", "R113")
def test_the_card_is_read_by_the_hubs_own_library(view):
    """Metadata and model index come back: the value, the data set, and what leads to the run."""
    card = ModelCard(write_model_card(view)["README.md"].decode())
    report = view.latest(kinds.EvaluationReported)

    found = {result.metric_type: result.metric_value for result in card.data.eval_results}
    assert {m.name: m.value for m in report.metrics if m.value is not None} == found
    assert {report.data_set} == {result.dataset_name for result in card.data.eval_results}
    assert "stdlib-bytes" == card.data.model_name
    assert view.run_uid == card.data.pretrain_archive["run"]
    assert "1.2" == card.data.pretrain_archive["version"]


@pytest.mark.requirement("R104", "R105", "R113")
def test_both_languages_tell_the_same(view):
    """Every section and row is there in each; digests and terms are the same data."""
    english, chinese = (data.decode() for data in write_model_card(view).values())
    made = view.latest(kinds.ReleaseMade)

    for said in (made.checkpoint_digest, "use 1.1", "short context", "judging code", view.run_uid):
        assert said in english
        assert said in chinese
    assert english.count("\n## ") == chinese.count("\n## ") == len(sections(view)) + 1
    assert english.count("\n- **") == chinese.count("\n- **")
    assert "Known limits" in english
    assert "已知限制" in chinese


@pytest.mark.requirement("R113", "R146")
def test_a_gap_is_printed_where_it_belongs_and_once_more_at_the_end(view):
    """Nothing takes the place of what nobody recorded: rollback, tokens, signature."""
    bare = edited(view, kinds.ReleaseMade, rollback="unrecorded", known_limits=[])
    english, chinese = (data.decode() for data in write_model_card(bare).values())

    assert "- **Rollback**: *unrecorded* (the request does not say)" in english
    assert "- **回滚方式**：*未记录*（请求中未写明）" in chinese
    listed = english.partition("## What is unrecorded")[2]
    for title, label, _ in gaps(sections(bare)):
        assert f"- {title[0]} / {label[0]}: " in listed
    assert "unsigned: no signing key" in listed
    assert "Known limits" in listed


def test_without_an_evaluation_there_is_no_number(view):
    """No model index, and the section says so."""
    text = write_model_card(without(view, kinds.EvaluationReported))["README.md"].decode()

    assert "model-index" not in text
    assert "- **Result**: *unrecorded* (no evaluation of the candidate is on record)" in text


def test_a_value_that_is_not_finite_is_named_and_kept_out_of_the_index(view):
    """NaN is told as NaN; a reader of the index never gets it."""
    report = view.latest(kinds.EvaluationReported)
    broken = [{**m.model_dump(), "value": None, "not_finite": "nan"} for m in report.metrics]
    text = write_model_card(edited(view, kinds.EvaluationReported, metrics=broken))["README.md"].decode()

    assert "model-index" not in text
    assert " | nan | " in text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("| x |\n## Licence\n---\napache-2.0", id="lines and table"),
        pytest.param("<script>alert(1)</script>", id="markup"),
        pytest.param("[click](javascript:x) ![i](http://x)", id="links"),
        pytest.param("\u202e\x1b[2J\x00 \udc80", id="control characters and a lone surrogate"),
    ],
)
def test_a_hostile_value_stays_a_value(view, text):
    """It is one line of text in its place: no new row, heading, markup, link or metadata."""
    clean = write_model_card(view)["README.md"].decode()
    hurt = write_model_card(edited(view, kinds.ReleaseMade, rollback=text, known_limits=[text], name=text))
    told = hurt["README.md"].decode()

    body, plain = told.partition("---\n\n")[2], clean.partition("---\n\n")[2]
    assert plain.count("\n") == body.count("\n")
    assert plain.count("\n## ") == body.count("\n## ")
    assert "<script" not in body
    assert [] == re.findall(r"(?<!\\)\]\(", body)
    assert "\x1b" not in told
    assert "\u202e" not in told
    assert "apache-2.0" != ModelCard(told).data.license


def test_the_same_records_give_the_same_bytes(view):
    """A retried close writes the same card."""
    assert write_model_card(view) == write_model_card(view)


def test_a_run_without_a_release_has_no_card(view):
    """Nothing is made up for a run that released nothing."""
    assert {} == write_model_card(without(view, kinds.ReleaseMade))


def test_a_release_of_an_earlier_version_of_this_program_is_told(view):
    """Its record has no account: the card says so and stands."""
    text = write_model_card(edited(view, kinds.ReleaseMade, account=None))["README.md"].decode()

    assert "released before releases carried an account" in text


@pytest.mark.requirement("R103")
def test_the_card_says_why_this_checkpoint(view):
    """Kept and dropped candidates with their reasons."""
    named = view.latest(kinds.CandidateNamed)

    assert escape(named.reason) in write_model_card(view)["README.md"].decode()


def test_the_hubs_library_is_imported_only_when_a_card_is_written():
    """Importing the package's writer loads nothing heavy."""
    code = "import sys, pretrain_archive.package.writer; sys.exit('huggingface_hub' in sys.modules)"

    assert 0 == subprocess.run([sys.executable, "-c", code], check=False).returncode
