"""Result files that nobody vouches for: read whole, or refused with the reason."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretrain_archive.artifacts import metric_files
from pretrain_archive.artifacts.metric_files import RepeatedMetricError
from pretrain_archive.artifacts.metrics import read_output
from pretrain_archive.artifacts.outputs import read_files
from pretrain_archive.domain.errors import ArchiveError, InputError
from pretrain_archive.ledger.canonical import canonical_bytes

KEYS = st.text("abc. ,", min_size=1, max_size=4)
NUMBERS = st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(10**20), 10**20)
VALUES = NUMBERS | st.none() | st.booleans() | st.text(max_size=5)
DOCUMENTS = st.recursive(
    VALUES,
    lambda inner: st.dictionaries(KEYS, inner, max_size=4) | st.lists(inner, max_size=3),
    max_leaves=12,
)
BLOCKS = st.sampled_from([
    "results", "configs", "versions", "n-samples", "higher_is_better", "groups", "group_subtasks", "config",
    "task_hashes", "metrics", "baselines", "definition", "data_set", "limits", "step", "attempt", "task", "rules",
])  # fmt: skip


@given(st.dictionaries(BLOCKS | KEYS, DOCUMENTS, max_size=6))
def test_any_object_is_read_or_refused(document: dict[str, Any]) -> None:
    """Whatever stands in it: a reading whose values are finite or named and can be recorded, or a clear error."""
    raw = json.dumps(document).encode()
    try:
        reading = read_output(metric_files.parse(raw, where="m"), where="m")
    except ArchiveError as error:
        assert error.message  # noqa: PT017 - either outcome is right, a traceback is not
        return
    names = [metric.name for metric in reading.metrics]
    assert len(set(names)) == len(names)
    assert all((m.value is None) == bool(m.not_finite) for m in reading.metrics)
    canonical_bytes([metric.to_json() for metric in reading.metrics])


@given(st.lists(st.tuples(KEYS, st.integers(0, 9)), min_size=1, max_size=6))
def test_a_key_has_one_value_or_the_file_is_refused(pairs: list[tuple[str, int]]) -> None:
    """Duplicates are found for any keys, also where they differ by blanks alone; both values are told."""
    text = "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in pairs) + "}"
    names = [key.strip() for key, _ in pairs]
    blank = "" in names
    try:
        reading = read_output(metric_files.parse(text.encode(), where="m"), where="m")
    except RepeatedMetricError as error:
        assert len(set(names)) < len(names)
        assert "given twice: " in error.message  # noqa: PT017 - either outcome can be right
        return
    except InputError:
        assert blank
        return
    assert len(set(names)) == len(names) == len(reading.metrics)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    """No traceback for any file."""
    try:
        metric_files.parse(raw, where="m")
    except InputError as error:
        assert "m" in error.message  # noqa: PT017


@given(DOCUMENTS)
def test_strict_holds_no_number_that_json_cannot(value: Any) -> None:
    """NaN and infinity stand as their names, numbers beyond 2^53 as text."""
    made = metric_files.strict(value)

    assert made == json.loads(json.dumps(made, allow_nan=False))


@pytest.mark.parametrize("depth", [40, 900, 100_000])
def test_deep_nesting_is_refused(depth: int) -> None:
    """A file cannot exhaust the stack."""
    raw = b'{"a":' * depth + b"1" + b"}" * depth

    with pytest.raises(InputError, match=r"nested deeper|not valid JSON"):
        read_output(metric_files.parse(raw, where="m"), where="m")


def test_a_separator_inside_a_text_ends_no_line() -> None:
    """U+2028 and a form feed are legal in a JSON text: only a line feed ends a line."""
    raw = '{"a": 1, "note": "x\u2028y\u0085z"}\n{"b": 2}\n'.encode()

    assert (1, 2) == metric_files.parse(raw, where="m").lines


def test_a_number_as_text_and_a_null_are_told() -> None:
    """Neither is dropped."""
    with pytest.raises(InputError, match="acc: expected a number, found a text"):
        read_output(metric_files.parse(b'{"acc": "0.9"}', where="m"), where="m")
    reading = read_output(metric_files.parse(b'{"acc": null, "f1": 0.5}', where="m"), where="m")

    assert "no_value: acc is null" in reading.flags


def test_a_program_cannot_fix_its_own_limits() -> None:
    """Thresholds in an output decide nothing and are flagged."""
    raw = json.dumps({"metrics": [], "rules": [{"metric": "acc", "limit": 0}]}).encode()

    reading = read_output(metric_files.parse(raw, where="m"), where="m")
    assert "late_rule: the output carries rules of its own, which decide nothing" in reading.flags


def test_a_file_above_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No file is read beyond its bound."""
    monkeypatch.setattr(metric_files, "MAX_BYTES", 64)
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"a": "x" * 100}))

    with pytest.raises(InputError, match="at most 64 bytes"):
        metric_files.read(path)


def folder_of(tmp_path: Path, **files: Any) -> Path:
    """A folder of result files; ``__`` in a name stands for a dot."""
    folder = tmp_path / "results"
    folder.mkdir()
    for name, document in files.items():
        (folder / name.replace("__", ".")).write_text(
            document if isinstance(document, str) else json.dumps(document)
        )
    return folder


def test_several_files_are_one_result(tmp_path: Path) -> None:
    """Metrics of all files; a value that two files give alike is one; sample records are kept by digest."""
    first, second = {"acc": 0.5, "f1": 0.4}, {"acc": 0.5, "ppl": 9}
    folder = folder_of(
        tmp_path, a__json=first, b__json=second, samples_a__jsonl="{}\n", notes__txt="not a result"
    )

    output = read_files(folder)

    assert ["acc", "f1", "ppl"] == [m.name for m in output.reading.metrics]
    assert [("samples_a.jsonl", 3)] == [(s["name"], s["bytes"]) for s in output.samples]
    assert ["a.json", "b.json"] == [name for name, _ in output.files]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        pytest.param({}, "holds no result file", id="empty"),
        pytest.param({"a__json": '{"acc": 1', "b__json": {"f1": 1}}, "a.json", id="cut"),
        pytest.param(
            {"a__json": {"acc": float("nan")}, "b__json": {"acc": 1.0}}, "given twice: 'nan', 1.0", id="nan"
        ),
    ],
)
def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, files: dict[str, Any], words: str) -> None:
    """File and fault."""
    with pytest.raises(InputError, match=words):
        read_files(folder_of(tmp_path, **files))


def test_a_link_among_the_results_is_refused(tmp_path: Path) -> None:
    """What a link points to is not the program's output."""
    folder = folder_of(tmp_path)
    (tmp_path / "secret.json").write_text('{"acc": 1}')
    (folder / "a.json").symlink_to(tmp_path / "secret.json")

    with pytest.raises(InputError, match="cannot be read"):
        read_files(folder)


def test_finite_names_what_is_not() -> None:
    """A number beyond a double is infinite, a truth value is none."""
    assert (None, "inf") == metric_files.finite(10**400)
    assert (None, "-inf") == metric_files.finite(-math.inf)
    with pytest.raises(ValueError, match="expected a number"):
        metric_files.finite(True)  # noqa: FBT003 - the value itself


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"{}\n" * 1_100_000, id="lines"),
        pytest.param(b"[" + b"[]," * 2_100_000 + b"0]", id="lists"),
    ],
)
def test_a_file_of_too_many_values_is_refused_before_it_is_parsed(raw: bytes) -> None:
    """A few megabytes on disk would take gigabytes as objects."""
    with pytest.raises(InputError, match="at most 4000000 values on 1000000 lines"):
        metric_files.parse(raw, where="big.json")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        pytest.param({f"m{number}": number for number in range(10_001)}, "at most 10000 metrics", id="many"),
        pytest.param({"x" * 1001: 1}, "at most 1000 characters", id="long name"),
    ],
)
def test_what_no_record_should_hold_is_refused_while_it_is_read(document: dict[str, int], words: str) -> None:
    """All metrics stand in one record and in one table."""
    parsed = metric_files.parse(json.dumps(document).encode(), where="x.json")
    with pytest.raises(InputError, match=words):
        read_output(parsed, where="x.json")


def test_a_text_among_numbers_is_flagged() -> None:
    """What was not measured is not dropped; the name of a task, a model or a day is no metric."""
    raw = b'{"task": "sums", "model": "m1", "acc": "N/A", "deep": {"f1": "diverged"}, "loss": 1.5}'

    reading = read_output(metric_files.parse(raw, where="m"), where="m")

    unmeasured = [flag for flag in reading.flags if flag.startswith("no_value")]
    assert ["no_value: sums.acc is 'N/A'", "no_value: sums.deep.f1 is 'diverged'"] == sorted(unmeasured)
