"""A released model's whole life on a real run: evaluated by persons, released, delivered, retired; its records stay."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.human_run import ITEMS, draw, section, take, total
from tests.support.ledgers import Place
from tests.support.main_line import EVALUATE, Line, line_policy_text
from tests.unit.gates.asked_run import UID, AskedRun

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.identity import Ref, new_id
from pretrain_archive.domain.policy import parse_policy
from pretrain_archive.domain.records import Origin
from pretrain_archive.domain.withdrawal import Touched
from pretrain_archive.retention.folders import FolderFiles
from pretrain_archive.services import cleanup, model_life
from pretrain_archive.services.human_form import pages_of
from pretrain_archive.services.model_dossier import dossier
from pretrain_archive.services.withdrawing import find_source, what_rests_on
from pretrain_archive.storage.files import FileStore

WRITES = f"""
items = {ITEMS!r}
Path(env("SAMPLES")).write_text("".join(json.dumps(item) + "\\n" for item in items))
"""
LIFE = "\n[model_life]\nrecords_keep_days_after_retirement = 3650\n"


def origin(task: str = "model") -> Origin:
    """A call of the command line."""
    return Origin(dag_id="cli", dag_run_id=new_id("call"), task_id=task)


def tell(ledger: Any, name: str, kind: str, text: str = "as it was", **more: Any) -> Any:
    """Record a fact of a release, by dana."""
    fields = {"person": "dana", "authentication": "test", "at": more.pop("at", "")}
    told = model_life.Told(kind=f"model.{kind}", text=text, fields=more, **fields)
    return model_life.record_fact(ledger, model_life.find_life(ledger, name), told, origin=origin())


def retire(ledger: Any, name: str, **more: Any) -> tuple[kinds.ModelRetired, bool]:
    """Retire a release, by dana."""
    told = model_life.Told(
        kind="model.retired", text="replaced", person="dana", authentication="test",
        fields={"records_keep_days": 3650.0} | more,
    )  # fmt: skip
    return model_life.retire(ledger, model_life.find_life(ledger, name), told, origin=origin())


# -- on a real run -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Line:
    """A run of four checkpoints whose outputs two persons read, released as line@1 and closed."""
    text = line_policy_text(min_documents="5", max_unclean_rate="1.0") + section("pairs") + LIFE
    line = Line(
        folder=tmp_path_factory.mktemp("released"), policy=parse_policy(text.encode(), name="line.toml")
    )
    (line.program / "evaluate.py").write_text(EVALUATE + WRITES)
    line.to_signed_launch()
    line.launch()
    line.register()
    line.evaluate()
    line.sign("run")
    draw(line)
    problem = {
        "problem_01": "invented",
        "severity_01": "major",
        "note_01": "no such number",
        "whose_01": "both",
    }
    for page in range(1, pages_of(_sampled(line)) + 1):
        take(line, page, score="same", **(problem if page == 1 else {}))
        take(line, page, 2, person="carol", score="same")
    total(line)
    line.sign("close")
    line.close()
    return line


def _sampled(line: Line) -> kinds.HumanEvaluationSampled:
    found = line.view().latest(kinds.HumanEvaluationSampled)
    assert found is not None
    return found


def digests(folder: Path) -> dict[str, str]:
    """Every file below a folder with its digest."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.requirement("R118", "R109", "R111")
def test_evaluated_by_persons_and_released(released: Line) -> None:
    """What the evaluation program wrote was scored; release, scores and open problem stand in the dossier."""
    sampled, record = _sampled(released), released.view().last(kinds.ReleaseMade)
    found = dossier(released.ledger, model_life.find_life(released.ledger, "line"), 3650.0)

    assert ("evaluation_program", "untrained", 7) == (
        sampled.subject,
        sampled.baseline_name,
        len(sampled.items),
    )
    assert record is not None
    finished = released.view().latest(kinds.EvaluationFinished)
    assert finished is not None
    assert (sampled.source_uri, sampled.source_digest) == (finished.samples_uri, finished.samples_digest)
    assert ("line", "1", "released", False) == (
        found["name"],
        found["version"],
        found["state"],
        found["delivered"],
    )
    assert [True] == [one["decided"] for one in found["evaluations"]]
    assert (7, ["bob", "carol"]) == (
        found["human_evaluation"]["scored"],
        found["human_evaluation"]["reviewers"],
    )
    assert [("invented", "bob")] == [(p["category"], p["by"]) for p in found["open_problems"]]
    assert {"prepare": "bob", "run": "bob", "close": "bob"} == {
        one["gate"]: one["person"] for one in found["signed"]
    }
    assert ["corpus"] == [source["name"] for source in found["data"]["sources"]]


@pytest.mark.requirement("R156", "R116", "R111", "R157")
def test_life_and_retention(released: Line) -> None:
    """Delivered, criticised, adjusted, retired: no plan names its records, package or bytes; clean-ups stay told."""
    ledger, package = released.ledger, released.folder / "packages" / released.run_uid
    before, records = digests(package), len(released.view().records)
    [problem] = model_life.find_life(ledger, "line@1").open_problems()
    tell(ledger, "line@1", "delivered", to="the serving team", where="s3://serving/line")
    tell(ledger, "line@1", "feedback", source="a user", severity="minor")
    tell(ledger, "line@1", "adjusted", resolves=[problem["id"]])
    retired, done = retire(ledger, "line@1")
    room = cleanup.Room(policies={"line": released.policy}, places=(FolderFiles(),))
    planned = cleanup.make_plan(ledger, released.caller("plan"), room)
    ledger.seal()
    cleanup.approve(ledger, released.caller("approve"), room, planned, person=None, reason="within the limit")
    cleanup.carry_out(ledger, released.caller("apply"), room, planned.plan_digest)

    assert done
    kept_for_good = (str(package), "ledger.db", "anchors", "/human/", "/evaluations/")
    places = [str(item["location"]) for item in planned.items]
    assert [] == [place for place in places if any(name in place for name in kept_for_good)]
    types = {str(item["id"]).partition(":")[0] for item in planned.items}
    assert set() == types & {"run", "record", "package", "release", "evaluation", "decision"}
    going = [item for item in planned.items if item["action"] == "delete"]
    deleted = {str(item["id"]) for item in going if str(item["id"]).startswith("checkpoint:")}
    assert deleted
    found = dossier(ledger, model_life.find_life(ledger, "line@1"), 3650.0)
    told = {f"checkpoint:{one['checkpoint_id']}": one for one in found["checkpoints"]}
    assert deleted == {name for name, one in told.items() if one["state"] == "deleted"}
    assert all(told[name]["clean_up"]["verified_absent"] for name in deleted)
    assert [("kept", None)] == [(o["state"], o["clean_up"]) for o in told.values() if o["released"]]
    assert before == digests(package)
    assert records <= len(released.view().records)
    assert 0 == released.verify(package).returncode
    assert "verified" == ledger.audit().verdict
    assert ("retired", retired.at[:4]) == (found["state"], str(int(found["records_kept_until"][:4]) - 10))
    assert ["minor"] == [one["severity"] for one in found["open_problems"]]


@pytest.mark.requirement("R110", "R159")
def test_trace_shows_the_life(released: Line) -> None:
    """From the release forward to feedback and delivery, backward to the retirement and its origin."""
    ledger = released.ledger
    life = model_life.find_life(ledger, "line@1")
    start = model_life.release_ref(life.release)
    tell(ledger, "line@1", "delivered", to="x", where="y")
    if life.retired is None:
        retire(ledger, "line@1")
    forward = {node.type for node in ledger.trace(start, direction="forward").nodes}
    backward = {node.type for node in ledger.trace(start, direction="backward").nodes}

    assert "delivery" in forward
    assert {"retirement", "candidate", "checkpoint", "run", "snapshot", "source"} <= backward


# -- on seeded runs ------------------------------------------------------------------------------------


@pytest.fixture
def made(make_run: Any) -> AskedRun:
    """A closed run with a release: stdlib-bytes@1."""
    return close(make_run())


@pytest.fixture(scope="module")
def standing(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskedRun]:
    """The same for tests that record nothing."""
    folder = tmp_path_factory.mktemp("standing")
    shutil.copy(sqlite_template, folder / "ledger.db")
    place = Place(url=f"sqlite:///{folder / 'ledger.db'}", folder=folder)
    more = {
        "ledger": place.open(),
        "store": FileStore(folder / "store"),
        "folder": folder,
        "uid": UID.format(1),
    }
    yield close(AskedRun(seed=17, dag_run_id="manual__1", **more))
    for opened in place.opened:
        opened.close()


def close(run: AskedRun) -> AskedRun:
    """Up to a release, closed."""
    run.until("close")
    run.close_gate()
    run.close_run("register")
    return run


@pytest.mark.requirement("R111")
def test_retraining_leads_to_the_new_run(made: AskedRun, make_run: Any) -> None:
    """The new run is derived from the released one, and does not rest on the old one's data for that."""
    new = make_run(2).until("open")
    before = _touched(made)
    tell(made.ledger, "stdlib-bytes@1", "retraining", run_uid=new.uid)

    after = made.ledger.trace(Ref(type="run", id=new.uid), direction="backward")
    assert Ref(type="run", id=made.uid) in after.nodes
    assert _touched(made).lists == before.lists
    life = model_life.find_life(made.ledger, "stdlib-bytes@1")
    assert [new.uid] == [f.run_uid for _, f in life.facts if isinstance(f, kinds.RetrainingBegun)]
    assert new.view().records[-1].stream == new.uid  # nothing was written into either run
    assert "closed" == made.view().state


def _touched(run: AskedRun) -> Touched:
    return what_rests_on(run.ledger, find_source(run.ledger, "py-stdlib"))


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        pytest.param("feedback", {"text": " "}, "text", id="no text"),
        pytest.param("feedback", {"text": "x" * 4001}, "longer than 4000", id="a long text"),
        pytest.param("feedback", {"text": "a\ud800"}, "no UTF-8", id="half a character"),
        pytest.param("feedback", {"at": "2999-01-01T00:00:00Z"}, "lies in the future", id="tomorrow"),
        pytest.param("feedback", {"at": "2001-01-01T00:00:00Z"}, "lies before the release", id="before it was made"),
        pytest.param("feedback", {"at": "yesterday"}, "is no moment", id="no moment"),
        pytest.param("delivered", {"to": "", "where": "x"}, "to: says nothing", id="to nobody"),
        pytest.param("delivered", {"to": "x", "where": " "}, "where: says nothing", id="to nowhere"),
        pytest.param("retraining", {"run_uid": "run_none"}, "not in the ledger", id="no such run"),
        pytest.param("adjusted", {"resolves": ["life_none"]}, "no open problem", id="no such problem"),
        pytest.param("retired", {"successor": "none@1"}, "is no release", id="no such successor"),
        pytest.param("retired", {"successor": "stdlib-bytes@1"}, "is this release itself", id="itself"),
        pytest.param("painted", {}, "is none of", id="no such kind"),
    ],
)  # fmt: skip
def test_refused(standing: AskedRun, kind: str, fields: dict[str, Any], message: str) -> None:
    """What cannot be recorded names its field; nothing is written."""
    before = sum(1 for _ in standing.ledger.records())

    with pytest.raises(InputError, match=message):
        tell(standing.ledger, "stdlib-bytes@1", kind, **fields)
    assert before == sum(1 for _ in standing.ledger.records())


@pytest.mark.parametrize("name", ["none", "stdlib-bytes@2", "none@1", ""])
def test_unknown_release(standing: AskedRun, name: str) -> None:
    """A model that was never released has no life; near names are told."""
    with pytest.raises(InputError, match="is no release") as refused:
        model_life.find_life(standing.ledger, name)
    assert ("stdlib-bytes@1" in refused.value.hint) is name.startswith("stdlib")


def test_retired_once(made: AskedRun) -> None:
    """A second call finds the first retirement; facts after it are recorded and say so."""
    (first, done), (second, again) = (
        retire(made.ledger, "stdlib-bytes@1"),
        retire(made.ledger, "stdlib-bytes"),
    )
    late = tell(made.ledger, "stdlib-bytes@1", "delivered", to="x", where="y")

    assert (True, False, first) == (done, again, second)
    assert ["retired"] == late.after
    assert "retired" == model_life.find_life(made.ledger, "stdlib-bytes@1").state


@pytest.mark.requirement("R109")
def test_recorded_after_the_retirement(made: AskedRun) -> None:
    """A delivery before the retirement that is recorded behind it says nothing of a retired model."""
    retired, _ = retire(made.ledger, "stdlib-bytes@1")
    late = tell(
        made.ledger, "stdlib-bytes@1", "delivered", to="x", where="y", at=made.view().records[-1].recorded_at
    )

    assert ([], "retired") == (late.after, model_life.find_life(made.ledger, "stdlib-bytes@1").state)
    assert late.at < retired.at


@pytest.mark.requirement("R116")
def test_part_of_a_checkpoint_is_gone(made: AskedRun) -> None:
    """A checkpoint without its optimizer state is not told as deleted; what went has its clean-up record."""
    life = model_life.find_life(made.ledger, "stdlib-bytes@1")
    [released] = [
        c
        for _, c in made.view().all(kinds.CheckpointRegistered)
        if c.digest == life.release.checkpoint_digest
    ]
    stone = kinds.TombstoneWritten(
        ref=f"checkpoint:{released.checkpoint_id}", digest=released.digest, size=10, artifact_class="recovery",
        reason="optimizer_only", policy_digest=None, approved_by="bob", bytes_released=4, verified_absent=True,
        parts=["optimizer"],
    )  # fmt: skip
    record = made.add("retention_apply", stone)
    found = dossier(made.ledger, life, None)["checkpoints"]

    [one] = [checkpoint for checkpoint in found if checkpoint["released"]]
    assert ("in_part", None) == (one["state"], one["clean_up"])
    assert [(["optimizer"], record.record_id)] == [
        (told["parts"], told["record_id"]) for told in one["parts_cleaned_up"]
    ]


def test_two_retire_at_once(made: AskedRun) -> None:
    """Whoever read the release before it was retired is handed the retirement that stands."""
    before = model_life.find_life(made.ledger, "stdlib-bytes@1")
    first, _ = retire(made.ledger, "stdlib-bytes@1")
    told = model_life.Told(kind="model.retired", text="also", person="erin", authentication="test")

    assert (first, False) == model_life.retire(made.ledger, before, told, origin=origin())


@pytest.mark.requirement("R111")
def test_appended_to_a_stream_of_its_own(made: AskedRun) -> None:
    """Years later the closed run is untouched; the release's stream holds each fact with its person."""
    run = [record.record_id for record in made.view().records]
    for kind, more in (("feedback", {}), ("delivered", {"to": "x", "where": "y"}), ("taken_down", {})):
        tell(made.ledger, "stdlib-bytes@1", kind, **more)
    stream = list(made.ledger.records(streams=["release/stdlib-bytes@1"]))

    assert ["model.feedback", "model.delivered", "model.taken_down"] == [record.kind for record in stream]
    assert {("person", "dana")} == {(record.actor.type, record.actor.name) for record in stream}
    assert run == [record.record_id for record in made.view().records]
