"""Rules as a policy states them, and the account of their application."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError
from tests.support.processing import step
from tests.unit.gates.asked_run import POLICY_FILE

from pretrain_archive.domain.errors import PolicyError
from pretrain_archive.domain.kinds import DroppedCount, ProcessingApplied, RuleDeclared
from pretrain_archive.domain.policy import parse_policy
from pretrain_archive.domain.processing import check_order, output_of

D = "sha256:" + "a" * 64
RULE = RuleDeclared(
    rule_digest=D, name="r", version=1, kind="filter", parameters={}, interpreter="pretrain-archive filter 1"
)


@pytest.mark.requirement("R042")
def test_demo_has_versioned_rules():
    """The demo's policy lists its steps in order, each with version and moment."""
    steps = parse_policy(POLICY_FILE.read_bytes(), name="demo.toml").policy.data.steps

    assert ["filter", "deduplicate", "mix", "split"] == [found.kind for found in steps]
    assert all(found.version >= 1 and found.effective_from for found in steps)


@pytest.mark.parametrize(
    ("kind", "fields", "told"),
    [
        pytest.param("clean", {}, "cleans nothing", id="clean without a rule"),
        pytest.param("mix", {"seed": 1}, "either weights", id="mix without shares"),
        pytest.param(
            "mix", {"seed": 1, "weights": {"a": 1}, "targets": {"a": 1}}, "either weights", id="both"
        ),
        pytest.param("mix", {"seed": 1, "weights": {"a": 0}}, "greater than 0", id="a share of nothing"),
        pytest.param(
            "mix", {"seed": 1, "targets": {"a": 1}, "total_bytes": 9}, "goes with weights", id="total"
        ),
        pytest.param("sample", {"seed": 1}, "exactly one", id="sample without size"),
        pytest.param("sample", {"seed": 1, "share": 0.5, "bytes": 3}, "exactly one", id="two sizes"),
        pytest.param("sample", {"seed": 1, "share": 1.5}, "less than or equal to 1", id="more than all"),
        pytest.param("filter", {"min_byte": 3}, "Extra inputs", id="unknown name"),
        pytest.param("filter", {"effective_from": "yesterday"}, "Invalid isoformat", id="no moment"),
        pytest.param("filter", {"effective_from": "2026-01-01T00:00:00"}, "needs a zone", id="no zone"),
        pytest.param("sample", {"seed": 2**53, "share": 0.5}, "less than or equal", id="seed beyond JSON"),
        pytest.param("sample", {"seed": -1, "share": 0.5}, "greater than or equal to 0", id="negative seed"),
        pytest.param("sample", {"seed": 0, "share": 0}, "greater than 0", id="share of nothing sampled"),
        pytest.param("sample", {"seed": 0, "bytes": 2**53}, "less than or equal", id="size beyond JSON"),
        pytest.param("filter", {"version": 0}, "greater than or equal to 1", id="version 0"),
    ],
)
def test_bad_steps(kind, fields, told):
    """A step that says nothing, too much or something impossible is refused with the reason."""
    with pytest.raises(ValidationError, match=told):
        step(kind, **fields)


def test_moment_of_toml_and_text():
    """A TOML date and its text are the same moment."""
    there = step("filter", effective_from=datetime(2026, 1, 1, tzinfo=UTC))

    assert there == step("filter", effective_from="2026-01-01T00:00:00Z")
    assert "2026-01-01T00:00:00.000000Z" == there.effective_from


def test_exact_deduplication_has_no_similarity():
    """What does not matter to an exact rule is no part of its words."""
    exact, near = step("deduplicate", by="content"), step("deduplicate", by="near")

    assert exact.parameters() == step("deduplicate", by="content", threshold=0.5).parameters()
    assert near.parameters() != step("deduplicate", by="near", threshold=0.5).parameters()


def test_order():
    """Steps need names and outputs of their own, and the split comes last."""
    one, two = step("filter"), step("filter", name="other")
    check_order([one, step("deduplicate"), step("split")])
    for steps, told in (
        ([one, one], "share the name"),
        ([one, two], "share the output 'filtered'"),
        ([step("split"), one], "split comes last"),
    ):
        with pytest.raises(ValueError, match=told):
            check_order(steps)
    assert ["filtered", "tidy"] == [output_of(found) for found in (one, step("filter", output="tidy"))]


@pytest.mark.requirement("R054")
def test_recipe_needs_rights():
    """A policy that keeps recipes says whether they may be rebuilt, for how long they are kept and who approves."""
    text = POLICY_FILE.read_text().replace('snapshot_mode = "copy"', 'snapshot_mode = "recipe"')
    with pytest.raises(PolicyError, match=r"needs \[data.recipe\]"):
        parse_policy(text.encode(), name="demo.toml")

    rights = '[data.recipe]\nrebuild_allowed = false\nkeep_days = 30\napprover = "alice"\n\n[quotas]'
    policy = parse_policy(text.replace("[quotas]", rights).encode(), name="demo.toml").policy
    assert policy.data.recipe is not None
    assert ("alice", 30, False) == (
        policy.data.recipe.approver, policy.data.recipe.keep_days, policy.data.recipe.rebuild_allowed,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"),
    [("documents_out", 3), ("bytes_out", 81), ("documents_in", 4), ("bytes_rewritten", 1)],
)
@pytest.mark.requirement("R043")
def test_account_must_add_up(field, value):
    """An account in which documents or bytes are lost or won cannot be recorded."""
    good = {
        "rule": RULE, "code_version": "1", "input": "snapshot:a@1", "input_digest": D, "output": "snapshot:b@1",
        "output_digest": D, "files_in": 1, "files_out": 1, "documents_in": 3, "documents_out": 2, "bytes_in": 100,
        "bytes_out": 80, "dropped": [DroppedCount(reason="x", documents=1, bytes=20)],
    }  # fmt: skip
    ProcessingApplied(**good)

    with pytest.raises(ValidationError, match="are accounted for"):
        ProcessingApplied(**good | {field: value})
