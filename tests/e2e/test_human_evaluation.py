"""Two persons read a candidate's outputs in a running Airflow, side by side and blinded, before it is released."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow_client import Question
from tests.e2e.conftest import DAG, House
from tests.support.human_run import ITEMS
from tests.support.main_line import EVALUATE, TRAIN
from waiting import wait_for

from pretrain_archive.domain import kinds
from pretrain_archive.domain.verdicts import Verdict

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(900)]

WRITES = f"""
items = {ITEMS!r}
Path(env("SAMPLES")).write_text("".join(json.dumps(item) + "\\n" for item in items))
"""
READERS = {1: "bob", 2: "admin"}


@pytest.fixture(scope="module")
def judged(house: House, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A DAG run past its run gate: the sample of its candidate's outputs is drawn."""
    folder = tmp_path_factory.mktemp("judged")
    (folder / "train.py").write_text(TRAIN)
    (folder / "evaluate.py").write_text(EVALUATE + WRITES)
    dag_run_id = house.trigger(
        project="judged", configuration={"steps": 20}, checkpoint_every=10, release_name="judged",
        train_command=["{python}", str(folder / "train.py")],
        evaluate_command=["{python}", str(folder / "evaluate.py")],
    )  # fmt: skip
    for gate in ("prepare", "run"):
        house.pass_gate(dag_run_id, gate)
    return dag_run_id


def submit(house: House, question: Question, *, user: str, gap: bool = False) -> int:
    """Score every item of a page as the same, but with ``gap`` not the first; return Airflow's answer."""
    asked = sorted(name for name in question.params if name.startswith("score_"))
    values = dict.fromkeys(asked[1 if gap else 0 :], "score:same")
    return house.air.answer(user, question, option="Submit", values=values).status_code


def recorded(house: House, dag_run_id: str, model: type[kinds.Payload]) -> int:
    """How many facts of a kind the ledger holds."""
    return len(house.all(dag_run_id, model))


@pytest.mark.requirement("R118")
def test_two_persons_read_the_outputs(house: House, judged: str) -> None:
    """Strangers and the submitter are refused, a page with a gap is asked again, and both reviewers' scores count."""
    first = house.air.wait_question(DAG, judged, "human_review_1")
    assert [403, 403] == [submit(house, first, user=name) for name in ("alice", "carol")]
    assert 200 == submit(house, first, user="bob", gap=True)
    wait_for("the refusal", lambda: recorded(house, judged, kinds.HumanAnswerRefused), timeout=120)
    for reviewer, name in READERS.items():
        for _ in (1, 2):
            before = recorded(house, judged, kinds.HumanPageAnswered)
            question = house.air.wait_question(DAG, judged, f"human_review_{reviewer}")
            assert 200 == submit(house, question, user=name)
            wait_for(
                "the answer",
                lambda seen=before: recorded(house, judged, kinds.HumanPageAnswered) > seen,
                timeout=120,
            )

    close = house.air.wait_question(DAG, judged, "close_gate")
    [refused] = house.all(judged, kinds.HumanAnswerRefused)
    [report] = house.all(judged, kinds.HumanEvaluationReported)
    assert ("invalid", "bob") == (refused.cause, refused.person_name)
    assert (["bob", "admin"], 6, 6, 1.0, True) == (
        report.reviewers, report.scored, report.ties, report.agreement, report.passed,
    )  # fmt: skip
    items = {
        item.id: item.verdict for item in house.gate(judged, "close").dossier.items if "human" in item.id
    }
    # The policy sets no limit for the scores: that has to be acknowledged.
    assert {"close.human_evaluation": Verdict.VERIFIED, "close.human_caveats": Verdict.CHANGED} == items
    assert ["no_threshold"] == [flag.partition(":")[0] for flag in report.flags]
    assert "register" in close.params["outcome"]["schema"]["enum"]


@pytest.mark.requirement("R109", "R111", "R118")
def test_released_with_its_scores_and_retired(house: House, judged: str) -> None:
    """The release's dossier tells who read its outputs; the package verifies; a retirement is shown with the run."""
    house.pass_gate(judged, "close")
    assert "success" == house.air.wait_run(DAG, judged)

    [signed] = [d for d in house.all(judged, kinds.GateDecision) if d.gate == "close"]
    assert "close.human_caveats" in signed.acknowledged
    [package] = house.all(judged, kinds.PackageWritten)
    folder = Path(package.location.removeprefix("file://"))
    assert house.command("package", "verify", str(folder)).returncode in {0, 3}
    assert list(folder.glob("records/*human_evaluation.reported.json"))
    shown = house.json("model", "show", "judged")
    assert (["bob", "admin"], 6) == (
        shown["human_evaluation"]["reviewers"],
        shown["human_evaluation"]["ties"],
    )
    title = f"judged@{shown['version']}"
    assert 0 == house.command("model", "retire", title, "--reason", "a test's model").returncode
    run = house.json("run", "show", house.runs(judged)[0])
    assert ("retired", "a test's model") == (run["model"]["state"], run["model"]["retired"]["text"])
