"""A run with everything that a run can have: stopped, reviewed, judged by people, served, cleaned up, then closed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.human_run import ITEMS, draw, sampled_of, section, take, total
from tests.support.main_line import EVALUATE, Line, line_policy_text
from tests.support.released import model_key
from tests.support.walked_release import OTHERS, USE, close

from pretrain_archive.domain import kinds
from pretrain_archive.domain.policy import parse_policy
from pretrain_archive.domain.records import Draft
from pretrain_archive.services.changing import Change, record_change
from pretrain_archive.services.concluding import Conclusion, conclude
from pretrain_archive.services.human_form import pages_of
from pretrain_archive.services.platform_said import Speaker
from pretrain_archive.services.serving_checks import record_serving

SAMPLES = (
    "\nPath(env('SAMPLES')).write_text(" + repr("".join(json.dumps(item) + "\n" for item in ITEMS)) + ")\n"
)
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def whole(folder: Path) -> Line:
    """A line whose first attempt dies and is reviewed, up to its signed close gate."""
    text = line_policy_text(min_documents="5", max_unclean_rate="1.0", usage_scope='["product"]') + section()
    line = Line(folder, policy=parse_policy(text.encode(), name="line.toml"))
    (line.program / "evaluate.py").write_text(EVALUATE + SAMPLES)
    line.to_signed_launch(configuration={"steps": 40, "die_at": 25}, **USE)
    assert "failed" == line.launch().state
    reviewed = line.answer("review", line.ask("review"), outcome="resume")
    assert reviewed.decision is not None, reviewed.refusal
    assert "completed" == line.launch(try_number=2).state
    line.register()
    line.evaluate()
    say(line)
    judge(line)
    line.sign("run")
    for aspect in (*OTHERS, "latency"):
        caller = line.caller("check", map_index=len(line.view().records))
        record_serving(
            line.ledger, line.store, caller, line.run_uid, aspect=aspect, value="as agreed", by="dana"
        )
    clean(line)
    line.sign("close")
    return line


def judge(run: Any) -> None:
    """Two persons score the sampled outputs, and one finds a problem."""
    draw(run)
    problem = {"problem_01": "invented", "severity_01": "major", "note_01": "no such number"}
    for page in range(1, pages_of(sampled_of(run)) + 1):
        take(run, page)
        take(run, page, 2, person="carol", **(problem if page == 1 else {}))
    assert total(run).passed


def say(line: Line, learnt: str = "It learns.") -> None:
    """What people record beside the line: a manual change and a conclusion."""
    change = Change(what="node", scope="node 1", reason="the disk was full", person="dana", via="command_line",
                    authentication="test", attempt=1)  # fmt: skip
    record_change(line.ledger, line.view(), change, origin=line.caller("change").origin)
    told = Conclusion(outcome="no_better", learnt=learnt, evidence=(line.view().records[0].record_id,))
    conclude(line.ledger, line.view(), told, Speaker(person="dana", authentication="test"))


def clean(line: Line) -> None:
    """The oldest checkpoint is gone, with its tombstone."""
    gone = next(c for _, c in line.view().all(kinds.CheckpointRegistered))
    stone = kinds.TombstoneWritten(
        ref=f"checkpoint:{gone.checkpoint_id}", digest=gone.digest, size=264, artifact_class="recovery",
        reason="older than the last two", policy_digest=None, approved_by="dana", bytes_released=264,
        verified_absent=True, location=gone.location,
    )  # fmt: skip
    caller = line.caller("retention_apply")
    line.ledger.append([
        Draft(stream=line.run_uid, kind="tombstone.written", payload=stone.to_json(), actor=caller.actor,
              origin=caller.origin)
    ])  # fmt: skip


@pytest.mark.requirement("R112", "R123", "R138", "R139", "R141", "R143", "R150", "R158")
def test_a_run_with_everything_is_told_whole(tmp_path: Path) -> None:
    """Every kind is counted and has its file, the package verifies without us, gaps have reasons in both languages."""
    line = whole(tmp_path)
    before = line.view()
    key = model_key(tmp_path / "model.key")
    closed = close(line, key)
    folder = closed.folder
    listed = {e["kind"]: e for e in json.loads((folder / "evidence/inventory.json").read_bytes())["kinds"]}
    items = json.loads((folder / "evidence/items.json").read_bytes())["items"]
    artifacts = json.loads((folder / "evidence/artifacts.json").read_bytes())
    page = (folder / "index.html").read_text()

    assert {r.kind for r in before.records} <= listed.keys()
    assert {
        "gate.decision", "human_evaluation.reported", "release.serving_checked", "experiment.concluded",
        "change.recorded", "tombstone.written", "release.made",
    } <= listed.keys()  # fmt: skip
    assert [] == [kind for kind, e in listed.items() if not (folder / e["file"]).is_file() or not e["known"]]
    assert "gate.review" in {item["id"] for item in items}
    gaps = [item for item in items if item["verdict"] == "unrecorded"]
    assert [] == [i["id"] for i in gaps if not i["reason"]["en"] or not CHINESE.search(i["reason"]["zh"])]
    assert {"kept", "deleted"} == {c["state"] for c in artifacts["checkpoints"]}
    assert [before.opened.policy_digest if before.opened else ""] == [artifacts["policy_digest"]]
    assert "Judged by people, passed: 7 of 7 items by bob, carol" in page
    assert "人工评估通过：7 of 7 items by bob, carol" in page
    for text in ("alice", "bob", "It learns.", "the disk was full", "older than the last two"):
        assert text in page or any(text in p.read_text() for p in (folder / "records").iterdir()), text
    assert 0 == line.verify(folder).returncode, line.verify(folder).stdout[-1500:]

    again = content(folder)
    folder.rename(tmp_path / "lost")
    close(line, key, try_number=2)
    assert again == content(folder)
    assert 0 == line.verify(folder).returncode


def content(folder: Path) -> dict[str, bytes]:
    """Every file but the proof, which leads to the log as it is signed when the folder is made."""
    found = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    return {name: data for name, data in found.items() if name not in {"checkpoint.txt", "proofs.json"}}
