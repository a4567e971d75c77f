"""Results of lm-evaluation-harness: typed, never believed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.lm_eval_result import lm_eval_result

from pretrain_archive.artifacts import metric_files
from pretrain_archive.artifacts.intervals import normal, wilson
from pretrain_archive.artifacts.metric_files import RepeatedMetricError
from pretrain_archive.artifacts.metrics import Reading, flag_code, read_output
from pretrain_archive.artifacts.suites import load_suite
from pretrain_archive.domain.errors import InputError


def read(document: dict[str, Any] | None = None, **changes: Any) -> Reading:
    """Read a result as it lies on disk."""
    raw = json.dumps(document or lm_eval_result(**changes)).encode()
    return read_output(metric_files.parse(raw, where="results.json"), where="results.json")


def changed(task: str, **values: Any) -> dict[str, Any]:
    """The result with other values of a task."""
    document = lm_eval_result()
    document["results"][task] |= values
    return document


@pytest.mark.requirement("R117")
def test_every_metric_has_task_value_direction_samples_and_interval() -> None:
    """Names are by task, a filter other than none is part of the name, and no flag stands."""
    metrics = {m.name: m for m in read().metrics}

    assert set(metrics) == {
        "odd_one_out.acc", "odd_one_out.acc_norm", "capital_cities.acc", "sums.exact_match,strict-match",
        "sums.exact_match,flexible-extract", "held_out_text.word_perplexity", "held_out_text.bits_per_byte",
        "knowledge.acc",
    }  # fmt: skip
    acc = metrics["odd_one_out.acc"]
    assert (0.62, 0.0344, 200, "higher", "share", "wilson") == (
        acc.value, acc.stderr, acc.samples, acc.direction, acc.unit, acc.interval,
    )  # fmt: skip
    assert wilson(0.62, 200) == (acc.low, acc.high)
    words = metrics["held_out_text.word_perplexity"]
    assert ("lower", "perplexity", None, "") == (words.direction, words.unit, words.low, words.interval)
    assert () == read().flags


def test_a_mean_over_tasks_is_no_count() -> None:
    """A group's interval comes from its standard error: of tasks of different size no share of counts is left."""
    [group] = [m for m in read().metrics if m.name == "knowledge.acc"]

    assert ("mean share", "normal", 300) == (group.unit, group.interval, group.samples)
    assert normal(0.68, 0.0266) == (group.low, group.high)


def test_definition_leaves_out_what_names_the_model() -> None:
    """Another model with the same settings has the same definition; other shots, limits or versions have not."""
    first = read().definition
    other = lm_eval_result(model_name="b/model", date=1.0, total_evaluation_time_seconds="9")
    for config in other["configs"].values():
        config["metadata"] = {"version": 1.0, "pretrained": "b/model"}
    other["config"]["model_args"] = {"pretrained": "b/model"}

    assert first == read(other).definition
    assert first != read(**{"n-shot": dict.fromkeys(lm_eval_result()["n-shot"], 5)}).definition
    assert first != read(config=lm_eval_result()["config"] | {"limit": 10}).definition
    assert first != read(git_hash="fedcba9").definition


def test_data_are_named_by_the_hashes_of_their_samples() -> None:
    """Groups are no data set of their own; without a hash for every task there is no digest."""
    reading = read()

    assert "lm-evaluation-harness: capital_cities, held_out_text, odd_one_out, sums" == reading.data_set
    assert str(reading.data_set_digest).startswith("sha256:")
    assert read(task_hashes={"sums": "0" * 64}).data_set_digest is None
    assert read(task_hashes={}).data_set_digest is None
    assert (
        reading.data_set_digest
        != read(task_hashes=dict.fromkeys(lm_eval_result()["task_hashes"], "f")).data_set_digest
    )


@pytest.mark.requirement("R121", "R123")
def test_a_limit_is_told_as_a_limit() -> None:
    """Samples that were left out are part of the reach."""
    counts = lm_eval_result()["n-samples"] | {"sums": {"original": 1000, "effective": 50}}
    reading = read(**{"n-samples": counts, "config": lm_eval_result()["config"] | {"limit": 50}})

    assert ("only the first samples of each task: limit 50", "sums: 50 of 1000 samples") == reading.limits


@pytest.mark.parametrize(
    ("document", "flag"),
    [
        pytest.param(changed("sums", **{"exact_match,strict-match": float("nan")}),
                     "not_finite: sums.exact_match,strict-match is nan", id="nan"),
        pytest.param(changed("sums", **{"exact_match_stderr,strict-match": float("nan")}),
                     "not_finite: the standard error of sums.exact_match,strict-match is nan", id="nan error"),
        pytest.param(changed("sums", **{"exact_match_stderr,strict-match": -1}),
                     "contradictory: the standard error of sums.exact_match,strict-match is -1", id="negative error"),
        pytest.param(changed("sums", **{"exact_match,strict-match": "N/A"}),
                     "no_value: sums.exact_match,strict-match is 'N/A'", id="not measured"),
        pytest.param(changed("sums", **{"exact_match,strict-match": None}),
                     "no_value: sums.exact_match,strict-match is None", id="null"),
        pytest.param(changed("sums", **{"exact_match,strict-match": 1.2}),
                     "contradictory: sums.exact_match,strict-match is 1.2, outside what share can be", id="above one"),
        pytest.param(lm_eval_result(**{"n-samples": {"sums": {"original": 5, "effective": 50}}}),
                     "contradictory: sums counts 50 of 5 samples", id="more than there are"),
        pytest.param(lm_eval_result(higher_is_better={}),
                     "no_direction: sums.exact_match,strict-match does not say whether lower or higher is better",
                     id="no direction"),
        pytest.param(lm_eval_result(results={}, groups={}), "no_value: the result holds no metric", id="empty"),
    ],
)  # fmt: skip
def test_doubts_are_flagged(document: dict[str, Any], flag: str) -> None:
    """Each names task and metric."""
    assert flag in read(document).flags


def test_no_counts_are_flagged() -> None:
    """Without any count a change cannot be explained."""
    document = lm_eval_result(**{"n-samples": {}})
    for values in document["results"].values():
        values.pop("sample_len")
        values.pop("sample_count", None)

    assert {"no_samples"} == {flag_code(flag) for flag in read(document).flags}


def test_a_group_without_a_count_has_those_of_its_tasks() -> None:
    """Older releases count tasks alone; a task without a count, or a group within itself, leaves it unrecorded."""
    document = lm_eval_result()
    document["results"]["knowledge"] = {"acc,none": 0.68}
    samples = {m.name: m.samples for m in read(document).metrics}
    assert 300 == samples["knowledge.acc"]

    document["group_subtasks"]["knowledge"] = ["odd_one_out", "knowledge"]
    assert "no_samples: knowledge.acc" in read(document).flags


@pytest.mark.case("E03")
def test_a_group_that_says_two_things_is_refused() -> None:
    """A group stands among results and among groups: two values are named."""
    with pytest.raises(RepeatedMetricError, match=r"knowledge\.acc,none given twice: 0.68, 0.93"):
        read(groups={"knowledge": {"acc,none": 0.93}})


def test_two_spellings_of_a_metric_are_refused() -> None:
    """``acc`` of before the filters and ``acc,none`` of after are one metric."""
    with pytest.raises(RepeatedMetricError, match=r"sums\.acc given twice: 0.1, 0.2"):
        read(lm_eval_result(results={"sums": {"acc,none": 0.1, "acc": 0.2}}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({"results": {"sums": 3}}, "sums", id="task is a number"),
        pytest.param({"results": {"sums": {"acc,none": "high"}}}, "expected a number", id="value is a text"),
        pytest.param({"n-samples": [1]}, "n-samples", id="counts are a list"),
        pytest.param({"configs": "x"}, "configs", id="configs are a text"),
    ],
)
def test_what_cannot_be_read_is_named(changes: dict[str, Any], words: str) -> None:
    """Field and fault."""
    with pytest.raises(InputError, match=words):
        read(**changes)


@pytest.mark.requirement("R122")
def test_a_suite_finds_its_metrics_by_task_and_filter() -> None:
    """``task.exact_match,filter`` and ``task.acc`` are accuracy of question answering."""
    raw = json.dumps(lm_eval_result()).encode()
    suites = (load_suite("question-answering-1"),)

    reading = read_output(metric_files.parse(raw, where="r"), where="r", suites=suites)

    defined = {m.name: m.defined_by for m in reading.metrics}
    assert "question-answering-1@1/accuracy" == defined["capital_cities.acc"]
    assert "question-answering-1@1/accuracy" == defined["sums.exact_match,strict-match"]
    assert "" == defined["held_out_text.bits_per_byte"]


def test_a_group_without_an_aggregate_of_its_own_has_no_metric() -> None:
    """The harness writes a blank under a blank for it."""
    document = lm_eval_result()
    document["results"]["bundle"] = {" ": " ", "alias": "bundle"}
    document["group_subtasks"]["bundle"] = ["sums"]

    assert [m.name for m in read().metrics] == [m.name for m in read(document).metrics]
    assert () == read(document).flags
