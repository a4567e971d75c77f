"""Close: only what was signed and still stands, once, also against a second process and a kill."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.services import close_at

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import PackageError, RefusedError
from pretrain_archive.services.closing import Shelf, clean_temporary, close_archive

OTHER = "sha256:" + "0" * 64


def close(run, house, *, task="archive_close", policy=None, **origin):
    """Close a run, under the policy that it was opened under or the given one."""
    shelf = Shelf(
        packages_folder=house.folder / "packages", verifier_key=house.public.read_text().strip(),
        policies=lambda _: policy or run.policy,
    )  # fmt: skip
    return close_archive(run.ledger, run.store, run.caller(task, **origin), run.uid, shelf)


def counted(run, model):
    """How many records of a kind the run has."""
    return len(list(run.view().all(model)))


def verify(folder, key):
    """The exit code of the package's own verifier, with the key."""
    command = [sys.executable, "-I", "-S", f"{folder}/verify.py", "--key", str(key), str(folder)]
    return subprocess.run(command, check=False, capture_output=True).returncode


def nothing_done(run, house):
    """No release, no close but a rejection, no package."""
    closed = {closed.outcome for _, closed in run.view().all(kinds.RunClosed)} - {"rejected"}
    models = (kinds.ReleaseMade, kinds.PackageWritten)
    return (
        not closed
        and [counted(run, m) for m in models] == [0, 0]
        and not (house.folder / "packages").exists()
    )


def test_registered(run, house):
    """The signed outcome is carried out: one release, one close with the package's digest, a package that verifies."""
    run.until("close")

    done = close(run, house)

    folder = house.folder / "packages" / run.uid
    assert ("register", "stdlib-bytes", "1") == (done.outcome, done.release.name, done.release.version)
    closed = run.view().latest(kinds.RunClosed)
    assert (done.package.digest, "register") == (closed.package_digest, closed.outcome)
    assert "bob: All evidence was read." == closed.reason
    assert verify(folder, house.public) == 0
    assert "closed" == run.view().state


@pytest.mark.parametrize("outcome", ["continue", "clean_up"])
def test_without_a_release(run, house, outcome):
    """Other outcomes release nothing and are packaged all the same."""
    run.until("run")
    run.pass_gate("close", outcome=outcome)

    done = close(run, house)

    assert (outcome, None, 0) == (done.outcome, done.release, counted(run, kinds.ReleaseMade))
    assert outcome == run.view().latest(kinds.RunClosed).outcome


@pytest.mark.case("A05")
@pytest.mark.parametrize(
    ("stage", "text"),
    [
        pytest.param("evaluation", "the close gate has no decision in the ledger", id="run gate not signed"),
        pytest.param("run", "the close gate has no decision in the ledger", id="not asked"),
        pytest.param("asked", "the close gate has no decision in the ledger", id="not answered"),
        pytest.param(
            "refused", "the close gate has no decision in the ledger", id="answered by the submitter"
        ),
        pytest.param("rejected", "was closed without an approval", id="rejected"),
    ],
)
def test_not_signed(run, house, stage, text):
    """Without an approved close decision nothing is released, closed or written."""
    run.until("run" if stage in {"asked", "refused", "rejected"} else stage)
    if stage in {"asked", "refused", "rejected"}:
        run.ask("close")
    if stage == "refused":
        run.answer("close", person="alice", outcome="register")
    if stage == "rejected":
        run.answer("close", option="Reject")

    with pytest.raises(RefusedError, match=text):
        close(run, house)
    assert nothing_done(run, house)


@pytest.mark.parametrize(
    ("model", "changes", "named"),
    [
        pytest.param(kinds.CandidateNamed, {"reason": "another"}, "candidate", id="candidate"),
        pytest.param(kinds.EvaluationReported, {"evaluation_id": "eval_x"}, "evaluation", id="evaluation"),
        pytest.param(kinds.CheckpointRegistered, {"digest": OTHER}, "checkpoint", id="checkpoint"),
        pytest.param(kinds.SnapshotCreated, {"version": 2}, "snapshot", id="data"),
    ],
)
def test_stale(run, house, model, changes, named):
    """A decision about what does not stand any more closes nothing, and the change is named."""
    run.until("close")
    run.replace("by_hand", model, **changes)

    with pytest.raises(RefusedError, match="no close: stale approval, changed since bob signed") as raised:
        close(run, house)
    assert any(named in reason for reason in raised.value.reasons), raised.value.reasons
    assert nothing_done(run, house)


def test_foreign_run(run, house):
    """Another DAG run does not close this one."""
    run.until("close")

    with pytest.raises(RefusedError, match="belongs to DAG run"):
        close(run, house, dag_run_id="manual__other")


def test_repeated(run, house):
    """A retried or repeated close finds release, close and package, and writes nothing more."""
    run.until("close")
    first = close(run, house)
    before = run.view().records

    again = [close(run, house, try_number=n) for n in (1, 2, 3)]

    assert [first] * 3 == again
    assert before == run.view().records


def test_repeated_after_later_facts(run, house):
    """Notes on the closed run do not stand in the way of a repeated close."""
    run.until("close")
    first = close(run, house)
    run.add("cli", kinds.NoteAdded(topic="note", text="walk-through by carol: all answered"))

    assert first.package.digest == close(run, house, try_number=2).package.digest
    assert verify(house.folder / "packages" / run.uid, house.public) == 0


def test_something_else_in_the_place(run, house):
    """A folder that is not the package is left alone."""
    run.until("close")
    place = house.folder / "packages" / run.uid
    place.mkdir(parents=True)
    (place / "mine.txt").write_text("do not touch")

    with pytest.raises(PackageError, match="something else is in the place"):
        close(run, house)
    assert ["mine.txt"] == [path.name for path in place.iterdir()]


def process(run, house, *, place="", name="archive_close"):
    """A process that is about to close the run."""
    words = [
        house.url,
        str(house.key),
        str(run.store.folder),
        str(house.folder / "packages"),
        run.uid,
        run.dag_run_id,
    ]
    command = [sys.executable, str(Path(close_at.__file__)), *words, place, name]
    made = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3],
        env={"PYTHONPATH": str(Path(__file__).parents[3]), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert made.stdout.readline() == "ready\n"
    return made


@pytest.mark.case("A05")
def test_two_processes(run, house):
    """Of two processes that close at the same moment both report the one package; one close, one release."""
    run.until("close")
    run.ledger.seal()
    processes = [process(run, house, name=name) for name in ("one", "two")]
    for started in processes:
        started.stdin.write("go\n")
        started.stdin.flush()
    said = {started.communicate(timeout=300)[0].strip() for started in processes}

    assert {f"closed {run.view().latest(kinds.PackageWritten).digest}"} == said
    counts = [counted(run, m) for m in (kinds.RunClosed, kinds.ReleaseMade, kinds.PackageWritten)]
    assert [1, 1, 1] == counts
    assert verify(house.folder / "packages" / run.uid, house.public) == 0
    assert [run.uid] == [path.name for path in (house.folder / "packages").iterdir()]


@pytest.mark.parametrize(
    ("place", "closed"),
    [
        pytest.param("_append_statement", 0, id="between release and close"),
        pytest.param("assemble", 1, id="between close and package"),
        pytest.param("_check", 1, id="before the package is checked"),
        pytest.param("_place", 1, id="before the package has its name"),
    ],
)
def test_killed(run, house, place, closed):
    """Killed between any two steps, the next try finishes: one release, one close, one package that verifies."""
    run.until("close")
    run.ledger.seal()
    killed = process(run, house, place=place)
    killed.communicate("go\n", timeout=300)
    assert killed.returncode == -9
    assert (closed, 1) == (counted(run, kinds.RunClosed), counted(run, kinds.ReleaseMade))
    assert not (house.folder / "packages" / run.uid).exists()

    done = close(run, house, try_number=2)

    assert done.package.digest == run.view().latest(kinds.RunClosed).package_digest
    counts = [counted(run, m) for m in (kinds.RunClosed, kinds.ReleaseMade, kinds.PackageWritten)]
    assert [1, 1, 1] == counts
    assert verify(house.folder / "packages" / run.uid, house.public) == 0
    assert [run.uid] == [path.name for path in (house.folder / "packages").iterdir()]


def laid_out(house, run):
    """Data as it was laid out for the run."""
    data = house.folder / "runs" / run.uid / "data"
    data.mkdir(parents=True)
    (data / "a.txt").write_text("x" * 100)
    return data


def test_temporary_data(run, house):
    """Laid-out data is removed and its absence recorded, once."""
    run.until("prepare")
    data = laid_out(house, run)

    removed = clean_temporary(run.ledger, run.caller("clean_up"), run.uid, house.folder / "runs")

    assert (True, 100) == (removed.verified_absent, removed.bytes_released)
    assert not data.exists()
    assert counted(run, kinds.TemporaryRemoved) == 1


def test_temporary_data_of_a_running_attempt(run, house):
    """While an attempt has no end its data stays."""
    run.until("prepare")
    run.launched()
    data = laid_out(house, run)

    with pytest.raises(RefusedError, match=r"attempt 1 .* has no recorded end"):
        clean_temporary(run.ledger, run.caller("clean_up"), run.uid, house.folder / "runs")
    assert data.exists()
