"""Killed or failing at any file syscall of a decision: nothing half-decided, and the retry decides once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support import faults
from tests.support.main_line import Line

from pretrain_archive.domain.kinds import GateDecision
from pretrain_archive.gates.answers import take_answer
from pretrain_archive.gates.judging import Answer
from pretrain_archive.ledger.audit import audit

pytestmark = pytest.mark.forks

MOMENT = "2026-11-29T12:00:00.000000Z"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Line:
    """A run that waits at its prepare gate."""
    line = Line(folder=tmp_path_factory.mktemp("asked"))
    line.open()
    line.prepare_data()
    line.ask("prepare")
    line.ledger.seal()
    line.ledger.close()
    return line


def copy_of(asked: Line, folder: Path) -> Line:
    """The same ledger in a folder of its own."""
    folder.mkdir()
    for name in ("ledger.db", "ledger.key", "ledger.pub"):
        shutil.copy(asked.folder / name, folder / name)
    shutil.copytree(asked.folder / "anchors", folder / "anchors")
    (folder / "source").mkdir()
    return Line(folder=folder, run_uid=asked.run_uid, policy=asked.policy)


def decide(line: Line) -> Callable[[], None]:
    """A step that takes bob's one answer."""
    digest = line.view().dossier("prepare")[1].digest  # type: ignore[index]  # it was asked
    values = {"dossier_digest": digest, "reason": "read", "acknowledge": True}
    answer = Answer(person_id="bob", person_name="bob", option="Approve", values=values, responded_at=MOMENT,
                    authentication="test")  # fmt: skip
    caller = line.caller("prepare_gate")
    line.ledger.close()

    def work() -> None:
        outcome = take_answer(
            line.open_ledger(), run_uid=line.run_uid, gate="prepare", answer=answer, policy=line.policy,
            actor=caller.actor, origin=caller.origin,
        )  # fmt: skip
        assert outcome.decision is not None

    return work


def decisions(line: Line) -> int:
    """How many decisions the ledger holds; the log must be whole."""
    line.ledger = line.open_ledger()
    found = audit(line.ledger.database, anchors=line.ledger.anchors, keys=line.ledger.keys)
    assert (found.verdict, found.findings) == ("verified", ())
    count = sum(1 for _ in line.view().all(GateDecision))
    line.ledger.close()
    return count


@pytest.mark.requirement("R005")
def test_decision_is_whole_and_once(asked: Line, tmp_path: Path) -> None:
    """At file syscalls of each kind, killed, EIO, ENOSPC: no decision or one before the retry, exactly one after it."""
    first = copy_of(asked, tmp_path / "observed")
    touched = lambda line: [line.folder / "ledger.db", line.folder / "ledger.db-journal", line.folder]  # noqa: E731
    seen = faults.observe(decide(first), paths=touched(first))
    assert {"pwrite64", "fdatasync", "unlink"} <= set(seen), seen
    hit = 0
    for number, fault in enumerate(faults.plan(seen, each=10)):
        line = copy_of(asked, tmp_path / str(number))
        outcome = faults.run(decide(line), paths=touched(line), fault=fault)
        hit += outcome.code != 0
        assert decisions(line) in ({1} if outcome.code == 0 else {0, 1}), f"{fault}: {outcome.text}"
        retry = faults.run(decide(line), paths=touched(line))
        assert retry.code == 0, f"{fault}: {retry.text}"
        assert decisions(line) == 1, f"{fault}"
        shutil.rmtree(line.folder)
    assert hit > len(seen), "the faults must really have hit"
