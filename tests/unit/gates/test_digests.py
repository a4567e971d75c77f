"""A dossier is a function of the records: same records, same digest; later gates leave earlier ones alone."""

from __future__ import annotations

import pytest
from tests.unit.gates.asked_run import CONF

from pretrain_archive.domain import kinds, texts
from pretrain_archive.domain.run_view import ALL_GATES, GATES, STATE_KINDS
from pretrain_archive.gates.service import gate_view, load_run


def digests(run, gates=GATES):
    """The digest of each gate as it stands now."""
    return {gate: run.gate(gate).digest for gate in gates}


@pytest.mark.parametrize("gate", GATES)
def test_same_records_same_digest(run, house, gate):
    """Computed twice, and from a connection of its own, the document is the same."""
    run.until("close")
    other = house.open()

    first, second = run.gate(gate), gate_view(other, load_run(other, run.uid), gate)

    assert first.dossier.document() == second.dossier.document()
    assert first.digest == second.digest


@pytest.mark.parametrize("stage", ["training", "evaluation", "run", "close"])
def test_prepare_is_not_changed_by_later_steps(run, stage):
    """Launch, evaluation and later gates do not change what the prepare gate signed."""
    run.until("prepare")
    before = run.gate("prepare").digest
    for write in {"training": [run.training], "evaluation": [run.training, run.evaluation]}.get(stage, []):
        write()
    if stage in {"run", "close"}:
        run.training()
        run.evaluation()
        run.pass_gate("run")
    if stage == "close":
        run.pass_gate("close", outcome="register")
        run.close_run("register")

    assert before == run.gate("prepare").digest
    assert run.gate("prepare").approved


def test_run_is_not_changed_by_the_close(run):
    """What the run gate signed stands after the close."""
    run.until("run")
    before = digests(run, ("prepare", "run"))
    run.pass_gate("close", outcome="register")
    run.close_run("register")

    assert before == digests(run, ("prepare", "run"))
    assert run.gate("run").approved


def finish(run):
    """What is recorded after the close gate: release, close, package, clean-up, notes."""
    run.add(
        "archive_close",
        kinds.ReleaseMade(
            release_id="rel_1", name="m", version="1", candidate_id="c", checkpoint_digest=run.snapshot_digest,
            applicable=[], not_applicable=[], known_limits=[], rollback="", take_down="", usage_scope=[],
        ),
    )  # fmt: skip
    run.add("archive_close", kinds.PackageWritten(location="/p", digest=run.snapshot_digest, files=1, total_bytes=1,
                                                  verdict="verified"))  # fmt: skip
    run.close_run("register")
    run.add("clean_up", kinds.TemporaryRemoved(paths=["data"], bytes_released=1, verified_absent=True))
    run.add("cli", kinds.NoteAdded(topic="feedback", text="works"))
    run.add("cli", kinds.NoteAdded(topic="note", text="walk-through by carol: 9 of 9 answered"))


def test_close_is_not_changed_by_what_follows(run):
    """Release, close, package, clean-up and notes of a frozen run do not change what was signed."""
    run.until("close")
    before = digests(run)

    finish(run)

    assert before == digests(run)
    assert run.gate("close").approved


def test_walkthrough_before_the_close_counts(run):
    """A walk-through that is recorded before the close gate is verified by it."""
    run.until("run")
    run.add("cli", kinds.NoteAdded(topic="note", text="walk-through by carol: 9 of 9 answered"))

    items = {item.id: item for item in run.gate("close").dossier.items}

    assert "verified" == items["close.walkthrough"].verdict
    assert "walk-through by carol: 9 of 9 answered" == items["close.walkthrough"].found


def test_state_needs_only_its_kinds(run):
    """The kinds that lists load give the state that all records give."""
    run.until("declare").ask("prepare")
    for write in (
        lambda: run.answer("prepare"),
        run.training,
        run.evaluation,
        lambda: run.ask("run"),
        run.close_run,
    ):
        few = run.view().of(run.uid, (r for r in run.view().records if r.kind in STATE_KINDS))
        assert run.view().state == few.state
        write()


ASKED_BY_POLICY = {
    "prepare.label_review",
    "close.human_evaluation",
    "close.human_caveats",
    "release.scope",
    "release.serving",
    "run.data_path",
}
"""Items that only a policy brings which asks for them, a model that is to serve, or a run of several workers."""


@pytest.mark.parametrize("language", ["en", "zh-CN"])
def test_every_word_has_a_text(run, language):
    """Every item, fact, consequence, verdict, track and gate of a whole run has a text in both languages."""
    run.until("close")
    finish(run)
    keys: dict[str, set[str]] = {"ITEMS": set(), "FACTS": set(), "TRACKS": set(), "VERDICTS": set()}
    for gate in ALL_GATES:
        dossier = run.gate(gate).dossier
        keys["ITEMS"] |= {item.id for item in dossier.items}
        keys["TRACKS"] |= {item.track for item in dossier.items}
        keys["VERDICTS"] |= {item.verdict.value for item in dossier.items}
        keys["FACTS"] |= {key for key, _ in (*dossier.facts, *dossier.consequences)}

    for table, used in keys.items():
        known = getattr(texts, table)
        missing = {key for key in used if not known.get(key, ("", ""))[language == "zh-CN"]}
        assert set() == missing, table
    assert keys["ITEMS"] | ASKED_BY_POLICY == texts.ITEMS.keys()


def test_conf_without_purpose_words(make_run):
    """A form value of an odd type in a release field does not stop the dossier from being made."""
    made = make_run(conf=CONF | {"applicable": "one line", "rollback": 5, "known_limits": ["", " "]}).until(
        "run"
    )

    items = {item.id: item for item in made.gate("close").dossier.items}

    assert ("verified", "one line") == (
        items["release.applicable"].verdict,
        items["release.applicable"].found,
    )
    assert "unrecorded" == items["close.limits"].verdict
