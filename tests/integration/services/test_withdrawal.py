"""A source is withdrawn: what rests on it is found, whom to tell is named, and nothing of it goes on."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.main_line import CONF, Line

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.domain.identity import Ref, format_time, new_id
from pretrain_archive.domain.kinds import SourceRegistered
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Relation
from pretrain_archive.domain.source_rights import standings
from pretrain_archive.domain.withdrawal import Touched
from pretrain_archive.gates.permit import rights_faults
from pretrain_archive.gates.service import gate_view
from pretrain_archive.gates.sources import with_sources
from pretrain_archive.services import data
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.withdrawing import find_source, record_access, what_rests_on, withdraw


@pytest.fixture
def line(tmp_path: Path) -> Line:
    """A line of its own."""
    return Line(folder=tmp_path)


def dana(task: str = "withdraw") -> Caller:
    """A person at the command line; every call is a step of its own."""
    origin = Origin(dag_id="cli", dag_run_id=new_id("call"), task_id=task)
    return Caller(origin=origin, actor=Actor(type="cli", name="dana"))


def take_back(line: Line, reason: str = "the licence ended") -> None:
    """Withdraw the line's only source."""
    _, done = withdraw(line.ledger, dana(), find_source(line.ledger, "corpus"), reason=reason)
    assert done


def access(line: Line, action: str, identity: str, at: str = "") -> None:
    """Record a later fact of who may read."""
    source = find_source(line.ledger, "corpus")
    record_access(line.ledger, dana(), source, action=action, identity=identity, at=at, reason="")


def launches(line: Line) -> int:
    """How many launch tokens were consumed."""
    return sum(record.kind == "launch.intended" for record in line.view().records)


def refusal(line: Line) -> str:
    """The text with which the next launch is refused."""
    with pytest.raises(RefusedError) as refused:
        line.launch()
    return str(refused.value)


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


def pool(line: Line, *, stream: str = "source/source_pool", **rights: Any) -> str:
    """A source that another person registered, and a snapshot of the pool made from it; returns the source's id."""
    payload = SourceRegistered.model_validate(
        {
            "source_id": "source_pool", "name": "pool", "uri": "s3://pool/raw", "licence": "contract: 2026/7",
            "obtained": "bought", "authorisation": "contract 2026/7", "usage_scope": ["research"],
            "origin_class": "bought", "owner": "olga", "responsible": "rita", "access_identity": "svc-pool",
        } | rights
    )  # fmt: skip
    pooled = Ref(type="snapshot", id="pool-raw", version="1")
    edge = Edge(
        subject=pooled, relation=Relation.WAS_DERIVED_FROM, object=Ref(type="source", id="source_pool")
    )
    caller = dana("pool")
    line.ledger.append([
        Draft(stream=stream, kind="source.registered", payload=payload.to_json(), actor=caller.actor,
              origin=caller.origin),
        Draft(stream="data/pool", kind="note.added", payload={"topic": "note", "text": "pooled"}, edges=(edge,),
              actor=caller.actor, origin=caller.origin),
    ])  # fmt: skip
    return payload.source_id


def prepare_with_sample(line: Line) -> None:
    """The data steps, with a snapshot of the run in between that was drawn from the pool's."""
    data.register(line.ledger, line.caller("register_source"), line.run_uid)
    sample = kinds.SnapshotCreated(
        name="sample", version=1, manifest_digest="sha256:" + "5" * 64, manifest_uri="file:///none", file_count=1,
        total_bytes=1, parent=None, unchanged=False, mode="reference",
    )  # fmt: skip
    mine, drawn_from = (Ref(type="snapshot", id=name, version="1") for name in ("sample", "pool-raw"))
    caller = line.caller("sample")
    line.ledger.append([
        Draft(
            stream=line.run_uid, kind="snapshot.created", payload=sample.to_json(), actor=caller.actor,
            origin=caller.origin,
            edges=(
                Edge(subject=mine, relation=Relation.WAS_DERIVED_FROM, object=drawn_from),
                Edge(subject=Ref(type="run", id=line.run_uid), relation=Relation.USED, object=mine),
            ),
        )
    ])  # fmt: skip
    data.make_snapshot(line.ledger, line.store, line.caller("snapshot"), line.run_uid)
    data.quality(line.ledger, line.store, line.caller("quality_check"), line.run_uid)


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


@pytest.mark.requirement("R037", "R058")
def test_withdrawing_a_source_behind_a_derived_snapshot_stops_the_launch(line: Line) -> None:
    """The chain is followed both ways: from the run to the source, and from the source to the run."""
    line.open()
    pool(line)
    prepare_with_sample(line)
    line.sign("prepare")
    source, _ = withdraw(line.ledger, dana(), find_source(line.ledger, "pool"), reason="contract ended")

    assert "source pool was withdrawn" in refusal(line)
    report = what_rests_on(line.ledger, source)
    assert [line.run_uid] == [entry["run"] for entry in report.lists["runs"]]
    assert ["snapshot:pool-raw@1", "snapshot:sample@1"] == sorted(e["id"] for e in report.lists["snapshots"])
    assert (["olga"], ["rita"]) == (report.people["owner"], report.people["responsible"])


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


def walk(line: Line) -> None:
    """The whole main line up to the released, closed run."""
    line.to_signed_launch(business_owner="olga", responsible="rita")
    line.launch()
    line.register()
    line.evaluate()
    line.sign("run")
    line.sign("close")
    line.close()


def numbers(report: Touched) -> dict[str, int]:
    """How many of each are listed."""
    return {name: len(entries) for name, entries in report.lists.items()}


@pytest.mark.requirement("R037", "R058", "R060")
def test_all_that_rests_on_a_source_is_listed_with_the_people_to_tell(line: Line) -> None:
    """Snapshot, split, run, checkpoints, evaluation, candidate, release, package and three sign-offs, by name."""
    walk(line)
    report = what_rests_on(line.ledger, find_source(line.ledger, "corpus"))

    assert {
        "snapshots": 1, "splits": 1, "runs": 1, "checkpoints": 4, "evaluations": 1, "candidates": 1, "releases": 1,
        "packages": 1, "decisions": 3,
    } == numbers(report)  # fmt: skip
    document = report.to_json(dry_run=True)
    assert json.loads(json.dumps(document)) == document
    assert {
        "source", "snapshots", "splits", "runs", "checkpoints", "evaluations", "candidates", "releases", "packages",
        "decisions", "people", "withdrawn", "truncated", "dry_run",
    } == document.keys()  # fmt: skip
    policy = line.policy.policy.people
    assert (["olga"], ["rita"]) == (report.people["owner"], report.people["responsible"])
    assert (["alice"], ["bob"]) == (report.people["submitter"], report.people["approver"])
    assert [policy.platform_owner] == report.people["platform_owner"]
    assert {"alice", "bob", "olga", "rita"} <= set(report.everybody())
    [release], [package] = document["releases"], document["packages"]
    assert ("line", "1", line.run_uid) == (release["name"], release["version"], release["run"])
    assert package["digest"].startswith("sha256:")
    assert ["close", "prepare", "run"] == sorted(entry["gate"] for entry in document["decisions"])
    assert all(entry["because"] for entries in report.lists.values() for entry in entries)


def test_another_source_s_data_is_not_listed(line: Line) -> None:
    """A later version of the same name, made from another source, does not rest on the first one."""
    line.open()
    line.prepare_data()
    first = find_source(line.ledger, "corpus")
    other = Line(folder=line.folder, dag_run_id="manual__other")
    folder = line.folder / "others"
    folder.mkdir()
    for number in range(20):
        (folder / f"doc{number}.txt").write_text(f"other words {number}\n" * 9)
    other.open(source=str(folder))
    other.prepare_data()

    report = what_rests_on(line.ledger, first)

    assert ["snapshot:corpus@1"] == [entry["id"] for entry in report.lists["snapshots"]]
    assert [line.run_uid] == [entry["run"] for entry in report.lists["runs"]]
    assert "snapshot:corpus@1" == other.view().latest(kinds.SnapshotCreated).parent  # type: ignore[union-attr]
    with pytest.raises(InputError, match="names 2 sources") as several:
        find_source(line.ledger, "corpus")
    assert first.source_id in several.value.hint


def test_a_run_triggered_again_counts_by_its_own_data(line: Line) -> None:
    """Being derived from a run that used the source is no use of the source."""
    line.open()
    line.prepare_data()
    first = find_source(line.ledger, "corpus")
    before = line.run_uid
    again = line.open(objective="Something else, decided after a look at the first data")

    assert before == again.derived_from
    assert [before] == [entry["run"] for entry in what_rests_on(line.ledger, first).lists["runs"]]


def test_a_snapshot_of_the_same_address_counts(line: Line) -> None:
    """Whoever made a snapshot by hand, without naming the source, is found by the address."""
    from pretrain_archive.data.snapshots import create_snapshot

    line.open()
    line.prepare_data()
    source = find_source(line.ledger, "corpus")
    caller = dana("snapshot_create")
    create_snapshot(line.store, line.ledger, name="by-hand", source_root=str(line.folder / "source"), mode="reference",
                    actor=caller.actor, origin=caller.origin, exclude=("doc00.txt",))  # fmt: skip

    listed = {
        entry["id"]: entry["because"] for entry in what_rests_on(line.ledger, source).lists["snapshots"]
    }

    assert {"snapshot:corpus@1", "snapshot:by-hand@1"} == listed.keys()
    assert f"source:{source.source_id}" == listed["snapshot:by-hand@1"]


@pytest.mark.requirement("R037")
def test_withdrawing_twice_records_once(line: Line) -> None:
    """The second call finds what the first one said."""
    line.open()
    line.prepare_data()
    take_back(line, "first word")
    source, done = withdraw(line.ledger, dana(), find_source(line.ledger, "corpus"), reason="second word")

    assert not done
    assert source.withdrawal is not None
    assert ("first word", "dana") == (source.withdrawal[1].reason, source.withdrawal[1].by)
    assert 1 == len(list(line.ledger.records(kinds=["source.withdrawn"])))


def test_two_who_withdraw_at_once_record_once(line: Line) -> None:
    """Whoever read the source before the other's word was written finds it afterwards."""
    line.open()
    line.prepare_data()
    read_before = find_source(line.ledger, "corpus")
    take_back(line, "first word")
    source, done = withdraw(line.ledger, dana(), read_before, reason="second word")

    assert (False, "first word") == (done, source.withdrawal and source.withdrawal[1].reason)


def test_a_withdrawal_needs_a_reason(line: Line) -> None:
    """Nothing is recorded without one."""
    line.open()
    line.prepare_data()
    with pytest.raises(InputError, match="--reason"):
        withdraw(line.ledger, dana(), find_source(line.ledger, "corpus"), reason=" ")

    assert [] == list(line.ledger.records(kinds=["source.withdrawn"]))


@pytest.mark.parametrize(
    ("values", "named"),
    [
        pytest.param({"identity": " "}, "--identity", id="no identity"),
        pytest.param({"at": "yesterday"}, "--at", id="no moment"),
        pytest.param({"at": "2026-11-29T10:00:00"}, "--at", id="no zone"),
        pytest.param({"at": "9999-01-01T00:00:00Z"}, "future", id="ahead"),
    ],
)
def test_access_facts_are_checked(line: Line, values: dict[str, str], named: str) -> None:
    """A wrong fact is refused and named."""
    line.open()
    line.prepare_data()
    facts = {"action": "revoked", "identity": "svc", "at": "", "reason": ""} | values
    with pytest.raises(InputError, match=named):
        record_access(line.ledger, dana(), find_source(line.ledger, "corpus"), **facts)


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
