"""Tasks on a real ledger: small values, recorded failures, and which errors are tried again."""

from __future__ import annotations

import json
import sqlite3

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from tests.unit.operators.conftest import context
from tests.unit.services.open_runs import Opener

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import (
    ArchiveError,
    LedgerUnavailableError,
    RefusedError,
    SourceChangedError,
    StorageError,
)
from pretrain_archive.ledger.anchors import FileAnchor
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive_operators import (
    ArchiveCloseOperator,
    CheckpointRegisterOperator,
    DataProcessOperator,
    DataSnapshotOperator,
    EvaluateOperator,
    OpenRunOperator,
    QualityCheckOperator,
    RegisterSourceOperator,
    TemporaryCleanOperator,
)
from pretrain_archive_operators.base import ArchiveOperator

ON_A_RUN = (RegisterSourceOperator, DataSnapshotOperator, DataProcessOperator, QualityCheckOperator,
            CheckpointRegisterOperator, EvaluateOperator, ArchiveCloseOperator, TemporaryCleanOperator)  # fmt: skip


def open_run(opener: Opener, **changes) -> dict:
    """Open a run as the task does: ledger, policy and folders from the settings."""
    return OpenRunOperator(task_id="open_run").execute(context("open_run", params=opener.values(**changes)))


def test_open_run(opener):
    """Params become a run; the value is small, and it names who triggered it."""
    value = open_run(opener)

    [view] = opener.runs()
    assert (view.run_uid, "demo", None) == (value["run_uid"], value["project"], value["derived_from"])
    assert ("alice", "task", "pretraining_reference.open_run") == (
        view.opened.submitter, view.records[0].actor.type, view.records[0].actor.name,
    )  # fmt: skip
    assert len(json.dumps(value)) < 512


def test_open_run_by_a_schedule(opener):
    """A run that nobody triggered has no submitter, not a made-up one."""
    operator = OpenRunOperator(task_id="open_run", request=opener.values())

    operator.execute(context("open_run", user=None))

    assert opener.runs()[0].opened.submitter is None


def test_open_run_again(opener):
    """A cleared task goes on with its run, as its next try."""
    operator, values = OpenRunOperator(task_id="open_run"), opener.values()

    first, second = (operator.execute(context("open_run", params=values, try_number=n)) for n in (1, 2))

    assert first == second
    assert len(opener.runs()) == 1


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        pytest.param({"budget_minutes": -1}, "bad_input: budget_minutes: ", id="value"),
        pytest.param({"project": "nobody"}, "bad_policy: project: no policy for 'nobody'", id="project"),
        pytest.param({"train_command": ["no-such-program"]}, "bad_input: train_command: no such program", id="command"),
    ],
)  # fmt: skip
def test_bad_request(opener, changes, text):
    """A wrong form ends the task for good with field, value and remedy, also where tries are left."""
    operator = OpenRunOperator(task_id="open_run")
    ctx = context("open_run", params=opener.values(**changes), max_tries=3)

    with pytest.raises(AirflowFailException) as raised:
        operator.execute(ctx)

    assert str(raised.value).startswith(text)
    assert "failed" == opener.runs()[0].state


def test_source_and_snapshot(opener):
    """Two tasks on one run, each with a small value; the full record is in the ledger."""
    uid = open_run(opener)["run_uid"]

    source = RegisterSourceOperator(task_id="register_source", run_uid=uid).execute(
        context("register_source")
    )
    made = DataSnapshotOperator(task_id="snapshot", run_uid=uid).execute(context("snapshot"))

    assert "PSF-2.0" == source["licence"]
    assert (12, 1, False) == (made["file_count"], made["version"], made["unchanged"])
    [view] = opener.runs()
    assert view.latest(kinds.SnapshotCreated).manifest_digest == made["manifest_digest"]
    assert len(json.dumps(made)) < 1024


STEPS = """
[[data.steps]]
name = "long-enough"
version = 3
kind = "filter"
min_bytes = 1
[quotas]"""


@pytest.mark.parametrize("steps", [0, 1])
def test_process(opener, tmp_path, steps):
    """The task names its steps with counts and what goes in, in a small value; without steps it does nothing."""
    policy = tmp_path / "policies" / "demo.toml"
    policy.write_text(policy.read_text().replace("[quotas]", STEPS) if steps else policy.read_text())
    uid = open_run(opener)["run_uid"]
    RegisterSourceOperator(task_id="register_source", run_uid=uid).execute(context("register_source"))
    DataSnapshotOperator(task_id="snapshot", run_uid=uid).execute(context("snapshot"))
    made = DataProcessOperator(task_id="process", run_uid=uid).execute(context("process"))

    [view] = opener.runs()
    last = view.latest(kinds.SnapshotCreated)
    assert (steps, f"{last.name}@{last.version}", last.manifest_digest) == (
        made["step_count"], made["snapshot"], made["manifest_digest"],
    )  # fmt: skip
    assert [("long-enough", 3, 12, 12)] * steps == [
        (step["rule"], step["version"], step["documents_in"], step["documents_out"]) for step in made["steps"]
    ]
    assert made["split_digest"] == view.latest(kinds.SplitCreated).split_digest
    assert len(json.dumps(made)) < 1024


@pytest.mark.parametrize("operator", ON_A_RUN, ids=lambda operator: operator.__name__)
@pytest.mark.parametrize("run_uid", ["", "None", "run_none"])
def test_no_run(opener, operator, run_uid):
    """Without a run in the ledger a task fails for good; an XCom that is missing is no run."""
    with pytest.raises(AirflowFailException, match="is not in the ledger"):
        operator(task_id="x", run_uid=run_uid).execute(context("x"))
    assert opener.runs() == []


@pytest.mark.parametrize("operator", ON_A_RUN, ids=lambda operator: operator.__name__)
def test_foreign_run(opener, operator):
    """A run uid of another DAG run is refused by every task, and that run is left as it was."""
    uid = open_run(opener)["run_uid"]
    before = opener.runs()[0].records

    with pytest.raises(AirflowFailException, match="belongs to DAG run"):
        operator(task_id="x", run_uid=uid).execute(context("x", dag_run_id="manual__other"))
    assert before == opener.runs()[0].records


class Raising(ArchiveOperator):
    """Does nothing but end with an error."""

    def __init__(self, *, error: Exception, **kwargs) -> None:
        super().__init__(**kwargs)
        self.error = error

    def work(self, caller, run_uid):  # noqa: ARG002 - the hook's names
        """Raise."""
        raise self.error


@pytest.mark.parametrize(
    ("error", "tries", "kind", "recorded"),
    [
        pytest.param(StorageError("bucket full"), (1, 2), AirflowException, False, id="may pass, tries left"),
        pytest.param(
            StorageError("bucket full"), (2, 2), AirflowException, False, id="may pass, one try to come"
        ),
        pytest.param(
            StorageError("bucket full"), (3, 2), AirflowFailException, True, id="may pass, no try left"
        ),
        pytest.param(
            SourceChangedError("moving", paths=("a",)), (1, 1), AirflowException, False, id="source changes"
        ),
        pytest.param(
            LedgerUnavailableError("no route"), (1, 1), AirflowException, False, id="ledger, tries left"
        ),
        pytest.param(
            LedgerUnavailableError("no route"), (2, 1), AirflowFailException, False, id="ledger, no try left"
        ),
        pytest.param(RefusedError("forbidden"), (1, 5), AirflowFailException, True, id="refused"),
        pytest.param(ArchiveError("odd"), (1, 5), AirflowFailException, True, id="any other"),
    ],
)
def test_errors(opener, error, tries, kind, recorded):
    """What may pass by itself is tried again; everything else fails for good and is recorded once."""
    uid = open_run(opener)["run_uid"]
    ctx = context("x", try_number=tries[0], max_tries=tries[1])

    with pytest.raises(AirflowException) as raised:
        Raising(task_id="x", run_uid=uid, error=error).execute(ctx)

    assert type(raised.value) is kind
    assert raised.value.__cause__ is error
    failed = opener.runs()[0].latest(kinds.RunFailed)
    assert recorded == (failed is not None)
    if failed is not None:
        assert (error.code, error.message) == (failed.error_code, failed.reason)


def test_foreign_error_is_not_hidden(opener):
    """An error that is not ours passes as it is: Airflow shows its traceback."""
    uid = open_run(opener)["run_uid"]

    with pytest.raises(ZeroDivisionError):
        Raising(task_id="x", run_uid=uid, error=ZeroDivisionError()).execute(context("x"))


def test_behind_an_anchor(opener, installation):
    """Where an anchor knows more than the database, the task fails for good and says so."""
    uid = open_run(opener)["run_uid"]
    writer = open_ledger(installation.url, signing_key=installation.key,
                         anchors=[FileAnchor(installation.folder / "anchors")])  # fmt: skip
    writer.seal()
    writer.close()
    opener.ledger.close()
    with sqlite3.connect(installation.url.removeprefix("sqlite:///")) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        database.execute("DELETE FROM pretrain_archive_record WHERE position = 2")
    operator = RegisterSourceOperator(task_id="register_source", run_uid=uid)

    with pytest.raises(AirflowFailException, match="behind_anchor: "):
        operator.execute(context("register_source", max_tries=3))
