"""The commands ``model``: a release's life from the command line, and what ``run show`` and ``run trace`` tell."""

from __future__ import annotations

import getpass
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cli.conftest import OTHER_RUN, Home

MODEL = "stdlib-bytes@1"
ROOT = Path(__file__).parents[3]


def note(home: Home, what: str, *words: str, text: str = "as it was") -> Any:
    """Record a fact; return what the command printed."""
    answer = home.ask("model", "note", MODEL, "--what", what, "--text", text, *words, "--json")
    assert 0 == answer.code, answer.out
    return answer.document


@pytest.mark.requirement("R107", "R109", "R111")
def test_dossier_of_a_release(seeded: Home) -> None:
    """List and show tell origin, evaluations, signatures and checkpoints; what nobody recorded is unrecorded."""
    listed = seeded.ask("model", "list", "--json").document["models"]
    shown = seeded.ask("model", "show", "stdlib-bytes", "--json").document
    text = seeded.ask("model", "show", MODEL).out

    [one] = [model for model in listed if model["name"] == "stdlib-bytes"]
    assert (seeded.run_uid, "released", False, None) == (
        one["run_uid"], one["state"], one["delivered"], one["records_kept_until"],
    )  # fmt: skip
    assert one.items() <= shown.items()
    assert ("python-stdlib@1", "bits_per_byte") == (
        shown["data"]["snapshot"],
        shown["evaluations"][0]["metrics"][0]["name"],
    )
    assert None is shown["human_evaluation"]
    assert [True] == [
        c["released"] for c in shown["checkpoints"] if c["digest"] == shown["release"]["checkpoint_digest"]
    ]
    for words in ("delivered to: unrecorded", "records kept until: without end", "by persons: unrecorded"):
        assert words in text


@pytest.mark.requirement("R109", "R111", "R156")
def test_whole_life(home: Callable[[], Home]) -> None:
    """Delivered, a problem found and resolved, retrained, taken down, retired: each by name, all of it shown."""
    here = home()
    note(here, "delivery", "--to", "serving team", "--where", "s3://serving/a", "--person", "dana")
    problem = note(here, "feedback", "--severity", "major", "--source", "a user", text="wrong for tabs")
    open_then = here.ask("model", "show", MODEL, "--json").document["open_problems"]
    note(here, "retraining", "--run", OTHER_RUN, "--resolves", problem["fact_id"])
    note(here, "take-down", "--where", "s3://serving/a")
    retired = here.ask("model", "retire", MODEL, "--reason", "replaced", "--json")
    shown = here.ask("model", "show", MODEL, "--json").document
    run = here.ask("run", "show", here.run_uid, "--json").document["model"]
    told = here.ask("run", "show", here.run_uid).out

    assert [problem["fact_id"]] == [one["id"] for one in open_then]
    assert 0 == retired.code
    assert ("retired", [], []) == (shown["state"], shown["open_problems"], shown["places"])
    assert ["model.delivered", "model.feedback", "model.retraining", "model.taken_down", "model.retired"] == [
        fact["kind"] for fact in shown["life"]
    ]
    assert ["dana", *[getpass.getuser()] * 4] == [fact["by"] for fact in shown["life"]]
    assert "stated with --person by the user" in shown["life"][0]["authentication"]
    assert ("retired", "replaced", 0, 5) == (
        run["state"], run["retired"]["text"], run["open_problems"], run["facts"],
    )  # fmt: skip
    assert f"stdlib-bytes@1: retired at {shown['retired']['at']}" in told
    traced = here.ask("run", "trace", f"release:{shown['release_id']}@1", "--direction", "forward", "--json")
    assert {"delivery", "feedback", "retraining"} <= {n.partition(":")[0] for n in traced.document["nodes"]}
    backward = here.ask("run", "trace", f"release:{shown['release_id']}@1", "--json").document
    assert f"retirement:{shown['release_id']}" in backward["nodes"]
    assert f"run:{here.run_uid}" in here.ask("run", "trace", OTHER_RUN, "--json").document["nodes"]


def test_retired_while_it_is_still_served(home: Callable[[], Home]) -> None:
    """A finding: where it still lies is named; a second call records nothing; a later delivery is a finding too."""
    here = home()
    note(here, "delivery", "--to", "a", "--where", "place-a")
    first = here.ask("model", "retire", MODEL, "--reason", "replaced")
    second = here.ask("model", "retire", MODEL, "--reason", "again", "--json")
    late = here.ask("model", "note", MODEL, "--what", "delivery", "--text", "t", "--to", "b", "--where", "b")

    assert (1, 1, 1) == (first.code, second.code, late.code)
    assert "still delivered to: place-a" in first.out
    assert (False, "replaced") == (second.document["recorded_now"], second.document["text"])
    assert "stdlib-bytes@1 was retired before" in late.out


@pytest.mark.requirement("R156")
def test_records_are_kept_by_the_policy(home: Callable[[], Home]) -> None:
    """The project's number counts from the retirement; without one there is no end."""
    here = home()
    policy = here.folder / "dags" / "policies" / "demo.toml"
    policy.write_text(policy.read_text() + "\n[model_life]\nrecords_keep_days_after_retirement = 3650\n")
    before = here.ask("model", "show", MODEL, "--json").document["records_kept_until"]
    retired = here.ask("model", "retire", MODEL, "--reason", "replaced", "--json").document
    until = here.ask("model", "show", MODEL, "--json").document["records_kept_until"]
    policy.unlink()

    assert (None, 3650) == (before, retired["records_keep_days"])
    assert retired["policy_digest"].startswith("sha256:")
    assert int(retired["at"][:4]) + 10 - 1 <= int(until[:4]) <= int(retired["at"][:4]) + 10
    assert None is here.ask("model", "show", MODEL, "--json").document["records_kept_until"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(("show", "none"), "is no release", id="unknown"),
        pytest.param(("note", "stdlib-bytes", "--what", "feedback", "--text", "t"), "has no version", id="no version"),
        pytest.param(("note", "none@1", "--what", "feedback", "--text", "t"), "is no release", id="note of unknown"),
        pytest.param(("note", MODEL, "--what", "feedback", "--text", ""), "text: says nothing", id="no text"),
        pytest.param(("note", MODEL, "--what", "painting", "--text", "t"), "painting", id="no such thing"),
        pytest.param(("note", MODEL, "--what", "delivery", "--text", "t"), "says nothing", id="to nobody"),
        pytest.param(("note", MODEL, "--what", "retraining", "--text", "t"), "run: is missing", id="no run"),
        pytest.param(
            ("note", MODEL, "--what", "feedback", "--text", "t", "--to", "x"), "to: is not asked for", id="stray field"
        ),
        pytest.param(("retire", MODEL, "--reason", " "), "text: says nothing", id="no reason"),
        pytest.param(("retire", "none@1", "--reason", "t"), "is no release", id="retire unknown"),
    ],
)  # fmt: skip
def test_wrong_use(seeded: Home, words: tuple[str, ...], message: str) -> None:
    """One line that names the field; exit code 2, and nothing is recorded."""
    before = seeded.ask("ledger", "verify", "--json").document["records"]
    answer = seeded.ask("model", *words)

    assert 2 == answer.code
    assert "" == answer.out
    assert message in answer.err
    assert before == seeded.ask("ledger", "verify", "--json").document["records"]


def test_documented(home: Callable[[], Home]) -> None:
    """Every command that the page on a model's life shows runs as it stands, with this home's names."""
    here, page = home(), (ROOT / "docs" / "model-life.md").read_text()
    [block] = [
        found for found in re.findall(r"```\n(.*?)```", page, re.DOTALL) if "pretrain-archive" in found
    ]
    problem, codes = "", []
    for line in block.strip().splitlines():
        words = [
            {"python-bytes-demo@0.1.0": MODEL, "life_0198…": problem, "run_0199…": OTHER_RUN}.get(word, word)
            for word in shlex.split(line)[1:]
        ]
        if "--successor" in words:  # this home has no second release
            words = words[: words.index("--successor")]
        answer = here.ask(*words, "--json")
        codes.append((answer.code, answer.out if answer.code else ""))
        problem = answer.document["fact_id"] if "--severity" in words else problem

    assert [(0, "")] * 8 == codes
    assert [] == here.ask("model", "show", MODEL, "--json").document["open_problems"]
