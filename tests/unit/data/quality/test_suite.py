"""Suites as files, what a policy changes of them, and gates that never pass on nothing."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from pretrain_archive.data.quality.aggregates import Plan, Summary, is_aggregate, summarise, total
from pretrain_archive.data.quality.columns import histogram
from pretrain_archive.data.quality.judging.expectations import Answer, check_rules, strict, strict_number
from pretrain_archive.data.quality.judging.gates import gate_of
from pretrain_archive.data.quality.suite import Limits, Rule, Threshold, Where
from pretrain_archive.data.quality.suite_files import load_suite, read_suite
from pretrain_archive.data.quality.tables import document_columns
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.policy import parse_policy
from pretrain_archive.ledger.canonical import digest_of

BETWEEN = "expect_column_values_to_be_between"


def rule(**changes) -> Rule:
    """A rule over rows."""
    fields = {"id": "r", "gate": "own", "table": "documents", "expectation": BETWEEN, "column": "bytes"}
    return Rule(**fields | changes)


@pytest.mark.parametrize("profile", ["text", "code"])
def test_the_standard_suite_asks_for_what_is_measured(profile):
    """Each rule and threshold names a column that a scan or a sum gives; each heuristic tells its source."""
    suite = load_suite(profile=profile)

    assert ("standard", "1", profile) == (suite.name, suite.version, suite.profile)
    for one in suite.rules:
        known = one.column in document_columns() if one.table == "documents" else is_aggregate(one.column)
        assert known, one.id
    for threshold in suite.thresholds:
        assert threshold.column in document_columns(), threshold.id
        assert threshold.source, threshold.id
        assert threshold.where is None or threshold.where.column in document_columns()
    assert {"blocking", "advisory"} == {one.severity for one in suite.rules}


def test_profiles_differ_in_style_alone():
    """Damage is damage in prose and code; the published heuristics are for one of them."""
    text, code = (load_suite(profile=profile) for profile in ("text", "code"))

    assert text.rules == code.rules
    groups = ("cleanliness", "style")
    by_group = [{g: {t.id for t in s.thresholds if t.group == g} for g in groups} for s in (text, code)]
    assert by_group[0]["cleanliness"] == by_group[1]["cleanliness"]
    assert not by_group[0]["style"] & by_group[1]["style"]


def test_a_policy_sets_limits_and_severities():
    """Flat limits, limits by rule and severities change the suite, and with it its digest."""
    suite = load_suite()
    limits = Limits(
        max_unclean_rate=0.5, by_rule={"near_duplicates": 0.3}, severities={"near_duplicates": "blocking"}
    )
    changed = {one.id: one for one in limits.apply(suite).rules}

    assert (0.5, 0.3, "blocking") == (
        changed["cleanliness"].limit, changed["near_duplicates"].limit, changed["near_duplicates"].severity
    )  # fmt: skip
    assert changed["format"] == next(one for one in suite.rules if one.id == "format")
    assert digest_of(suite.to_dict()) != digest_of(limits.apply(suite).to_dict())


def test_an_unknown_limit_is_refused():
    """A misspelt rule would judge nothing: it is an error that lists what can be set."""
    with pytest.raises(
        InputError, match=r"is no rule of the suite \(got 'near_duplicate'\).*near_duplicates"
    ):
        Limits(by_rule={"near_duplicate": 0.3}).apply(load_suite())


def test_flat_limits_of_a_policy_are_those_of_the_suite():
    """What a policy without a quality section demands is what the gates are held against."""
    raw = (
        b"project = 'p'\n[people]\n" + b"".join(b"%s = 'a'\n" % n for n in (b"data_owner", b"model_owner",
        b"platform_owner", b"budget_owner", b"restore_owner", b"acceptance"))
        + b"[approvers]\nprepare = ['b']\nrun = ['b']\nclose = ['b']\nretention = ['b']\n"
        b"[gates]\ndeadline_hours = 1\ndecision_valid_hours = 1\n[quotas]\nmax_accelerators = 0\nmax_minutes = 1\n"
        b"[data]\nusage_scope = ['research']\nvalidation_fraction = 0.1\nmax_exact_duplicate_rate = 0.25\n"
        b"max_unclean_rate = 0.125\nmin_documents = 7\n[data.mixture]\na = [0.5, 0.1]\n"
    )  # fmt: skip
    suite = Limits.of(parse_policy(raw, name="p.toml").policy.data).apply(load_suite())
    limits = {one.id: one.limit for one in suite.rules}

    assert {"documents": 7, "exact_duplicates": 0.25, "cleanliness": 0.125, "format": 0.0} == {
        name: limits[name] for name in ("documents", "exact_duplicates", "cleanliness", "format")
    }
    assert "0.5 ± 0.1" == limits["mixture:a"]


ONE = "[[rule]]\nid='a'\ngate='g'\ntable='aggregates'\ncolumn='documents'\ntype='expect_column_min_to_be_between'\n"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("rule = 7", "rule is not a list of tables", id="no list"),
        pytest.param("[[rule]]\nid = 'a'", "rule a has no gate", id="no gate"),
        pytest.param("[[rule]]\nid='a'\ngate='g'\ntable='x'\ntype='t'", "table is 'x'", id="unknown table"),
        pytest.param(
            "[[rule]]\nid='a'\ngate='g'\ntable='documents'\ntype='t'\nlimt=1",
            "unknown key 'limt'",
            id="misspelt key",
        ),
        pytest.param(
            "[[rule]]\nid='a'\ngate='g'\ntable='documents'\ntype='t'\nseverity='high'",
            "severity is 'high'",
            id="unknown severity",
        ),
        pytest.param("format='x'\nrule=[]", "has the format 'x'", id="another format"),
        pytest.param("rule=[]\n[[threshold]]\nid='a'\ncolumn='bytes'", "neither min nor max", id="no end"),
        pytest.param(
            "rule=[]\n[[threshold]]\nid='a'\ncolumn='b'\nmax=1\n[[threshold]]\nid='a'\ncolumn='b'\nmax=2",
            "two entries with the id 'a'",
            id="twice",
        ),
        pytest.param("rule = [", "cannot be read as TOML", id="no TOML"),
        pytest.param(
            ONE + "limit_is='min'\nlimit=[1]", "rule a: limit is list, expected a number", id="no number"
        ),
        pytest.param(ONE + "limit_is='min'\nlimit='1'", "rule a: limit is str", id="a number as text"),
        pytest.param(ONE + "limit_is='min'\nlimit=true", "rule a: limit is bool", id="a truth value"),
        pytest.param(ONE + "limit_is='max'\nlimit=inf", "rule a: limit is inf", id="no finite limit"),
        pytest.param(ONE + "limit=1", "limit_is does not say", id="a limit of nothing"),
        pytest.param(ONE + "kwargs=3", "rule a: kwargs are no table", id="no table"),
        pytest.param(ONE + "needs='benchmark'", "needs is 'benchmark'", id="a need that nobody has"),
        pytest.param(ONE + "source=5", "rule a: source is no text", id="no text"),
        pytest.param(ONE + "profiles='text'", "a: profiles are no list", id="a text for a list"),
        pytest.param(
            ONE + "where={column='bytes', min='x'}", "a: where: min is str", id="a condition without a number"
        ),
        pytest.param(
            "rule=[]\n[[threshold]]\nid='a'\ncolumn='bytes'\nmax='x'",
            "threshold a: max is str",
            id="a text for an end",
        ),
    ],
)
def test_faults_of_a_suite_file(tmp_path, text, fault):
    """A suite that cannot be used is refused with its place."""
    (tmp_path / "s.toml").write_text(text)

    with pytest.raises(InputError, match=fault):
        read_suite(tmp_path / "s.toml")


@pytest.mark.parametrize(
    ("rules", "thresholds"),
    [
        pytest.param([{"column": "path", "kwargs": {"min_value": 1}}], [], id="a range of names"),
        pytest.param(
            [{"kwargs": {"min_value": 1}, "where": Where(column="label", min=1)}], [], id="a condition"
        ),
        pytest.param([], [{"column": "sha256", "max": 1}], id="a threshold for digests"),
        pytest.param(
            [], [{"column": "bytes", "max": 1, "where": Where(column="domain")}], id="its condition"
        ),
    ],
)
def test_a_range_of_texts_is_refused(rules, thresholds):
    """A text is neither below nor above a number: the suite is wrong, not the data."""
    with pytest.raises(InputError, match="which is no number"):
        check_rules([rule(**one) for one in rules], [Threshold(id="t", **one) for one in thresholds])


@pytest.mark.case("Q07")
@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        pytest.param({}, "neither min_value nor max_value", id="no end"),
        pytest.param(
            {"kwargs": {"min_value": None}}, "neither min_value nor max_value", id="an end that is none"
        ),
        pytest.param({"kwargs": {"max_value": float("nan")}}, "holds nan", id="an end that is no number"),
        pytest.param(
            {"limit": float("inf"), "limit_is": "max"}, "holds inf", id="a limit that bounds nothing"
        ),
        pytest.param(
            {"expectation": "expect_column_values_to_be_in_set", "kwargs": {"value_set": [float("nan")]}},
            "holds nan",
            id="a set with no number",
        ),
    ],
)
def test_a_rule_that_no_data_could_fail_is_refused(changes, fault):
    """The library lets a range without an end pass: such a rule is an error and never a gate."""
    with pytest.raises(InputError, match=fault):
        check_rules([rule(**changes)])


def test_an_unknown_suite_lists_the_known():
    """A name that is neither shipped nor a file tells what there is."""
    with pytest.raises(InputError, match="standard-1"):
        load_suite("standard-9")


@pytest.mark.case("Q07")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(None, "not_measured", id="no answer"),
        pytest.param({"rows": 0, "results": [{}]}, "nothing_matched", id="no row"),
        pytest.param({"rows": 5, "missing": 5, "results": [{}]}, "nothing_matched", id="only missing values"),
        pytest.param({"rows": 5, "error": "no such column"}, "not_judged", id="an error of the library"),
    ],
)
def test_nothing_judged_never_passes(answer, reason):
    """A gate without a judged row is not checked, and that is no pass."""
    asked = rule(limit=1.0, limit_is="share")
    gate = gate_of(asked, None if answer is None else Answer(rule=asked, **answer))

    assert (False, False, reason) == (gate["passed"], gate["checked"], gate["reason"])
    assert "not checked" in gate["detail"] or gate["error"]


@pytest.mark.case("Q07")
def test_a_column_of_no_batch_never_passes():
    """An expectation over a whole column that no frame was made for has no answer, and that is no pass."""
    asked = rule(expectation="expect_column_mean_to_be_between", kwargs={"min_value": 0})
    gate = gate_of(asked, Answer(rule=asked))

    assert (False, False, "nothing_matched") == (gate["passed"], gate["checked"], gate["reason"])


@pytest.mark.parametrize(("unexpected", "passed"), [(42, True), (43, False)])
def test_the_share_that_may_fail_is_met_exactly(unexpected, passed):
    """42 of 100 pass a limit of 0.42, one more does not."""
    asked = rule(limit=0.42, limit_is="share")
    gate = gate_of(asked, Answer(rule=asked, rows=100, unexpected=unexpected, results=[{}]))

    assert (passed, unexpected / 100) == (gate["passed"], gate["observed"])


@pytest.mark.case("Q13")
@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), np.float64("inf"), None])
def test_a_number_that_is_not_finite_is_within_no_limit(value):
    """Whatever the library says, an infinite or missing value of a column fails, in strict JSON."""
    asked = rule(table="aggregates", expectation="expect_column_max_to_be_between", limit=1, limit_is="min")
    gate = gate_of(asked, Answer(rule=asked, observed=value, success=True, results=[{}]))

    assert not gate["passed"]
    assert gate["observed"] in {"inf", "-inf", "nan"}
    json.dumps(gate, allow_nan=False)


@pytest.mark.parametrize(
    ("column", "form"),
    [
        pytest.param("exact_duplicate_rate", "share", id="a rate"),
        pytest.param("validation_overlap", "share", id="an overlap"),
        pytest.param("labels_largest_share", "share", id="a share"),
        pytest.param("contaminated_documents", "number", id="a count"),
    ],
)
def test_shares_are_told_in_per_cent(column, form):
    """An aggregate that is a share of documents is shown as one, a count as a number."""
    made = rule(
        table="aggregates", column=column, limit_is="max", expectation="expect_column_max_to_be_between"
    )

    assert form == gate_of(made, None)["form"]


def test_values_of_the_data_are_not_kept():
    """Of an answer numbers stay, a text becomes its type, and what is not finite says so."""
    assert [1.5, "str", {"value": "inf", "not_finite": True}, None, True] == [
        strict(value) for value in (1.5, "a secret", float("inf"), None, True)
    ]
    assert ["inf", 2.0] == [strict_number(value) for value in (np.inf, np.int64(2))]


def documents(rows: int = 1000) -> pa.Table:
    """Made-up statistics of documents with gaps and infinities."""
    chance = np.random.default_rng(7)
    ratio = chance.random(rows)
    ratio[::50] = np.inf
    return pa.table(
        {
            "path": pa.array([f"s{n % 7}" for n in range(rows)]),
            "domain": pa.array([f"d{n % 3}" for n in range(rows)]),
            "bytes": pa.array(chance.integers(0, 1 << 20, rows)),
            "tokens": pa.array(chance.integers(0, 1 << 10, rows)),
            "alphabetic_ratio": pa.array(ratio, mask=chance.random(rows) < 0.1),
            "sensitive_email": pa.array(chance.integers(0, 3, rows), pa.int32()),
            "duplicate": pa.array(chance.random(rows) < 0.2),
        }
    )


@pytest.mark.requirement("R061")
def test_parts_add_up_to_the_whole():
    """Sums of batches in any order, sent as JSON, are the sum of all: counts, distributions, and where faults lie."""
    table = documents()
    thresholds = (
        Threshold(id="few", column="alphabetic_ratio", min=0.2, where=Where(column="bytes", min=1000)),
        Threshold(id="tokens", column="tokens", max=900, group="style"),
    )
    rules = (rule(id="big", kwargs={"max_value": 1 << 19}),)
    plan = Plan(thresholds=thresholds, rules=rules, columns=frozenset(table.column_names))
    whole = summarise(table, plan)
    parts = [summarise(table.slice(begin, 130), plan) for begin in range(0, 1000, 130)]
    merged = total(Summary.from_json(json.loads(json.dumps(part.to_json()))) for part in reversed(parts))

    assert whole == merged
    size = table["bytes"].to_numpy()
    assert sum(whole.shards["big"].values()) == (size > 1 << 19).sum() == sum(whole.regions["big"].values())
    assert whole.sensitive["email"] == [
        table["sensitive_email"].to_numpy().sum(), (table["sensitive_email"].to_numpy() > 0).sum()
    ]  # fmt: skip
    assert 1000 == sum(whole.histograms["bytes"]) == sum(whole.histograms["alphabetic_ratio"])


@pytest.mark.case("Q07")
def test_a_document_that_was_not_searched_is_no_clean_one():
    """What was too long to be searched has no counts: it is no finding, and its share is held against the limit."""
    searched = {"sensitive_secret": [0, None, 0], "sensitive_email": [2, None, 0]}
    table = pa.table({"domain": ["."] * 3, "path": ["a", "b", "c"], "bytes": [9, 1 << 27, 9], **searched})
    found = summarise(table, Plan(thresholds=(), rules=(), columns=frozenset(table.column_names)))

    assert {"secret": [0, 0], "email": [2, 1]} == found.sensitive
    assert {"secrets": [1], "personal_data": [2]} == found.exposed


def test_histograms_tell_what_is_missing():
    """Bins by powers of two and by twentieths; missing and infinite values are counted beside them."""
    sizes = histogram(np.array([0, 1, 2, 3, 4, 1e300, np.nan, np.inf]), "size")
    shares = histogram(np.array([0.0, 0.05, 0.999, 1.0, 1.7, np.nan, -np.inf]), "ratio")

    assert ([1, 1, 2, 1], 1, 1, 1) == (sizes[:4], sizes[31], sizes[-2], sizes[-1])
    assert ([1, 1], 3, 1, 1) == (shares[:2], shares[19], shares[-2], shares[-1])
