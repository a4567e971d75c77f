"""A run as its records tell it: state, waiting gate, attempts, newest facts."""

from __future__ import annotations

import pytest

from pretrain_archive.domain import texts
from pretrain_archive.domain.kinds import GateDecision, NoteAdded
from pretrain_archive.domain.records import Actor, Origin, Record
from pretrain_archive.domain.run_view import STATE_KINDS, RunView


def view(*steps: str) -> RunView:
    """A run of records written as ``kind``, ``kind gate`` or ``launch.intended n``."""
    records = []
    for position, step in enumerate(steps):
        kind, _, rest = step.partition(" ")
        payload = {"gate": rest} if kind.startswith("gate.") else {"topic": "note", "text": rest}
        record = Record(
            record_id=f"rec_{position}", position=position, stream="run_x", sequence=position, previous="", kind=kind,
            schema_version=1, attempt=int(rest) if rest.isdigit() else 0, ordinal=0, payload=payload,
            actor=Actor(type="task", name="t"), recorded_at=f"2026-11-29T10:00:{position:02d}.000000Z",
            origin=Origin(dag_id="d", dag_run_id="r", task_id="t"),
        )  # fmt: skip
        records.append(record)
    return RunView.of("run_x", records)


ASKED = ("run.opened", "gate.dossier prepare")
TRAINED = (*ASKED, "gate.decision prepare", "launch.intended 1", "attempt.started 1", "attempt.ended 1")


@pytest.mark.parametrize(
    ("steps", "state", "waiting"),
    [
        pytest.param((), "unrecorded", None, id="nothing"),
        pytest.param(("note.added x",), "unrecorded", None, id="only a note"),
        pytest.param(("run.opened",), "open", None, id="opened"),
        pytest.param(("run.opened", "run.failed"), "failed", None, id="failed at once"),
        pytest.param(("run.opened", "snapshot.created"), "open", None, id="data"),
        pytest.param(ASKED, "waiting_prepare", "prepare", id="asked"),
        pytest.param((*ASKED, "gate.refused prepare"), "waiting_prepare", "prepare", id="refused answer"),
        pytest.param((*ASKED, "gate.refused prepare", "gate.dossier prepare"), "waiting_prepare", "prepare",
                     id="asked again"),
        pytest.param((*ASKED, "note.added x", "snapshot.created"), "waiting_prepare", "prepare", id="other facts"),
        pytest.param((*ASKED, "gate.decision prepare"), "open", None, id="decided"),
        pytest.param((*ASKED, "gate.expired prepare"), "open", None, id="expired"),
        pytest.param((*ASKED, "gate.decision run"), "open", "prepare", id="another gate decided"),
        pytest.param((*ASKED, "gate.decision prepare", "launch.intended 1"), "training", None, id="launched"),
        pytest.param(TRAINED[:-1], "training", None, id="training"),
        pytest.param(TRAINED, "open", None, id="trained"),
        pytest.param((*TRAINED, "launch.intended 2"), "training", None, id="second attempt"),
        pytest.param((*TRAINED, "run.failed"), "failed", None, id="failed later"),
        pytest.param((*TRAINED, "run.failed", "launch.intended 2"), "training", None, id="goes on after a failure"),
        pytest.param((*TRAINED, "gate.dossier run"), "waiting_run", "run", id="run gate"),
        pytest.param((*TRAINED, "gate.dossier run", "gate.decision run", "gate.dossier close"), "waiting_close",
                     "close", id="close gate"),
        pytest.param((*TRAINED, "package.written"), "open", None, id="packaged"),
        pytest.param((*TRAINED, "run.closed"), "closed", None, id="closed"),
        pytest.param((*TRAINED, "run.closed", "run.failed", "gate.dossier run", "launch.intended 2"), "closed", "run",
                     id="nothing opens a closed run"),
    ],
)  # fmt: skip
def test_state(steps, state, waiting):
    """The state and the waiting gate follow from the order of the records."""
    found = view(*steps)

    assert (state, waiting) == (found.state, found.waiting_gate())


def test_state_needs_only_its_kinds():
    """Records of other kinds do not change the state."""
    for length in range(len(TRAINED) + 1):
        steps = [
            part for step in TRAINED[:length] for part in (step, "metrics.recorded x", "event.recorded x")
        ]
        some = view(*(step for step in steps if step.partition(" ")[0] in STATE_KINDS))
        assert some.state == view(*steps).state


@pytest.mark.parametrize("language", ["en", "zh-CN"])
def test_every_state_has_a_word(language):
    """Every state that occurs has a word of its own in both languages."""
    states = {
        view(*steps).state
        for steps in ((), ("run.opened",), ("run.failed",), ("launch.intended 1",), ("run.closed",))
    } | {view(f"gate.dossier {gate}").state for gate in ("prepare", "review", "run", "close")}

    assert states == texts.STATES.keys()
    words = [texts.state_word(state, language) for state in states]
    assert len(set(words)) == len(states)
    assert all(words)


def test_attempts():
    """Attempts are launch tokens that were consumed, not tries of a task."""
    assert [0, 1, 2] == [
        view(*ASKED).attempts, view(*TRAINED).attempts, view(*TRAINED, "launch.intended 2").attempts
    ]  # fmt: skip


def test_newest():
    """The newest fact of a kind, every one in order, or nothing."""
    found = view("note.added one", "run.opened", "note.added two")

    assert "two" == found.latest(NoteAdded).text
    assert ["one", "two"] == [note.text for _, note in found.all(NoteAdded)]
    assert "rec_2" == found.last(NoteAdded)[0].record_id
    assert found.last(GateDecision) is None
    assert found.decision("prepare") is None
    assert found.dossier("prepare") is None


@pytest.mark.parametrize("language", ["en", "zh-CN"])
def test_words_are_never_empty(language):
    """Every table has both words, and an unknown key is shown as itself."""
    tables = (
        texts.GATES,
        texts.VERDICTS,
        texts.TRACKS,
        texts.STATES,
        texts.OUTCOMES,
        texts.ITEMS,
        texts.FACTS,
    )
    for table in tables:
        assert all(english and chinese for english, chinese in table.values())
    assert "new thing" == texts.fact_title("new_thing", language)
    assert (
        texts.item_title("prepare.quality", language) == texts.ITEMS["prepare.quality"][language == "zh-CN"]
    )
