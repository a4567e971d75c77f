"""The page of manual changes on Airflow's real API server: who may record, what is kept, what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.web.api_server import store_in
from tests.integration.web.conftest import Seeded
from tests.unit.web.gated_run import gated_run

from pretrain_archive.domain import kinds
from pretrain_archive.gates.service import load_run

HERE = {"Sec-Fetch-Site": "same-origin"}
TYPED = {
    "what": "quota",
    "scope": "queue <team-a>",
    "reason": "two more\nnodes & time",
    "before": "8",
    "after": "16",
}


@pytest.fixture(scope="module")
def run_uid(seeded: Seeded, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run of its own, open, without an attempt."""
    run = gated_run(
        seeded.ledger, store_in(tmp_path_factory.mktemp("changes")), Path(tmp_path_factory.mktemp("w")), number=7,
        dag_run_id="manual__changes",
    )  # fmt: skip
    return run.waiting_at_prepare()


def changes(seeded: Seeded, run_uid: str) -> list[kinds.ChangeRecorded]:
    """What is on record."""
    return [change for _, change in load_run(seeded.ledger, run_uid).all(kinds.ChangeRecorded)]


def send(
    seeded: Seeded, run_uid: str, user: str = "alice", headers: Any = HERE, **typed: str
) -> httpx.Response:
    """Send the form."""
    with seeded.server.client(user) as client:
        return client.post(f"/runs/{run_uid}/changes", data=TYPED | typed, headers=headers)


@pytest.mark.requirement("R072", "R093")
def test_a_change_is_recorded_under_the_logged_in_name(seeded: Seeded, run_uid: str) -> None:
    """Who is logged in is the person, whatever the form says; the list and the run's page show it, escaped."""
    before = len(changes(seeded, run_uid))
    sent = send(seeded, run_uid, person="bob", once="one")
    again = send(seeded, run_uid, once="one")

    assert [303, 303] == [sent.status_code, again.status_code]
    assert sent.headers["location"].endswith(f"/runs/{run_uid}/changes")
    kept = changes(seeded, run_uid)
    assert before + 1 == len(kept)
    assert ("alice", "page", "queue <team-a>", "8", "16", None) == (
        kept[-1].person, kept[-1].via, kept[-1].scope, kept[-1].before, kept[-1].after, kept[-1].attempt,
    )  # fmt: skip
    assert kept[-1].authentication
    with seeded.server.client("carol") as client:
        pages = [client.get(f"/runs/{run_uid}{page}").text for page in ("", "/changes")]
    assert all("queue &lt;team-a&gt;" in text and "<team-a>" not in text for text in pages)
    assert all("人工变更" in text and "Manual changes" in text for text in pages)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"Sec-Fetch-Site": "cross-site"}, 403, id="another site"),
        pytest.param({"Sec-Fetch-Site": "same-site"}, 403, id="another host of the site"),
        pytest.param({"Sec-Fetch-Site": "none"}, 403, id="no page"),
        pytest.param({}, 403, id="says nothing"),
        pytest.param({"Origin": "null"}, 403, id="an origin that is none"),
        pytest.param({"Origin": "https://evil.example"}, 403, id="another origin"),
        pytest.param({"Sec-Fetch-Site": "cross-site", "Origin": "self"}, 403, id="both, and one is wrong"),
        pytest.param({"Origin": "self"}, 303, id="this origin, of a browser that says no more"),
    ],
)
def test_a_form_of_another_site_writes_nothing(
    seeded: Seeded, run_uid: str, headers: dict[str, str], status: int
) -> None:
    """Only what a page of this very origin sends is recorded."""
    before = len(changes(seeded, run_uid))
    own = re.sub(r"(https?://[^/]+).*", r"\1", seeded.server.url)
    sent = {name: own if value == "self" else value for name, value in headers.items()}

    answer = send(seeded, run_uid, headers=sent)

    assert status == answer.status_code
    assert before + (status == 303) == len(changes(seeded, run_uid))


@pytest.mark.parametrize(
    ("user", "status"),
    [
        pytest.param("carol", 403, id="a viewer"),
        pytest.param("dave", 403, id="who may not read the Dag"),
        pytest.param(None, 401, id="nobody"),
        pytest.param("bob", 303, id="a user"),
        pytest.param("admin", 303, id="an administrator"),
    ],
)
def test_only_who_may_edit_the_run_records(
    seeded: Seeded, run_uid: str, user: str | None, status: int
) -> None:
    """The role decides, before anything is read or written; a viewer is told why there is no form."""
    before = len(changes(seeded, run_uid))

    assert status == send(seeded, run_uid, user=user).status_code  # type: ignore[arg-type]
    assert before + (status == 303) == len(changes(seeded, run_uid))
    if user == "carol":
        with seeded.server.client(user) as client:
            text = client.get(f"/runs/{run_uid}/changes").text
        assert "<form" not in text
        assert "may not edit runs" in text


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        pytest.param({"reason": " "}, "Fill in: Reason", id="no reason"),
        pytest.param({"scope": ""}, "Fill in: Scope", id="no scope"),
        pytest.param({"what": "weather"}, "Fill in: What was changed", id="unknown change"),
        pytest.param({"attempt": "1"}, "a number from 1 to 0", id="an attempt that is none"),
        pytest.param({"attempt": "x"}, "a number from 1 to 0", id="no number"),
        pytest.param({"before": "x" * 2001}, "at most 2000 characters", id="too long"),
        pytest.param({"scope": "a\0b"}, "cannot be stored", id="a zero byte"),
    ],
)
def test_what_was_typed_stays(seeded: Seeded, run_uid: str, typed: dict[str, str], said: str) -> None:
    """A fault is named, nothing is written, and the form still holds what was typed."""
    before = len(changes(seeded, run_uid))

    answer = send(seeded, run_uid, **typed)

    assert 422 == answer.status_code
    assert said in answer.text
    assert ('value="16"' in answer.text, before) == (True, len(changes(seeded, run_uid)))
    if "reason" not in typed:
        assert "two more\nnodes &amp; time</textarea>" in answer.text.replace("\r\n", "\n")


def test_another_body_is_no_form(seeded: Seeded, run_uid: str) -> None:
    """JSON, and a body without end, are refused before anything is looked at."""
    with seeded.server.client("alice") as client:
        answers = [
            client.post(f"/runs/{run_uid}/changes", json=TYPED, headers=HERE),
            client.post(f"/runs/{run_uid}/changes", data=TYPED | {"reason": "x" * 100_000}, headers=HERE),
        ]

    assert [403, 403] == [answer.status_code for answer in answers]


def test_a_closed_run_takes_notes(seeded: Seeded, tmp_path: Path) -> None:
    """A frozen run says that what is entered becomes a later note, and it does."""
    run = gated_run(seeded.ledger, store_in(tmp_path), tmp_path, number=8, dag_run_id="manual__closed")
    run_uid = run.waiting_at_prepare()
    run.answer("prepare", option="Reject")
    with seeded.server.client("alice") as client:
        text = client.get(f"/runs/{run_uid}/changes").text
        answer = client.post(f"/runs/{run_uid}/changes", data=TYPED, headers=HERE)

    assert "added as a later note" in text
    assert 303 == answer.status_code
    view = load_run(seeded.ledger, run_uid)
    notes = [note for _, note in view.all(kinds.NoteAdded)]
    assert ["manual_change"] == [note.topic for note in notes]
    assert "quota, queue <team-a> (8 → 16), by alice: two more" in notes[0].text
    assert ([], "closed") == (changes(seeded, run_uid), view.state)
