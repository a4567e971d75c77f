"""Incidents: linked to what happened, reviewed from the runs' timelines; a major one leaves something behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.governed import Grounds, by

from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.services.incidents import (
    Grounds as Files,
)
from pretrain_archive.services.incidents import (
    IncidentView,
    Report,
    close,
    incident_of,
    incidents,
    open_incident,
    review,
)

pytestmark = pytest.mark.requirement("R232")

RUNBOOK = "# Runbook\n\n## Lost nodes\nLook at the link.\n\n```\n## no heading\n```\n\ndef test_page():\n"
TESTS = (
    "def test_node_comes_back():\n    assert False\n\n\ndef helper():\n"
    "    '''\n    def test_written_about():\n    '''\n\n\n"
    "class TestLink:\n    async def test_link(self):\n        pass\n"
)
ENVIRONMENT = {"node": "n1"}


@pytest.fixture
def grounds(tmp_path: Path) -> Grounds:
    """A ledger, and a project's files beside it."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "runbook.md").write_text(RUNBOOK)
    (tmp_path / "test_fault.py").write_text(TESTS)
    return Grounds(tmp_path)


def files(grounds: Grounds) -> Files:
    """Where follow-ups are looked up."""
    return Files(root=grounds.folder, policies=grounds.lookup)


def opened(grounds: Grounds, **changes: Any) -> IncidentView:
    """A major incident on record."""
    values = {"severity": "major", "title": "node lost", "impact": "a run stood still for an hour"}
    record = open_incident(grounds.ledger, files(grounds), Report(**values | changes), by("olga"))
    return incident_of(grounds.ledger, str(record.payload["incident_id"]))


def reviewed(grounds: Grounds, **changes: Any) -> IncidentView:
    """The same, with its cause."""
    incident = opened(grounds, **changes)
    review(grounds.ledger, incident, by("olga"), cause="a switch restarted")
    return incident_of(grounds.ledger, incident.incident_id)


def test_from_the_report_to_what_was_learnt(grounds: Grounds) -> None:
    """The review holds what the linked attempt's timeline shows, with its records, and no other attempt's."""
    uid = grounds.open("p")
    for number, state in ((1, "lost"), (2, "failed")):
        grounds.attempt(uid, ENVIRONMENT, number=number, state=state)
    incident = reviewed(grounds, attempts=(f"{uid}#2",))
    (grounds.folder / "docs" / "runbook.md").write_text(
        RUNBOOK + "\n## A link that flaps\nCall the network team.\n"
    )
    close(grounds.ledger, files(grounds), incident, by("olga"), learnt="the link needs a watch",
          follow_ups=("runbook:A link that flaps",))  # fmt: skip
    [done] = incidents(grounds.ledger)

    assert ("closed", [uid]) == (done.state, done.opened.runs)
    assert done.reviewed is not None
    assert {2} == {entry["attempt"] for entry in done.reviewed.timeline}
    ended = next(r for r in grounds.view(uid).records if r.kind == "attempt.ended" and r.attempt == 2)
    assert ended.record_id in {entry["record"] for entry in done.reviewed.timeline}
    assert done.closed is not None
    assert ["the section is new in docs/runbook.md"] == [f.found for f in done.closed.follow_ups]
    assert {(f"incident:{done.incident_id}", f"run:{uid}")} == {
        (str(e.subject), str(e.object)) for e in done.records[0].edges[1:]
    }


def test_a_major_one_leaves_something_behind(grounds: Grounds) -> None:
    """Without review, without a follow-up it stays open; a minor one may close with what was learnt alone."""
    incident = opened(grounds)
    with pytest.raises(RefusedError, match="its cause is unrecorded"):
        close(grounds.ledger, files(grounds), incident, by("olga"), learnt="x")
    incident = reviewed(grounds)
    with pytest.raises(RefusedError, match="leaves a fault sample, a stop rule or an entry of the runbook"):
        close(grounds.ledger, files(grounds), incident, by("olga"), learnt="x")
    minor = reviewed(grounds, severity="minor")

    close(grounds.ledger, files(grounds), minor, by("olga"), learnt="x")

    assert ["open", "reviewed", "closed"] == [one.state for one in incidents(grounds.ledger)]
    with pytest.raises(RefusedError, match="is closed"):
        review(grounds.ledger, incident_of(grounds.ledger, minor.incident_id), by("olga"), cause="other")


@pytest.mark.parametrize(
    ("follow_up", "told"),
    [
        pytest.param("runbook:A link that flaps", "is missing", id="a heading that is not there"),
        pytest.param("runbook:no heading", "is missing", id="a heading inside of code"),
        pytest.param("runbook:Lost nodes", "stands as before", id="a section that nobody changed"),
        pytest.param("drill:rain", "is no fault", id="no such fault"),
        pytest.param("drill:node_lost", "was not drilled since", id="drilled before only"),
        pytest.param("drill:network_cut", "was not drilled since", id="a drill that injected nothing"),
        pytest.param("test:test_fault.py::test_other", "no test 'test_other' stands", id="no such test"),
        pytest.param("test:test_fault.py::test_written_about", "stands in", id="a test in a text"),
        pytest.param("test:test_fault.py::helper", "stands in", id="a function that is no test"),
        pytest.param("test:test_fault.py::", "stands in", id="no name of a test"),
        pytest.param("test:test_fault.py::TestOther::test_link", "stands in", id="no such class"),
        pytest.param("test:docs/runbook.md::test_page", "stands in", id="a page that is no program"),
        pytest.param(f"test:{'x' * 5000}.py::test_x", "cannot be read", id="a name that no file has"),
        pytest.param("test:none.py::test_x", "there is no file", id="no such file"),
        pytest.param("test:../outside.py::test_x", "leads outside", id="a file elsewhere"),
        pytest.param("policy:p.quotas.max_hours", "sets no quotas.max_hours", id="no such rule"),
        pytest.param("policy:p.quotas.max_minutes", "as it was when run", id="a rule that nobody changed"),
        pytest.param(
            "policy:q.quotas.max_minutes", "no run of q tells", id="a rule that nobody knows before"
        ),
        pytest.param(
            "policy:r.quotas.max_minutes", "as it was when run", id="a rule of a project of no linked run"
        ),
        pytest.param("promise:soon", "is none of", id="a promise"),
    ],
)
def test_follow_ups_that_are_not_there(grounds: Grounds, follow_up: str, told: str) -> None:
    """What is not there, or was there before, is refused, and the incident stays open."""
    uid = grounds.open("p")
    grounds.drill(uid, "node_lost")
    grounds.open("r")
    incident = reviewed(grounds, runs=(uid,))
    grounds.drill(grounds.open("p"), "network_cut", attempt=0, recovered_attempt=None, passed=False)

    with pytest.raises(InputError, match=told):
        close(grounds.ledger, files(grounds), incident, by("olga"), learnt="x", follow_ups=(follow_up,))

    assert "reviewed" == incident_of(grounds.ledger, incident.incident_id).state


def test_follow_ups_that_are_there(grounds: Grounds) -> None:
    """A drill since, a test, a rule with another value, a section that was changed: each with how it was found."""
    uid = grounds.open("p")
    incident = reviewed(grounds, runs=(uid,))
    grounds.drill(grounds.open("drill"), "node_lost")
    grounds.policy("p", max_minutes="7")
    (grounds.folder / "docs" / "runbook.md").write_text(RUNBOOK.replace("the link", "both links"))
    names = ("drill:node_lost", "test:test_fault.py::test_node_comes_back", "policy:p.quotas.max_minutes",
             "runbook:Lost nodes", "test:test_fault.py::TestLink::test_link")  # fmt: skip

    close(grounds.ledger, files(grounds), incident, by("olga"), learnt="x", follow_ups=names)

    done = incident_of(grounds.ledger, incident.incident_id).closed
    assert done is not None
    assert list(names) == [f"{f.kind}:{f.ref}" for f in done.follow_ups]
    assert "drilled since in run" in done.follow_ups[0].found
    assert "max_minutes is 7" in done.follow_ups[2].found
    assert "the section is changed" in done.follow_ups[3].found


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        pytest.param({"severity": "huge"}, "severity", id="no severity"),
        pytest.param({"title": ""}, "title", id="no title"),
        pytest.param({"noticed_at": "yesterday"}, "at", id="no moment"),
        pytest.param({"runs": ("run_x",)}, "run", id="no run"),
    ],
)
def test_reports_that_cannot_be_recorded(grounds: Grounds, changes: dict[str, Any], named: str) -> None:
    """The field is named and nothing is recorded."""
    with pytest.raises(InputError) as raised:
        opened(grounds, **changes)

    assert named == raised.value.field
    assert [] == incidents(grounds.ledger)


def test_an_attempt_that_never_was(grounds: Grounds) -> None:
    """An attempt is one of its run's."""
    uid = grounds.open("p")
    grounds.attempt(uid, ENVIRONMENT)

    with pytest.raises(InputError, match="is no attempt of that run"):
        opened(grounds, attempts=(f"{uid}#2",))


def test_another_page_is_no_runbook_of_the_incident(grounds: Grounds) -> None:
    """What stood there when the incident was opened is on record of one page; another one has no before."""
    incident = reviewed(grounds)
    (grounds.folder / "docs" / "other.md").write_text("## Anything\nAs ever.\n")
    for page, heading, told in (
        ("docs/other.md", "Anything", "was opened beside docs/runbook.md"),
        ("docs/../docs/runbook.md", "Lost nodes", "stands as before"),
    ):
        there = Files(root=grounds.folder, policies=grounds.lookup, runbook=page)
        with pytest.raises(InputError, match=told):
            close(grounds.ledger, there, incident, by("olga"), learnt="x", follow_ups=(f"runbook:{heading}",))


def test_without_a_runbook(grounds: Grounds) -> None:
    """Nothing is known of sections that nobody could read; a section is then there or not."""
    (grounds.folder / "docs" / "runbook.md").unlink()
    incident = reviewed(grounds)
    assert incident.opened.sections is None
    (grounds.folder / "docs" / "runbook.md").write_text(RUNBOOK)

    close(
        grounds.ledger, files(grounds), incident, by("olga"), learnt="x", follow_ups=("runbook:Lost nodes",)
    )

    assert "closed" == incident_of(grounds.ledger, incident.incident_id[-8:]).state
    with pytest.raises(InputError, match="is not in the ledger"):
        incident_of(grounds.ledger, "incident_x")
