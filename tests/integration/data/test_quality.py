"""The gates over real data, run by Great Expectations, and what the report says."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.support.data_track import ACTOR, FOREIGN_NAMES, numbered, origin, write_tree

from pretrain_archive.data.globs import Filter
from pretrain_archive.data.processing.applying import Applier, apply_steps
from pretrain_archive.data.quality.asking import files_at
from pretrain_archive.data.quality.check import Compared, check_quality, record_quality
from pretrain_archive.data.quality.labels import read_definition
from pretrain_archive.data.quality.sensitive.settings import KINDS
from pretrain_archive.data.quality.suite import Limits
from pretrain_archive.data.sources import resolve_source
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.policy import Quality, parse_policy
from pretrain_archive.ledger.canonical import canonical_bytes

RUN = "run_0198c0de-0000-7000-8000-000000000000"
PROSE = b"A line of words that is like no other line, numbered %d.\n"
NO_DOCUMENTS = "nothing was checked: no documents in 1 files"
NO_FILES = "nothing was checked: no documents in 0 files"
NO_RULES = "nothing was checked: the suite has no rules"
CLEAN = {b"books/%03d.txt" % i: PROSE % i for i in range(100)}


def strict(text: str | bytes):
    """Parse JSON; NaN and Infinity are errors."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def gates(result) -> dict[str, tuple[bool, object]]:
    """Whether each gate passed, and what it observed."""
    return {gate.name: (gate.passed, gate.observed) for gate in result.payload.gates}


@pytest.mark.requirement("R045", "R046", "R047", "R049")
def test_clean_data_passes_every_gate(store, snap, ledger, tmp_path):
    """All gates pass; report and record tell what was observed and rest on the snapshot."""
    made = snap(store, write_tree(tmp_path / "in", CLEAN))
    result = check_quality(store, snapshot=made, limits=Limits(mixture=(("books", 1.0, 0.0),)))
    payload = record_quality(ledger, result, actor=ACTOR, origin=origin(), stream=RUN)

    assert (True, "", 100, 0, 0, []) == (
        payload.passed, payload.reason, payload.documents, payload.exact_duplicates, payload.near_duplicates,
        payload.warnings,
    )  # fmt: skip
    assert {
        "documents": (True, 100.0),
        "format": (True, 0.0),
        "empty": (True, 0.0),
        "oversized": (True, 0.0),
        "exact_duplicates": (True, 0.0),
        "near_duplicates": (True, 0.0),
        "cleanliness": (True, 0.0),
        "secrets": (True, 0.0),
        "identity_numbers": (True, 0.0),
        "personal_data": (True, 0.0),
        "mixture:books": (True, 1.0),
    } == gates(result)
    assert ("standard", "1") == (payload.suite_name, payload.suite_version)
    key = f"reports/sha256/{payload.report_digest[7:9]}/{payload.report_digest[7:]}.json"
    with store.open(key) as stream:
        assert result.report == strict(stream.read())
    assert store.location(key) == payload.report_uri
    for digest, end, raw in (
        (payload.html_digest, "html", result.page),
        (payload.validation_digest, "json", canonical_bytes(result.validation)),
    ):
        with store.open(f"reports/sha256/{digest[7:9]}/{digest[7:]}.{end}") as stream:
            assert raw == stream.read()
        assert digest == "sha256:" + hashlib.sha256(raw).hexdigest()
    (record,) = ledger.records(kinds=["quality.reported"])
    assert {
        f"quality:{payload.report_digest} was_derived_from snapshot:corpus@1",
        f"run:{RUN} used quality:{payload.report_digest}",
    } == {f"{edge.subject} {edge.relation.value} {edge.object}" for edge in record.edges}


@pytest.mark.parametrize(
    ("more", "limits", "name", "observed"),
    [
        pytest.param({b"x/bad.txt": b"\xff"}, {}, "format", 1 / 101, id="format"),
        pytest.param(
            {b"x/%d.txt" % i: PROSE % i for i in range(25)}, {}, "exact_duplicates", 25 / 125, id="duplicates"
        ),
        pytest.param({b"x/%d" % i: b"\0%d" % i for i in range(25)}, {}, "format", 25 / 125, id="binary"),
        pytest.param(
            {b"x/%d" % i: b"\x01%d" % i for i in range(25)}, {}, "cleanliness", 25 / 125, id="control"
        ),
        pytest.param(
            {b"x/r%d" % i: b"the same %d\n" % i * 200 for i in range(25)},
            {},
            "cleanliness",
            0.2,
            id="repeats",
        ),
        pytest.param(
            {b"x/n%d" % i: b"%d " % i * 700 for i in range(25)}, {}, "cleanliness", 0.2, id="few letters"
        ),
        pytest.param({}, {"min_documents": 101}, "documents", 100.0, id="too few"),
        pytest.param({}, {"mixture": (("books", 0.5, 0.4),)}, "mixture:books", 1.0, id="too large a share"),
        pytest.param({}, {"mixture": (("web", 0.5, 0.4),)}, "mixture:web", 0.0, id="a missing domain"),
    ],
)
def test_each_gate_fails_on_its_own_fault(tmp_path, more, limits, name, observed):
    """One planted fault fails one gate, by the rate that was planted."""
    root = write_tree(tmp_path, CLEAN | more)
    result = check_quality(None, path=root, limits=Limits(**limits))

    assert (False, f"failed: {name}") == (result.payload.passed, result.payload.reason)
    blocking = {gate.name for gate in result.payload.gates if gate.severity == "blocking"}
    assert [name] == [gate for gate, (passed, _) in gates(result).items() if not passed and gate in blocking]
    assert observed == pytest.approx(gates(result)[name][1])


@pytest.mark.parametrize("count", [42, 43])
def test_a_limit_is_met_exactly(tmp_path, count):
    """A rate equal to its limit passes, one document more fails."""
    files = {b"%03d" % i: PROSE % max(i, count) for i in range(101)}
    result = check_quality(
        None, path=write_tree(tmp_path, files), limits=Limits(max_exact_duplicate_rate=42 / 101)
    )

    assert count == result.payload.exact_duplicates
    assert (count == 42) is result.payload.passed


def test_the_limits_of_a_policy():
    """The project's policy file sets the limits; a mixture without tolerance is named."""
    raw = (Path(__file__).parents[3] / "dags/policies/demo.toml").read_bytes()
    limits = Limits.of(parse_policy(raw, name="demo.toml").policy.data)
    assert ((".", 0.55, 0.05), ("encodings", 0.03, 0.02)) == limits.mixture
    assert (50, 0.05, 0.02, 0.0) == (
        limits.min_documents, limits.max_exact_duplicate_rate, limits.max_unclean_rate, limits.max_format_error_rate
    )  # fmt: skip
    broken = parse_policy(raw.replace(b'"." = [0.55, 0.05]', b'"." = [0.5]'), name="demo.toml").policy.data
    with pytest.raises(InputError, match=r"data\.mixture\.\.: is not a share and a tolerance"):
        Limits.of(broken)


@pytest.mark.case("Q01")
@pytest.mark.requirement("R046")
def test_bad_lines_are_told_by_file_line_and_reason(tmp_path):
    """Cut and foreign lines are counted and placed, the rest is used, and no text is repeated."""
    rows = [b'{"id":%d,"text":"covert %d"}' % (i, i) for i in range(3)]
    root = write_tree(
        tmp_path,
        {
            b"good.jsonl": b"\n".join(rows) + b"\n",
            b"noeol.jsonl": b"\n".join(rows).replace(b"covert", b"others"),
            b"cut.jsonl": b"\n".join([rows[0], rows[1], rows[2][:14]]),
            b"mixed.jsonl": rows[0] + b"\n[1,2]\n7\nnull\n\n" + rows[1] + b"\n",
        },
    )
    result = check_quality(None, path=root, limits=Limits(max_exact_duplicate_rate=1))

    assert (10, 4) == (result.payload.documents, result.report["format_errors"])
    assert [("cut.jsonl", 3), ("mixed.jsonl", 2), ("mixed.jsonl", 3), ("mixed.jsonl", 4)] == [
        (fault["file"], fault["line"]) for fault in result.report["examples"]["format_errors"]
    ]
    assert (False, pytest.approx(4 / 14)) == gates(result)["format"]
    assert "covert" not in json.dumps(result.report) + result.page.decode()
    wide = Limits(max_exact_duplicate_rate=1, max_format_error_rate=0.3)
    assert check_quality(None, path=root, limits=wide).payload.passed


@pytest.mark.case("Q07")
@pytest.mark.parametrize(
    ("files", "options", "reason"),
    [
        pytest.param({b"zero.jsonl": b""}, {}, NO_DOCUMENTS, id="zero bytes"),
        pytest.param({b"h.csv": b"id,text\n"}, {}, NO_DOCUMENTS, id="header only"),
        pytest.param({b"e.txt": b""}, {}, NO_DOCUMENTS, id="empty text"),
        pytest.param({b"r.jsonl": b'{"text":"a"}\n'}, {"suite": "[]"}, NO_RULES, id="no rules"),
        pytest.param({b"a.txt": b"a"}, {"include": ["*.none"]}, NO_FILES, id="no shard"),
        pytest.param({b"b.txt": b"\xff"}, {}, NO_DOCUMENTS, id="only broken"),
    ],
)  # fmt: skip
def test_nothing_checked_has_failed(files, tmp_path, options, reason, ledger):
    """No documents or no rules is a failure with its reason, in the payload, the report and the ledger."""
    root = write_tree(tmp_path / "in", files)
    suite = options.pop("suite", None)
    if suite is not None:
        options["suite_file"] = tmp_path / "rules.json"
        options["suite_file"].write_text(suite)
    result = check_quality(None, path=root, limits=Limits(max_format_error_rate=1), **options)

    assert (False, reason) == (result.payload.passed, result.payload.reason)
    assert not [gate for gate in result.payload.gates if gate.passed]
    assert (False, reason) == (result.report["passed"], strict(json.dumps(result.to_json()))["reason"])
    assert not record_quality(ledger, result, actor=ACTOR, origin=origin(), stream=RUN).passed


@pytest.mark.case("Q13")
def test_a_suite_of_ones_own(tmp_path):
    """A file of expectations replaces the gates; what cannot be judged has failed, in strict JSON."""
    root = write_tree(tmp_path / "in", CLEAN)
    rules = [
        {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "lines", "max_value": 2}},
        {"type": "expect_column_values_to_be_between", "kwargs": {"column": "bytes", "max_value": 10}},
        {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "path", "max_value": 2}},
    ]
    file = tmp_path / "suite.json"
    file.write_text(json.dumps({"name": "mine", "expectations": rules}))
    result = check_quality(None, path=root, limits=Limits(), suite_file=file)

    assert [True, False, False] == [gate.passed for gate in result.payload.gates]
    assert [1.0, 1.0] == [gate.observed for gate in result.payload.gates[:2]]
    assert "suite.json" == result.payload.suite_name
    assert 0 < len(strict(json.dumps(result.to_json()))["gates"][2]["detail"]) <= 300
    assert ["near_duplicates", "mixture", result.payload.gates[2].name] == result.report["not_checked"]
    assert not result.payload.gates[2].checked


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("[", "cannot be read as JSON", id="not JSON"),
        pytest.param("7", "is not a list of expectations", id="no list"),
        pytest.param("[{}]", "expectation 0 has no type", id="no type"),
        pytest.param(
            '[{"type":"expect_nothing_at_all"}]', "not an expectation that can be used", id="unknown type"
        ),
    ],
)
def test_a_bad_suite_is_refused(tmp_path, text, fault):
    """A suite that cannot be used is an error that names the fault."""
    (tmp_path / "suite.json").write_text(text)

    with pytest.raises(InputError, match=fault):
        check_quality(
            None, path=write_tree(tmp_path / "in", CLEAN), limits=Limits(), suite_file=tmp_path / "suite.json"
        )


@pytest.mark.parametrize("mode", ["copy", "reference"])
def test_foreign_names_and_equal_reports(files, snap, tmp_path, mode):
    """Names that are not UTF-8 are told escaped; the same data gives the same report."""
    made = snap(
        files, write_tree(tmp_path / "in", numbered(FOREIGN_NAMES) | {b"\xff/d": b"file 0\n"}), mode=mode
    )
    results = [check_quality(files, snapshot=made, limits=Limits()) for _ in range(2)]

    assert results[0].payload == results[1].payload
    (twin,) = results[0].report["examples"]["exact_duplicates"]
    assert ("%FF/d", "bad%FF%FE.txt") == (twin["file"], twin["same_as"]["file"])
    assert 3 == len(list(files.list("reports/")))


def test_the_processed_standard_library_passes_the_demo_policy(files, snap, ledger):
    """The real input of the demo after its steps: every blocking gate passes, and no advice is left."""
    source = resolve_source("python:stdlib")
    made = snap(files, source.tree, include=list(source.include), exclude=list(source.exclude))
    raw = (Path(__file__).parents[3] / "dags/policies/demo.toml").read_bytes()
    data = parse_policy(raw, name="demo.toml").policy.data
    applier = Applier(ledger=ledger, actor=ACTOR, origin=origin(), stream="data/demo", project="demo")
    steps = [step for step in data.steps if step.kind != "split"]
    last = apply_steps(files, made, steps, applier, name="corpus")[-1].snapshot
    result = check_quality(files, snapshot=last, limits=Limits.of(data), quality=data.quality)

    assert (True, "", []) == (result.payload.passed, result.payload.reason, result.payload.warnings)
    assert last.file_count == result.payload.documents + result.report["empty_documents"]
    assert "code" == result.report["suite"]["profile"]


def test_the_library_sends_and_leaves_nothing(tmp_path):
    """A check opens no connection and leaves no file in the folder for temporary files or at home."""
    write_tree(tmp_path / "in", CLEAN)
    for name in ("tmp", "home"):
        (tmp_path / name).mkdir()
    code = """
import socket, sys
def refuse(*address, **_):
    print("connection to", address, flush=True)
    raise OSError("no network")
# Names are looked up first: without a network that is as far as a message gets.
socket.socket.connect = socket.getaddrinfo = refuse
from pretrain_archive.data.quality.check import check_quality
from pretrain_archive.data.quality.suite import Limits
print(check_quality(None, path=sys.argv[1], limits=Limits()).payload.passed)
"""
    environment = os.environ | {"TMPDIR": str(tmp_path / "tmp"), "HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "in"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert "True\n" == done.stdout
    assert ([], []) == tuple(list((tmp_path / name).rglob("*")) for name in ("tmp", "home"))


SCORES = b"id,score\n1,1.0\n2,nan\n3,inf\n4,-inf\n"


@pytest.mark.case("Q13")
def test_numbers_that_are_not_finite_fail_every_rule(tmp_path):
    """NaN is missing, infinity is out of range: mean, maximum and range fail, in strict JSON and on the page."""
    (tmp_path / "score.csv").write_bytes(SCORES)
    rules = [
        {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "score", "min_value": 0}},
        {"type": "expect_column_max_to_be_between", "kwargs": {"column": "score", "max_value": 10}},
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": "score", "min_value": 0, "max_value": 10},
        },
        {"type": "expect_column_values_to_be_between", "kwargs": {"column": "score", "min_value": -1e9}},
    ]
    (tmp_path / "rules.json").write_text(json.dumps(rules))
    result = check_quality(
        None, path=tmp_path / "score.csv", limits=Limits(), suite_file=tmp_path / "rules.json"
    )
    report = strict(json.dumps(result.report))

    assert [False] * 4 == [gate["passed"] for gate in report["gates"]]
    assert [True] * 4 == [gate["checked"] for gate in report["gates"]]
    assert ["nan", "inf"] == [gate["observed"] for gate in report["gates"][:2]]
    assert [(1, 3, 2), (1, 3, 2)] == [
        (gate["missing"], gate["judged"], gate["unexpected"]) for gate in report["gates"][2:]
    ]
    kept = strict(json.dumps(result.validation))["results"]
    (highest,) = [one for one in kept if one["type"] == "expect_column_max_to_be_between"]
    assert {"value": "inf", "not_finite": True} == highest["batches"][0]["result"]["observed_value"]
    assert b"not finite" in result.page


@pytest.mark.case("Q07")
def test_a_field_that_no_record_has_is_not_checked(tmp_path):
    """A rule over a column that is nowhere is no pass, also where everything else passes."""
    (tmp_path / "a.jsonl").write_bytes(b'{"text":"some words"}\n')
    rules = [
        {"type": "expect_column_values_to_be_between", "kwargs": {"column": "scroe", "min_value": 0}},
        {"type": "expect_column_values_to_be_between", "kwargs": {"column": "bytes", "min_value": 1}},
    ]
    (tmp_path / "rules.json").write_text(json.dumps(rules))
    result = check_quality(
        None, path=tmp_path / "a.jsonl", limits=Limits(), suite_file=tmp_path / "rules.json"
    )

    assert [(False, False), (True, True)] == [(g.passed, g.checked) for g in result.payload.gates]
    assert not result.payload.passed


@pytest.mark.case("Q07")
def test_a_filter_that_matches_nothing_is_not_checked(tmp_path):
    """A rule whose condition takes no document has judged nothing."""
    suite = """
[[rule]]
id = "letters"
gate = "own"
table = "documents"
column = "alphabetic_ratio"
type = "expect_column_values_to_be_between"
kwargs = { min_value = 0 }
where = { column = "bytes", min = 1000000 }
"""
    (tmp_path / "suite.toml").write_text(suite)
    root = write_tree(tmp_path / "in", CLEAN)
    result = check_quality(None, path=root, limits=Limits(), suite_file=tmp_path / "suite.toml")

    assert (False, "failed: letters") == (result.payload.passed, result.payload.reason)
    assert not result.payload.gates[0].checked


def words(number: int, *, changed: int = 0) -> str:
    """A text of 120 words of its own; of two with the same number, ``changed`` words at the end differ."""
    chance = random.Random(number)
    made = ["".join(chance.choices("abcdefghij", k=6)) for _ in range(120)]
    return " ".join(made[: 120 - changed] + [f"other{n}" for n in range(changed)])


def lines(texts, **fields) -> bytes:
    """JSON Lines of texts."""
    return b"".join(json.dumps({"text": text} | fields).encode() + b"\n" for text in texts)


@pytest.mark.requirement("R045", "R061")
def test_near_duplicates_and_contamination_are_counted_and_led_back(tmp_path):
    """Documents nearly in a benchmark or twice in the data are counted apart, and their shards are named."""
    data = write_tree(
        tmp_path / "in",
        {
            b"web/a.jsonl": lines(words(n) for n in range(40)),
            b"web/b.jsonl": lines([*(words(n, changed=3) for n in range(5)), words(7), words(99, changed=2)]),
        },
    )
    exam = write_tree(tmp_path / "exam", {b"e.jsonl": lines([words(99), words(3), words(500)])})
    quality = Quality(benchmarks={"exam": str(exam)}, severities={"near_duplicates": "blocking"})
    result = check_quality(None, path=data, limits=Limits(max_exact_duplicate_rate=1), quality=quality)

    assert (47, 1, 5, 3) == (
        result.payload.documents, result.payload.exact_duplicates, result.payload.near_duplicates,
        result.payload.contamination,
    )  # fmt: skip
    assert ["benchmark_items", "benchmarks", "near_duplicates"] == sorted(
        result.payload.reason.removeprefix("failed: ").split(", ")
    )
    blamed = result.report["contributors"]
    assert ([["web/b.jsonl", 5]], [["web", 5]]) == (
        blamed["near_duplicates"]["shards"], blamed["near_duplicates"]["domains"]
    )  # fmt: skip
    assert {"web/a.jsonl": 1, "web/b.jsonl": 2} == dict(blamed["benchmarks"]["shards"])
    assert [
        {"name": "exam", "of": 3, "documents": 3, "exact": 1, "items": 2, "rare_items": 2, "tested": 3}
    ] == result.report["contamination"]
    assert words(3)[:12] not in json.dumps(result.report) + result.page.decode()


@pytest.mark.requirement("R045")
@pytest.mark.parametrize(("unit", "observed"), [("tokens", 2 / 3), ("bytes", 200 / 1100)])
def test_a_mixture_counts_tokens_or_bytes(tmp_path, unit, observed):
    """A domain that a record declares holds its share of the policy's unit; a domain of no declaration is told."""
    few, long = lines(["x " * 100], domain="few"), lines(["z" * 17 + " "] * 50, domain="long")
    data = write_tree(tmp_path, {b"a.jsonl": few + long})
    quality = Quality(mixture_unit=unit, limits={"mixture_undeclared": 0.1})
    limits = Limits(mixture=(("few", observed, 0.001),), by_rule=quality.limits)
    result = check_quality(None, path=data, limits=limits, quality=quality)

    assert (True, pytest.approx(observed)) == gates(result)["mixture:few"]
    assert (False, pytest.approx(1 - observed)) == gates(result)["mixture_undeclared"]
    assert [None] == [row["declared"] for row in result.report["domains"] if row["domain"] == "long"]


def test_sensitive_content_is_counted_by_kind(tmp_path):
    """Addresses are advice, a secret stops the data; neither stands in the report."""
    key = "ghp_" + "".join(random.Random(5).choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123456789", k=36))
    letters = {b"x/%d.txt" % n: b"write to someone%d@mail-of-mine.net" % n for n in range(25)}
    root = write_tree(tmp_path, CLEAN | letters)
    advice = check_quality(None, path=root, limits=Limits())
    (root / "x" / "key.txt").write_text(f"token = '{key}'")
    blocked = check_quality(None, path=root, limits=Limits())

    assert (True, ["personal_data"], 25) == (
        advice.payload.passed, advice.payload.warnings, advice.report["sensitive"]["email"]
    )  # fmt: skip
    assert "failed: secrets" == blocked.payload.reason
    assert [["x/key.txt", 1]] == blocked.report["contributors"]["secrets"]["shards"]
    for text in (key, "mail-of-mine"):
        assert text not in json.dumps(blocked.report) + blocked.page.decode()


def test_labels_are_held_against_their_definition(tmp_path):
    """A label that the definition does not know fails; without a definition nothing is asked, and that is told."""
    good, odd = lines(map(words, range(9)), label="good"), lines([words(9)], label="odd")
    data = write_tree(tmp_path, {b"a.jsonl": good + odd})
    definition = read_definition(b"name='l'\nversion='1'\n[labels]\ngood='fine'\n", name="l.toml")
    held = check_quality(None, path=data, limits=Limits(), compared=Compared(labels=definition))
    free = check_quality(None, path=data, limits=Limits())

    assert (False, 0.1) == gates(held)["labels"]
    assert "labels" not in gates(free)
    assert {"name": "labels", "reason": "no_labels"} in free.report["not_asked"]


@pytest.mark.parametrize(("declared", "passed"), [("en", True), ("de", False)])
def test_a_declared_language_is_checked(tmp_path, declared, passed):
    """Documents in another language than they declare are counted."""
    text = (
        "The wind of the north and the sun were arguing about which of them was the stronger one of the two. "
    )
    data = write_tree(tmp_path, {b"a.jsonl": lines([text + str(n) for n in range(20)], language=declared)})
    result = check_quality(None, path=data, limits=Limits())

    assert passed == gates(result)["language_mismatch"][0]
    assert {"en": 20} == result.report["languages"]


def test_languages_of_a_policy(tmp_path):
    """A policy's languages are what documents may be written in."""
    text = "Der Nordwind und die Sonne stritten darum, wer von ihnen beiden wohl der Stärkere wäre. "
    data = write_tree(tmp_path, {b"%d.txt" % n: (text + str(n)).encode() for n in range(20)})
    result = check_quality(None, path=data, limits=Limits(), quality=Quality(languages=["en", "zh"]))

    assert (False, 1.0) == gates(result)["languages"]
    assert "languages" in result.payload.warnings


@pytest.mark.requirement("R061")
def test_what_moved_since_the_parent(files, snap, tmp_path):
    """Against the parent's report the gates that moved are told, with the domains that moved them."""
    root = write_tree(tmp_path / "in", CLEAN)
    first = check_quality(files, snapshot=snap(files, root), limits=Limits(max_unclean_rate=1))
    write_tree(root, {b"late/%d.txt" % n: b"\x01 control %d" % n for n in range(10)})
    second = check_quality(
        files,
        snapshot=snap(files, root),
        limits=Limits(max_unclean_rate=1),
        compared=Compared(before=first.report),
    )
    moved = {one["name"]: one for one in second.report["moved"]["gates"]}

    assert "corpus@1" == second.report["moved"]["snapshot"]
    assert (0.0, 10 / 110, [["late", 10]]) == (
        moved["cleanliness"]["before"], moved["cleanliness"]["now"], moved["cleanliness"]["domains"]
    )  # fmt: skip
    assert {"cleanliness", "documents"} == set(moved)


def test_training_documents_in_the_validation_part(tmp_path):
    """Validation documents that equal, or nearly equal, a training document are counted once each."""
    data = [words(n) for n in range(20)] + [words(3), words(4, changed=3)]
    held = [words(3), words(4), words(5), words(6)]
    root = write_tree(tmp_path / "in", {b"a.jsonl": lines(data)})
    part = write_tree(tmp_path / "held", {b"v.jsonl": lines(held)})
    compared = Compared(validation=files_at(part, Filter())[1])
    result = check_quality(None, path=root, limits=Limits(max_exact_duplicate_rate=1), compared=compared)

    assert (False, 0.5) == gates(result)["validation_overlap"]
    assert "validation_overlap" in result.payload.warnings


def test_a_killed_check_goes_on(tmp_path):
    """With a working folder a second check takes over what was measured and says the same."""
    root = write_tree(tmp_path / "in", CLEAN)
    first, second = (
        check_quality(None, path=root, limits=Limits(), work=tmp_path / "work") for _ in range(2)
    )

    assert first.payload == second.payload
    assert list((tmp_path / "work" / "scan").rglob("*.parquet"))


KEYS = {"passed", "documents", "exact_duplicates", "near_duplicates", "gates"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param([], 0, id="passed"),
        pytest.param(["--exclude", "*"], 1, id="nothing checked"),
        pytest.param(["--suite", "nowhere.json"], 2, id="no suite"),
        pytest.param(["--benchmark", "exam"], 2, id="no benchmark's path"),
    ],
)
def test_the_command(tmp_path, arguments, code):
    """One JSON document with the agreed keys, a page where one is asked for, and the exit code of the outcome."""
    root = write_tree(tmp_path / "in", CLEAN)
    program = "import sys; from pretrain_archive.cli import main; sys.argv[0] = 'pretrain-archive'; main()"
    asked = ["quality", "check", root, "--json", "--report", tmp_path / "r.html", *arguments]
    done = subprocess.run(
        [sys.executable, "-c", program, *asked],
        capture_output=True,
        text=True,
        check=False,
    )
    document = strict(done.stdout)

    assert code == done.returncode
    if code == 2:
        assert {"code", "message", "hint"} == set(document["error"])
        return
    assert set(document) >= KEYS
    assert (code == 0) is document["passed"]
    assert {"name", "passed", "observed", "limit", "severity"} <= set(document["gates"][0])
    assert (100 if code == 0 else 0) == document["documents"]
    assert b"<!doctype html>" in (tmp_path / "r.html").read_bytes()


@pytest.mark.requirement("R045")
def test_policy_says_what_is_sensitive(files, tmp_path):
    """Kinds that are not looked for and allowed texts are no findings; the report tells both, and no pattern."""
    words = (
        b"Write to anna.berg@example.org or help@ourproject.org; the host is 81.2.69.160 and nothing else.\n"
    )
    write_tree(tmp_path / "in", {b"a/%d.txt" % n: PROSE % n + words for n in range(3)})

    def found(**fields):
        result = check_quality(files, path=tmp_path / "in", limits=Limits(), quality=Quality(**fields))
        assert b"How sure the detector is" in result.page
        return result.report

    everything = found()
    less = found(sensitive_allow=[r"help@ourproject\.org"], sensitive_kinds=["email", "secret"])

    assert (6, 3) == (everything["sensitive"]["email"], everything["sensitive"]["ipv4"])
    assert ({"email": 3, "secret": 0}, ["email", "secret"], 1) == (
        less["sensitive"], less["settings"]["sensitive"]["kinds"], less["settings"]["sensitive"]["allow"]
    )  # fmt: skip
    assert b"ourproject" not in canonical_bytes(less)
    # A rule over kinds of which none was looked for has no answer, which is no pass.
    [identity] = [gate for gate in less["gates"] if gate["name"] == "identity_numbers"]
    assert (False, False) == (identity["checked"], identity["passed"])


def test_policy_names_every_kind():
    """What a policy may look for is what the detector knows."""
    assert KINDS == tuple(Quality().sensitive_kinds)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        pytest.param({"sensitive_kinds": ["emial"]}, "sensitive_kinds", id="a kind that is none"),
        pytest.param({"sensitive_kinds": []}, "sensitive_kinds", id="nothing"),
        pytest.param(
            {"sensitive_allow": ["ok", "a(b"]}, "pattern 2 is no regular expression", id="expression"
        ),
        pytest.param({"forbidden_terms": [" "]}, "a term is blank", id="a blank term"),
    ],
)
def test_policy_with_a_slip(fields, told):
    """What cannot be looked for is refused with the policy, not while data are read."""
    with pytest.raises(ValidationError, match=told):
        Quality(**fields)


@pytest.mark.requirement("R045")
def test_benchmark_item_within_a_long_document(tmp_path):
    """A question that stands in the middle of a long document is found, which no twin would tell; it blocks."""
    item = words(5000)
    data = write_tree(
        tmp_path / "in", {b"a.jsonl": lines([words(1) + " " + item + " " + words(2), words(3)])}
    )
    exam = write_tree(tmp_path / "exam", {b"e.jsonl": lines([item, words(9000)])})
    clean = write_tree(tmp_path / "clean", {b"a.jsonl": lines([words(1), words(3)])})
    quality = Quality(benchmarks={"exam": str(exam)})
    found, none = (
        check_quality(None, path=folder, limits=Limits(), quality=quality) for folder in (data, clean)
    )

    assert [(0, 1, 2)] == [(s["documents"], s["items"], s["tested"]) for s in found.report["contamination"]]
    assert ((False, 1), (True, 0)) == (gates(found)["benchmark_items"], gates(none)["benchmark_items"])
    assert (True, 0) == gates(found)["benchmarks"]


@pytest.mark.case("Q07")
@pytest.mark.parametrize(
    ("row", "unanswered"),
    [
        pytest.param(
            b'{"question":"nothing is read of this"}\n', {"benchmarks", "benchmark_items"}, id="no text"
        ),
        pytest.param(b'{"text":"too short to look for"}\n', {"benchmark_items"}, id="short items"),
    ],
)
def test_benchmark_that_was_not_compared_is_no_pass(tmp_path, row, unanswered):
    """A set of which nothing can be read, or whose items are all too short, leaves its gate without an answer."""
    data = write_tree(tmp_path / "in", {b"a.jsonl": lines([words(1), words(3)])})
    exam = write_tree(tmp_path / "exam", {b"e.jsonl": row})
    result = check_quality(None, path=data, limits=Limits(), quality=Quality(benchmarks={"exam": str(exam)}))

    told = {gate.name for gate in result.payload.gates if "contamination" == gate.family and not gate.checked}
    assert unanswered == told
    assert not result.payload.passed


@pytest.mark.requirement("R061")
def test_progress_knows_the_total_of_a_folder(tmp_path):
    """Also where no snapshot tells how much there is, the time that is left can be told."""
    told: list[tuple[int, int]] = []

    class Watching:
        """A progress that takes totals."""

        def expect(self, files: int, size: int) -> None:
            """Take the total."""
            told.append((files, size))

        def __call__(self, files: int, size: int) -> None:
            """Take what is done."""
            told.append((files, size))

    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_bytes(lines([name]))
    check_quality(None, path=str(tmp_path), limits=Limits(), progress=Watching())

    assert (2, 2 * len(lines(["a"]))) == told[0] == told[-1]
