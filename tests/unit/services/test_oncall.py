"""What somebody on call gets of a run: contacts, the wait, exits, last events, and the section to read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from tests.support.governed import DIGEST, Grounds, by

from pretrain_archive.domain import kinds
from pretrain_archive.domain.governance_support import supports
from pretrain_archive.domain.policy_platform import Platform
from pretrain_archive.services import incidents
from pretrain_archive.services.oncall import bundle
from pretrain_archive.services.platform_changing import Proposal, propose
from pretrain_archive.services.timelines import diagnosis_of

ROOT = Path(__file__).parents[3]
AT = "2026-11-29T10:00:00.000000Z"
PLATFORM = """
[platform.teams]
training = "tina"
storage = "sam"

[platform.support.driver]
supplier = "ACME"
covers = "faults within a day"
excludes = "our own patches"
until = 2026-12-31
warn_days = 30
inside = "pat"
"""


@pytest.fixture
def grounds(tmp_path: Path) -> Grounds:
    """A ledger, and a project with two of four teams and one supplier."""
    made = Grounds(tmp_path)
    made.policy("p", PLATFORM)
    return made


def ask(grounds: Grounds, uid: str, today: date = date(2026, 11, 30)) -> dict[str, Any]:
    """What is told of a run."""
    files = incidents.Grounds(root=ROOT, policies=grounds.lookup)
    return bundle(grounds.ledger, grounds.view(uid), files, today=today)


def seen(told: dict[str, Any]) -> list[str]:
    """The symptoms."""
    return [one["symptom"] for one in told["read"]]


@pytest.mark.requirement("R231", "R249")
def test_of_a_run_that_failed_on_a_cluster(grounds: Grounds) -> None:
    """Whom to call in each team, how the attempt and its members ended, and where to read on, in both languages."""
    uid = grounds.open("p")
    grounds.attempt(uid, None, state=None)
    grounds.add(uid, kinds.MemberObserved(
        attempt=1, worker=1, name="pod-1", phase="Failed", node="n7", at=AT, exit_code=137, exit_class="oom",
        reason="OOMKilled",
    ), 1)  # fmt: skip
    grounds.add(uid, kinds.AttemptEnded(
        attempt=1, state="failed", exit_code=137, reason="out of memory", exit_class="oom", last_step=12,
        log_uri="file:///log", log_digest=DIGEST,
    ), 1)  # fmt: skip
    told = ask(grounds, uid)

    assert {"training": "tina", "platform": None, "storage": "sam", "network": None} == {
        one["team"]: one["person"] for one in told["contacts"]["teams"]
    }
    assert "bob" == told["contacts"]["owners"]["platform_owner"]
    [end] = told["exits"]
    assert ("failed", "oom", 12, "file:///log") == tuple(
        end[name] for name in ("state", "exit_class", "last_step", "log_uri")
    )
    assert [(1, "n7", "oom")] == [(m["worker"], m["node"], m["exit_class"]) for m in end["members"]]
    [read] = told["read"]
    assert ("failed", "Recovery, step by step", True) == (read["symptom"], read["section"], read["there"])
    assert read["seen"]["zh"] == "最近一次尝试失败"
    assert any("OOMKilled" in event["what"] for event in told["events"])


@pytest.mark.requirement("R231")
def test_of_a_run_that_waits(grounds: Grounds) -> None:
    """The cluster's own words and since when; not any more once it is over."""
    uid = grounds.open("p")
    grounds.attempt(uid, None, state=None)
    wait = kinds.WaitObserved(
        attempt=1, reason="quota", message="0 of 8 left in research", object="cq", at=AT
    )
    grounds.add(uid, wait, 1)
    told = ask(grounds, uid)
    assert ("quota", "0 of 8 left in research", AT) == tuple(
        told["waiting"][name] for name in ("reason", "message", "since")
    )
    assert ("docs/kubernetes.md", "Why a launch waits", True) == tuple(
        told["read"][0][name] for name in ("page", "section", "there")
    )
    grounds.add(uid, wait.model_copy(update={"ended": True}), 1)

    assert None is ask(grounds, uid)["waiting"]
    assert ["nothing"] == seen(ask(grounds, uid))


@pytest.mark.requirement("R231")
def test_what_else_touches_it(grounds: Grounds) -> None:
    """A change that is under way, an open incident, a support that ended, a gate that waits: each with its section."""
    uid = grounds.open("p")
    grounds.attempt(uid, {"stack": {"driver": "550"}})
    propose(grounds.ledger, grounds.lookup, Proposal(
        component="driver", before="550", after="560", reason="x", regression="drill:node_lost", key=True,
        stages=(0.5, 1.0), projects=("p",), rollback="550 again", limits=("none known",),
    ), by("pat"))  # fmt: skip
    files = incidents.Grounds(root=ROOT, policies=grounds.lookup)
    report = incidents.Report(severity="minor", title="slow", impact="x", runs=(uid,))
    incidents.open_incident(grounds.ledger, files, report, by("olga"))
    grounds.add(uid, kinds.GateDossier(gate="run", digest=DIGEST, document={}, eligible=["bob"]))
    told = ask(grounds, uid, date(2027, 1, 1))

    assert ["gate", "change", "incident", "support"] == seen(told)
    assert all(one["there"] for one in told["read"])
    assert {"gate": "run", "eligible": ["bob"]} == told["contacts"]["gate"]
    assert [("driver", "550", "560")] == [(c["what"], c["before"], c["after"]) for c in told["changes"]]
    assert ["slow"] == [one["title"] for one in told["incidents"]]
    assert "support ended on 2026-12-31" in told["support"][0]["told"]["en"]


def restored(grounds: Grounds, uid: str) -> None:
    """Somebody brings an old copy of the database back."""
    database, old = grounds.folder / "ledger.db", grounds.folder / "old.db"
    grounds.ledger.seal()
    grounds.ledger.close()
    shutil.copy(database, old)
    grounds.end(uid, "failed")
    grounds.ledger.seal()
    grounds.ledger.close()
    shutil.copy(old, database)


def written_to(grounds: Grounds, _uid: str) -> None:
    """Somebody else's checkpoint stands at the end of the anchor."""
    (grounds.folder / "other").mkdir()
    other = Grounds(grounds.folder / "other")
    other.open("p")
    for one in (grounds, other):
        one.ledger.seal()
    [mine, theirs] = [one.folder / "anchors" / "checkpoints.jsonl" for one in (grounds, other)]
    with mine.open("ab") as file:
        file.write(theirs.read_bytes())


@pytest.mark.requirement("R231")
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(restored, id="behind its anchor"),
        pytest.param(written_to, id="an anchor that somebody wrote to"),
    ],
)
def test_an_archive_that_cannot_be_trusted(grounds: Grounds, damage: Callable[[Grounds, str], None]) -> None:
    """That comes first, with the section about it, and everything else is told all the same."""
    uid = grounds.open("p")
    grounds.attempt(uid, {"node": "n1"}, state=None)
    damage(grounds, uid)
    told = ask(grounds, uid)

    assert ["ledger"] == seen(told)
    assert "The ledger" == told["read"][0]["section"]
    assert "anchor" in told["ledger"]
    assert "bob" == told["contacts"]["owners"]["platform_owner"]


@pytest.mark.requirement("R233")
@pytest.mark.parametrize(
    ("today", "state", "words"),
    [
        pytest.param(date(2026, 11, 30), "valid", "supported until 2026-12-31", id="long before"),
        pytest.param(
            date(2026, 12, 1), "expiring", "ends on 2026-12-31, in 30 days", id="the first day of warning"
        ),
        pytest.param(date(2026, 12, 31), "expiring", "in 0 days", id="the last day"),
        pytest.param(date(2027, 1, 1), "expired", "ended on 2026-12-31", id="the day after"),
    ],
)
def test_support_and_its_end(grounds: Grounds, today: date, state: str, words: str) -> None:
    """Who supports what until when, what stays inside with whom, and a warning before it ends."""
    [one] = supports(grounds.lookup("p").policy.platform, today)

    assert (state, "ACME", "faults within a day", "our own patches", "pat") == (
        one.state, one.supplier, one.covers, one.excludes, one.inside
    )  # fmt: skip
    assert words in one.told()[0]
    assert "ACME" in one.told()[1]


@pytest.mark.requirement("R233")
def test_support_stands_in_the_diagnosis(grounds: Grounds) -> None:
    """A diagnosis says who supports what; of a policy without a word nothing is claimed."""
    with_one, without = grounds.open("p"), grounds.open("q")

    assert ["driver"] == [one["component"] for one in diagnosis_of(grounds.view(with_one))["support"]]
    assert [] == diagnosis_of(grounds.view(without))["support"]
    assert {} == Platform().support
