"""The data track of a run on a small folder, and what a task hands on for a large one."""

from __future__ import annotations

import getpass
import json

import pytest
from tests.unit.gates.asked_run import policy_with
from tests.unit.services.open_runs import Opener

from pretrain_archive.domain.errors import InputError, RefusedError, SourceError
from pretrain_archive.domain.kinds import SnapshotCreated, SourceRegistered, SplitCreated
from pretrain_archive.services import data
from pretrain_archive_operators import DataSnapshotOperator
from pretrain_archive_operators.base import small_json

MANY = 20_000


@pytest.fixture
def opener(ledger, tmp_path) -> Opener:
    """Opens runs in an empty ledger."""
    return Opener(ledger=ledger, folder=tmp_path)


def test_source(opener):
    """The source carries the form's rights, the policy's owner, and who reads it."""
    uid = opener.open(masking="no names in it", responsible="carol").run_uid

    source = data.register(opener.ledger, opener.caller("register_source"), uid)

    assert ("PSF-2.0", "alice", "carol") == (source.licence, source.owner, source.responsible)
    assert "no names in it" == source.masking
    assert source.access_identity.startswith(f"{getpass.getuser()}@")
    assert source.access_identity == source.access_identity_observed
    assert source.access_open is None
    assert source == opener.runs()[0].latest(SourceRegistered)


def test_responsible_is_the_submitter(opener):
    """Left empty, the person who triggered the run is responsible."""
    uid = opener.open().run_uid

    assert "alice" == data.register(opener.ledger, opener.caller("register_source"), uid).responsible


def test_snapshot_and_split(opener, store):
    """Every file is in the snapshot; the split covers every document once."""
    uid = opener.open().run_uid
    data.register(opener.ledger, opener.caller("register_source"), uid)

    made, split = data.make_snapshot(opener.ledger, store, opener.caller("snapshot"), uid)

    view = opener.runs()[0]
    assert (12, 1, False) == (made.file_count, made.version, made.unchanged)
    assert 12 == split.train_documents + split.validation_documents
    assert made.total_bytes == split.train_bytes + split.validation_bytes
    assert (made, split) == (view.latest(SnapshotCreated), view.latest(SplitCreated))
    assert opener.policy.policy.data.split_seed == split.seed


def test_include_and_exclude(opener, store):
    """The form narrows what is taken."""
    opener.policy = policy_with(validation_fraction="0.5")
    uid = opener.open(include=["doc?.txt", "doc1*.txt"], exclude=["doc11.txt"]).run_uid
    data.register(opener.ledger, opener.caller("register_source"), uid)

    made, _ = data.make_snapshot(opener.ledger, store, opener.caller("snapshot"), uid)

    assert 11 == made.file_count


@pytest.mark.case("S01")
def test_unchanged_data_is_the_same_version(opener, store):
    """A second run over the same bytes uses the version that is there."""
    versions = []
    for number in (1, 2):
        uid = opener.open(caller=opener.caller(dag_run_id=f"manual__{number}")).run_uid
        for task, step in (("register_source", data.register), ("snapshot", data.make_snapshot)):
            caller = opener.caller(task, dag_run_id=f"manual__{number}")
            words = (
                (opener.ledger, caller, uid)
                if task == "register_source"
                else (opener.ledger, store, caller, uid)
            )
            found = step(*words)
        versions.append((found[0].version, found[0].unchanged))

    assert [(1, False), (1, True)] == versions


def test_snapshot_before_the_source(opener, store):
    """Without a registered source nothing is read."""
    uid = opener.open().run_uid

    with pytest.raises(RefusedError, match="has no registered source") as raised:
        data.make_snapshot(opener.ledger, store, opener.caller("snapshot"), uid)
    assert "register_source" in raised.value.hint
    assert opener.runs()[0].latest(SnapshotCreated) is None


def test_quality_before_the_snapshot(opener, store):
    """Without a snapshot nothing is checked."""
    uid = opener.open().run_uid

    with pytest.raises(RefusedError, match="has no data snapshot"):
        data.quality(opener.ledger, store, opener.caller("quality_check"), uid)


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        pytest.param("/no/such/folder", SourceError, id="absent"),
        pytest.param("gopher://x/y", (SourceError, InputError), id="unknown scheme"),
    ],
)
def test_unreadable_source(opener, source, kind):
    """A source that is not there is an error at the first task that reads it, and nothing is registered."""
    uid = opener.open(source=source).run_uid

    with pytest.raises(kind):
        data.register(opener.ledger, opener.caller("register_source"), uid)
    assert opener.runs()[0].latest(SourceRegistered) is None


def test_empty_source(opener):
    """A folder without files is refused at the first task that reads it."""
    for path in opener.source.iterdir():
        path.unlink()
    uid = opener.open().run_uid

    with pytest.raises(SourceError, match="holds no file"):
        data.register(opener.ledger, opener.caller("register_source"), uid)
    assert opener.runs()[0].latest(SourceRegistered) is None


@pytest.mark.parametrize("step", ["register", "make_snapshot", "quality"])
def test_foreign_run(opener, store, step):
    """Another DAG run's uid is refused."""
    uid = opener.open().run_uid
    caller = opener.caller("x", dag_run_id="manual__other")
    words = (opener.ledger, caller, uid) if step == "register" else (opener.ledger, store, caller, uid)

    with pytest.raises(RefusedError, match="belongs to DAG run"):
        getattr(data, step)(*words)


@pytest.mark.case("P05")
def test_twenty_thousand_files(opener, store):
    """What the task returns stays below 8 KiB of strict JSON, however many files there are."""
    opener.policy = policy_with(snapshot_mode='"reference"')
    for folder in range(20):
        (opener.source / f"d{folder}").mkdir()
        for number in range(MANY // 20):
            (opener.source / f"d{folder}" / f"a rather long name of a file {number}.txt").write_bytes(
                b"%d" % number
            )
    uid = opener.open().run_uid
    data.register(opener.ledger, opener.caller("register_source"), uid)
    operator = DataSnapshotOperator(task_id="snapshot", run_uid=uid)
    operator.ledger, operator.store = opener.ledger, store

    value = operator.work(opener.caller("snapshot"), uid)

    assert MANY + 12 == value["file_count"]
    assert len(json.dumps(value, allow_nan=False)) < 1024
    assert value == small_json(value)
