"""The approver, or the rule by which he approved, is no longer the one of the policy at launch."""

from __future__ import annotations

from collections.abc import Callable

from tests.bypass.ground import Ground, Try

CHANGED = "changed since the run was opened"


def _policy(old: str, new: str, words: str = CHANGED) -> Callable[[Ground], object]:
    """The policy's file is edited between approval and launch."""

    def act(ground: Ground) -> None:
        text = ground.policy_text()
        assert old in text, old
        ground.set_policy(text.replace(old, new, 1))
        ground.refused(words)

    return act


def _added(text: str) -> Callable[[Ground], object]:
    """Something is added to the policy's file."""

    def act(ground: Ground) -> None:
        ground.set_policy(ground.policy_text() + text)
        ground.refused(CHANGED)

    return act


def _signed_as(person_id: str) -> Callable[[Ground], object]:
    """The policy knew another id of the person: the decision stands in the log under a wrong one."""

    def act(ground: Ground) -> None:
        line = ground.line
        found = line.view().decision("prepare")
        assert found is not None
        rules = line.policy.policy.gates.model_copy(update={"user_ids": {"bob": "17"}})
        policy = line.policy.policy.model_copy(update={"gates": rules})
        from dataclasses import replace

        line.policy = replace(line.policy, policy=policy)  # the same file, so that only the id tells
        again = found[1].model_copy(update={"person_id": person_id})
        ground.add("gate.decision", again, task="prepare_gate", person="bob")
        ground.refused("the policy says '17'")

    return act


def _opened_without(ground: Ground) -> None:
    """The recorded policy of the run names nobody else: a later opening record cannot add a person."""
    opened = ground.line.view().opened
    assert opened is not None
    decision = ground.line.view().decision("prepare")
    assert decision is not None
    ground.add("gate.decision", decision[1].model_copy(update={"person_name": "dave", "person_id": "dave"}),
               task="prepare_gate", person="dave")  # fmt: skip
    ground.refused("dave is not entitled to sign")


TRIES = [
    Try("bob no longer approves", "signed", _policy('prepare = ["bob"]', 'prepare = ["carol"]')),
    Try("bob approves only the run gate", "signed", _policy('prepare = ["bob"]', 'prepare = ["dave"]')),
    Try("somebody beside bob", "signed", _policy('prepare = ["bob"]', 'prepare = ["bob", "carol"]')),
    Try("alice beside bob", "signed", _policy('prepare = ["bob"]', 'prepare = ["alice", "bob"]')),
    Try("another approver of the run gate", "signed", _policy('run = ["bob"]', 'run = ["carol"]')),
    Try("another approver of the close gate", "signed", _policy('close = ["bob"]', 'close = ["carol"]')),
    Try("a reviewer is named", "signed", _policy('close = ["bob"]', 'close = ["bob"]\nreview = ["carol"]')),
    Try("separation of duties off", "signed", _policy('"required"', '"off"')),
    Try("decisions hold longer", "signed", _policy("decision_valid_hours = 24", "decision_valid_hours = 240")),
    Try("decisions hold shorter", "signed", _policy("decision_valid_hours = 24", "decision_valid_hours = 1")),
    Try("resumed attempts hold longer", "signed",
        _policy("decision_valid_hours = 24", "decision_valid_hours = 24\nresume_valid_hours = 999")),
    Try("ids are mapped", "signed",
        _policy("decision_valid_hours = 24", 'decision_valid_hours = 24\nuser_ids = { bob = "17" }')),
    Try("another budget owner", "signed", _policy('budget_owner = "bob"', 'budget_owner = "alice"')),
    Try("another quota", "signed", _policy("max_minutes = 10", "max_minutes = 10000")),
    Try("accelerators allowed", "signed", _policy("max_accelerators = 0", "max_accelerators = 64")),
    Try("drift stops", "signed", _policy('drift = "warn"', 'drift = "stop"')),
    Try("a variable is allowed", "signed", _policy('"TZ"', '"TZ", "LD_PRELOAD"')),
    Try("more uses of the data", "signed",
        _policy('["research", "experiment", "internal"]', '["research", "product"]')),
    Try("duplicates allowed", "signed", _policy("max_exact_duplicate_rate = 0.05", "max_exact_duplicate_rate = 1.0")),
    Try("another ceiling of explorations", "signed", _policy("accelerator_minutes = 3", "accelerator_minutes = 9")),
    Try("a comment more", "signed", _added("\n# nothing\n")),
    Try("a blank line more", "signed", _added("\n")),
    Try("signed under another id", "signed", _signed_as("18")),
    Try("signed under the name as id", "signed", _signed_as("bob")),
    Try("somebody who was never named", "signed", _opened_without),
]  # fmt: skip
