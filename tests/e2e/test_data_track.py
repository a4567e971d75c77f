"""The data track in a real Airflow: a source hashed in parts, labels that persons review, a source withdrawn."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import DAG, House, conf
from waiting import wait_for

from pretrain_archive.domain import kinds
from pretrain_archive.domain.verdicts import Verdict

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(900)]

PARTS, LABELLED = "large_snapshot", "labelled_run"
WORDS = ("river", "engine", "letter", "market", "winter", "garden", "signal", "harbour", "museum", "pencil",
         "copper", "island", "answer", "kitchen", "ladder", "mirror", "number", "orange", "planet", "silver",
         "the", "and", "of", "to", "that", "with", "have", "be")  # fmt: skip


# -- a source in parts ---------------------------------------------------------------------------------


def tree(folder: Path, *, folders: int = 3, files: int = 4) -> Path:
    """Folders of files of about the same size, so that each part gets about one folder."""
    for number in range(folders):
        (folder / f"shard-{number}").mkdir(parents=True)
        for name in range(files):
            (folder / f"shard-{number}" / f"{name}.bin").write_bytes(
                random.Random(10 * number + name).randbytes(50_000)
            )
    return folder


def task_of(house: House, dag_run_id: str, task: str) -> dict[str, Any]:
    """What Airflow says of a task (``name`` or ``name[index]``); empty before it is there."""
    found = (
        one
        for one in house.air.task_instances(PARTS, dag_run_id)
        if one["task_id"] + ("" if one["map_index"] < 0 else f"[{one['map_index']}]") == task
    )
    return next(found, {})


def in_state(house: House, dag_run_id: str, task: str, *states: str) -> Callable[[], bool]:
    """Whether a task is in one of ``states``."""
    return lambda: task_of(house, dag_run_id, task).get("state") in states


def pause(house: House, *, paused: bool) -> None:
    """Let no further task of the DAG start, or let them start again."""
    house.air.api("admin", "PATCH", f"/api/v2/dags/{PARTS}", {"is_paused": paused})


@pytest.mark.requirement("R035", "R036")
def test_large_source_is_hashed_by_mapped_tasks(house: House, tmp_path: Path) -> None:
    """A part whose files are away fails by itself and is tried again; the digest is that of one task."""
    source = tree(tmp_path / "large")
    request = {"source": str(source), "name": "in-parts", "mode": "reference", "parts": 3}
    dag_run_id = house.air.trigger("alice", PARTS, request)
    # On a busy machine it may begin late, or be over between two looks: the parts still take seconds to start.
    begun = in_state(house, dag_run_id, "plan", "queued", "running", "success")
    wait_for("the plan's task", begun, timeout=300, every=0.2)
    pause(house, paused=True)
    wait_for("the plan", in_state(house, dag_run_id, "plan", "success"), timeout=300)
    (source / "shard-1").rename(tmp_path / "away")  # files keep inode and times
    pause(house, paused=False)
    wait_for("a failed part", in_state(house, dag_run_id, "part[1]", "up_for_retry"), timeout=300)
    (tmp_path / "away").rename(source / "shard-1")

    assert house.air.wait_run(PARTS, dag_run_id) == "success"
    states = house.air.task_states(PARTS, dag_run_id)
    assert {"plan", "part[0]", "part[1]", "part[2]", "merge"} == states.keys()
    assert [1, 2, 1] == [task_of(house, dag_run_id, f"part[{n}]")["try_number"] for n in range(3)]
    path = house.air.task_path(PARTS, dag_run_id, "merge").replace("/-1", "")
    merged = house.air.api("admin", "GET", f"{path}/xcomEntries/return_value")["value"]
    whole = house.json("snapshot", "create", str(source), "--name", "at-once", "--mode", "reference")
    assert whole["manifest_digest"] == merged["manifest_digest"]
    assert (12, 600_000) == (merged["file_count"], merged["total_bytes"])
    assert "verified" == house.json("snapshot", "verify", "in-parts@1")["verdict"]


# -- labels and withdrawal -----------------------------------------------------------------------------


def documents(folder: Path) -> Path:
    """Sixty documents of made-up sentences, two labels."""
    folder.mkdir()
    rng = random.Random(3)
    lines = [
        json.dumps({"text": " ".join(rng.choices(WORDS, k=90)) + ".", "label": "spam" if n % 3 else "ham"})
        for n in range(60)
    ]
    (folder / "mail.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def labelled_conf(house: House, source: Path) -> dict[str, Any]:
    """The reference form's own values, with the labelled data."""
    params = house.air.api("admin", "GET", f"/api/v2/dags/{DAG}/details")["params"]
    form = {name: param["value"] for name, param in params.items()}
    return form | conf("labelled", source=str(source), source_name="mail", include=[])


@pytest.fixture(scope="module")
def labelled(house: House, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A DAG run whose sample of twelve documents is drawn: two pages wait for bob."""
    source = documents(tmp_path_factory.mktemp("labelled") / "mail")
    return house.air.trigger("alice", LABELLED, labelled_conf(house, source))


def agree(house: House, dag_run_id: str, *, user: str = "bob", skip: int = 0) -> int:
    """Answer the waiting page: every document is as its label says, but ``skip`` are not answered."""
    question = house.air.wait_question(LABELLED, dag_run_id, "label_review")
    asked = sorted(name for name in question.params if name.startswith("answer_"))
    values = dict.fromkeys(asked[skip:], "agree")
    return house.air.answer(user, question, option="Submit", values=values).status_code


def answer(house: House, dag_run_id: str, kind: type[kinds.Payload], **how: Any) -> None:
    """Bob answers a page, and the answer is in the ledger."""
    before = len(house.all(dag_run_id, kind))
    assert 200 == agree(house, dag_run_id, **how)
    wait_for("the answer", lambda: len(house.all(dag_run_id, kind)) > before, timeout=120)


@pytest.mark.requirement("R048", "R049")
def test_labels_are_reviewed_by_an_entitled_person(house: House, labelled: str) -> None:
    """Who triggered may not answer, a page with a gap is asked again, and the gate shows the reviewed labels."""
    assert [403, 403] == [agree(house, labelled, user=name) for name in ("alice", "carol")]
    assert house.all(labelled, kinds.LabelPageAnswered) == []
    answer(house, labelled, kinds.LabelAnswerRefused, skip=1)
    answer(house, labelled, kinds.LabelPageAnswered)
    answer(house, labelled, kinds.LabelPageAnswered)
    gate = house.air.wait_question(LABELLED, labelled, "prepare_gate")

    [refused] = house.all(labelled, kinds.LabelAnswerRefused)
    assert ("invalid", "bob") == (refused.cause, refused.person_name)
    [reviewed] = house.all(labelled, kinds.LabelsReviewed)
    assert (12, 12, ["bob"], True) == (reviewed.items, reviewed.agreed, reviewed.reviewers, reviewed.passed)
    items = {item.id: item for item in house.gate(labelled, "prepare").dossier.items}
    assert Verdict.VERIFIED is items["prepare.label_review"].verdict
    assert "Approve" in gate.options, gate.body
    assert "label" in gate.body.casefold()


@pytest.mark.requirement("R037", "R058")
def test_withdrawal_after_the_signature_stops_the_launch(house: House, labelled: str) -> None:
    """Signed, then the source is withdrawn: the launch reads the ledger and starts nothing."""
    house.pass_gate(labelled, "prepare", dag=LABELLED)
    hold = house.air.wait_question(LABELLED, labelled, "hold")
    before = house.command("withdraw", "mail", "--reason", "the contract ended")
    assert 0 == before.returncode, before.stderr
    assert 200 == house.air.answer("bob", hold, values={}).status_code

    assert house.air.wait_run(LABELLED, labelled) == "failed"
    assert "failed" == house.air.task_states(LABELLED, labelled)["gpu_launch"]
    assert "source mail was withdrawn" in house.all(labelled, kinds.RunFailed)[-1].reason
    assert house.all(labelled, kinds.LaunchIntended) == []
    assert house.all(labelled, kinds.AttemptStarted) == []
