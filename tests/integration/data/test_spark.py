"""The same suite on local Spark and on one machine: the same gates, counts and numbers."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from importlib.resources import files as package_files

import pytest
from tests.support.data_track import write_tree

from pretrain_archive.data.quality.check import QualityResult, check_quality
from pretrain_archive.data.quality.engines.spark_session import spark_session
from pretrain_archive.data.quality.suite import Limits
from pretrain_archive.domain.policy import Quality

EXTRA = """
[[rule]]
id = "letters_of_long_ones"
gate = "own"
table = "documents"
column = "alphabetic_ratio"
type = "expect_column_values_to_be_between"
kwargs = { min_value = 0.9 }
where = { column = "bytes", min = 700 }
limit = 0.5
limit_is = "share"

[[rule]]
id = "mean_size"
gate = "own"
table = "documents"
column = "bytes"
type = "expect_column_mean_to_be_between"
kwargs = { min_value = 1, max_value = 10 }

[[rule]]
id = "no_such_document"
gate = "own"
table = "documents"
column = "bytes"
type = "expect_column_values_to_be_between"
kwargs = { min_value = 0 }
where = { column = "bytes", min = 1000000000 }
severity = "advisory"
"""


def text(number: int, *, changed: int = 0) -> str:
    """A text of 90 to 120 words; of two with the same number, ``changed`` words at the end differ."""
    chance = random.Random(number)
    made = ["".join(chance.choices("abcdefghij", k=6)) for _ in range(chance.randint(90, 120))]
    return " ".join(made[: len(made) - changed] + [f"other{n}" for n in range(changed)])


def lines(numbers, **fields) -> bytes:
    """JSON Lines of texts."""
    texts = [number if isinstance(number, str) else text(number) for number in numbers]
    return b"".join(json.dumps({"text": one} | fields).encode() + b"\n" for one in texts)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with duplicates, near duplicates, broken and empty records, addresses, and a benchmark beside it."""
    root = tmp_path_factory.mktemp("spark")
    english = "The wind of the north and the sun were arguing about which of them was the stronger one. "
    near = [text(n, changed=3) for n in range(30)]
    write_tree(
        root / "in",
        {
            b"web/a.jsonl": lines(range(300), language="en"),
            b"web/b.jsonl.gz": gzip.compress(lines([*range(250, 320), *near])),
            b"books/c.jsonl": lines([english * n for n in range(1, 60)], language="de")
            + b'{"text": 7}\n{"tex',
            b"books/d.jsonl": b'{"text":""}\n'
            + lines([f"write to me{n}@mail-of-mine.net" for n in range(20)]),
            b"plain/e.txt": b"\x01 control",
            b"plain/f.bin": b"\x00\x01\x02",
        },
    )
    write_tree(root / "exam", {b"e.jsonl": lines([1, 2, text(3, changed=4), 999])})
    suite = (package_files("pretrain_archive.data.quality") / "suites" / "standard-1.toml").read_text()
    (root / "suite.toml").write_text(suite + EXTRA)
    return root


def checked(data, engine: str) -> QualityResult:
    """The check of the folder by an engine."""
    quality = Quality(engine=engine, benchmarks={"exam": str(data / "exam")}, spark_master="local[2]")
    limits = Limits(mixture=(("web", 0.9, 0.05), ("books", 0.1, 0.05), ("code", 0.1, 0.01)))
    return check_quality(
        None,
        path=data / "in",
        limits=limits,
        quality=quality,
        suite_file=data / "suite.toml",
        work=data / f"{engine} [1]{{2}}*?",
    )


@pytest.fixture(scope="module")
def results(data):
    """The results of both engines, by their names."""
    with spark_session("local[2]"):
        return {"local": checked(data, "local"), "spark": checked(data, "spark")}


@pytest.mark.requirement("R045", "R046", "R047")
def test_both_engines_say_the_same(results):
    """Every number of the report is equal; only the engine's name differs."""
    local, spark = (dict(results[name].report) for name in ("local", "spark"))

    assert ("local", "spark") == (local.pop("computed_on"), spark.pop("computed_on"))
    for name, value in local.items():
        assert value == spark[name], name
    fields = {"report_digest", "html_digest", "validation_digest"}
    payloads = [results[name].payload.model_dump(exclude=fields) for name in ("local", "spark")]
    assert payloads[0] == payloads[1]


def test_what_was_planted_is_found(results):
    """The equal numbers are the planted ones: nothing was compared with nothing."""
    report = results["spark"].report
    gates = {gate["name"]: gate for gate in report["gates"]}

    assert (300 + 100 + 59 + 20 + 1, 50, 30) == (
        report["documents"], report["exact_duplicates"], report["near_duplicates"] - gates_of_chain(results)
    )  # fmt: skip
    assert (3, 1) == (report["format_errors"], report["empty_documents"])
    assert 20 == report["sensitive"]["email"]
    assert {"benchmarks", "mixture:code", "letters_of_long_ones", "mean_size", "format"} <= {
        name for name, gate in gates.items() if not gate["passed"] and gate["checked"]
    }
    assert not gates["no_such_document"]["checked"]
    assert 0 < gates["letters_of_long_ones"]["judged"] < report["documents"]


def gates_of_chain(results) -> int:
    """Near duplicates among the growing repetitions of one sentence, beside the planted pairs."""
    shards = dict(results["local"].report["contributors"]["near_duplicates"]["shards"])
    return shards.get("books/c.jsonl", 0) + shards.get("books/d.jsonl", 0)


def test_the_library_judged_on_spark(results):
    """Great Expectations counted the rows of the data frame itself, in one batch."""
    kept = {one["rule"]: one for one in results["spark"].validation["results"]}

    assert (
        results["spark"].report["documents"] == kept["cleanliness"]["batches"][0]["result"]["element_count"]
    )
    assert 1 == len(kept["cleanliness"]["batches"])


@pytest.mark.parametrize(
    ("environment", "code", "words"),
    [
        pytest.param({"PATH": "/nonexistent", "JAVA_HOME": ""}, "", "needs Java 17", id="no Java"),
        pytest.param(
            {}, "sys.modules['pyspark'] = None", "pip install 'pretrain-archive[spark]'", id="no PySpark"
        ),
    ],
)
def test_what_is_missing_is_named(tmp_path, environment, code, words):
    """Without PySpark or Java the command says what to install, with exit 2 and no traceback."""
    write_tree(tmp_path, {b"a.txt": b"some words"})
    program = f"import sys\n{code}\nfrom pretrain_archive.cli import run_command\nsys.exit(run_command(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", program, "quality", "check", str(tmp_path), "--engine", "spark", "--json"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 2 == done.returncode
    error = json.loads(done.stdout)["error"]
    assert "not_available" == error["code"]
    assert words in f"{error['message']} {error['hint']}"
    assert "Traceback" not in done.stderr


def test_a_snapshot_in_a_store(files, snap, tmp_path):
    """The content of a snapshot is opened by its address where it is measured: a store cannot be sent."""
    root = write_tree(tmp_path / "in", {b"a.jsonl": lines(range(20))})
    quality = Quality(engine="spark", spark_master="local[2]")
    result = check_quality(files, snapshot=snap(files, root), limits=Limits(), quality=quality)

    assert (True, 20) == (result.payload.passed, result.payload.documents)
