"""Suites: declared definitions by objective, with a digest that a change cannot hide from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pretrain_archive.artifacts import metric_files
from pretrain_archive.artifacts.evaluation_report import suite_flags
from pretrain_archive.artifacts.metrics import read_output
from pretrain_archive.artifacts.reading import Reading
from pretrain_archive.artifacts.suites import (
    Definitions,
    load_suite,
    parse_suite,
    shipped_names,
    suite_digest,
    used,
)
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.policy_evaluation import Suite

OWN = """
name = "own"
objective = "arithmetic"
[[metrics]]
name = "sums"
unit = "share"
direction = "higher"
required = true
aliases = ["additions"]
"""


@pytest.mark.requirement("R122")
@pytest.mark.parametrize(
    ("name", "objective", "metrics"),
    [
        ("question-answering-1", "question answering", {"accuracy", "recall", "factuality", "refusal"}),
        ("code-1", "code", {"executability", "pass_rate", "errors"}),
        ("dialogue-1", "dialogue", {"safety", "consistency", "helpfulness", "human_feedback"}),
        ("language-modelling-1", "language modelling", {"perplexity", "bits_per_byte"}),
    ],
)
def test_each_objective_has_a_suite_that_comes_with_the_program(
    name: str, objective: str, metrics: set[str]
) -> None:
    """Each metric has unit, direction and the question that it answers."""
    suite = load_suite(name)

    assert (name, objective) == (suite.name, suite.objective)
    assert metrics <= {metric.name for metric in suite.metrics}
    assert all(metric.unit and metric.question for metric in suite.metrics)
    assert name in shipped_names()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"version": "2"}, id="version"),
        pytest.param({"data_set_digest": "sha256:" + "d" * 64}, id="data"),
        pytest.param({"metrics": [{"name": "sums", "unit": "share", "direction": "lower"}]}, id="direction"),
        pytest.param({"metrics": [{"name": "sums", "unit": "percent", "direction": "higher"}]}, id="unit"),
    ],
)
def test_any_change_of_a_suite_changes_its_digest(change: dict[str, Any]) -> None:
    """Also what looks small."""
    suite = parse_suite(OWN.encode(), where="own.toml")
    other = Suite.model_validate(suite.model_dump() | change)

    assert suite_digest(suite) != suite_digest(other)
    assert used(suite).digest == suite_digest(suite)


def test_a_suite_is_found_in_the_policy_then_shipped_then_as_a_file(tmp_path: Path) -> None:
    """A project's own definition wins; a file lies beside the policy, in TOML or JSON."""
    suite = parse_suite(OWN.encode(), where="own.toml")
    mine = suite.model_copy(update={"name": "code-1"})
    (tmp_path / "own.toml").write_text(OWN)
    (tmp_path / "own.json").write_text(json.dumps(suite.model_dump(mode="json")))

    assert mine == load_suite("code-1", definitions=[mine])
    assert suite == load_suite("own.toml", folder=tmp_path) == load_suite("own.json", folder=tmp_path)


@pytest.mark.parametrize(
    ("name", "raw", "words"),
    [
        pytest.param("nothing", b"", "is not known", id="unknown"),
        pytest.param("missing.toml", None, "cannot be read", id="missing"),
        pytest.param("a.toml", b"name = ", "cannot be read", id="not TOML"),
        pytest.param("a.json", b'{"name": "a", "name": "b"}', "given twice: 'a', 'b'", id="key twice"),
        pytest.param("a.json", b"[1]\n[2]", "cannot be read", id="lines"),
        pytest.param("a.toml", OWN.replace("share", "").encode(), "metrics.0.unit", id="no unit"),
        pytest.param(
            "a.toml", OWN.replace("higher", "up").encode(), "metrics.0.direction", id="no direction"
        ),
        pytest.param("a.toml", (OWN + "more = 1\n").encode(), "more", id="unknown key"),
        pytest.param(
            "a.toml", OWN.replace("additions", "sums").encode(), "stands for two metrics", id="alias twice"
        ),
    ],
)
def test_a_suite_that_cannot_be_used_is_named(
    tmp_path: Path, name: str, raw: bytes | None, words: str
) -> None:
    """Field and fault, with the known names."""
    if raw:
        (tmp_path / name).write_bytes(raw)

    with pytest.raises(InputError, match=words):
        load_suite(name, folder=tmp_path)


def test_a_suite_file_that_is_not_there_says_where_it_was_looked_for(tmp_path: Path) -> None:
    """The folder is that of the policies, not the one in which the command was given."""
    with pytest.raises(InputError) as raised:
        load_suite("mine/own.toml", folder=tmp_path)

    assert f"Looked for at {tmp_path / 'mine/own.toml'}" in raised.value.hint
    assert "begins at the folder of the policies" in raised.value.hint


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("accuracy", "accuracy"), ("acc", "accuracy"), ("task.acc", "accuracy"), ("task.acc,none", "accuracy"),
        ("run/task.acc", "accuracy"), ("errors.syntax", "errors"), ("humaneval.errors.timeout", "errors"),
        ("pass@1", "pass_rate"), ("accuracies", None), ("acc.x", None), ("recall.syntax", None),
    ],
)  # fmt: skip
def test_a_metric_is_found_by_the_names_that_programs_use(name: str, metric: str | None) -> None:
    """With its task before it, a filter behind it, or as a part of a breakdown; never by likeness."""
    found = Definitions(suites=(load_suite("question-answering-1"), load_suite("code-1"))).of(name)

    assert metric == (found[1].name if found else None)


def reading_of(**values: float) -> Reading:
    """A flat output held to question answering."""
    raw = json.dumps(values).encode()
    return read_output(
        metric_files.parse(raw, where="m"), where="m", suites=(load_suite("question-answering-1"),)
    )


def test_a_definition_gives_unit_and_direction() -> None:
    """A flat file says neither; the suite says both, and that it did."""
    [metric] = reading_of(exact_match=0.5).metrics

    assert ("share", "higher", "question-answering-1@1/accuracy") == (
        metric.unit,
        metric.direction,
        metric.defined_by,
    )


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        pytest.param({"unit": "percent"}, "has unit percent, its definition says share", id="unit"),
        pytest.param(
            {"direction": "lower"}, "has direction lower, its definition says higher", id="direction"
        ),
    ],
)
def test_what_contradicts_the_definition_is_flagged(entry: dict[str, Any], words: str) -> None:
    """The program's own word does not replace what was declared."""
    document = {"metrics": [{"name": "acc", "value": 0.5, "samples": 10, **entry}]}
    parsed = metric_files.parse(json.dumps(document).encode(), where="m")

    flags = read_output(parsed, where="m", suites=(load_suite("question-answering-1"),)).flags

    assert f"contradictory: acc {words}" in flags


def test_what_a_suite_demands_and_the_output_has_not_is_flagged() -> None:
    """A required metric, any metric at all, and the declared data set."""
    suite = parse_suite(OWN.encode(), where="own.toml").model_copy(
        update={"data_set_digest": "sha256:" + "a" * 64}
    )
    code = load_suite("code-1")
    flags = suite_flags(reading_of(exact_match=0.5), [suite, code])

    assert "missing_metric: own@1/sums was not measured" in flags
    assert "missing_metric: nothing of suite code-1 was measured" in flags
    assert any(flag.startswith("definition_differs: suite own has the data_set_digest") for flag in flags)
    assert [] == suite_flags(reading_of(exact_match=0.5), [load_suite("question-answering-1")])
