"""Rights to the data on the main line: what may not be used is neither launched nor released."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.main_line import CONF, Line
from tests.support.source_facts import (
    access,
    dana,
    launches,
    pool,
    prepare_with_sample,
    refusal,
    take_back,
    walk,
)

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.domain.identity import format_time, new_id
from pretrain_archive.domain.kinds import SourceRegistered
from pretrain_archive.domain.source_rights import standings
from pretrain_archive.gates.permit import rights_faults
from pretrain_archive.gates.service import gate_view
from pretrain_archive.gates.sources import with_sources
from pretrain_archive.services.caller import local_identity
from pretrain_archive.services.withdrawing import find_source, withdraw


@pytest.fixture
def line(tmp_path: Path) -> Line:
    """A line of its own."""
    return Line(folder=tmp_path)


@pytest.mark.requirement("R037", "R125")
def test_withdrawn_after_the_signature_stops_the_launch(line: Line) -> None:
    """The signed decision is stale, the change is named, and no token is consumed."""
    line.to_signed_launch()
    take_back(line)

    told = refusal(line)

    assert "source corpus was withdrawn at" in told
    assert "by dana: the licence ended" in told
    assert "stale approval, changed since bob signed: prepare.source_rights: verified" in told
    assert 0 == launches(line)


@pytest.mark.requirement("R037")
def test_withdrawn_between_attempts_stops_the_next_one(line: Line) -> None:
    """A resumed attempt asks again: what may not be used is not read once more."""
    line.to_signed_launch(configuration={"steps": 40, "die_at": 25})
    assert "failed" == line.launch().state
    take_back(line)

    assert "withdrawn" in refusal(line)
    assert 1 == launches(line)


@pytest.mark.requirement("R055", "R056")
def test_revoked_access_stops_the_launch_until_it_is_granted_again(line: Line) -> None:
    """The reader's right is what counts; that of another identity does not."""
    line.to_signed_launch(access_identity="svc-reader")
    access(line, "revoked", "svc-other")
    assert [] == rights_faults(with_sources(line.ledger, line.view()), now=datetime.now(UTC))

    access(line, "revoked", "svc-reader")
    assert "access of svc-reader revoked at" in refusal(line)
    assert 0 == launches(line)

    access(line, "granted", "svc-reader")
    gate = gate_view(line.ledger, line.view(), "prepare", line.policy)
    assert not [item.id for item in gate.dossier.blocked_by()]
    line.sign("prepare")
    assert "completed" == line.launch().state


@pytest.mark.requirement("R056")
def test_a_right_that_ended_since_the_signature_stops_the_launch(line: Line) -> None:
    """The end that the form told lies ahead when the gate is signed; at its moment nothing may start."""
    end = datetime.now(UTC) + timedelta(days=1)
    line.to_signed_launch(access_revoked_at=format_time(end))
    view = with_sources(line.ledger, line.view())

    assert [] == rights_faults(view, now=end - timedelta(seconds=1))
    [fault] = rights_faults(view, now=end)
    assert f"ended at {format_time(end)}" in fault


@pytest.mark.requirement("R037", "R126")
@pytest.mark.parametrize(
    ("form", "found"),
    [
        pytest.param({"usage_scope": ["internal"]}, "use 'research' is outside the scope internal", id="use"),
        pytest.param(
            {"applicable_tasks": ["alignment"]}, "task 'pre-training' is not among alignment", id="task"
        ),
    ],
)
def test_a_purpose_outside_the_scope_is_red_and_blocks(line: Line, form: dict[str, Any], found: str) -> None:
    """The gate cannot be approved, and says which source forbids what."""
    line.open(**form)
    line.prepare_data()
    asked = line.ask("prepare")
    [item] = gate_view(line.ledger, line.view(), "prepare").dossier.blocked_by()
    outcome = line.answer("prepare", asked)

    assert ("prepare.data_scope", "changed", True) == (item.id, item.verdict.value, item.blocking)
    assert found in item.found
    assert outcome.refusal is not None
    assert "prepare.data_scope" in outcome.refusal.detail


@pytest.mark.requirement("R037", "R058", "R126")
def test_a_source_behind_a_derived_snapshot_binds_the_run(line: Line) -> None:
    """A pool's source, which the run never registered, forbids what lies outside its scope."""
    line.open()
    pool(line, usage_scope=["internal"])
    prepare_with_sample(line)

    [item] = gate_view(line.ledger, line.view(), "prepare").dossier.blocked_by()

    assert "prepare.data_scope" == item.id
    assert "pool: use 'research' is outside the scope internal" in item.found


def test_what_another_run_registers_later_changes_nothing_that_was_signed(line: Line) -> None:
    """Of registrations in other runs the newest before the data were made counts."""
    line.open()
    pool(line, stream=new_id("run"))
    prepare_with_sample(line)
    line.sign("prepare")
    pool(line, stream=new_id("run"), usage_scope=["internal"])

    assert () == gate_view(line.ledger, line.view(), "prepare").stale
    assert "completed" == line.launch().state


def test_what_the_source_itself_registers_later_binds(line: Line) -> None:
    """The owner narrowed the scope outside of any run: what was signed is stale."""
    line.open()
    pool(line)
    prepare_with_sample(line)
    line.sign("prepare")
    pool(line, usage_scope=["internal"])

    assert "prepare.data_scope is changed" in refusal(line)


def test_a_derived_snapshot_of_no_source_blocks(line: Line) -> None:
    """What leads to no source has no right that could be looked up."""
    line.open()
    prepare_with_sample(line)

    [item] = gate_view(line.ledger, line.view(), "prepare").dossier.blocked_by()

    assert "prepare.data_scope" == item.id
    assert "sample@1: made from no registered source" in item.found


def test_equal_content_of_another_source_changes_nothing_that_was_signed(line: Line) -> None:
    """Another run finds the same version at another address: that source's rights are that run's affair."""
    line.to_signed_launch()
    other = Line(folder=line.folder, dag_run_id="manual__other")
    shutil.copytree(line.folder / "source", line.folder / "copy")
    other.open(source=str(line.folder / "copy"), usage_scope=["internal"])
    other.prepare_data()
    theirs = other.view().latest(SourceRegistered)
    mine, same = (run.view().latest(kinds.SnapshotCreated) for run in (line, other))

    assert theirs is not None
    assert mine is not None
    assert same is not None
    assert (mine.name, mine.version) == (same.name, same.version)
    assert () == gate_view(line.ledger, line.view(), "prepare").stale
    withdraw(line.ledger, dana(), find_source(line.ledger, theirs.source_id), reason="stolen")
    assert "completed" == line.launch().state


@pytest.mark.requirement("R037", "R113")
def test_withdrawn_while_training_forbids_the_release_but_not_the_clean_up(line: Line) -> None:
    """The gates that follow are still asked; registering is refused, cleaning up is not."""
    line.to_signed_launch()
    line.launch()
    line.register()
    line.evaluate()
    take_back(line)
    line.sign("run")
    asked = line.ask("close")

    refused = line.answer("close", asked, outcome="register")
    assert refused.refusal is not None
    assert "register needs release.rights" == refused.refusal.detail
    assert line.answer("close", asked, outcome="clean_up").decision is not None
    closed = line.close()
    assert ("clean_up", None) == (closed.outcome, closed.release)


@pytest.mark.requirement("R037", "R113")
def test_withdrawn_after_the_close_gate_was_signed_makes_no_release(line: Line) -> None:
    """The signed close is stale: nothing is released and nothing closed."""
    line.to_signed_launch()
    line.launch()
    line.register()
    line.evaluate()
    line.sign("run")
    line.sign("close")
    take_back(line)

    with pytest.raises(RefusedError, match=r"release.rights: verified") as refused:
        line.close()

    assert "stale approval" in str(refused.value)
    assert line.view().latest(kinds.ReleaseMade) is None
    assert "closed" != line.view().state


def test_withdrawn_after_the_close_leaves_the_package_as_it_is(line: Line) -> None:
    """A repeated close makes the same bytes; a further package would tell the withdrawal."""
    walk(line)
    before = sorted(record.record_id for record in line.view().records)
    sources = line.folder / "packages" / line.run_uid / "evidence" / "sources.json"
    told = sources.read_bytes()
    take_back(line)
    again = line.close(try_number=2)

    assert before == sorted(record.record_id for record in line.view().records)
    assert told == sources.read_bytes()
    assert 0 == line.verify(again.folder).returncode
    assert standings(with_sources(line.ledger, line.view()))[0].withdrawal is not None


def test_conf_of_the_line_declares_no_tasks() -> None:
    """The form's new fields may stay empty."""
    assert not {"applicable_tasks", "access_identity", "access_granted_at", "business_owner"} & CONF.keys()


@pytest.mark.requirement("R035", "R036", "R037", "R038", "R039", "R055", "R056")
def test_what_the_form_says_of_a_source_is_recorded(line: Line) -> None:
    """Each field of the form stands in the registration; empty ones stay unrecorded."""
    line.open(
        business_owner="olga", responsible="rita", applicable_tasks=["pre-training"], access_identity="svc-reader",
        access_granted_at="2026-11-01T09:00:00+08:00", masking="names replaced", licence="cc-by-4.0",
        collected_at="2025-01-01T00:00:00Z",
    )  # fmt: skip
    line.prepare_data()
    fact = line.view().latest(SourceRegistered)

    assert fact is not None
    assert ("olga", "rita", ["pre-training"]) == (fact.owner, fact.responsible, fact.applicable_tasks)
    assert ("svc-reader", "2026-11-01T01:00:00.000000Z") == (fact.access_identity, fact.access_granted_at)
    assert ("CC-BY-4.0", "CC-BY-4.0", "names replaced") == (fact.licence, fact.licence_spdx, fact.masking)
    assert (None, "2025-01-01T00:00:00Z") == (fact.access_revoked_at, fact.collected_at)
    assert local_identity() == fact.access_identity_observed


def test_what_the_form_does_not_say_stays_unrecorded(line: Line) -> None:
    """No task, no moment and no masking is invented; a contract is kept in its own words."""
    line.open(licence="as agreed with the library")
    line.prepare_data()
    fact = line.view().latest(SourceRegistered)

    assert fact is not None
    assert ([], None, None, None) == (
        fact.applicable_tasks, fact.access_granted_at, fact.access_revoked_at, fact.masking
    )  # fmt: skip
    assert ("contract: as agreed with the library", None) == (fact.licence, fact.licence_spdx)
    assert line.policy.policy.people.data_owner == fact.owner


def test_a_moment_that_is_none_is_refused_by_the_form(line: Line) -> None:
    """The field is named, and the run is recorded as failed."""
    with pytest.raises(InputError, match="access_granted_at"):
        line.open(access_granted_at="last week")
