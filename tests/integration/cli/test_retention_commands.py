"""The clean-up on the command line: a plan is read again, a hold and a class are said and count, wrong use is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.cli.conftest import Home

from pretrain_archive import config


@pytest.fixture(autouse=True)
def policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policies that come with the DAGs, whatever Airflow's settings say that an earlier test had it load."""
    folder = Path(__file__).parents[3] / "dags" / "policies"
    monkeypatch.setattr(config, "policies_folder", lambda: folder)


def item_of(home: Home, ref: str) -> dict:
    """The item of a checkpoint in a new plan."""
    found = home.ask("retention", "plan", "--json").document["items"]
    return next(item for item in found if item["id"] == ref)


@pytest.mark.requirement("R147", "R151")
def test_a_plan_is_shown_again(seeded: Home) -> None:
    """By the beginning of its digest, whole or by action; with numbers, cost and what would fall."""
    planned = seeded.ask("retention", "plan", "--json").document

    again = seeded.ask("retention", "show", planned["plan"][:20], "--json")
    kept = seeded.ask("retention", "show", planned["plan"], "--action", "keep", "--limit", "1", "--json")

    assert (0, planned) == (again.code, again.document)
    assert ["keep"] == [item["action"] for item in kept.document["items"]]
    text = seeded.ask("retention", "show", planned["plan"]).out
    assert f"plan {planned['plan']}" in text
    assert "cost unrecorded" in text
    for project in planned["summary"]["projects"].values():
        assert sum(project["actions"].values()) == sum(
            sum(each.values()) for each in project["reasons"].values()
        )


@pytest.mark.requirement("R151")
def test_a_hold_is_placed_listed_and_lifted(seeded: Home) -> None:
    """While it stands the plan says so, with the person and the reason."""
    ref = seeded.ask("retention", "plan", "--json").document["items"][0]["id"]
    placed = seeded.ask("retention", "hold", ref, "--reason", "an audit", "--by", "dora", "--json").document

    assert "held: an audit (dora)" in item_of(seeded, ref)["reason"]
    assert [placed] == seeded.ask("retention", "hold", "--json").document["holds"]
    assert placed["hold_id"] in seeded.ask("retention", "hold").out
    refused = seeded.ask(
        "retention", "hold", "--release", placed["hold_id"], "--reason", "x", "--by", "mallory", "--json"
    )
    assert (4, "refused") == (refused.code, refused.document["error"]["code"])
    lifted = seeded.ask(
        "retention", "hold", "--release", placed["hold_id"], "--reason", "over", "--by", "dora", "--json"
    )
    assert (0, "dora") == (lifted.code, lifted.document["released_by"])
    assert [] == seeded.ask("retention", "hold", "--json").document["holds"]
    assert "held:" not in item_of(seeded, ref)["reason"]


def test_a_checkpoint_is_classified_late(seeded: Home) -> None:
    """The next plan goes by the new class and purpose."""
    item = seeded.ask("retention", "plan", "--json").document["items"][0]
    said = ["--reason", "a test", "--by", "alice", "--json"]

    done = seeded.ask(
        "retention", "classify", item["id"], "--class", "evaluation", "--purpose", "ablation", *said
    )

    assert (0, "ablation") == (done.code, done.document["purpose"])
    assert "ablation" == item_of(seeded, item["id"])["purpose"]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["show", "sha256:00000000"], id="unknown plan"),
        pytest.param(["hold", "nothing:x", "--reason", "x"], id="nothing that can be held"),
        pytest.param(["hold", "run:none", "--reason", "x"], id="an unknown run"),
        pytest.param(["hold", "project:demo"], id="no reason"),
        pytest.param(["hold", "--release", "hold_x", "--reason", "x"], id="an unknown hold"),
        pytest.param(["hold", "project:demo", "--release", "h", "--reason", "x"], id="both at once"),
        pytest.param(
            ["classify", "ckpt_none", "--class", "recovery", "--reason", "x"], id="unknown checkpoint"
        ),
        pytest.param(["classify", "ckpt_none", "--class", "best", "--reason", "x"], id="no class"),
    ],
)
def test_wrong_use_is_told(seeded: Home, words: list[str]) -> None:
    """One document, exit code 2, and what to do next."""
    answer = seeded.ask("retention", *words, "--json")

    assert (2, "bad_input") == (answer.code, answer.document["error"]["code"])
    assert answer.document["error"]["message"]
