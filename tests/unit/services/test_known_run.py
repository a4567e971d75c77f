"""A ledger that reads a run once: the same answers, and only what is new is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.packages import ACTOR, ORIGIN, memory_ledger
from tests.support.seeded_run import seed_run

from pretrain_archive.domain.records import Draft
from pretrain_archive.services.known_run import knowing_runs
from pretrain_archive.storage.files import FileStore


class Watched:
    """Notes which records were asked for."""

    def __init__(self, ledger: Any) -> None:
        self.ledger = ledger
        self.asked: list[dict[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ledger, name)

    def records(self, **question: Any) -> Any:
        """As the ledger."""
        self.asked.append(question)
        return self.ledger.records(**question)


def test_answers_are_those_of_the_ledger(tmp_path: Path) -> None:
    """Every kind of question, before and after something is appended."""
    ledger = memory_ledger()
    uid = seed_run(ledger, FileStore(tmp_path / "store"), tmp_path)
    knowing = knowing_runs(ledger)
    questions: list[dict[str, Any]] = [
        {"streams": [uid]},
        {"streams": [uid], "kinds": ["gate.decision"]},
        {"streams": [uid], "after": 7},
        {"streams": [uid], "limit": 3, "kinds": ["checkpoint.registered"], "after": 9},
        {"streams": [uid, "ledger"]},
        {"kinds": ["run.opened"]},
        {"streams": []},
        {"streams": ["run_nobody"]},
    ]
    for _ in range(2):
        for question in questions:
            assert list(ledger.records(**question)) == list(knowing.records(**question)), question
        draft = Draft(
            stream=uid, kind="note.added", payload={"topic": "note", "text": "x"}, actor=ACTOR, origin=ORIGIN
        )
        ledger.append([draft])


def test_a_run_is_read_once(tmp_path: Path) -> None:
    """The second look asks only behind the newest known record."""
    ledger = memory_ledger()
    uid = seed_run(ledger, FileStore(tmp_path / "store"), tmp_path)
    watched = Watched(ledger)
    knowing = knowing_runs(watched)
    first = list(knowing.records(streams=[uid]))
    again = list(knowing.records(streams=[uid], kinds=["run.opened"]))

    assert [-1, first[-1].position] == [question["after"] for question in watched.asked]
    assert ["run.opened"] == [record.kind for record in again]
    assert knowing_runs(knowing) is knowing
    assert knowing.seal().size == len(ledger.log)
