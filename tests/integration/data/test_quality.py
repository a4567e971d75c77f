"""The gates over real data, run by Great Expectations, and what the report says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.data_track import ACTOR, FOREIGN_NAMES, numbered, origin, write_tree

from pretrain_archive.data.quality.check import check_quality, record_quality
from pretrain_archive.data.quality.suite import Limits
from pretrain_archive.data.sources import resolve_source
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.policy import parse_policy

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

    assert (True, "", 100, 0, None) == (
        payload.passed, payload.reason, payload.documents, payload.exact_duplicates, payload.near_duplicates
    )  # fmt: skip
    assert {
        "documents": (True, 100.0),
        "format": (True, 0.0),
        "exact_duplicates": (True, 0.0),
        "cleanliness": (True, 0.0),
        "mixture:books": (True, 1.0),
    } == gates(result)
    key = f"reports/sha256/{payload.report_digest[7:9]}/{payload.report_digest[7:]}.json"
    with store.open(key) as stream:
        assert result.report == strict(stream.read())
    assert store.location(key) == payload.report_uri
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
    assert [name] == [gate for gate, (passed, _) in gates(result).items() if not passed]
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
    assert ((".", 0.5, 0.4),) == limits.mixture
    assert (50, 0.05, 0.02, 0.0) == (
        limits.min_documents, limits.max_exact_duplicate_rate, limits.max_unclean_rate, limits.max_format_error_rate
    )  # fmt: skip
    broken = parse_policy(raw.replace(b'"." = [0.5, 0.4]', b'"." = [0.5]'), name="demo.toml").policy.data
    with pytest.raises(InputError, match=r"data\.mixture\.\.: is not a share and a tolerance"):
        Limits.of(broken)


@pytest.mark.case("Q01")
@pytest.mark.requirement("R046")
def test_bad_lines_are_told_by_file_line_and_reason(tmp_path):
    """Cut and foreign lines are counted and placed, the rest is used, and no text is repeated."""
    rows = [b'{"id":%d,"text":"words %d"}' % (i, i) for i in range(3)]
    root = write_tree(
        tmp_path,
        {
            b"good.jsonl": b"\n".join(rows) + b"\n",
            b"noeol.jsonl": b"\n".join(rows).replace(b"words", b"others"),
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
    assert "words" not in json.dumps(result.report)
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
    assert ["near_duplicates", "mixture"] == result.report["not_checked"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("[", "cannot be read as JSON", id="not JSON"),
        pytest.param("7", "is not a list of expectations", id="no list"),
        pytest.param("[{}]", "expectation 0 has no type", id="no type"),
        pytest.param(
            '[{"type":"expect_nothing_at_all"}]', "not an expectation that can be used", id="unknown type"
        ),
        pytest.param(
            '[{"type":"expect_column_max_to_be_between","kwargs":{"column":"byte"}}]',
            "names an unknown column",
            id="unknown column",
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
    assert 1 == len(list(files.list("reports/")))


def test_the_standard_library_passes_the_demo_policy(files, snap):
    """The real input of the demo: snapshot and check by the demo project's policy."""
    source = resolve_source("python:stdlib")
    made = snap(files, source.root, include=list(source.include), exclude=list(source.exclude))
    raw = (Path(__file__).parents[3] / "dags/policies/demo.toml").read_bytes()
    result = check_quality(
        files, snapshot=made, limits=Limits.of(parse_policy(raw, name="demo.toml").policy.data)
    )

    assert (True, "") == (result.payload.passed, result.payload.reason)
    assert made.file_count == result.payload.documents + result.report["empty_documents"]


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
