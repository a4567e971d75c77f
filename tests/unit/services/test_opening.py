"""A run is opened once for the same inputs; other inputs are another run, derived from it."""

from __future__ import annotations

import os

import pytest
from tests.unit.gates.asked_run import policy_with
from tests.unit.services.open_runs import Opener

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import ArchiveError, InputError, PolicyError
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.policy import load_policy
from pretrain_archive.domain.records import Draft, Relation
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.services.opening import Host, open_run, record_failure


@pytest.fixture
def opener(ledger, tmp_path) -> Opener:
    """Opens runs in an empty ledger."""
    return Opener(ledger=ledger, folder=tmp_path)


def test_opened(opener):
    """The run, its configuration and its environment are recorded together, with everything they rest on."""
    opened = opener.open()

    [view] = opener.runs()
    assert ["run.opened", "configuration.declared", "environment.declared"] == [r.kind for r in view.records]
    assert view.opened == opened
    assert ("alice", "demo", None) == (opened.submitter, opened.project, opened.derived_from)
    assert digest_of(opened.conf) == opened.conf_digest
    assert opener.policy.digest == opened.policy_digest
    assert opener.policy.policy.model_dump(mode="json") == opened.policy
    config = view.latest(kinds.ConfigurationDeclared)
    assert {"layers": 1, "checkpoint_every": 20} == config.configuration
    assert {"train.py", "evaluate.py"} == set(config.code_files)
    assert str(opener.folder / "runs" / opened.run_uid / "checkpoints") == config.checkpoints.location
    people = {e.object.id for e in view.records[0].edges if e.relation is Relation.WAS_ASSOCIATED_WITH}
    assert {"alice", "bob"} == people


@pytest.mark.parametrize("times", [1, 3])
def test_same_inputs_go_on(opener, times):
    """A retried or cleared task with the same inputs goes on with the run that is there."""
    first = opener.open()

    assert [first.run_uid] * times == [opener.open().run_uid for _ in range(times)]
    assert len(opener.runs()) == 1
    assert any("goes on" in line for line in opener.said)


def test_failed_run_goes_on(opener):
    """A run whose step failed goes on when the same inputs come again."""
    first = opener.open()
    record_failure(opener.ledger, opener.caller("snapshot"), first.run_uid, ArchiveError("disk full"))

    assert first.run_uid == opener.open().run_uid


CHANGES = {
    "form": lambda _: {"checkpoint_every": 21},
    "configuration": lambda _: {"configuration": {"layers": 2}},
    "code": lambda opener: (opener.program / "model.py").write_text("layers = 3\n") and {},
    "a file beside the code": lambda opener: (opener.program / "settings.json").write_text("{}") and {},
    "policy": lambda opener: setattr(opener, "policy", policy_with(max_minutes="9")) or {},
    "variable": lambda _: os.environ.__setitem__("OMP_NUM_THREADS", "7") or {},
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_input_is_another_run(opener, monkeypatch, name):
    """Any changed digest makes a new run that is derived from the earlier one; the earlier one stays as it was."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    first = opener.open()
    before = opener.runs()[0].records
    changes = CHANGES[name](opener)

    second = opener.open(**changes)

    assert first.run_uid == second.derived_from
    assert first.run_uid != second.run_uid
    assert before == opener.runs()[0].records
    derived = [e.object for e in opener.runs()[1].records[0].edges if e.relation is Relation.WAS_DERIVED_FROM]
    assert [Ref(type="run", id=first.run_uid)] == derived
    assert second.run_uid == opener.open(**changes).run_uid


def test_closed_run_is_left_alone(opener):
    """The same inputs after a close are a new run."""
    first = opener.open()
    closed = kinds.RunClosed(outcome="rejected", reason="over")
    caller = opener.caller("close")
    opener.ledger.append([
        Draft(stream=first.run_uid, kind="run.closed", payload=closed.to_json(), actor=caller.actor,
              origin=caller.origin)
    ])  # fmt: skip

    assert first.run_uid == opener.open().derived_from


def test_other_dag_run_is_another_run(opener):
    """Two DAG runs with the same inputs are two runs, not derived from each other."""
    first, second = opener.open(), opener.open(caller=opener.caller(dag_run_id="manual__2"))

    assert first.run_uid != second.run_uid
    assert second.derived_from is None


BAD = {
    "a field": ({"budget_minutes": 0}, InputError, "budget_minutes: "),
    "quota": ({"budget_minutes": 11}, InputError, "above the project's quota"),
    "use": ({"intended_use": "product"}, InputError, "outside the project's data-use scope"),
    "no licence": ({"licence": ""}, InputError, "licence: "),
    "no program": ({"train_command": ["/no/such/program"]}, InputError, "train_command: no such program"),
    "no script": ({"train_command": ["{python}", "/no/such/train.py"]}, InputError, "train_command: no such file"),
    "no evaluation": ({"evaluate_command": ["nothing-there"]}, InputError, "evaluate_command: no such program"),
    "not finite": ({"acceptance_limit": float("nan")}, InputError, "acceptance_limit: "),
    "too large a number": ({"configuration": {"seed": 2**53}}, InputError, "configuration: "),
    "not finite inside": ({"configuration": {"rate": float("inf")}}, InputError, "configuration: "),
    "half a character": ({"configuration": {"name": "\ud800"}}, InputError, "configuration: "),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_request_is_a_failed_run(opener, name):
    """What cannot be used ends here: a failed run with field, value and reason, and the same error."""
    changes, kind, text = BAD[name]

    with pytest.raises(kind) as raised:
        opener.open(**changes)

    [view] = opener.runs()
    assert "failed" == view.state
    failed = view.latest(kinds.RunFailed)
    assert text in failed.reason
    assert (raised.value.code, raised.value.message) == (failed.error_code, failed.reason)
    assert failed.hint
    assert (None, None) == (view.opened.purpose, view.opened.policy_digest)
    assert digest_of(view.opened.conf) == view.opened.conf_digest


@pytest.mark.parametrize(
    ("text", "project", "words"),
    [
        pytest.param(None, "demo", "no policy for 'demo'", id="no policy"),
        pytest.param("projekt = 1", "demo", "projekt: unknown name, did you mean 'project'?", id="typo"),
        pytest.param("project", "demo", "not a TOML file", id="not TOML"),
    ],
)
def test_bad_policy_is_a_failed_run(opener, tmp_path, text, project, words):
    """A missing or misspelt policy is recorded as the run's failure."""
    folder = tmp_path / "policies"
    folder.mkdir()
    if text is not None:
        (folder / "demo.toml").write_text(text)
    host = Host(policies=lambda name: load_policy(folder, name), work_folder=tmp_path)

    with pytest.raises(PolicyError):
        open_run(opener.ledger, opener.caller(), opener.values(project=project), host)

    [view] = opener.runs()
    assert words in view.latest(kinds.RunFailed).reason
    assert ("failed", project) == (view.state, view.opened.project)


def test_mended_request_follows_the_failed_one(opener):
    """After the form was mended the run is derived from the failed one."""
    with pytest.raises(InputError):
        opener.open(budget_minutes=0)
    [failed] = opener.runs()

    assert failed.run_uid == opener.open(caller=opener.caller(try_number=2)).derived_from


@pytest.mark.case("P03")
def test_code_names_are_bytes(opener):
    """A file of the program whose name is not UTF-8 is part of the code, under an escaped name."""
    (opener.program / os.fsdecode(b"bad\xff%.py")).write_text("x = 1\n")

    opener.open()

    config = opener.runs()[0].latest(kinds.ConfigurationDeclared)
    assert {"train.py", "evaluate.py", "bad%FF%25.py"} == set(config.code_files)


@pytest.mark.parametrize("state", ["closed", "unrecorded"])
def test_failure_after_the_end(opener, state):
    """A closed run takes no failure, and one that is not there is not made."""
    uid = opener.open().run_uid
    if state == "closed":
        caller = opener.caller("close")
        closed = kinds.RunClosed(outcome="expired", reason="over").to_json()
        opener.ledger.append([
            Draft(stream=uid, kind="run.closed", payload=closed, actor=caller.actor, origin=caller.origin)
        ])  # fmt: skip
    else:
        uid = uid[:-12] + "0" * 12

    record_failure(opener.ledger, opener.caller("x"), uid, ArchiveError("late"))

    assert all(view.latest(kinds.RunFailed) is None for view in opener.runs())
    assert len(opener.runs()) == 1


def test_foreign_error_is_named(opener):
    """An error that is not ours is recorded with its type."""
    opened = opener.open()

    record_failure(opener.ledger, opener.caller("x"), opened.run_uid, ZeroDivisionError("by zero"))

    assert "ZeroDivisionError: by zero" == opener.runs()[0].latest(kinds.RunFailed).reason
