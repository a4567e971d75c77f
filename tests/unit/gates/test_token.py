"""The launch token: what it is bound to, and that it is used once."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.unit.gates.asked_run import EXPIRES, NOW

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import AlreadyRecordedError, StreamMovedError
from pretrain_archive.domain.identity import Ref, new_id
from pretrain_archive.domain.records import Draft
from pretrain_archive.domain.source_rights import source_stream
from pretrain_archive.gates.permit import consume_permit
from pretrain_archive.ledger.canonical import digest_of

GRANT = {"action": "granted", "identity": "somebody", "at": "2026-11-28T10:00:00Z"}

PROGRAM = """
import json, sys
from pathlib import Path
from tests.unit.gates.asked_run import NOW, AskedRun
from pretrain_archive.domain.errors import AlreadyRecordedError
from pretrain_archive.domain.records import Actor, Origin
from pretrain_archive.gates.permit import Observed, consume_permit, derive_permit
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.factory import open_ledger
from tests.unit.gates.asked_run import policy_with

url, key, uid, dag_run_id, code, environment, name = sys.argv[1:]
ledger = open_ledger(url, signing_key=Path(key), anchors=[])
permit = derive_permit(ledger, load_run(ledger, uid), dag_run_id=dag_run_id, policy=policy_with(), now=NOW,
                       observed=Observed(code_digest=code, environment_digest=environment))
print("derived", flush=True)
sys.stdin.readline()
try:
    consume_permit(ledger, permit, target="local", actor=Actor(type="task", name=name),
                   origin=Origin(dag_id="d", dag_run_id=dag_run_id, task_id=name), now=NOW)
    print("consumed")
except AlreadyRecordedError as error:
    print("refused", error.record_id)
"""


def consume(run, permit, task="gpu_launch", **origin):
    """Use a token from a task try."""
    caller = run.caller(task, **origin)
    return consume_permit(
        run.ledger, permit, target="local", actor=caller.actor, origin=caller.origin, now=NOW
    )


def test_what_happens_in_between_wins(run):
    """A token is not consumed if the run got any record since it was derived: nothing may start."""
    run.until("prepare")
    permit = run.permit()
    run.answer("prepare", option="Reject", reason="I looked again.")

    with pytest.raises(StreamMovedError, match="moved on"):
        consume(run, permit)
    assert run.view().attempts == 0


def _source_fact(run, kind, payload):
    """A fact in the own stream of the run's source, recorded by somebody else."""
    source = run.view().latest(kinds.SourceRegistered).source_id
    caller = run.caller("withdraw", dag_run_id=new_id("call"))
    run.ledger.append([
        Draft(stream=source_stream(source), kind=kind, payload={"source_id": source, "by": "dana"} | payload,
              actor=caller.actor, origin=caller.origin)
    ])  # fmt: skip


@pytest.mark.requirement("R037")
@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        pytest.param(
            "source.withdrawn", {"name": "n", "reason": "over", "at": "2026-11-29T10:00:00Z"}, id="withdrawn"
        ),
        pytest.param(
            "source.access",
            {"action": "revoked", "identity": "anybody", "at": "2026-11-29T10:00:00Z"},
            id="a right revoked",
        ),
    ],
)
@pytest.mark.parametrize("known", [False, True], ids=["first fact", "further fact"])
def test_a_source_that_moves_in_between_wins(run, kind, payload, known):
    """A token is not consumed if a source of the run got any record since it was derived: nothing may start."""
    run.until("data")
    if known:
        _source_fact(run, "source.access", GRANT)
    run.prepare()
    run.pass_gate("prepare")
    permit = run.permit()
    _source_fact(run, kind, payload)

    with pytest.raises(StreamMovedError, match="source/"):
        consume(run, permit)
    assert run.view().attempts == 0


def test_sources_that_stand_still_hinder_nothing(run):
    """Facts that were known when the gate was answered do not keep the token from being consumed."""
    run.until("data")
    _source_fact(run, "source.access", GRANT)
    run.prepare()
    run.pass_gate("prepare")

    consume(run, run.permit())

    assert run.view().attempts == 1


def test_contents(run):
    """The token names everything that the launch is bound to."""
    run.until("prepare")
    view = run.view()
    snapshot, split = view.latest(kinds.SnapshotCreated), view.latest(kinds.SplitCreated)
    config = view.latest(kinds.ConfigurationDeclared)
    record, decision = view.decision("prepare")

    permit = run.permit()
    token = dict(permit.token)

    assert token.pop("nonce").startswith("nonce_")
    assert {
        "format": "pretrain-archive/launch-token/1",
        "run_uid": run.uid,
        "attempt": 1,
        "snapshot": "python-stdlib@1",
        "snapshot_digest": snapshot.manifest_digest,
        "split_digest": split.split_digest,
        "configuration_digest": config.configuration_digest,
        "code_digest": config.code_digest,
        "environment_digest": run.environment_digest,
        "budget": config.budget.to_json(),
        "minutes_left": 10.0,
        "stop": config.stop.to_json(),
        "policy_digest": run.policy.digest,
        "prepare_decision": record.record_id,
        "dossier_digest": decision.dossier_digest,
        "expires": EXPIRES,
    } == token
    assert permit.checkpoint.size > record.position


def test_every_token_is_new(run):
    """Two tokens of one attempt differ by their nonce."""
    run.until("prepare")

    assert run.permit().digest != run.permit().digest


def test_consumed(run):
    """The intent keeps the token, its digest, the signed checkpoint behind it and what it was bound to."""
    run.until("prepare")
    permit = run.permit()

    record = consume(run, permit)

    intent = run.view().latest(kinds.LaunchIntended)
    assert digest_of(intent.token) == intent.token_digest == permit.digest
    assert (permit.checkpoint.size, permit.checkpoint.root) == (
        intent.checkpoint_size,
        intent.checkpoint_root,
    )
    assert (1, 1) == (record.attempt, run.view().attempts)
    _, decision = run.view().decision("prepare")
    assert {
        Ref(type="configuration", id=run.configuration_digest),
        Ref(type="environment", id=run.environment_digest),
        Ref(type="decision", id=f"{run.uid}/prepare", version=decision.dossier_digest[7:]),
    } == {edge.object for edge in record.edges}
    assert {Ref(type="run", id=run.uid)} == {edge.subject for edge in record.edges}


@pytest.mark.parametrize(
    "second",
    [
        pytest.param({}, id="the same try again"),
        pytest.param({"try_number": 2}, id="the next try"),
        pytest.param({"dag_run_id": "manual__other"}, id="another DAG run"),
    ],
)
@pytest.mark.parametrize("fresh", [False, True], ids=["same token", "fresh token of the same attempt"])
def test_used_once(run, second, fresh):
    """A token of an attempt that was launched starts nothing more, whoever brings it."""
    run.until("prepare")
    permit, other = run.permit(), run.permit()
    first = consume(run, permit)

    with pytest.raises(AlreadyRecordedError) as raised:
        consume(run, other if fresh else permit, **second)

    assert first.record_id == raised.value.record_id
    assert len(list(run.view().all(kinds.LaunchIntended))) == 1


def test_used_once_across_processes(run, house):
    """Of two processes that hold a token of the same attempt one launches, the other is refused."""
    run.until("prepare")
    run.ledger.seal()
    observed = run.observed()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, house.url, str(house.key), run.uid, run.dag_run_id,
             observed.code_digest, observed.environment_digest, name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for name in ("one", "two")
    ]  # fmt: skip
    assert ["derived\n"] * 2 == [process.stdout.readline() for process in processes]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    said = sorted(process.communicate(timeout=120)[0].strip() for process in processes)

    [(record, _)] = list(run.view().all(kinds.LaunchIntended))
    assert ["consumed", f"refused {record.record_id}"] == said
