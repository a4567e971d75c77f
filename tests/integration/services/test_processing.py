"""The main line with steps of processing, pools and recipes: what gates, launch, package and comparison say."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
from tests.support.main_line import Line, line_policy
from tests.support.processing import entries, pack
from tests.support.processing import line as record

from pretrain_archive.data.processing.applying import Applier, apply_steps
from pretrain_archive.data.scratch import owned
from pretrain_archive.domain.chains import chain_of
from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import SnapshotCreated, SourceRegistered, SplitCreated, TemporaryRemoved
from pretrain_archive.domain.processing import SplitStep, asked_sample
from pretrain_archive.domain.run_diff import compare
from pretrain_archive.gates.service import load_run
from pretrain_archive.services import data, processing

FILTER = """
[[data.steps]]
name = "long-enough"
version = {version}
kind = "filter"
effective_from = 2025-01-01T00:00:00Z
min_bytes = {least}

[[data.steps]]
name = "once"
version = 1
kind = "deduplicate"
"""
RECIPE = """
[data.recipe]
rebuild_allowed = true
keep_days = 90
approver = "alice"
"""


def policy(version=1, least=100, more="", **changes):
    """A policy with two steps."""
    limits = {"min_documents": "5", "max_unclean_rate": "1.0"}
    return line_policy(FILTER.format(version=version, least=least) + more, **limits | changes)


def begin(folder, number=1, **fields):
    """A line of its own DAG run in ``folder``, whose source has a short file, twins and a list."""
    made = Line(folder, dag_run_id=f"manual__{number}", **{"policy": policy()} | fields)
    source = folder / "source"
    if not (source / "short.txt").exists():
        (source / "short.txt").write_text("short\n")
        (source / "twin.txt").write_bytes((source / "doc05.txt").read_bytes())
        rows = [
            record(f"record {n % 30} of a list, long enough to be kept by the rule that asks for length " * 2)
            for n in range(40)
        ]
        (source / "list.jsonl.gz").write_bytes(pack("x.gz", b"".join(rows)))
    return made


def item(line, gate="prepare"):
    """The processing item of the prepare dossier."""
    dossier = line.ask(gate)
    return next(
        found
        for found in line.view().dossier(gate)[1].document["items"]
        if found["id"] == "prepare.processing"
    ), dossier


@pytest.mark.requirement("R042", "R043", "R044", "R050")
def test_line_with_steps(tmp_path):
    """The chain goes from source to package: gate, launch and package are about its last snapshot."""
    line = begin(tmp_path)
    line.open()
    line.prepare_data()
    view = line.view()
    names = [f"{found.name}@{found.version}" for _, found in view.all(SnapshotCreated)]
    shown, _ = item(line)

    assert ["corpus@1", "corpus.filtered@1", "corpus.deduplicated@1"] == names
    assert "corpus.deduplicated@1" == view.latest(SplitCreated).snapshot
    assert "verified" == shown["verdict"]
    assert "filter long-enough v1: 102 → 99 documents (3 min_bytes)" in shown["found"]
    assert "deduplicate once v1: 99 → 88 documents (11 same content)" in shown["found"]
    assert "filter long-enough v1; deduplicate once v1; split by document" == shown["expected"]
    line.answer("prepare", line.ask("prepare"))
    ended = line.launch()
    assert ("completed", "corpus.deduplicated@1") == (ended.state, line.view().latest(SplitCreated).snapshot)
    manifest = [
        json.loads(row)
        for row in (line.runs_folder / line.run_uid / "data/manifest.jsonl").read_text().splitlines()
    ]
    assert not {"short.txt", "twin.txt"} & {row["path"] for row in manifest}
    assert {"list.train.jsonl.gz", "list.validation.jsonl.gz"} >= {
        row["path"] for row in manifest if "list" in row["path"]
    }
    assert all(Path(row["location"]).is_file() for row in manifest)
    line.register()
    line.evaluate()
    line.sign("run")
    line.sign("close")
    closed = line.close()
    verified = json.loads(line.verify(closed.folder).stdout)
    shown = {
        found["id"]: found["found"]
        for found in json.loads((closed.folder / "evidence/items.json").read_text())["items"]
    }

    assert "verified" == verified["verdict"]
    assert "changed" != closed.package.verdict
    assert "deduplicate once v1: 99 → 88 documents" in shown["data.processing"]
    assert "a copy is kept" == shown["data.rebuilding"]
    lists = list((closed.folder / "evidence").glob("*-dropped-documents.jsonl"))
    assert 2 == len(lists)
    assert "short.txt" in "".join(path.read_text() for path in lists)
    assert "long-enough v1" in (closed.folder / "index.html").read_text()


def test_without_steps_nothing_changes(tmp_path):
    """A policy without steps splits the snapshot itself, and the task of processing does nothing."""
    line = begin(tmp_path, policy=line_policy(min_documents="5", max_unclean_rate="1.0"))
    line.open()
    line.prepare_data()

    assert ["corpus"] == [found.name for _, found in line.view().all(SnapshotCreated)]
    assert 1 == len(list(line.view().all(SplitCreated)))
    assert "verified" == item(line)[0]["verdict"]
    assert [said for said in line.said if "no steps of processing" in said]


def test_steps_that_were_left_out(tmp_path):
    """A run whose policy has steps cannot pass the gate with the raw snapshot, or with half the chain."""
    line = begin(tmp_path)
    line.open()
    data.register(line.ledger, line.caller("register_source"), line.run_uid)
    data.make_snapshot(line.ledger, line.store, line.caller("snapshot"), line.run_uid)
    assert "unrecorded" == item(line)[0]["verdict"]

    raw = line.view().latest(SnapshotCreated)
    processing.make_split(
        line.ledger, line.store, line.caller("split"), line.run_uid, line.policy.policy, raw
    )
    shown = item(line)[0]
    assert ("changed", True) == (
        shown["verdict"],
        "the applied steps (none) are not those of the policy and the form" in shown["found"],
    )


@pytest.mark.requirement("R059")
@pytest.mark.parametrize("asked", [{"sample_share": 0.5, "sample_seed": 4}, {"sample_share": 0.75}])
def test_another_sample_than_was_asked(tmp_path, asked):
    """Where the form asks for a sample, neither the whole nor a sample of other size or seed passes the gate."""
    line = begin(tmp_path, policy=line_policy(min_documents="2", max_unclean_rate="1.0"))
    line.open(**asked)
    data.register(line.ledger, line.caller("register_source"), line.run_uid)
    data.make_snapshot(line.ledger, line.store, line.caller("snapshot"), line.run_uid)
    raw = line.view().latest(SnapshotCreated)
    rules, caller = line.policy.policy, line.caller("by_hand")
    processing.make_split(line.ledger, line.store, caller, line.run_uid, rules, raw)
    assert "changed" == item(line)[0]["verdict"]

    by_hand = Applier(ledger=line.ledger, actor=caller.actor, origin=caller.origin, stream=line.run_uid)
    (made,) = apply_steps(line.store, raw, [asked_sample(0.5, 0)], by_hand)
    caller = line.caller("by_hand", try_number=2)
    processing.make_split(line.ledger, line.store, caller, line.run_uid, rules, made.snapshot)
    assert "changed" == item(line)[0]["verdict"]
    processing.process(line.ledger, line.store, line.caller("process"), line.run_uid)
    assert "verified" == item(line)[0]["verdict"]


def test_snapshot_taken_again_after_the_steps(tmp_path):
    """A newer raw snapshot leaves the chain behind: the gate does not take the old steps for it."""
    line = begin(tmp_path)
    line.open()
    line.prepare_data()
    (tmp_path / "source/new.txt").write_text("a new document that came while the gate waited\n" * 9)
    data.make_snapshot(line.ledger, line.store, line.caller("snapshot", try_number=2), line.run_uid)

    assert "changed" == item(line)[0]["verdict"]
    processing.process(line.ledger, line.store, line.caller("process", try_number=2), line.run_uid)
    assert "verified" == item(line)[0]["verdict"]
    assert ["corpus.filtered", "corpus.deduplicated"] == [
        account.output.removeprefix("snapshot:").partition("@")[0] for _, account in chain_of(line.view())
    ]


def test_a_retried_step(tmp_path):
    """A second try of the task finds the versions of the first, and the chain stands once."""
    line = begin(tmp_path)
    line.open()
    line.prepare_data()
    again = processing.process(line.ledger, line.store, line.caller("process", try_number=2), line.run_uid)
    same = processing.process(line.ledger, line.store, line.caller("process", try_number=2), line.run_uid)

    assert [True, True] == [one.snapshot.unchanged for one in again.steps]
    assert again.split == same.split
    assert 2 == len(chain_of(line.view()))
    assert "verified" == item(line)[0]["verdict"]


def test_nothing_left(tmp_path):
    """A rule that leaves nothing stops the run with the rule's name; no version and no split exist."""
    line = begin(tmp_path, policy=policy(least=10**7))
    line.open()
    with pytest.raises(InputError, match=r"long-enough.*|leaves no document"):
        line.prepare_data()

    assert ["corpus"] == [found.name for _, found in line.view().all(SnapshotCreated)]
    assert line.view().latest(SplitCreated) is None


@pytest.mark.requirement("R057")
def test_what_a_failed_step_left_goes(tmp_path):
    """Work files of a step that failed are dropped with a record when the run is cleaned; then there are none."""
    line = begin(tmp_path, policy=policy(least=10**7))
    line.open()
    with pytest.raises(InputError):
        line.prepare_data()
    left = [info.key for info in line.store.list("processing/")]
    clean = processing.drop_unfinished(line.ledger, line.store, line.caller("clean_up"), line.run_uid)

    assert (1, True, 1) == (len(left), clean.verified_absent, len(clean.paths))
    assert [] == list(line.store.list("processing/"))
    assert processing.drop_unfinished(line.ledger, line.store, line.caller("clean_up"), line.run_uid) is None
    assert [clean] == [found for _, found in line.view().all(TemporaryRemoved)]


@pytest.mark.requirement("R050")
def test_changed_rule_shows_in_the_comparison(tmp_path):
    """Two runs under two versions of a rule differ in exactly that rule and what it made."""
    views = []
    for number, found in enumerate((policy(), policy(version=2, least=150)), 1):
        line = begin(tmp_path, number, policy=found)
        line.open()
        line.prepare_data()
        views.append(line.view())
    changed = {
        change.field: (change.left, change.right)
        for change in compare(views[0], views[1:]).changed
        if change.cause == "data"
    }

    assert {"rule.long-enough", "manifest_digest", "split_digest"} == set(changed)
    assert ("filter v1", "filter v2") == tuple(
        text.rpartition(" ")[0] for text in changed["rule.long-enough"]
    )


@pytest.mark.requirement("R059")
def test_two_samples_of_one_pool(tmp_path):
    """Two runs take a pool by samples with two seeds: two versions, each traced to sample and pool; nothing is read."""
    pool = begin(tmp_path)
    pool.open()
    pool.prepare_data()
    for path in (tmp_path / "source").iterdir():
        path.unlink()
    made = []
    for number, seed in ((2, 1), (3, 2)):
        line = begin_from(tmp_path, number)
        line.open(
            source="snapshot:corpus.deduplicated@1", source_name="task", sample_share=0.5, sample_seed=seed
        )
        line.prepare_data()
        assert "verified" == item(line)[0]["verdict"]
        made.append(line.view())
    last = [view.latest(SnapshotCreated) for view in made]

    assert [("task.filtered", 1), ("task.filtered", 2)] == [(found.name, found.version) for found in last]
    assert 2 == len({found.manifest_digest for found in last})
    for number, view in enumerate(made, 1):
        assert view.latest(SourceRegistered).source_id == pool.view().latest(SourceRegistered).source_id
        nodes = {
            str(node)
            for node in pool.ledger.trace(Ref(type="run", id=view.run_uid), direction="backward").nodes
        }
        assert {
            "snapshot:corpus.deduplicated@1",
            f"snapshot:task.asked_sample@{number}",
            "snapshot:corpus@1",
        } <= nodes
        assert any(node.startswith("rule:asked-sample-") for node in nodes)
    forward = pool.ledger.trace(
        Ref(type="snapshot", id="corpus.deduplicated", version="1"), direction="forward"
    ).nodes
    assert {view.run_uid for view in made} <= {node.id for node in forward}


def begin_from(folder, number):
    """A line whose source folder is empty: it can only use what is stored."""
    (folder / "source/short.txt").write_text("")
    return begin(
        folder,
        number,
        policy=line_policy(
            FILTER.format(version=1, least=100).partition("\n\n[[")[0],
            min_documents="2",
            max_unclean_rate="1.0",
        ),
    )


@pytest.mark.requirement("R037", "R059")
def test_pool_keeps_its_rights(tmp_path):
    """A run on a pool carries the rights that were registered with the pool, whatever its form and others say."""
    pool = begin(tmp_path)
    pool.open()
    pool.prepare_data()
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("somebody else's words")
    second = begin(tmp_path, 2)
    second.open(source=str(other), source_name="other", licence="MIT")
    data.register(second.ledger, second.caller("register_source"), second.run_uid)
    again = begin(tmp_path, 4)
    again.open(licence="Apache-2.0")
    data.register(again.ledger, again.caller("register_source"), again.run_uid)
    third = begin(tmp_path, 3)
    third.open(source="snapshot:corpus.deduplicated@1", source_name="task", licence="MIT")
    found = data.register(third.ledger, third.caller("register_source"), third.run_uid)

    known = pool.view().latest(SourceRegistered)
    assert ("CC0-1.0", known.source_id, known.uri) == (found.licence, found.source_id, found.uri)


def test_unknown_pool(tmp_path):
    """A pool that the ledger does not know is refused at the first task."""
    line = begin(tmp_path)
    line.open(source="snapshot:nothing@4")
    with pytest.raises(RefusedError, match="knows no such snapshot"):
        data.register(line.ledger, line.caller("register_source"), line.run_uid)


def test_text_field_of_the_policy_rules_the_split():
    """Where the policy names another field for texts the split reads it too, and so does the rebuilt split."""
    named = policy(more=RECIPE, snapshot_mode='"recipe"').policy
    quality = named.data.quality.model_copy(update={"text_field": "content"})
    other = named.model_copy(update={"data": named.data.model_copy(update={"quality": quality})})

    assert "content" == processing.split_step(other).text_field
    own = SplitStep(name="s", version=1, kind="split", text_field="body")
    steps = other.model_copy(update={"data": other.data.model_copy(update={"steps": [own]})})
    assert "body" == processing.split_step(steps).text_field


@pytest.mark.requirement("R053", "R054")
def test_recipe_line(tmp_path):
    """In recipe mode the store never holds content, and the run trains and evaluates on what its recipe gives."""
    line = begin(tmp_path, policy=policy(more=RECIPE, snapshot_mode='"recipe"'))
    line.to_signed_launch()
    blobs = list(line.store.list("blobs/"))
    modes = [found.mode for _, found in line.view().all(SnapshotCreated)]

    assert ([], ["recipe"] * 3) == (blobs, modes)
    assert "completed" == line.launch().state
    line.register()
    line.evaluate()
    assert [] == list(line.store.list("blobs/"))
    last = line.view().latest(SnapshotCreated)
    assert "short.txt" not in entries(line.store, last)


@pytest.mark.requirement("R054")
@pytest.mark.parametrize(
    ("rights", "told"),
    [
        pytest.param(RECIPE.replace("= true", "= false"), "does not allow", id="forbidden"),
        pytest.param(RECIPE.replace("= 90", "= 0.0000001"), "was kept for", id="past its time"),
    ],
)
def test_pool_that_may_not_be_rebuilt(tmp_path, rights, told):
    """A run on a pool that is kept as a recipe is refused where its policy forbids a rebuild or its time is over."""
    made = begin(tmp_path, policy=policy(more=rights, snapshot_mode='"recipe"'))
    made.open()
    data.register(made.ledger, made.caller("register_source"), made.run_uid)
    data.make_snapshot(made.ledger, made.store, made.caller("snapshot"), made.run_uid)
    line = begin(tmp_path, 2)
    line.open(source="snapshot:corpus@1", source_name="task")
    data.register(line.ledger, line.caller("register_source"), line.run_uid)

    with pytest.raises(RefusedError, match=told):
        data.make_snapshot(line.ledger, line.store, line.caller("snapshot"), line.run_uid)
    assert [] == list(line.view().all(SnapshotCreated))


def test_large_working_files_are_in_the_work_folder(tmp_path, monkeypatch):
    """Sketches and a recipe's content lie in the work folder, and what killed processes left there goes."""
    work = tmp_path / "work"
    monkeypatch.setenv("AIRFLOW__PRETRAIN_ARCHIVE__WORK_FOLDER", str(work))
    gone = str(2**22 + 1)
    left = [
        work / (owned(f"pretrain-archive-{what}-").replace(f"-{os.getpid()}-", f"-{gone}-") + "x")
        for what in ("near", "content")
    ]
    others = work / f"pretrain-archive-near-0ther05t-{gone}-x"
    others.mkdir(parents=True)
    for folder in left:
        folder.mkdir(parents=True)
        (folder / "sketch").write_bytes(bytes(9))
    made, seen = tempfile.TemporaryDirectory, []

    def watched(*words, **more):
        seen.append((more.get("prefix", ""), more.get("dir")))
        return made(*words, **more)

    monkeypatch.setattr(tempfile, "TemporaryDirectory", watched)
    near = (
        '\n[[data.steps]]\nname = "near"\nversion = 1\nkind = "deduplicate"\nby = "near"\noutput = "near"\n'
    )
    line = begin(tmp_path, policy=policy(more=near + RECIPE, snapshot_mode='"recipe"'))
    line.open()
    data.register(line.ledger, line.caller("register_source"), line.run_uid)
    data.make_snapshot(line.ledger, line.store, line.caller("snapshot"), line.run_uid)
    processing.process(line.ledger, line.store, line.caller("process"), line.run_uid)

    assert {(owned(f"pretrain-archive-{what}-"), work) for what in ("near", "content")} <= set(seen)
    # What another machine has there may be in use.
    assert [others] == list(work.glob("pretrain-archive-*"))


def test_recipe_of_a_changed_source(tmp_path):
    """A source that changed after the signature stops the launch and names the file."""
    line = begin(tmp_path, policy=policy(more=RECIPE, snapshot_mode='"recipe"'))
    line.to_signed_launch()
    (tmp_path / "source/doc30.txt").write_text("other words\n" * 40)

    with pytest.raises(Exception, match=r"doc30\.txt"):
        line.launch()
    assert 0 == load_run(line.ledger, line.run_uid).attempts
