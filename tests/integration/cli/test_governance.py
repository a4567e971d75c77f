"""The commands about how the platform is run, one after the other on one ledger, as persons would call them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cli.conftest import OTHER_RUN, Answer, Home

from pretrain_archive.domain import kinds
from pretrain_archive.domain.governance_drill import CHECKS
from pretrain_archive.domain.identity import new_id
from pretrain_archive.domain.kinds import BY_MODEL
from pretrain_archive.domain.records import Actor, Draft, Origin
from pretrain_archive.ledger.factory import open_ledger

ROOT = Path(__file__).parents[3]
DIGEST = "sha256:" + "0" * 64
PLATFORM = """
[platform]
experts = ["eva"]
runbook_authors = ["ann"]
drill_valid_days = 30

[platform.teams]
storage = "sam"
"""


def tell(made: Home, uid: str, *payloads: tuple[kinds.Payload, int]) -> None:
    """Record what a task would."""
    ledger = open_ledger(
        f"sqlite:///{made.folder}/pretrain_archive/ledger.db", signing_key=None, anchors=(), create=False
    )
    for payload, attempt in payloads:
        origin = Origin(dag_id="d", dag_run_id=new_id("call"), task_id="t")
        ledger.append([
            Draft(stream=uid, kind=BY_MODEL[type(payload)], payload=payload.to_json(), attempt=attempt,
                  actor=Actor(type="task", name="t"), origin=origin)
        ])  # fmt: skip
    ledger.close()


def good(answer: Answer) -> dict[str, Any]:
    """The document of an answer that is well."""
    assert 0 == answer.code, answer.out + answer.err
    return answer.document


@pytest.mark.requirement("R228", "R229", "R230")
def test_a_change_from_proposal_to_its_end(home: Callable[[], Home]) -> None:
    """Refused out of order with exit 4 and the reasons; each step shows the next; text and JSON."""
    made = home()
    words = ("platform", "change", "propose", "--component", "framework", "--where", "packages.torch", "--before",
             "2.9.0", "--after", "2.10.0", "--reason", "mended", "--regression", "drill:worker_exit", "--stage", "0.5",
             "--stage", "1", "--project", "demo", "--key")  # fmt: skip
    refused = made.ask(*words, "--json")
    assert (4, "refused") == (refused.code, refused.document["error"]["code"])
    assert "how it is taken back" in refused.document["error"]["message"]
    proposed = good(made.ask(*words, "--rollback", "2.9.0 again", "--limit", "one node only", "--json"))
    change = str(proposed["change_id"])
    early = made.ask("platform", "change", "widen", change, "--share", "0.5")
    assert 4 == early.code
    assert "no stage skips it" in early.err
    environment = {"packages": {"torch": "2.10.0"}}
    checks = [{"name": name, "verdict": "verified"} for name in CHECKS]
    for number, state in ((7, "failed"), (8, "completed")):
        ended = {"attempt": number, "state": state, "exit_code": int(state == "failed"), "reason": state}
        tell(made, OTHER_RUN,
             (kinds.LaunchIntended(token_digest=DIGEST, token={}, target="local", checkpoint_size=1,
                                   checkpoint_root="0", signer="s"), number),
             (kinds.EnvironmentObserved(moment="start", environment=environment, environment_digest=DIGEST), number),
             (kinds.AttemptEnded.model_validate(ended), number))  # fmt: skip
    unfiled = made.ask("platform", "change", "verify", change, "--run", OTHER_RUN)
    assert 4 == unfiled.code
    assert "no drill was filed" in unfiled.err
    tell(made, OTHER_RUN, (kinds.DrillFiled(target="local", injected="worker_exit", detail="x", attempt=7,
                                            recovered_attempt=8, passed=True, checks=checks), 8))  # fmt: skip
    good(made.ask("platform", "change", "verify", change, "--run", OTHER_RUN, "--json"))
    good(made.ask("platform", "change", "widen", change, "--share", "0.5", "--json"))
    shown = made.ask("platform", "change", "show", change[-8:])
    assert "next stage: 1" in shown.out
    assert "known limit: one node only" in shown.out
    listed = good(made.ask("platform", "change", "list", "--json"))
    assert ["widening"] == [one["state"] for one in listed["changes"]]
    back = good(made.ask("platform", "change", "roll-back", change, "--reason", "slow", "--json"))
    assert "2.9.0 again" == back["way"]
    accepted = made.ask("platform", "change", "accept", change, "--project", "demo", "--run", OTHER_RUN)
    assert 4 == accepted.code
    assert "was rolled back" in accepted.err


@pytest.mark.requirement("R232")
def test_an_incident_and_what_was_made_of_it(home: Callable[[], Home], tmp_path: Path) -> None:
    """Opened, reviewed, closed with an entry of the runbook that is new since."""
    made = home()
    (tmp_path / "docs").mkdir()
    runbook = tmp_path / "docs" / "runbook.md"
    runbook.write_text("## First look\nx\n")
    words = ("--severity", "major", "--title", "node lost", "--impact", "an hour")
    touched = ("--attempt", f"{made.run_uid}#1", "--root", str(tmp_path), "--json")
    opened = good(made.ask("incident", "open", *words, *touched))
    incident = str(opened["incident_id"])
    closing = ("incident", "close", incident, "--learnt", "watch the link", "--root", str(tmp_path))
    assert 4 == made.ask(*closing).code
    reviewed = good(made.ask("incident", "review", incident, "--cause", "a switch restarted", "--json"))
    assert reviewed["timeline"]
    assert 4 == made.ask(*closing).code
    assert 2 == made.ask(*closing, "--follow-up", "runbook:Links").code
    runbook.write_text("## First look\nx\n## Links\nCall the network team.\n")
    good(made.ask(*closing, "--follow-up", "runbook:Links", "--json"))

    assert "runbook:Links: the section is new" in made.ask("incident", "show", incident).out
    assert "node lost" in made.ask("incident", "list").out


@pytest.mark.requirement("R238", "R248")
def test_the_stage_and_the_label(home: Callable[[], Home]) -> None:
    """What is missing is named in the language that is asked for; the label is refused; the run says what it is."""
    made = home()
    path = made.folder / "dags" / "policies" / "demo.toml"
    path.write_text(path.read_text() + PLATFORM)
    root = ("--project", "demo", "--root", str(ROOT))
    stage = made.ask("platform", "stage", *root, "--json")
    assert 1 == stage.code
    assert {"stage.drill", "stage.experts", "stage.boundaries", "stage.runbook_drilled"} <= set(
        stage.document["missing"]
    )
    assert "controlled_project" == stage.document["service"]["label"]
    assert "代表性恢复演练" in made.ask("platform", "stage", *root, "--language", "zh-CN").out
    label = made.ask("platform", "label", *root, "--person", "bob", "--json")
    assert (4, "refused") == (label.code, label.document["error"]["code"])
    confirmed = (
        "platform",
        "confirm",
        "--project",
        "demo",
        "--team",
        "storage",
        "--answers-for",
        "the volume",
    )
    good(made.ask(*confirmed, "--person", "sam", "--json"))
    assert 4 == made.ask(*confirmed, "--person", "eve").code
    walk = made.ask("platform", "walk", *root, "--drill", OTHER_RUN, "--person", "olga")
    assert 4 == walk.code
    assert "no drill was filed" in walk.err
    shown = made.ask("run", "show", OTHER_RUN, "--json")
    assert "unrecorded" == shown.document["service"]["label"]  # opened under a policy that said nothing


@pytest.mark.requirement("R097", "R231")
def test_a_conclusion_and_the_evidence_for_on_call(home: Callable[[], Home]) -> None:
    """What was learnt stands in the run and beside others; on call sees whom to ask and where to read."""
    made = home()
    words = ("run", "conclude", OTHER_RUN, "--outcome", "no_better", "--learnt", "more data first")
    assert 2 == made.ask(*words, "--evidence", "rec_none").code
    good(made.ask(*words, "--evidence", made.run_uid, "--json"))
    assert "more data first" in made.ask("run", "show", OTHER_RUN).out
    both = made.ask("run", "diff", made.run_uid, OTHER_RUN, "--json").document["conclusions"]
    assert [False, True] == [bool(one["told"]) for one in both]
    oncall = ("run", "oncall", OTHER_RUN, "--root", str(ROOT), "--json")
    assert ["nothing"] == [one["symptom"] for one in good(made.ask(*oncall))["read"]]
    report = ("--severity", "minor", "--title", "slow", "--impact", "an hour", "--run", OTHER_RUN)
    good(made.ask("incident", "open", *report, "--root", str(ROOT), "--json"))
    told = made.ask(*oncall)
    assert (1, ["incident"]) == (told.code, [one["symptom"] for one in told.document["read"]])
    assert (
        "平台团队: ◌" in made.ask("run", "oncall", OTHER_RUN, "--root", str(ROOT), "--language", "zh-CN").out
    )
