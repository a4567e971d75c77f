"""The person who asks for the launch also approves it, by every name that could pass for somebody else's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.bypass.ground import Ground, Try

from pretrain_archive.domain import kinds


def _answers(person: str, **values: Any) -> Callable[[Ground], object]:
    """The submitter answers the gate's question under a name."""

    def act(ground: Ground) -> None:
        line = ground.line
        asked = line.ask("prepare", try_number=5)
        outcome = line.answer("prepare", asked, person=person, **values)
        assert outcome.decision is None
        ground.refused("no decision")

    return act


def _writes(person: str, words: str = "not entitled to sign", **changes: Any) -> Callable[[Ground], object]:
    """A task of the submitter writes the decision itself, past the gate."""

    def act(ground: Ground) -> None:
        line = ground.line
        if line.view().dossier("prepare") is None:
            line.ask("prepare")
        shown = line.view().dossier("prepare")
        assert shown is not None
        record, dossier = shown
        decision = kinds.GateDecision.model_validate({
            "gate": "prepare", "decision": "approve", "person_id": person, "person_name": person, "reason": "fine",
            "dossier_digest": dossier.digest, "dossier_record": record.record_id,
            "responded_at": record.recorded_at, "authentication": "test",
        } | changes)  # fmt: skip
        writer = {"person": person.strip() or "x"} if person else {}
        ground.add("gate.decision", decision, task="prepare_gate", **writer)
        ground.refused(words)

    return act


def _task_writes(person: str, task: str) -> Callable[[Ground], object]:
    """A task writes a decision in an approver's name, but as itself."""

    def act(ground: Ground) -> None:
        shown = ground.line.view().dossier("prepare")
        assert shown is not None
        record, dossier = shown
        decision = kinds.GateDecision.model_validate({
            "gate": "prepare", "decision": "approve", "person_id": person, "person_name": person, "reason": "fine",
            "dossier_digest": dossier.digest, "dossier_record": record.record_id,
            "responded_at": record.recorded_at, "authentication": "test",
        })  # fmt: skip
        ground.add("gate.decision", decision, task=task)
        ground.refused("was written by task")

    return act


TRIES = [
    Try("alice answers", "asked", _answers("alice")),
    Try("alice answers before it was asked", "data", _answers("alice")),
    Try("alice in upper case", "asked", _answers("ALICE")),
    Try("alice with a blank", "asked", _answers("alice ")),
    Try("bob in upper case", "asked", _answers("BOB")),
    Try("bob with a blank", "asked", _answers("bob ")),
    Try("bob with a line break", "asked", _answers("bob\n")),
    Try("bob in letters that look alike", "asked", _answers("bоb")),
    Try("bob and alice", "asked", _answers("bob,alice")),
    Try("alice rejects nothing", "asked", _answers("alice", option="Approve", reason="I asked myself")),
    Try("alice writes a decision", "asked", _writes("alice")),
    Try("alice writes over bob's", "signed", _writes("alice")),
    Try("alice writes, self-signed", "asked", _writes("alice", self_signed=True)),
    Try("carol writes", "asked", _writes("carol")),
    Try("admin writes", "asked", _writes("admin")),
    Try("BOB writes", "asked", _writes("BOB")),
    Try("alice writes for the run gate", "asked", _writes("alice", "no decision", gate="run")),
    Try("alice writes for the close gate", "asked", _writes("alice", "no decision", gate="close")),
    Try("alice rejects bob's approval", "signed", _writes("alice", "rejected", decision="reject")),
    Try("bob's name by the gate's task", "asked", _task_writes("bob", "prepare_gate")),
    Try("bob's name by the launch's task", "asked", _task_writes("bob", "gpu_launch")),
    Try("bob's name by the opening task", "asked", _task_writes("bob", "open_run")),
]
