"""How the model was judged stands in the card and in the bill: intervals, flags, baselines, and what persons said."""

from __future__ import annotations

import json

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from tests.support.judged import SAMPLE, beside, judged_by_persons
from tests.support.released import released_view
from tests.unit.package.test_model_card import edited

from pretrain_archive.domain import kinds
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.package.bom import bom_document, write_bom
from pretrain_archive.package.model_card import write_model_card

OTHER = "sha256:" + "6" * 64

pytestmark = pytest.mark.requirement("R104", "R108", "R118")


@pytest.fixture(scope="module")
def view(tmp_path_factory) -> RunView:
    """A released run."""
    return released_view(tmp_path_factory.mktemp("released"))


def cards(view: RunView) -> tuple[str, str]:
    """The card in both languages."""
    english, chinese = (data.decode() for data in write_model_card(view).values())
    return english, chinese


def measured(view: RunView) -> dict[str, dict]:
    """The bill's performance metrics by type."""
    card = bom_document(view)["metadata"]["component"]["modelCard"]
    return {entry["type"]: entry for entry in card["quantitativeAnalysis"]["performanceMetrics"]}


def facts(view: RunView) -> dict[str, str]:
    """The properties of the bill's model card."""
    card = bom_document(view)["metadata"]["component"]["modelCard"]
    return {p["name"].removeprefix("pretrain-archive:"): p["value"] for p in card["properties"]}


def test_what_persons_said_stands_in_both_languages(view):
    """Reviewers, scale, scores with their interval, agreement, problems and what speaks against the numbers."""
    english, chinese = cards(judged_by_persons(view))

    for words in (
        "bob; carol", "11 of 12", "3: right; 1: wrong", "3: 20; 1: 2", "2.750 (95%: 2.500 … 3.000)",
        "- **Agreement**: 0.900", "0.800", "invented facts or sources | major | 1",
        "⚑ nothing says what is good enough",
    ):  # fmt: skip
        assert words in english
    for words in (
        "11 / 12",
        "3：正确; 1：错误",
        "评判内容。",
        "虚构事实或来源 | 严重 | 1",
        "⚑ 未规定合格标准",
    ):
        assert words in chinese


def test_what_persons_said_stands_in_the_bill(view):
    """Mean with its interval, agreement, kappa, and the flags; the document fits the schema."""
    judged = judged_by_persons(view)

    found = measured(judged)
    assert {"lowerBound": "2.5", "upperBound": "3.0"} == found["human evaluation: mean"]["confidenceInterval"]
    assert ("0.9", "0.8") == tuple(found[f"human evaluation: {n}"]["value"] for n in ("agreement", "kappa"))
    told = facts(judged)
    assert ("true", "no_threshold: no limit") == (
        told["human_evaluation_passed"],
        told["human_evaluation_flags"],
    )
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bom_document(judged))) is None


def test_pairs_are_told_as_won_and_lost(view):
    """Against the named baseline; without a decided item the rate is unrecorded."""
    pairs = {
        "mode": "pairs",
        "mean": None,
        "mean_low": None,
        "mean_high": None,
        "wins": 5,
        "ties": 2,
        "losses": 3,
    }
    english, _ = cards(judged_by_persons(view, **pairs, win_rate=0.625, win_low=0.3, win_high=0.86))

    assert "- **Compared with**: untrained" in english
    assert "5 / 2 / 3" in english
    assert "0.625 (95%: 0.300 … 0.860)" in english
    bare, _ = cards(judged_by_persons(view, **pairs | {"wins": 0, "losses": 0}))
    assert "- **Win rate of the decided**: *unrecorded* (nothing was won or lost)" in bare


def test_without_persons_it_is_unrecorded(view):
    """No evaluation, or one of another checkpoint's outputs: none of this model."""
    elsewhere = judged_by_persons(view, checkpoint_digest=OTHER)

    for case in (view, elsewhere):
        english, chinese = cards(case)
        assert "- **Result**: *unrecorded* (no evaluation of these bytes by persons is on record)" in english
        assert "没有针对该检查点的人工评估记录" in chinese
        assert "unrecorded" == facts(case)["human_evaluation"]
        assert [] == [name for name in measured(case) if name.startswith("human")]


def test_flags_and_baselines_stand_in_the_bill(view):
    """What speaks against a number, and what it was compared with, each by its digest."""
    report = view.latest(kinds.EvaluationReported)
    flagged = edited(view, kinds.EvaluationReported, flags=["few_samples: 3"])

    assert "few_samples: 3" == facts(flagged)["evaluation_flags"]
    assert "none" == facts(edited(view, kinds.EvaluationReported, flags=[]))["evaluation_flags"]
    for baseline in report.baselines:
        for metric in baseline.metrics:
            entry = measured(view)[f"baseline {baseline.name}: {metric.name}"]
            assert repr(metric.value) == entry["value"]
            assert baseline.subject_digest in entry["slice"]


def test_a_baseline_that_does_not_count_is_named_as_such(view):
    """In the card and in the bill, with its reason."""
    report = view.latest(kinds.EvaluationReported)
    baselines = [b.model_dump() | {"counted": False, "reason": "same bytes"} for b in report.baselines]
    hurt = edited(view, kinds.EvaluationReported, baselines=baselines)

    assert r"\[not counted: same bytes\]" in cards(hurt)[0]
    assert "not counted: same bytes" in json.dumps(measured(hurt))


def test_the_card_is_about_what_was_released(view):
    """A candidate that is named after the release, with another evaluation, changes no number of the card."""
    report, named = view.latest(kinds.EvaluationReported), view.latest(kinds.CandidateNamed)
    other = report.model_copy(
        update={"evaluation_id": "eval_x", "checkpoint_digest": OTHER, "data_set": "elsewhere"}
    )
    later = named.model_copy(
        update={"candidate_id": "cand_x", "evaluation_id": "eval_x", "checkpoint_digest": OTHER, "kept": True}
    )
    after = beside(view, other, later)

    head = write_model_card(after)["README.md"].split(b"---\n")[1]
    assert write_model_card(view)["README.md"].split(b"---\n")[1] == head
    assert "elsewhere" not in cards(after)[0]
    assert "elsewhere" not in json.dumps(measured(after))


def test_every_other_evaluation_of_the_bytes_is_listed(view):
    """By another program, or imported: in a table of its own, with its data set and what speaks against it."""
    report = view.latest(kinds.EvaluationReported)
    other = report.model_copy(
        update={
            "evaluation_id": "eval_y",
            "data_set": "a | b",
            "program": "harness",
            "flags": ["no_samples: x"],
        }
    )
    imported = other.model_copy(update={"evaluation_id": "eval_z", "imported": True, "program": ""})
    english, chinese = cards(beside(view, other, imported))

    assert r"| a \| b | harness | no\_samples: x |" in english
    assert r"| a \| b | measured elsewhere | no\_samples: x |" in english
    assert "| 在别处测量 |" in chinese
    assert "model-index" in english
    assert r"a | b" not in english.partition("---\n\n")[0]


HURT = "| x |\n## Licence\n---\n<script>alert(1)</script> [c](javascript:x) `\u202e\x1b \udc80"


def test_hostile_words_of_people_and_programs_stay_words(view):
    """Names, flags, notes, metrics: one line of text each, in the card and in the bill."""
    safe = HURT.encode("utf-8", "backslashreplace").decode()
    report = view.latest(kinds.EvaluationReported)
    metrics = [m.model_dump() | {"name": safe, "unit": safe} for m in report.metrics]
    hurt = judged_by_persons(
        edited(view, kinds.EvaluationReported, data_set=safe, flags=[safe], metrics=metrics),
        reviewers=[safe], flags=[safe], points={safe: 1},
    )  # fmt: skip
    english, _ = cards(hurt)

    body = english.partition("---\n\n")[2]
    assert cards(judged_by_persons(view))[0].count("\n## ") == body.count("\n## ")
    assert "<script" not in body
    assert "](javascript" not in body.replace("\\]", "")
    assert "\x1b" not in english
    assert (
        JsonStrictValidator(SchemaVersion.V1_6).validate_str(write_bom(hurt)["bom.cdx.json"].decode()) is None
    )


def licences(view: RunView) -> list[dict]:
    """The licences of the first data set."""
    return next(p for p in bom_document(view)["components"] if "licenses" in p)["licenses"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(
            {"licence_spdx": "MIT OR Apache-2.0"}, [{"expression": "MIT OR Apache-2.0"}], id="an expression"
        ),
        pytest.param(
            {"licence": "own | terms\n", "licence_spdx": None},
            [{"license": {"name": "own | terms"}}],
            id="a name",
        ),
        pytest.param(
            {"licence": "  ", "licence_spdx": None}, [{"license": {"name": "unrecorded"}}], id="nothing said"
        ),
    ],
)
def test_licences_of_the_data(view, changes, expected):
    """An expression only where every source has one."""
    assert expected == licences(edited(view, kinds.SourceRegistered, **changes))


def test_a_source_that_nobody_registered_makes_no_expression(view):
    """The others' licences are not those of the whole."""
    snapshot = view.latest(kinds.SnapshotCreated)
    more = snapshot.model_copy(update={"source_id": "src_unknown", "name": "more", "manifest_digest": SAMPLE})
    told = licences(beside(edited(view, kinds.SourceRegistered, licence_spdx="MIT"), more))

    assert [{"license": {"name": "MIT"}}, {"license": {"name": "unrecorded"}}] == told
