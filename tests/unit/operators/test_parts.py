"""A large source in parts, as Airflow runs it: mapped tasks, a part that fails, a part that is done again."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from tests.support.data_track import numbered, write_tree
from tests.unit.operators.conftest import context
from tests.unit.services.open_runs import Opener

from pretrain_archive.data.building import build
from pretrain_archive.data.globs import Filter
from pretrain_archive.data.leftovers import left_over
from pretrain_archive.data.tree import FolderTree
from pretrain_archive.domain.errors import StorageError
from pretrain_archive.ledger.sql import SqlLedger
from pretrain_archive.storage.factory import open_store
from pretrain_archive_operators import (
    DataSnapshotOperator,
    OpenRunOperator,
    RegisterSourceOperator,
    SnapshotMergeOperator,
    SnapshotPartOperator,
    SnapshotPlanOperator,
    TemporaryCleanOperator,
)

pytestmark = [pytest.mark.requirement("R051"), pytest.mark.case("P07")]
FILES = numbered(tuple(b"f/%02d" % n for n in range(12)))


def store() -> Any:
    """The store that the settings name."""
    return open_store(os.environ["AIRFLOW__PRETRAIN_ARCHIVE__STORE_URL"])


def whole(root: Path) -> str:
    """The digest that one process gives."""
    built = build(FolderTree.at(root), Filter())
    built.file.close()
    return built.digest


def plan(
    form: dict[str, Any] | None = None, *, parts: Any = 3, run_uid: str | None = None
) -> tuple[str, list[int]]:
    """The name of a plan and its parts, as the next tasks get them."""
    told: dict[str, Any] = {}
    given = context("plan", params=form)
    given["ti"] = SimpleNamespace(**vars(given["ti"]), xcom_push=lambda key, value: told.update({key: value}))
    numbers = SnapshotPlanOperator(task_id="plan", parts=parts, run_uid=run_uid).execute(given)
    return told["plan"], numbers


def part(name: str, number: int, **changes: Any) -> dict[str, Any]:
    """Run one mapped task."""
    given = context("part", **changes)
    given["ti"].map_index = number - 1
    return SnapshotPartOperator(task_id="part", plan=name, part=number).execute(given)


def merge(name: str, **changes: Any) -> dict[str, Any]:
    """Run the last task."""
    return SnapshotMergeOperator(task_id="merge", plan=name).execute(context("merge", **changes))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of data."""
    return write_tree(tmp_path / "in", FILES)


@pytest.fixture
def form(root: Path) -> dict[str, Any]:
    """What a person enters."""
    return {"source": str(root), "name": "corpus", "mode": "copy", "include": [], "exclude": []}


@pytest.mark.timeout(180)
def test_the_dag_as_airflow_runs_it(
    form: dict[str, Any], root: Path, ledger: SqlLedger, tmp_path: Path
) -> None:
    """Airflow's own runner maps one task per part and merges them to the digest of one process."""
    home = tmp_path / "airflow"
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.operators.dag_run", json.dumps(form | {"parts": 3})],
        cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False, timeout=150,
        env=os.environ | {"AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).parents[3] / "dags")},
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr[-3000:]
    told = json.loads(done.stderr.strip().splitlines()[-1])

    assert "success" == told["state"]
    assert [1, 2, 3] == told["tasks"]["plan.-1"]["returned"]
    assert {f"part.{n}" for n in range(3)} == {name for name in told["tasks"] if name.startswith("part.")}
    assert len(FILES) == sum(told["tasks"][f"part.{n}"]["returned"]["files"] for n in range(3))
    assert whole(root) == told["tasks"]["merge.-1"]["returned"]["manifest_digest"]
    (record,) = ledger.records(kinds=["snapshot.created"])
    assert "every byte read and hashed with SHA-256, in 3 parts" == record.payload["check"]


def test_an_empty_source_has_nothing_to_map_over(form: dict[str, Any], tmp_path: Path) -> None:
    """Zero parts is a failed plan that says why, never an empty success."""
    (tmp_path / "none").mkdir()
    with pytest.raises(AirflowFailException, match="holds no file"):
        plan(form | {"source": str(tmp_path / "none")})
    with pytest.raises(AirflowFailException, match="no file is left to read"):
        plan(form | {"exclude": ["*"]})


def test_one_part(form: dict[str, Any], root: Path) -> None:
    """One part is a list of one."""
    name, numbers = plan(form, parts="1")
    part(name, 1)

    assert [1] == numbers
    assert whole(root) == merge(name)["manifest_digest"]


@pytest.mark.parametrize(
    ("parts", "named"), [("many", "not a number"), (0, "not from 1"), (5000, "not from 1")]
)
def test_a_number_of_parts_that_cannot_be(form: dict[str, Any], parts: Any, named: str) -> None:
    """Wrong input ends the task with the field's name."""
    with pytest.raises(AirflowFailException, match=f"parts.*{named}"):
        plan(form, parts=parts)


@pytest.mark.parametrize("field", ["name", "source", "mode"])
def test_a_form_without_a_field(form: dict[str, Any], field: str) -> None:
    """A missing field is named."""
    with pytest.raises(AirflowFailException, match=f"{field}.*is missing"):
        plan(form | {field: " "})


def test_a_part_that_fails_is_run_again(
    form: dict[str, Any], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the failed part runs again; merged too early, it is the one that is named."""
    name, _ = plan(form)
    part(name, 1)
    part(name, 3)
    with monkeypatch.context() as patch:
        patch.setattr(FolderTree, "content", _fail)
        with pytest.raises(AirflowException, match="worker is gone"):
            part(name, 2, try_number=1, max_tries=1)
    with pytest.raises(AirflowFailException, match=r"1 of 3 parts are not done \(2\)"):
        merge(name)
    part(name, 2, try_number=2, max_tries=1)

    assert whole(root) == merge(name)["manifest_digest"]


def _fail(*_: Any) -> bytes:
    raise StorageError("the worker is gone", hint="")


def test_a_part_done_twice_tells_the_same(form: dict[str, Any]) -> None:
    """A part that is cleared and run again reads nothing and changes nothing."""
    name, _ = plan(form)
    first, second = part(name, 2), part(name, 2)

    assert first | {"found": 1} == second
    assert (0, 1) == (first["found"], first["steps"])


@pytest.mark.requirement("R057", "R154")
def test_a_merge_drops_what_the_plan_left(form: dict[str, Any], ledger: SqlLedger) -> None:
    """After the merge nothing of the plan is in the store, and the record says how many bytes went."""
    name, numbers = plan(form)
    for number in numbers:
        part(name, number)
    kept = sum(left.size for left in left_over(store()))
    made = merge(name)

    assert [] == list(left_over(store()))
    (record,) = ledger.records(kinds=["temporary.removed"])
    assert (kept, True) == (record.payload["bytes_released"], record.payload["verified_absent"])
    assert ("data/corpus", 1) == (record.stream, made["version"])


def test_a_merge_whose_answer_was_lost(form: dict[str, Any], ledger: SqlLedger) -> None:
    """The next try of the same task finds the plan gone and its own record there, and gives the same answer."""
    name, numbers = plan(form)
    for number in numbers:
        part(name, number)
    first = merge(name)
    second = merge(name, try_number=2)

    assert first == second
    assert 1 == len(list(ledger.records(kinds=["snapshot.created"])))
    with pytest.raises(AirflowFailException, match="not there"):
        merge(name, dag_run_id="another")


def test_a_merge_that_ended_while_it_dropped_its_plan(form: dict[str, Any]) -> None:
    """The plan's document goes first: the next try drops the pieces that are still there."""
    name, numbers = plan(form)
    for number in numbers:
        part(name, number)
    first = merge(name)
    folder = name.rpartition("@")[0]
    store().put_if_absent(f"{folder}/pieces/00001-00001-{'0' * 64}.jsonl", io.BytesIO(b"left"))

    assert first == merge(name, try_number=2)
    assert [] == list(left_over(store()))


def test_within_a_run(opener: Opener, ledger: SqlLedger) -> None:
    """The three tasks take the place of the snapshot in a run: its source, its stream, its split, its clean-up."""
    run_uid = OpenRunOperator(task_id="open_run").execute(context("open_run", params=opener.values()))[
        "run_uid"
    ]
    with pytest.raises(AirflowFailException, match="no registered source"):
        plan(run_uid=run_uid)
    RegisterSourceOperator(task_id="register_source", run_uid=run_uid).execute(context("register_source"))
    name, numbers = plan(run_uid=run_uid, parts=2)
    abandoned, _ = plan(run_uid=run_uid, parts=2)
    for number in numbers:
        part(name, number)
    made = merge(name)

    assert made["split_digest"]
    assert f"parts/{run_uid}/" in abandoned
    (record,) = ledger.records(streams=[run_uid], kinds=["snapshot.created"])
    assert made["manifest_digest"] == record.payload["manifest_digest"]
    assert record.payload["source_id"]
    assert [] == list(left_over(store()))


@pytest.mark.requirement("R154")
def test_the_clean_up_of_a_run_drops_a_plan_that_was_never_merged(opener: Opener) -> None:
    """What a failed run left in the store goes with its other temporary data."""
    run_uid = OpenRunOperator(task_id="open_run").execute(context("open_run", params=opener.values()))[
        "run_uid"
    ]
    RegisterSourceOperator(task_id="register_source", run_uid=run_uid).execute(context("register_source"))
    name, _ = plan(run_uid=run_uid, parts=2)
    part(name, 1)
    kept = sum(left.size for left in left_over(store(), run_uid))
    done = TemporaryCleanOperator(task_id="clean_up", run_uid=run_uid).execute(context("clean_up"))

    assert kept == done["bytes_released"] > 0
    assert [] == list(left_over(store()))


def test_a_plan_beside_another_is_left_alone(form: dict[str, Any]) -> None:
    """Two snapshots of one name may be under way: a merge drops its own plan, and old ones, not a young neighbour."""
    (mine, numbers), (theirs, _) = plan(form), plan(form)
    for number in numbers:
        part(mine, number)
    merge(mine)

    assert [theirs.partition("@")[0]] == [left.folder for left in left_over(store())]


@pytest.mark.requirement("R052")
def test_the_policy_decides_on_stamps(opener: Opener, ledger: SqlLedger, tmp_path: Path) -> None:
    """Off by default; where the policy allows them the record tells what was read and what was not."""
    policy = tmp_path / "policies" / "demo.toml"
    for number, allowed in enumerate(("off", "stamps")):
        policy.write_text(policy.read_text().replace('incremental = "off"', f'incremental = "{allowed}"'))
        here = {"dag_run_id": f"r{number}"}
        run_uid = OpenRunOperator(task_id="open_run").execute(
            context("open_run", params=opener.values(), **here)
        )["run_uid"]
        RegisterSourceOperator(task_id="register_source", run_uid=run_uid).execute(
            context("register_source", **here)
        )
        DataSnapshotOperator(task_id="snapshot", run_uid=run_uid).execute(context("snapshot", **here))
    told = [record.payload["check"] for record in ledger.records(kinds=["snapshot.created"])]

    assert "every byte read and hashed with SHA-256" == told[0]
    assert "none taken from stamps" in told[1]
    assert (tmp_path / "work/stamps").is_dir()
