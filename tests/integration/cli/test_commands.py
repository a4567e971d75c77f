"""Every command against a real ledger, store and package, as text and as JSON."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.cli.conftest import OTHER_RUN, Home

MakeHome = Callable[[], Home]


def test_version_and_help(seeded: Home) -> None:
    """The version is one line; help lists the commands and the exit codes."""
    assert seeded.call("--version").out.startswith("pretrain-archive ")
    told = seeded.call()
    assert 0 == told.code
    for word in ("snapshot", "run", "package", "ledger", "retention", "withdraw", "Exit codes"):
        assert word in told.out


def test_run_list(seeded: Home) -> None:
    """Both runs are listed, newest first, with their states."""
    found = seeded.ask("run", "list", "--json")

    assert 0 == found.code
    assert [(OTHER_RUN, "open"), (seeded.run_uid, "closed")] == [
        (run["run_uid"], run["state"]) for run in found.document["runs"]
    ]
    assert seeded.run_uid in seeded.ask("run", "list").out
    assert [] == seeded.ask("run", "list", "--project", "nobody's", "--json").document["runs"]


@pytest.mark.parametrize("name", ["run_019a0000-0000-7000-8000-000000000001", "7000-8000-000000000001"])
@pytest.mark.requirement("R003")
def test_run_show(seeded: Home, name: str) -> None:
    """A run is found by its uid or the end of it; its document has tracks, gates, people and verdicts."""
    found = seeded.ask("run", "show", name, "--json").document

    assert seeded.run_uid == found["run_uid"]
    assert ["approved"] * 3 == [gate["state"] for gate in found["gates"]]
    assert {"data", "compute", "artifact"} <= set(found["tracks"])
    assert all(found["tracks"][track] for track in ("data", "compute", "artifact"))
    assert sum(found["counts"].values()) == sum(map(len, found["tracks"].values()))
    assert {"data_owner", "budget_owner"} <= set(found["people"])
    text = seeded.ask("run", "show", name).out
    assert "approved by" in text
    assert "\x1b" not in text


def test_run_show_by_airflow_run_id(seeded: Home) -> None:
    """The id of the Airflow run names the run too."""
    assert OTHER_RUN == seeded.ask("run", "show", "manual__2", "--json").document["run_uid"]


@pytest.mark.parametrize(
    ("thing", "direction", "node"),
    [
        pytest.param("snapshot:python-stdlib@1", "backward", "source:py-stdlib", id="snapshot to source"),
        pytest.param("source:py-stdlib", "forward", "snapshot:python-stdlib@1", id="source to snapshot"),
        pytest.param("7000-8000-000000000001", "backward", "source:py-stdlib", id="run to source"),
        pytest.param("person:alice", "backward", None, id="a person rests on nothing"),
    ],
)
@pytest.mark.requirement("R001")
def test_run_trace(seeded: Home, thing: str, direction: str, node: str | None) -> None:
    """A trace names nodes and edges with the records that are their evidence."""
    found = seeded.ask("run", "trace", thing, "--direction", direction, "--json")

    assert 0 == found.code
    assert node is None or node in found.document["nodes"]
    assert all(edge["record_id"].startswith("rec_") for edge in found.document["edges"])
    assert bool(node) == bool(found.document["edges"])


@pytest.mark.requirement("R004")
def test_run_diff(seeded: Home) -> None:
    """Two runs of the same inputs have nothing that changed."""
    found = seeded.ask("run", "diff", seeded.run_uid, OTHER_RUN, "--json").document

    assert ("attributable", []) == (found["verdict"], found["changed"])
    assert found["equal"] > 5


def test_snapshot_create_and_verify(home: MakeHome, tmp_path: Path) -> None:
    """Create, create again unchanged, change one byte of the source, create, verify old and new."""
    place = home()
    source = tmp_path / "data"
    source.mkdir()
    (source / "a.txt").write_bytes(b"alpha")
    keys = {"name", "version", "manifest_digest", "file_count", "total_bytes", "parent", "unchanged"}

    first = place.ask("snapshot", "create", str(source), "--name", "corpus", "--json").document
    again = place.ask("snapshot", "create", str(source), "--name", "corpus", "--json").document
    (source / "a.txt").write_bytes(b"alphb")
    second = place.ask("snapshot", "create", str(source), "--name", "corpus", "--json").document

    assert keys <= set(first)
    assert [(1, False), (1, True), (2, False)] == [
        (d["version"], d["unchanged"]) for d in (first, again, second)
    ]
    assert "snapshot:corpus@1" == second["parent"]
    good = place.ask("snapshot", "verify", "corpus@1", "--json")
    assert (0, "verified", []) == (good.code, good.document["verdict"], good.document["items"])
    live = place.ask("snapshot", "verify", "corpus@1", "--source", str(source), "--json")
    assert (1, "changed", ["a.txt"]) == (
        live.code,
        live.document["verdict"],
        [item["path"] for item in live.document["items"]],
    )
    assert "a.txt" in place.ask("snapshot", "verify", "corpus@1", "--source", str(source)).out


def test_snapshot_verify_by_a_sample(home: MakeHome, tmp_path: Path) -> None:
    """A sample ends well and says so in its own words; its seed draws the same files again."""
    place, source = home(), tmp_path / "data"
    source.mkdir()
    for number in range(50):
        (source / f"{number}.txt").write_bytes(b"%d" % number)
    place.ask("snapshot", "create", str(source), "--name", "x")
    options = ("--confidence", "0.9", "--max-changed", "0.2")

    found = place.ask("snapshot", "verify", "x", *options, "--json")

    assert (0, "sampled", 10) == (found.code, found.document["verdict"], found.document["sample"]["drawn"])
    seed = str(found.document["sample"]["seed"])
    again = place.ask("snapshot", "verify", "x", *options, "--seed", seed, "--json")
    assert found.document["sample"] == again.document["sample"]
    text = place.ask("snapshot", "verify", "x", *options).out
    assert "sampled: 10 of 50 files, confidence 0.9 to see a change of at least 10 files" in text
    assert "verified  x@1" not in text


def test_snapshot_in_a_named_store(home: MakeHome, tmp_path: Path) -> None:
    """--store takes a folder or a URL; the copy is read from there."""
    place, source, store = home(), tmp_path / "data", tmp_path / "a store"
    source.mkdir()
    (source / "a\nb%.txt").write_bytes(b"alpha")
    place.ask("snapshot", "create", str(source), "--name", "x", "--store", str(store))
    found = place.ask("snapshot", "verify", "x", "--store", store.as_uri(), "--json")

    assert (0, 1) == (found.code, found.document["counts"]["verified"])


def test_ledger_verify_names_the_changed_row(home: MakeHome) -> None:
    """An untouched log is verified; a changed payload is reported at its record, with exit 1."""
    place = home()
    good = place.call("ledger", "verify", "--json")
    assert (0, "verified", []) == (good.code, good.document["verdict"], good.document["findings"])
    assert {"records", "seconds"} == set(good.document["unanchored"])

    database = sqlite3.connect(place.folder / "pretrain_archive" / "ledger.db")
    for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        database.execute(f'DROP TRIGGER "{name}"')
    record_id, text = database.execute(
        "SELECT record_id, stored FROM pretrain_archive_record WHERE position = 3"
    ).fetchone()
    changed = text.replace(b"python-stdlib", b"python-stdlob", 1)
    assert changed != text
    database.execute("UPDATE pretrain_archive_record SET stored = ? WHERE position = 3", (changed,))
    database.commit()
    database.close()

    bad = place.call("ledger", "verify", "--json")
    assert (1, "changed") == (bad.code, bad.document["verdict"])
    assert record_id in {finding["record_id"] for finding in bad.document["findings"]}
    assert record_id in place.call("ledger", "verify").out


def test_ledger_anchor_and_migrate(home: MakeHome) -> None:
    """Anchoring prints the signed checkpoint; migrating a current ledger changes nothing."""
    place = home()
    signed = place.ask("ledger", "anchor", "--json").document
    assert signed["size"] == place.ask("ledger", "verify", "--json").document["records"]
    assert signed["root"]
    moved = place.ask("ledger", "migrate", "--json").document
    assert (False, moved["revision"]) == (moved["changed"], moved["from"])


def test_the_signer_runs_until_it_is_stopped(home: MakeHome, tmp_path: Path) -> None:
    """`ledger anchor --every` anchors what comes later, and ends cleanly on SIGTERM."""
    place, source = home(), tmp_path / "data"
    source.mkdir()
    (source / "a.txt").write_bytes(b"alpha")
    program = Path(sys.executable).parent / "pretrain-archive"
    environment = {"AIRFLOW_HOME": str(place.folder), "PATH": "/usr/bin:/bin"}
    signer = subprocess.Popen(
        [program, "ledger", "anchor", "--every", "0.2", "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert signer.stderr is not None
        first = signer.stderr.readline()
        place.call("snapshot", "create", str(source), "--name", "late")
        later = signer.stderr.readline()
    finally:
        signer.send_signal(signal.SIGTERM)
        out, _ = signer.communicate(timeout=30)

    assert 0 == signer.returncode
    assert first != later
    assert json.loads(out)["size"] == place.call("ledger", "verify", "--json").document["records"]


def test_package_verify(seeded: Home) -> None:
    """With the key a package is verified, without it intact, and exit codes say which."""
    with_key = seeded.call("package", "verify", str(seeded.package), "--key", str(seeded.key), "--json")
    without = seeded.call("package", "verify", str(seeded.package), "--json")

    assert (0, "verified") == (with_key.code, with_key.document["verdict"])
    assert (3, "intact") == (without.code, without.document["verdict"])
    assert "Verdict" in seeded.call("package", "verify", str(seeded.package)).out


def test_package_verify_says_what_its_own_verifier_says(home: MakeHome) -> None:
    """After a change both name the same items and exit 1."""
    place = home()
    victim = next(place.package.glob("records/*gate.decision*"))
    victim.write_bytes(victim.read_bytes().replace(b"approve", b"reject", 1))
    ours = place.call("package", "verify", str(place.package), "--json")
    own = subprocess.run(
        [sys.executable, "-I", "-S", place.package / "verify.py", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (1, 1) == (ours.code, own.returncode)
    strip = [{k: v for k, v in item.items() if k != "checked_at"} for item in ours.document["items"]]
    assert strip == [
        {k: v for k, v in i.items() if k != "checked_at"} for i in json.loads(own.stdout)["items"]
    ]


def test_package_explain_and_exam(seeded: Home, tmp_path: Path) -> None:
    """The decision is told in both languages; the exam asks, scores and names gaps."""
    told = seeded.ask("package", "explain", str(seeded.package), "--json")
    assert (0, seeded.run_uid) == (told.code, told.document["run_uid"])
    assert told.document["sentences"]
    assert "快照" in seeded.ask("package", "explain", str(seeded.package), "--lang", "zh").out

    asked = seeded.ask("package", "exam", str(seeded.package), "--json").document
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps({question["id"]: "no idea" for question in asked["questions"]}))
    scored = seeded.ask("package", "exam", str(seeded.package), "--answers", str(answers), "--json")
    assert (1, 0, asked["asked"]) == (scored.code, scored.document["score"], scored.document["asked"])
    assert scored.document["gaps"]


@pytest.mark.requirement("R151")
def test_retention_plan_and_apply(seeded: Home) -> None:
    """A plan lists every checkpoint with action and reason; applying an unknown plan is wrong use."""
    planned = seeded.ask("retention", "plan", "--json")

    assert 0 == planned.code
    items = planned.document["items"]
    assert items
    assert {"id", "class", "action", "reason", "bytes", "blocked_by"} <= set(items[0])
    kept = [item for item in items if item["action"] != "delete"]
    assert all(item["reason"] for item in kept)
    again = seeded.ask("retention", "plan", "--json").document
    assert planned.document["plan"] == again["plan"]


ERRORS = [
    pytest.param(["snapshot", "create", "/does/not/exist", "--name", "x"], "bad_source", id="no source"),
    pytest.param(["snapshot", "create", "/", "--name", "a b"], "bad_input", id="bad name"),
    pytest.param(["snapshot", "verify", "nothing"], "bad_input", id="unknown snapshot"),
    pytest.param(["snapshot", "verify", "nothing@x"], "bad_input", id="version is no number"),
    pytest.param(["snapshot", "verify", "x", "--store", "ftp://a/b"], "bad_input", id="unknown store"),
    pytest.param(["run", "show", "run_nothing"], "bad_input", id="unknown run"),
    pytest.param(["run", "show", "\x1b[2J"], "bad_input", id="run with control characters"),
    pytest.param(["run", "trace", "snapshot:nothing@1"], "bad_input", id="unknown thing"),
    pytest.param(["run", "trace", "BAD TYPE:x"], "bad_input", id="not a reference"),
    pytest.param(["run", "diff", "run_one"], "bad_input", id="one run"),
    pytest.param(["run", "diff", "manual__2", OTHER_RUN], "bad_input", id="the same run twice"),
    pytest.param(["run", "trace", "manual__2", "--limit", "9" * 20], "bad_input", id="a limit beyond all"),
    pytest.param(["snapshot", "verify", "python-stdlib@0"], "bad_input", id="version 0"),
    pytest.param(["snapshot", "verify", "python-stdlib@" + "9" * 5000], "bad_input", id="version beyond all"),
    pytest.param(["package", "verify", "/does/not/exist"], "bad_input", id="no package"),
    pytest.param(["package", "explain", "/does/not/exist"], "bad_package", id="no package to explain"),
    pytest.param(["package", "exam", "/"], "bad_package", id="not a package"),
    pytest.param(["retention", "apply", "sha256:00000000"], "bad_input", id="unknown plan"),
    pytest.param(["ledger", "recover", "--reason", "x"], "ledger", id="nothing to recover"),
]


@pytest.mark.parametrize(("arguments", "code"), ERRORS)
def test_errors(seeded: Home, arguments: list[str], code: str) -> None:
    """Each error is one clear line and exit 2; with --json one document on standard output."""
    text = seeded.ask(*arguments)
    assert (2, "", 1) == (text.code, text.out, text.err.count("\n")), text.err
    assert "\x1b" not in text.err
    document = seeded.ask(*arguments, "--json").document
    assert {"error"} == set(document)
    assert {"code", "message", "hint"} == set(document["error"])
    assert code == document["error"]["code"]


def test_an_unreachable_database_names_no_password(seeded: Home) -> None:
    """A database that does not answer is one line with its name, and never the password."""
    url = "postgresql://someone:secret-word@127.0.0.1:1/ledger"
    found = seeded.call("run", "list", "--json", AIRFLOW__PRETRAIN_ARCHIVE__DATABASE_URL=url)

    assert (2, "ledger_unavailable") == (found.code, found.document["error"]["code"])
    assert "127.0.0.1" in found.document["error"]["message"]
    assert "secret-word" not in found.out + found.err


def test_a_file_that_is_no_database(seeded: Home, tmp_path: Path) -> None:
    """Rubbish instead of a database is an error in one line, not a traceback."""
    (tmp_path / "ledger.db").write_bytes(b"this is not a database" * 100)
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    found = seeded.call("ledger", "verify", "--json", AIRFLOW__PRETRAIN_ARCHIVE__DATABASE_URL=url)

    assert 2 == found.code
    assert found.document["error"]["message"]


def test_a_configured_airflow_does_not_disturb_the_answer(home: MakeHome) -> None:
    """With an airflow.cfg the program reads its settings there, still prints one document, and stays quick."""
    place = home()
    other = place.folder / "elsewhere.db"
    (place.folder / "airflow.cfg").write_text(f"[pretrain_archive]\ndatabase_url = sqlite:///{other}\n")
    found = place.call("run", "list", "--json")

    assert (2, "no_ledger", "") == (found.code, found.document["error"]["code"], found.err)
    assert str(other) in found.document["error"]["message"]
    assert not other.exists()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"\xff\xfe{}", "not UTF-8", id="not UTF-8"),
        pytest.param(b"[" * 200_000, "nested too deeply", id="nested"),
        pytest.param(b"{", "not JSON", id="cut"),
        pytest.param(b"[]", "not a JSON object", id="a list"),
    ],
)
def test_answers_that_cannot_be_read(seeded: Home, tmp_path: Path, content: bytes, problem: str) -> None:
    """A file of answers that is none is wrong input, and no fault of the program."""
    file = tmp_path / "answers.json"
    file.write_bytes(content)
    found = seeded.ask("package", "exam", str(seeded.package), "--answers", str(file), "--json")

    assert (2, "bad_input") == (found.code, found.document["error"]["code"])
    assert problem in found.document["error"]["message"]


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run", "list"], ["run", "list", "--json"], ["run", "show", "x", "--json"]]
)
@pytest.mark.parametrize("end", ["> /dev/full", ">&-"])
def test_an_answer_that_cannot_be_written(seeded: Home, arguments: list[str], end: str) -> None:
    """A full disk or a closed standard output is one line on standard error and exit 2, whatever the answer was."""
    program = Path(sys.executable).parent / "pretrain-archive"
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {end}', "sh", program, *arguments],
        capture_output=True, text=True, timeout=120, check=False,
        env={"AIRFLOW_HOME": str(seeded.folder), "PATH": os.environ["PATH"]},
    )  # fmt: skip

    assert (2, 1) == (done.returncode, done.stderr.count("\n")), done.stderr
    assert done.stderr.startswith("pretrain-archive: ")


def test_a_closed_standard_error_is_no_fault(seeded: Home) -> None:
    """The answer comes, and nothing that was opened gets the messages."""
    program = Path(sys.executable).parent / "pretrain-archive"
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&- <&-', "sh", program, "run", "list", "--json"],
        stdout=subprocess.PIPE, text=True, timeout=120, check=False,
        env={"AIRFLOW_HOME": str(seeded.folder), "PATH": os.environ["PATH"]},
    )  # fmt: skip

    assert (0, 2) == (done.returncode, len(json.loads(done.stdout)["runs"]))


@pytest.mark.parametrize(
    "place", ["", "pretrain_archive", "pretrain_archive/store", "pretrain_archive/work/new"]
)
def test_the_archive_is_no_source(home: MakeHome, place: str) -> None:
    """A source around or inside the archive's own folders is refused by name, and nothing is written."""
    made = home()
    root = made.folder / place
    root.mkdir(parents=True, exist_ok=True)
    (root / "file.txt").write_text("words")
    found = made.ask("snapshot", "create", str(root), "--name", "self", "--json")

    assert (2, "bad_input") == (found.code, found.document["error"]["code"])
    assert str(root) in found.document["error"]["message"]
    assert str(made.folder / "pretrain_archive") in found.document["error"]["message"]
    assert not (made.folder / "pretrain_archive/store/snapshots/self").exists()
