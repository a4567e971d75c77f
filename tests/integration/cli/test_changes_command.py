"""The command ``run change``: a manual change is on record with reason, person and scope."""

from __future__ import annotations

import getpass
from collections.abc import Callable

import pytest
from tests.integration.cli.conftest import OTHER_RUN, Home

CHANGE = (
    "--what",
    "quota",
    "--scope",
    "queue team-a",
    "--reason",
    "two more nodes",
    "--before",
    "8",
    "--after",
    "16",
)


@pytest.mark.requirement("R072", "R075", "R093")
def test_a_change_is_recorded(home: Callable[[], Home]) -> None:
    """What, scope, both values, reason and person are in the ledger, and how the person is known."""
    made = home()

    answer = made.ask("run", "change", OTHER_RUN, *CHANGE, "--json")

    assert 0 == answer.code, answer.out
    document = answer.document
    user = getpass.getuser()
    assert (
        "change.recorded",
        "quota",
        "queue team-a",
        "8",
        "16",
        "two more nodes",
        user,
        "command_line",
    ) == tuple(
        document[key] for key in ("kind", "what", "scope", "before", "after", "reason", "person", "via")
    )
    assert document["authentication"].startswith(f"user {user}@")
    assert document["attempt"] is None
    assert "verified" == made.ask("ledger", "verify", "--json").document["verdict"]


def test_another_person_is_named_as_stated(home: Callable[[], Home]) -> None:
    """Who says to speak for somebody else stays on record beside that name."""
    document = home().ask("run", "change", OTHER_RUN, *CHANGE, "--person", "olga", "--json").document

    assert "olga" == document["person"]
    assert f"stated with --person by the user {getpass.getuser()}@" in document["authentication"]


def test_two_changes_are_two_records(home: Callable[[], Home]) -> None:
    """The same words twice are two changes: each call is its own."""
    made = home()
    ids = {made.ask("run", "change", OTHER_RUN, *CHANGE, "--json").document["record_id"] for _ in range(2)}

    assert 2 == len(ids)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param(("--reason", " \t"), "reason: says nothing", id="no reason"),
        pytest.param(("--scope", ""), "scope: says nothing", id="no scope"),
        pytest.param(("--attempt", "7"), "attempt: is no attempt of the run", id="an attempt that is none"),
        pytest.param(("--reason", "x" * 4001), "longer than 4000 characters", id="too long"),
        pytest.param(("--what", "weather"), "weather", id="unknown change"),
    ],
)
def test_what_cannot_be_recorded_is_named(seeded: Home, changes: tuple[str, str], said: str) -> None:
    """One clear line, exit code 2, nothing written."""
    before = seeded.ask("ledger", "verify", "--json").document["records"]

    answer = seeded.ask("run", "change", OTHER_RUN, *CHANGE, *changes)

    assert 2 == answer.code
    assert said in answer.err
    assert before == seeded.ask("ledger", "verify", "--json").document["records"]


def test_an_unknown_run(seeded: Home) -> None:
    """A name that no run has is refused as everywhere."""
    answer = seeded.ask("run", "change", "run_nowhere", *CHANGE)

    assert 2 == answer.code
    assert "is not in the ledger" in answer.err


def test_a_closed_run_takes_notes_only(home: Callable[[], Home]) -> None:
    """A frozen run refuses a change with the way out, and takes it as a note that says what it is."""
    made = home()

    refused = made.ask("run", "change", made.run_uid, *CHANGE)
    note = made.ask("run", "change", made.run_uid, *CHANGE, "--as-note", "--json").document

    assert 4 == refused.code
    assert "--as-note" in refused.err
    assert ("note.added", "manual_change") == (note["kind"], note["topic"])
    assert f"quota, queue team-a (8 → 16), by {getpass.getuser()}: two more nodes" == note["text"]
