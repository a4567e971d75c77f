"""Evaluations: what is not a finite, single, comparable number never passes."""

from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.artifact_files import write_checkpoint
from tests.unit.artifacts.conftest import RUN

from pretrain_archive.artifacts import metric_files
from pretrain_archive.artifacts.evaluation import record_evaluation
from pretrain_archive.artifacts.intervals import wilson
from pretrain_archive.artifacts.metric_files import RepeatedMetricError
from pretrain_archive.artifacts.metrics import BaselineFile, Supplement, flag_code, read_output
from pretrain_archive.artifacts.outputs import read_files
from pretrain_archive.artifacts.registration import Claim, register_checkpoint
from pretrain_archive.artifacts.rules import BetterThanBaselines, Limit, rules_of
from pretrain_archive.domain.errors import CheckpointError, InputError
from pretrain_archive.domain.evaluations import direction_of
from pretrain_archive.domain.kinds import Purpose, RunOpened
from pretrain_archive.services.evaluation_table import table_of
from pretrain_archive.storage.files import FileStore

DIGEST = "sha256:" + "d" * 64
RULES = (
    Limit(metric="bits_per_byte", direction="lower", limit=4.0),
    BetterThanBaselines(metric="bits_per_byte", direction="lower"),
)


@pytest.fixture
def checkpoint(tmp_path, ledger, actor, origin):
    """A registered checkpoint."""
    claim = Claim(
        run_uid=RUN,
        attempt=1,
        step=100,
        tokens=None,
        snapshot="stdlib@1",
        configuration_digest="sha256:" + "c" * 64,
        responsible="alice",
    )
    return register_checkpoint(ledger, write_checkpoint(tmp_path, 100), claim, actor=actor, origin=origin)


@pytest.fixture
def evaluate(tmp_path, ledger, actor, origin, checkpoint):
    """Record an output (a document or raw text) under rules."""
    store = FileStore(tmp_path / "store")

    def run(output, rules=RULES, **more):
        path = tmp_path / "evaluation.json"
        path.write_text(output if isinstance(output, str) else json.dumps(output))
        return record_evaluation(
            ledger,
            store,
            run_uid=RUN,
            checkpoint=checkpoint,
            output=path,
            rules=rules,
            actor=actor,
            origin=origin,
            **more,
        )

    run.store = store
    return run


def bits(value, **more):
    """The demo's metric."""
    known = {
        "name": "bits_per_byte",
        "unit": "bits per byte",
        "direction": "lower",
        "value": value,
        "samples": 500,
    }
    return {**known, **more}


def output(value=2.5, **more):
    """What the training program's evaluation writes."""
    known = {
        "metrics": [bits(value)],
        "baselines": [
            {
                "name": "untrained",
                "kind": "untrained model",
                "subject_digest": DIGEST,
                "metrics": [bits(8.1)],
            },
            {"name": "trigram", "kind": "n-gram model", "subject_digest": DIGEST, "metrics": [bits(3.4)]},
        ],
        "definition": {"window": 256, "metric": "bits_per_byte"},
        "data_set": "stdlib@1 validation",
        "data_set_digest": DIGEST,
    }
    return {**known, **more}


@pytest.mark.requirement("R117", "R119")
def test_a_good_evaluation_passes_and_its_report_is_stored(evaluate, ledger, checkpoint):
    """Every rule is on record with what was observed; the report holds the same, in strict JSON."""
    fact = evaluate(output())

    assert (True, []) == (fact.passed, fact.flags)
    assert [(2.5, 4.0, True), (2.5, 3.4, True)] == [
        (r["observed"], r["limit"], r["passed"]) for r in fact.rules
    ]
    key = f"runs/{RUN}/evaluations/{fact.evaluation_id}/report.json"
    report = json.loads(evaluate.store.open(key).read(), parse_constant=pytest.fail)
    assert (fact.passed, checkpoint.digest) == (report["passed"], report["checkpoint_digest"])
    assert "used" in {edge.relation.value for edge in ledger.log[-1].edges}


def test_the_same_output_again_is_the_same_evaluation(evaluate, ledger):
    """A retry adds nothing."""
    assert evaluate(output()) == evaluate(output(), ordinal=1)
    assert 1 == sum(record.kind == "evaluation.reported" for record in ledger.log)


@pytest.mark.case("E01")
def test_numbers_that_are_not_finite_fail(evaluate):
    """NaN, Infinity and 1e999 fail their rules and are stored as what they are, f1 passes, the whole fails."""
    normal = metric_files.parse(b'{"loss": 2.1, "acc": 0.6, "ppl": 9.0, "f1": 0.7}', where="baseline.json")
    rules = (
        Limit(metric="loss", direction="lower", limit=2.0),
        BetterThanBaselines(metric="acc", direction="higher", allow_equal=True),
        Limit(metric="ppl", direction="lower", limit=1e300),
        Limit(metric="f1", direction="higher", limit=0.5),
    )
    extra = Supplement(
        data_set="held out",
        data_set_digest=DIGEST,
        definition={"harness": "1"},
        baselines=(BaselineFile(name="old", kind="previous version", subject_digest=DIGEST, parsed=normal),),
    )

    fact = evaluate('{"loss": NaN, "acc": Infinity, "ppl": 1e999, "f1": 0.8}\n', rules=rules, extra=extra)

    assert [False, False, False, True] == [rule["passed"] for rule in fact.rules]
    assert all("not a finite number" in rule["reason"] for rule in fact.rules[:3])
    assert {"loss": (None, "nan"), "acc": (None, "inf"), "ppl": (None, "inf"), "f1": (0.8, "")} == {
        metric.name: (metric.value, metric.not_finite) for metric in fact.metrics
    }
    assert not fact.passed
    assert "not_finite" in map(flag_code, fact.flags)
    assert "NaN" not in json.dumps(fact.to_json())


@pytest.mark.requirement("R120", "R121")
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        pytest.param({"baselines": []}, "no_baseline", id="no baseline"),
        pytest.param({"metrics": [bits(2.5, samples=None)]}, "no_samples", id="no samples"),
        pytest.param({"metrics": [bits(2.5, samples=0)]}, "no_samples", id="zero samples"),
        pytest.param(
            {"metrics": [bits(2.5), bits(2.5, name="x", direction=None)]}, "no_direction", id="no direction"
        ),
        pytest.param({"metrics": [bits(-1.0)]}, "contradictory", id="below what the unit can be"),
        pytest.param(
            {"metrics": [bits(2.5, direction="higher")]}, "contradictory", id="direction against the rule"
        ),
        pytest.param(
            {"metrics": [bits(2.5, unit="nats")]}, "contradictory", id="another unit than the baseline"
        ),
        pytest.param({"metrics": [bits(2.5, low=2.6, high=2.7)]}, "contradictory", id="outside its interval"),
        pytest.param({"definition": {}}, "definition_differs", id="no definition"),
        pytest.param({"definition": {"window": 8}}, "definition_differs", id="another definition"),
    ],
)
def test_no_flag_passes_silently(evaluate, changes, code):
    """Each doubt is named and stops the pass, whatever the rules say."""
    fact = evaluate(output(**changes), expected_definition={"window": 256, "metric": "bits_per_byte"})

    assert code in map(flag_code, fact.flags)
    assert not fact.passed


@pytest.mark.parametrize("digest", ["checkpoint", "file"])
def test_a_baseline_that_is_the_candidate_is_flagged(evaluate, checkpoint, digest):
    """Neither the checkpoint's digest nor that of one of its files is another model."""
    weights = next(f.sha256 for f in checkpoint.files if f.path == "model.safetensors")
    own = checkpoint.digest if digest == "checkpoint" else f"sha256:{weights}"
    twin = {"name": "twin", "kind": "previous version", "subject_digest": own, "metrics": [bits(3.0)]}

    fact = evaluate(output(baselines=[twin]))

    assert ["baseline_same_as_candidate: twin", "no_baseline: no effect can be claimed"] == fact.flags
    assert [(False, "is the candidate itself")] == [(b.counted, b.reason) for b in fact.baselines]
    assert not fact.passed


def test_two_definitions_in_one_run_are_flagged(evaluate):
    """Numbers that were measured otherwise cannot be compared."""
    evaluate(output())

    second = evaluate(output(definition={"window": 8}), ordinal=1)

    assert ["definition_differs"] == [flag_code(flag) for flag in second.flags]


def test_a_baseline_measured_on_other_data_is_flagged(evaluate):
    """A baseline that names another data set is no comparison."""
    other = output()
    other["baselines"][0]["data_set"] = "train"

    assert ["definition_differs: baseline untrained has another data_set"] == evaluate(other).flags


def test_without_rules_nothing_passes(evaluate):
    """Nothing checked is not passed."""
    assert not evaluate(output(), rules=()).passed


def test_a_tie_with_the_baseline_is_not_better(evaluate):
    """Better means better."""
    fact = evaluate(output(3.4))

    assert [True, False] == [rule["passed"] for rule in fact.rules]


def test_a_metric_that_was_not_measured_fails_its_rule(evaluate):
    """The rule says what is missing."""
    fact = evaluate(output(), rules=(Limit(metric="f1", direction="higher", limit=0.5),))

    assert ["f1 was not measured"] == [rule["reason"] for rule in fact.rules]
    assert not fact.passed


@pytest.mark.case("E03")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param('{"acc": 0.41, "loss": 2.0, "acc": 0.93}', "acc given twice: 0.41, 0.93", id="flat"),
        pytest.param('{"task": {"f1": 0.2, "f1": 0.9}}', "f1 given twice: 0.2, 0.9", id="nested"),
        pytest.param('{"acc": 0.5}\n{"acc": 0.7}\n', "acc given twice: 0.5, 0.7", id="lines"),
        pytest.param('{"acc": 0.5, "acc ": 0.7}', "acc given twice: 0.5, 0.7", id="blank"),
        pytest.param(
            json.dumps(output(metrics=[bits(2.5), bits(2.4)])), "given twice: 2.5, 2.4", id="listed"
        ),
        pytest.param(
            json.dumps(output(metrics=[bits(2.5), bits(2.4, name="bits_per_byte ")])),
            "bits_per_byte given twice: 2.5, 2.4",
            id="listed twin name",
        ),
    ],
)
def test_a_metric_given_twice_is_never_picked(evaluate, ledger, text, told):
    """File, key and both values are named; nothing is recorded."""
    with pytest.raises(RepeatedMetricError, match=re.escape(told)) as raised:
        evaluate(text)

    assert "evaluation.json" in str(raised.value)
    assert "repeated_metric" == flag_code(raised.value.flag)
    assert not any(record.kind == "evaluation.reported" for record in ledger.log)


@pytest.mark.case("E03")
def test_two_files_for_one_task_are_refused_unless_the_runs_are_named(tmp_path):
    """Both files and values are named; with named runs both numbers stand, each under its file."""
    folder = tmp_path / "results"
    folder.mkdir()
    for number, value in ((1, 0.5), (2, 0.7)):
        (folder / f"task_a_{number}.json").write_text(json.dumps({"task": "a", "acc": value}))

    with pytest.raises(
        RepeatedMetricError, match=r"task_a_1.json and task_a_2.json: a.acc given twice: 0.5, 0.7"
    ):
        read_files(folder)
    named = read_files(folder, runs="named").reading
    assert {"task_a_1/a.acc": 0.5, "task_a_2/a.acc": 0.7} == {m.name: m.value for m in named.metrics}


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        pytest.param("", "is empty", id="empty"),
        pytest.param("{", "not valid JSON", id="cut"),
        pytest.param('{"a": 1}\n{"b"', "line 2", id="cut line"),
        pytest.param('{"metrics": [{"name": "", "value": 1}]}', "metric name", id="no name"),
        pytest.param('{"metrics": [{"name": "a", "value": "1"}]}', "expected a number", id="text"),
        pytest.param('{"metrics": [{"name": "a", "value": true}]}', "expected a number", id="truth value"),
        pytest.param(
            '{"metrics": [{"name": "a", "value": 1, "direction": "up"}]}', "lower or higher", id="direction"
        ),
        pytest.param('{"metrics": [], "definition": 1}', "definition", id="definition"),
        pytest.param('{"metrics": [], "baselines": [{"kind": "x"}]}', "expected one of", id="baseline kind"),
        pytest.param(json.dumps(output(data_set=None)), "data_set", id="no data set"),
        pytest.param(json.dumps(output(data_set_digest="x")), "data_set_digest", id="no data digest"),
        pytest.param(
            '{"metrics": [{"name": "\\ud800", "value": 1}]}', "cannot be recorded", id="lone surrogate"
        ),
    ],
)
def test_an_output_that_cannot_be_read_is_named(evaluate, raw, words):
    """Field and fault; no record is made."""
    with pytest.raises(InputError, match=words):
        evaluate(raw)


def test_a_missing_output_is_named(ledger, tmp_path, checkpoint, actor, origin):
    """An evaluation that wrote nothing did not happen."""
    with pytest.raises(InputError, match="cannot be read"):
        record_evaluation(
            ledger,
            FileStore(tmp_path / "store"),
            run_uid=RUN,
            checkpoint=checkpoint,
            output=tmp_path / "none.json",
            rules=RULES,
            actor=actor,
            origin=origin,
        )


@pytest.mark.case("E07")
def test_a_checkpoint_that_vanished_stores_no_numbers(evaluate, ledger, tmp_path):
    """The numbers would belong to nothing."""
    for path in (tmp_path / "step_00000100").iterdir():
        path.unlink()

    with pytest.raises(CheckpointError, match="was removed"):
        evaluate(output())
    assert not any(record.kind == "evaluation.reported" for record in ledger.log)


def test_the_interval_is_that_of_wilson():
    """The published worked value, and the ends stay inside 0 and 1."""
    low, high = wilson(0.9, 10)  # 9 of 10: 0.596 to 0.982 (e.g. Brown, Cai, DasGupta 2001)

    assert (0.596, 0.982) == (round(low, 3), round(high, 3))
    assert 0.0 == wilson(0.0, 5)[0]
    assert 1.0 == wilson(1.0, 5)[1]


@given(share=st.floats(0, 1), samples=st.integers(1, 10**9))
def test_the_interval_holds_its_share(share, samples):
    """Low, share, high, in this order, within 0 and 1 (to the last digit)."""
    low, high = wilson(share, samples)

    assert 0 <= low <= share + 1e-12
    assert share - 1e-12 <= high <= 1


def test_counts_get_an_interval_and_other_units_none():
    """Only counts over counts are binomial."""
    raw = {"metrics": [{"name": "acc", "unit": "share", "value": 0.9, "samples": 10}, bits(2.0)]}
    reading = read_output(metric_files.parse(json.dumps(raw).encode(), where="m"), where="m")

    assert [True, False] == [metric.low is not None for metric in reading.metrics]


def test_an_interval_that_the_program_states_is_kept():
    """A bootstrap is the program's to compute."""
    raw = json.dumps({"metrics": [bits(2.0, low=1.9, high=2.2)]}).encode()

    metric = read_output(metric_files.parse(raw, where="m"), where="m").metrics[0]

    assert (1.9, 2.2) == (metric.low, metric.high)


@given(value=st.floats() | st.integers())
def test_a_number_is_finite_or_named(value):
    """Never both, never neither."""
    number, name = metric_files.finite(value)

    assert (number is None) == bool(name)
    assert number is None or math.isfinite(number)


@pytest.mark.parametrize(("conf", "count"), [({}, 2), ({"must_beat_baselines": False}, 1)])
def test_rules_come_from_the_request(conf, count):
    """The limit and, unless the request says no, the baselines."""
    opened = RunOpened(
        run_uid=RUN,
        project="demo",
        dag_id="d",
        dag_run_id="r",
        submitter="alice",
        purpose=Purpose(
            training_type="pre-training",
            objective="o",
            origin_class="open",
            intended_use="research",
            acceptance_metric="bits_per_byte",
            acceptance_limit=4.0,
        ),
        people={},
        policy_digest=DIGEST,
        policy_name="demo.toml",
        conf=conf,
        conf_digest=DIGEST,
    )

    assert count == len(rules_of(opened))
    assert RULES[:count] == rules_of(opened)


def test_a_direction_that_nobody_declared_is_not_shown_as_one(evaluate):
    """The flag and the column say the same."""
    fact = evaluate(output(metrics=[bits(2.5), bits(2.5, name="x", direction=None)]))

    assert [["bits_per_byte", "lower"], ["x", "not declared"]] == [
        [line.split()[0], line.rpartition("  ")[2]] for line in table_of(fact)[3:5]
    ]


def test_the_flag_of_a_named_run_names_its_metric(tmp_path):
    """With the file's name before the metric the flag is still about that metric."""
    (tmp_path / "first.json").write_text('{"acc": 0.5}')

    reading = read_files(tmp_path, runs="named").reading

    assert "first/acc" == reading.metrics[0].name
    assert direction_of(reading.flags, "first/acc", "higher") is None


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        pytest.param({"data_set": None}, "--data-set", id="name"),
        pytest.param({"data_set_digest": None}, "--data-digest", id="digest"),
    ],
)
def test_numbers_without_data_are_refused_with_the_remedy(evaluate, changes, option):
    """The option of the command that can say it stands in the hint."""
    with pytest.raises(InputError) as raised:
        evaluate(output(**changes))

    assert f"{option} " in f"{raised.value.hint} "
