"""The prepare gate in a real Airflow and a real browser: log in, read, sign, and see it recorded."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.e2e.browser import chromium, installed, logged_in

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docker" / "local"))  # the tooling's modules are scripts beside each other
from private_airflow import PrivateAirflow  # noqa: E402 - after the path above

pytestmark = [
    pytest.mark.browser,
    pytest.mark.airflow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not installed(), reason="Chromium is not installed (apt-get install chromium)"),
]
DAG = "pretraining_reference"
OBJECTIVE = "Learn the byte statistics of a few modules"
CONF = {
    "project": "demo",
    "objective": OBJECTIVE,
    "source": "python:stdlib",
    "licence": "PSF-2.0",
    # The policy wants files beside folders (mixture) and at least fifty documents.
    "include": ["*.py", "email/*.py", "json/*.py", "asyncio/*.py", "unittest/*.py", "xml/**/*.py"],
}
REASON = "Licence and budget read in the dossier; a CPU run of some minutes is worth it."


@dataclass
class Gate:
    """A real Airflow with a run that waits at its prepare gate, and a browser."""

    airflow: PrivateAirflow
    browser: Browser
    dag_run_id: str

    @property
    def dag_run(self) -> str:
        """Airflow's page of the Dag run."""
        return f"{self.airflow.url}/dags/{DAG}/runs/{self.dag_run_id}"

    def page(self, name: str) -> Page:
        """A page of a person who is logged in already."""
        context = logged_in(
            self.browser, url=self.airflow.url, token=self.airflow.token(name), locale="en-US",
            viewport={"width": 1280, "height": 900},
        )  # fmt: skip
        return context.new_page()


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """Alice triggers the reference Dag; the run waits at its prepare gate."""
    with PrivateAirflow(tmp_path_factory.mktemp("airflow"), dags_folder=ROOT / "dags") as airflow:
        airflow.wait_dag(DAG)
        dag_run_id = airflow.trigger("alice", DAG, CONF)
        airflow.wait_question(DAG, dag_run_id, "prepare_gate")
        with chromium() as browser:
            yield Gate(airflow=airflow, browser=browser, dag_run_id=dag_run_id)


def log_in(page: Page, airflow: PrivateAirflow, name: str) -> None:
    """Through Airflow's own login page."""
    page.goto(f"{airflow.url}/auth/login")
    page.locator("input[name=username]").fill(name)
    page.locator("input[name=password]").fill(airflow.passwords[name])
    page.locator("button[type=submit]").click()
    page.wait_for_url(lambda url: "/auth/login" not in url)


def decisions(gate: Gate) -> list[dict[str, Any]]:
    """What the ledger holds of the gate's answers."""
    from pretrain_archive.ledger.factory import open_ledger

    ledger = open_ledger(
        f"sqlite:///{gate.airflow.home}/pretrain_archive/ledger.db", signing_key=None, anchors=[]
    )
    return [dict(record.payload) for record in ledger.records(kinds=("gate.decision",))]


def press(page: Page, option: str) -> None:
    """Press until Airflow takes the answer: its SQLite may be locked, and then the page says to try again."""
    taken = re.compile("handed to Airflow|could not be sent")
    for _ in range(5):
        page.get_by_role("button", name=option).click()
        expect(page.locator("#said")).to_contain_text(taken, timeout=60_000)
        if "could not be sent" not in page.locator("#said").inner_text():
            return
        expect(page.get_by_role("button", name=option)).to_have_attribute("aria-disabled", "false")
    raise AssertionError(page.locator("#said").inner_text())


def test_1_the_submitter_and_the_auditor_read_but_cannot_sign(gate: Gate) -> None:
    """Alice finds the run's page in a tab of the Dag run; neither she nor carol is offered a form."""
    said = {}
    for name in ("alice", "carol"):
        page = gate.page(name)
        page.goto(f"{gate.dag_run}/plugin/pretrain-archive-run")
        frame = page.frame_locator("iframe")
        expect(frame.get_by_role("heading", name=OBJECTIVE)).to_be_visible(timeout=30_000)
        frame.get_by_role("link", name="Open the gate view").click()
        expect(frame.get_by_role("heading", name="Prepare gate", exact=True)).to_be_visible()
        expect(frame.locator("form#answer")).to_have_count(0)
        said[name] = frame.locator("#sign").inner_text()

    assert "You started this run; it must be signed by bob." in said["alice"]
    assert "it must be signed by bob." in said["carol"]


def test_2_airflow_refuses_the_submitter_and_the_page_says_so(gate: Gate) -> None:
    """Even a form that alice forges is refused by Airflow's own endpoint, and signs nothing."""
    page = gate.page("alice")
    page.goto(
        f"{gate.airflow.url}/pretrain-archive/at?dag_id={DAG}&dag_run_id={gate.dag_run_id}&gate=prepare"
    )
    status = page.evaluate(
        "(path) => fetch(path, { method: 'PATCH', headers: { 'Content-Type': 'application/json' },"
        " body: JSON.stringify({ chosen_options: ['Approve'], params_input: {} }) }).then((r) => r.status)",
        f"/api/v2/dags/{DAG}/dagRuns/{gate.dag_run_id}/taskInstances/prepare_gate/-1/hitlDetails",
    )

    assert 403 == status
    assert [] == decisions(gate)


@pytest.mark.requirement("R126", "R133")
def test_3_the_approver_reads_the_dossier_and_signs_it(gate: Gate) -> None:
    """Bob logs in, opens the required action, follows it to the dossier, signs with a reason, and it is recorded."""
    page = gate.browser.new_context(locale="en-US", viewport={"width": 1280, "height": 900}).new_page()
    log_in(page, gate.airflow, "bob")
    page.goto(f"{gate.airflow.url}/required_actions")
    page.get_by_role("link", name=re.compile("Prepare gate")).first.click()
    link = page.get_by_role("link", name=re.compile("Read the whole dossier")).first
    link.wait_for()
    page.goto(str(link.evaluate("(a) => a.href")))
    expect(page.get_by_role("heading", name="Prepare gate", exact=True)).to_be_visible()
    expect(page.get_by_text("You may sign")).to_be_visible()
    expect(page.locator(".banner.blocked")).to_have_count(0)
    short = page.locator("form#answer code").inner_text()
    digest = page.locator("form#answer").get_attribute("data-digest")
    body = gate.airflow.hitl_details(DAG, gate.dag_run_id)[0]["body"]
    assert short in body
    page.get_by_label("Reason (required)").fill(REASON)
    if page.locator("#acknowledged").count():
        page.locator("#acknowledged").check()
    press(page, "Approve")
    expect(page.locator(".card.gate.approve")).to_contain_text(REASON, timeout=120_000)
    [decision] = decisions(gate)

    assert ("bob", "approve", REASON, digest) == tuple(
        decision[name] for name in ("person_name", "decision", "reason", "dossier_digest")
    )


def test_4_the_run_page_shows_who_signed_and_why(gate: Gate) -> None:
    """Carol, who audits, sees the approval, the person and the reason on the run's page in Airflow."""
    page = gate.page("carol")
    page.goto(f"{gate.dag_run}/plugin/pretrain-archive-run")
    frame = page.frame_locator("iframe")
    card = frame.locator(".card.gate").first

    expect(card).to_contain_text("approved", timeout=30_000)
    expect(card).to_contain_text("bob")
    expect(card).to_contain_text(REASON)
    expect(frame.get_by_role("heading", name=OBJECTIVE)).to_be_visible()


def test_5_an_answered_question_cannot_be_answered_again(gate: Gate) -> None:
    """Airflow answers 409 to a second answer; the first decision stays the only one."""
    page = gate.page("bob")
    page.goto(
        f"{gate.airflow.url}/pretrain-archive/at?dag_id={DAG}&dag_run_id={gate.dag_run_id}&gate=prepare"
    )
    expect(page.locator("form#answer")).to_have_count(0)
    status = page.evaluate(
        "(path) => fetch(path, { method: 'PATCH', headers: { 'Content-Type': 'application/json' },"
        " body: JSON.stringify({ chosen_options: ['Reject'], params_input: { reason: 'late' } }) })"
        ".then((r) => r.status)",
        f"/api/v2/dags/{DAG}/dagRuns/{gate.dag_run_id}/taskInstances/prepare_gate/-1/hitlDetails",
    )

    assert 409 == status
    assert ["approve"] == [decision["decision"] for decision in decisions(gate)]


def test_6_the_extra_links_of_the_gate_lead_to_it(gate: Gate) -> None:
    """The task's links in Airflow are ours and land on the gate view and on the run."""
    path = f"/api/v2/dags/{DAG}/dagRuns/{gate.dag_run_id}/taskInstances/prepare_gate/links"
    links = gate.airflow.api("bob", "GET", path)["extra_links"]
    page, landed = gate.page("bob"), {}
    for name in ("Gate", "Dossier"):
        page.goto(links[name])
        landed[name] = re.sub(r"run_[0-9a-f-]+", "RUN", page.url.removeprefix(gate.airflow.url))

    assert {
        "Gate": "/pretrain-archive/runs/RUN/gates/prepare",
        "Dossier": "/pretrain-archive/runs/RUN",
    } == landed


@pytest.mark.case("G01")
def test_7_a_stale_question_is_signed_fresh_from_our_page(gate: Gate) -> None:
    """After a fact changed, the question in Airflow is old; our page says so and signs what stands now."""
    from pretrain_archive.domain import kinds
    from pretrain_archive.domain.records import Actor, Draft, Origin
    from pretrain_archive.ledger.canonical import digest_of
    from pretrain_archive.ledger.factory import open_ledger

    dag_run_id = gate.airflow.trigger("alice", DAG, CONF)
    asked = gate.airflow.wait_question(DAG, dag_run_id, "prepare_gate")
    ledger = open_ledger(
        f"sqlite:///{gate.airflow.home}/pretrain_archive/ledger.db",
        signing_key=None,
        anchors=[],
        auto_seal=False,
    )
    [declared] = [
        record
        for record in ledger.records(kinds=("configuration.declared",))
        if record.origin.dag_run_id == dag_run_id
    ]
    configuration = {**declared.payload["configuration"], "changed_after_the_question": True}
    payload = kinds.ConfigurationDeclared.model_validate(
        {**declared.payload, "configuration": configuration, "configuration_digest": digest_of(configuration)}
    )
    late = Origin(dag_id=DAG, dag_run_id=dag_run_id, task_id="late_change")
    ledger.append(
        [
            Draft(
                stream=declared.stream,
                kind="configuration.declared",
                payload=payload.to_json(),
                actor=Actor(type="cli", name="test"),
                origin=late,
            )
        ]
    )
    page = gate.page("bob")
    page.goto(f"{gate.airflow.url}/pretrain-archive/runs/{declared.stream}/gates/prepare")
    expect(page.locator(".banner.stale")).to_contain_text("The question in Airflow shows older evidence")
    fresh = page.locator("form#answer").get_attribute("data-digest")
    page.get_by_label("Reason (required)").fill("The change was read; too late for this run.")
    press(page, "Reject")
    expect(page.locator(".card.gate.reject")).to_contain_text("The change was read", timeout=120_000)
    decision = next(d for d in reversed(decisions(gate)) if d["decision"] == "reject")

    assert fresh != asked.params["dossier_digest"]["schema"]["const"]
    assert (fresh, "bob") == (decision["dossier_digest"], decision["person_name"])
    assert [] == list(ledger.records(streams=(declared.stream,), kinds=("gate.refused",)))
