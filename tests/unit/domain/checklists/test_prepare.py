"""The prepare gate's items: verified, changed or unrecorded, each by its own check (R125-R131)."""

from __future__ import annotations

from types import SimpleNamespace as Changed

import pytest
from tests.unit.domain.checklists.conftest import around, both, changed, nobody_looked, without

from pretrain_archive.domain.kinds import (
    ConfigurationDeclared,
    EnvironmentDeclared,
    QualityReported,
    RunOpened,
    SnapshotCreated,
    SourceRegistered,
    SplitCreated,
)
from pretrain_archive.domain.policy import Environment

OTHER = "sha256:" + "0" * 64
VERIFIED, CHANGED, UNRECORDED = "verified", "changed", "unrecorded"


def part(name, **changes):
    """The configuration with fields of one of its parts replaced."""
    return changed(ConfigurationDeclared, **{name: lambda old: {**old, **changes}})


READER = "service account of the workers"
REVOKED = {
    "action": "revoked",
    "identity": READER,
    "at": "2026-11-10T00:00:00Z",
    "by": "dana",
    "reason": "left",
}
WITHDRAWN = {"name": "stdlib", "reason": "licence ended", "by": "dana", "at": "2026-11-12T00:00:00Z"}
OTHER_TERMS = {
    "name": "stdlib", "uri": "file:///x", "licence": "PSF-2.0", "obtained": "by mail", "authorisation": "contract",
    "usage_scope": ["internal"], "origin_class": "bought", "owner": "dana", "responsible": "dana",
}  # fmt: skip
CASES = {
    "confirmed": [
        pytest.param(without(SnapshotCreated), UNRECORDED, id="no snapshot"),
        pytest.param(without(SplitCreated), UNRECORDED, id="no rules"),
        pytest.param(without(ConfigurationDeclared), UNRECORDED, id="no configuration"),
        pytest.param(without(EnvironmentDeclared), UNRECORDED, id="no environment"),
        pytest.param(changed(RunOpened, people={}), UNRECORDED, id="nobody"),
        pytest.param(
            changed(RunOpened, people=lambda p: {**p, "acceptance": ""}), UNRECORDED, id="a role unfilled"
        ),
    ],
    "data_scope": [
        pytest.param(without(SourceRegistered), UNRECORDED, id="no source"),
        pytest.param(without(SnapshotCreated), UNRECORDED, id="no snapshot"),
        pytest.param(
            changed(SourceRegistered, usage_scope=["internal"]), CHANGED, id="outside the source's scope"
        ),
        pytest.param(changed(SourceRegistered, source_id="other"), CHANGED, id="another source"),
        pytest.param(changed(SnapshotCreated, source_id=None), CHANGED, id="snapshot of no source"),
        pytest.param(changed(SourceRegistered, authorisation=""), CHANGED, id="no authorisation"),
        pytest.param(
            changed(RunOpened, purpose=lambda p: {**p, "intended_use": "product"}), CHANGED, id="another use"
        ),
        pytest.param(changed(RunOpened, purpose=None), CHANGED, id="no use"),
        pytest.param(changed(SourceRegistered, applicable_tasks=[]), VERIFIED, id="tasks not declared"),
        pytest.param(
            changed(SourceRegistered, applicable_tasks=["alignment"]), CHANGED, id="declared for other tasks"
        ),
        pytest.param(
            around("source.registered", **OTHER_TERMS),
            CHANGED,
            id="a later, narrower registration of the source",
        ),
    ],
    "source_rights": [
        pytest.param(nobody_looked, UNRECORDED, id="nobody looked beyond the run"),
        pytest.param(without(SourceRegistered), UNRECORDED, id="no source"),
        pytest.param(around("source.withdrawn", **WITHDRAWN), CHANGED, id="withdrawn"),
        pytest.param(around("source.access", **REVOKED), CHANGED, id="the reader's right revoked"),
        pytest.param(
            around("source.access", **REVOKED | {"identity": "somebody else"}),
            VERIFIED,
            id="another's right revoked",
        ),
        pytest.param(
            both(
                changed(SourceRegistered, access_identity=None),
                around("source.access", **REVOKED | {"identity": "somebody"}),
            ),
            CHANGED,
            id="reader unrecorded, any revoked right may be the one",
        ),
        pytest.param(
            both(
                changed(SourceRegistered, access_identity_observed="worker@host"),
                around("source.access", **REVOKED | {"identity": "worker@host"}),
            ),
            CHANGED,
            id="the right of who was seen to read revoked, though another was declared",
        ),
        pytest.param(
            both(
                around("source.access", **REVOKED),
                around("source.access", **REVOKED | {"action": "granted", "at": "2026-11-20T00:00:00Z"}),
            ),
            VERIFIED,
            id="granted again",
        ),
        pytest.param(
            both(
                around("source.access", **REVOKED),
                around("source.access", **REVOKED | {"action": "granted", "at": "2026-10-01T00:00:00Z"}),
            ),
            CHANGED,
            id="an older grant, recorded later, undoes no revocation",
        ),
        pytest.param(
            changed(SourceRegistered, access_revoked_at="2026-01-01T00:00:00Z"),
            CHANGED,
            id="ended before it was read",
        ),
        pytest.param(
            changed(SourceRegistered, access_revoked_at="9999-01-01T00:00:00Z"), VERIFIED, id="ends later"
        ),
        pytest.param(
            changed(SourceRegistered, access_revoked_at="next spring"), CHANGED, id="ends nobody knows when"
        ),
    ],
    "access_granted": [
        pytest.param(changed(SourceRegistered, access_granted_at=None), UNRECORDED, id="not said"),
        pytest.param(
            changed(SourceRegistered, access_granted_at=None, access_open="public data"),
            VERIFIED,
            id="not needed",
        ),
        pytest.param(
            changed(SourceRegistered, access_granted_at=None, access_open=""),
            UNRECORDED,
            id="an empty reason",
        ),
        pytest.param(
            both(
                changed(SourceRegistered, access_granted_at=None),
                around("source.registered", **OTHER_TERMS | {"access_open": "public data"}),
            ),
            UNRECORDED,
            id="not needed by one registration only",
        ),
        pytest.param(
            both(
                changed(SourceRegistered, access_granted_at=None),
                around("source.access", **REVOKED | {"action": "granted"}),
            ),
            VERIFIED,
            id="recorded later",
        ),
    ],
    "quality": [
        pytest.param(without(QualityReported), UNRECORDED, id="no report"),
        pytest.param(without(SnapshotCreated), UNRECORDED, id="no snapshot"),
        pytest.param(changed(QualityReported, passed=False), CHANGED, id="failed"),
        pytest.param(changed(QualityReported, documents=0), CHANGED, id="nothing was checked"),
        pytest.param(changed(QualityReported, snapshot="python-stdlib@2"), CHANGED, id="another version"),
        pytest.param(changed(SnapshotCreated, version=12), CHANGED, id="a later snapshot"),
        pytest.param(
            changed(QualityReported, snapshot="snapshot:python-stdlib@1"), VERIFIED, id="as a reference"
        ),
    ],
    "quality_advice": [
        pytest.param(without(QualityReported), UNRECORDED, id="no report"),
        pytest.param(changed(QualityReported, warnings=["style"]), CHANGED, id="an advisory gate failed"),
    ],
    "processing": [
        pytest.param(without(SplitCreated), UNRECORDED, id="no split"),
        pytest.param(changed(SplitCreated, snapshot="python-stdlib@2"), CHANGED, id="of another version"),
        pytest.param(changed(SplitCreated, train_documents=0), CHANGED, id="nothing to train on"),
    ],
    "config_environment": [
        pytest.param(
            changed(ConfigurationDeclared, evaluate_command=["sh", "-c", "true"]),
            UNRECORDED,
            id="evaluation code unrecorded",
        ),
        pytest.param(
            changed(ConfigurationDeclared, evaluate_command=["python", "e.py"], evaluate_code_digest=OTHER),
            VERIFIED,
            id="evaluation code bound",
        ),
        pytest.param(without(ConfigurationDeclared), UNRECORDED, id="no configuration"),
        pytest.param(without(EnvironmentDeclared), UNRECORDED, id="no environment"),
        pytest.param(changed(ConfigurationDeclared, code_digest=None), UNRECORDED, id="no code"),
    ],
    "budget": [
        pytest.param(without(ConfigurationDeclared), UNRECORDED, id="no request"),
        pytest.param(part("budget", accelerators=1), CHANGED, id="too many accelerators"),
        pytest.param(part("budget", minutes=10.01), CHANGED, id="too long"),
        pytest.param(part("budget", owner="alice"), CHANGED, id="another owner"),
        pytest.param(part("budget", minutes=10), VERIFIED, id="the limit itself"),
    ],
    "checkpoints": [
        pytest.param(without(ConfigurationDeclared), UNRECORDED, id="no plan"),
        pytest.param(part("checkpoints", location=""), UNRECORDED, id="no place"),
        pytest.param(part("checkpoints", retention_rule=""), UNRECORDED, id="no retention"),
        pytest.param(part("checkpoints", restore_owner=""), UNRECORDED, id="nobody restores"),
        pytest.param(part("checkpoints", restore_owner="dave"), CHANGED, id="another restores"),
    ],
    "run_id": [
        pytest.param(without(SnapshotCreated), UNRECORDED, id="no data"),
        pytest.param(without(ConfigurationDeclared), UNRECORDED, id="no configuration"),
        pytest.param(changed(RunOpened, run_uid="run_other"), CHANGED, id="another run"),
    ],
    "stop_conditions": [
        pytest.param(without(ConfigurationDeclared), UNRECORDED, id="none"),
        pytest.param(part("stop", stop_on_nan=False), CHANGED, id="NaN goes on"),
        pytest.param(part("stop", wall_minutes=10.5), CHANGED, id="longer than the quota"),
    ],
    "retention": [pytest.param(without(RunOpened), VERIFIED, id="of the policy, not of the run")],
    "masking": [
        pytest.param(without(), UNRECORDED, id="not said"),
        pytest.param(changed(SourceRegistered, masking="names replaced"), VERIFIED, id="said"),
        pytest.param(without(SourceRegistered), UNRECORDED, id="no source"),
    ],
    "collected_at": [
        pytest.param(without(), UNRECORDED, id="not said"),
        pytest.param(changed(SourceRegistered, collected_at="2026-01"), VERIFIED, id="said"),
    ],
    "access_identity": [
        pytest.param(changed(SourceRegistered, access_identity=None), UNRECORDED, id="not said"),
        pytest.param(changed(SourceRegistered, access_identity=""), UNRECORDED, id="empty"),
    ],
}
OPEN = {"masking", "collected_at"}
ADVISORY = {"masking", "collected_at", "access_identity", "access_granted", "quality_advice"}
REQUIREMENTS = {
    "confirmed": "R125", "data_scope": "R126", "quality": "R045", "processing": "R044", "config_environment": "R127",
    "budget": "R128", "checkpoints": "R129", "run_id": "R130", "stop_conditions": "R131", "retention": "R148",
    "source_rights": "R056", "access_granted": "R056",
    "masking": "R038", "collected_at": "R036", "access_identity": "R055", "quality_advice": "R047",
}  # fmt: skip


@pytest.mark.requirement("R125", "R126", "R127", "R128", "R129", "R130", "R131")
@pytest.mark.parametrize("name", CASES)
def test_of_a_good_run(whole, name):
    """A whole run has every blocking item verified, with evidence, owner, requirement and time."""
    item = whole.item("prepare", f"prepare.{name}")

    assert (UNRECORDED if name in OPEN else VERIFIED) == item.verdict
    assert (name in ADVISORY, REQUIREMENTS[name]) == (not item.blocking, item.requirement)
    assert item.owner
    assert item.evidence
    records = {record.record_id: record.recorded_at for record in whole.view.records}
    assert max(records[record_id] for record_id in item.evidence) == item.checked_at


@pytest.mark.parametrize(
    ("name", "edit", "verdict"),
    [
        pytest.param(name, *case.values, id=f"{name}: {case.id}")
        for name, cases in CASES.items()
        for case in cases
    ],
)
def test_cases(whole, name, edit, verdict):
    """What is missing is unrecorded, what contradicts is changed; nothing is found where nothing is recorded."""
    item = whole.item("prepare", f"prepare.{name}", edit)

    assert verdict == item.verdict
    if verdict == UNRECORDED:
        assert "" == item.found


@pytest.mark.requirement("R055")
def test_a_declared_reader_hides_no_observed_one(whole):
    """Where the identity that was seen to read is not the declared one, both are told."""
    item = whole.item(
        "prepare", "prepare.access_identity",
        changed(SourceRegistered, access_identity="svc-reader", access_identity_observed="root@host"),
    )  # fmt: skip

    assert item.found.endswith(": read by root@host, which is not the declared svc-reader")


def test_every_item_has_cases(whole):
    """No item is left out of the tables."""
    from pretrain_archive.domain.checklists import checklist

    items = checklist("prepare", whole.view, whole.policy)

    assert {f"prepare.{name}" for name in CASES} == {item.id for item in items}


@pytest.mark.parametrize(
    ("name", "sections"),
    [
        pytest.param(
            "data_scope",
            {"data": Changed(usage_scope=["internal"], steps=[], labels=None)},
            id="the project's scope",
        ),
        pytest.param("budget", {"quotas": Changed(max_accelerators=0, max_minutes=5)}, id="a smaller quota"),
        pytest.param(
            "stop_conditions",
            {"quotas": Changed(max_accelerators=0, max_minutes=5)},
            id="a smaller quota for stop rules",
        ),
    ],
)
def test_policy_counts(whole, name, sections):
    """The same records under another policy are judged by it."""
    assert CHANGED == whole.item("prepare", f"prepare.{name}", **sections).verdict


@pytest.mark.requirement("R148")
def test_no_retention_policy(whole):
    """Without a retention section the item is unrecorded and blocks."""
    item = whole.item("prepare", "prepare.retention", retention=None)

    assert (UNRECORDED, True) == (item.verdict, item.blocking)
    assert "[retention]" in item.hint


def test_drift_does_not_concern_prepare(whole):
    """How drift is treated changes nothing here."""
    one = whole.item("prepare", "prepare.config_environment", environment=Environment(drift="stop"))

    assert whole.item("prepare", "prepare.config_environment") == one


def test_missing_things_are_named(whole):
    """The hint names what is missing."""
    hint = whole.item("prepare", "prepare.confirmed", without(SnapshotCreated, ConfigurationDeclared)).hint

    for name in ("data snapshot", "configuration", "budget", "checkpoint policy", "stop conditions"):
        assert name in hint


def test_what_the_split_leaves_out_is_shown(whole):
    """The item on processing says what is in neither part, and nothing where nothing is known of it."""
    found = whole.item(
        "prepare", "prepare.processing", changed(SplitCreated, left_out={"lines": 2, "binary": 1})
    )
    unknown = whole.item("prepare", "prepare.processing", changed(SplitCreated, left_out=None))

    assert "(in neither: 1 binary, 2 lines)" in found.found
    assert "neither" not in unknown.found
