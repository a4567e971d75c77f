# ruff: noqa: PTH114, PTH115, PTH118 - pathlib cannot hold paths as bytes
"""Snapshots kept as a recipe: nothing of the content, everything to make it again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.support.data_track import ACTOR, AWKWARD_NAMES, FOREIGN_NAMES, numbered, origin, write_tree
from tests.support.odd_s3 import BUCKET, odd_s3
from tests.support.processing import corpus, line, step

from pretrain_archive.data.buckets import Address, BucketTree
from pretrain_archive.data.overlay import Overlay
from pretrain_archive.data.processing.applying import Applier, apply_steps
from pretrain_archive.data.rebuilding import content_of, rebuild
from pretrain_archive.data.recipes import Growing, create_recipe, read_recipe, require_rebuild_allowed
from pretrain_archive.data.snapshots import versions
from pretrain_archive.data.sources import resolve_source
from pretrain_archive.domain.errors import (
    ArchiveError,
    InputError,
    RefusedError,
    SourceChangedError,
    SourceError,
)
from pretrain_archive.domain.identity import format_time
from pretrain_archive.domain.processing import RecipeRights
from pretrain_archive.domain.verdicts import Verdict
from pretrain_archive.storage.factory import open_bucket
from pretrain_archive.storage.files import FileStore

ROOT = Path(__file__).parents[3]
PROGRAM = Path(sys.executable).with_name("pretrain-archive")
RIGHTS = RecipeRights(rebuild_allowed=True, keep_days=30, approver="alice")
LISTS = {
    "a.jsonl": [line(f"text {n % 7}") for n in range(20)],
    "b.jsonl.gz": [line(f"more {n}") for n in range(9)],
}


def recipe(store, root, **changes):
    """A recipe of the folder ``root``."""
    found = resolve_source(str(root))
    fields = {"name": "corpus", "tree": found.tree, "source_uri": found.uri, "rights": RIGHTS, "actor": ACTOR,
              "origin": origin()}  # fmt: skip
    return create_recipe(store, None, **fields | changes)


def processed(store, root, folder, *steps):
    """The recipe of ``steps`` applied to the recipe of ``root``."""
    pool = recipe(store, root)
    place, shown = content_of(store, pool, folder)
    applier = Applier(ledger=None, actor=ACTOR, origin=origin(), recipe=Growing(store, pool))
    made = apply_steps(place, shown, steps, applier)
    shutil.rmtree(folder)
    return made[-1].snapshot


def tree(root):
    """Every file and link below ``root`` with its bytes or target."""
    found = {}
    for folder, _, names in os.walk(os.fsencode(root)):
        for name in names:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, os.fsencode(root))] = (
                os.readlink(path) if os.path.islink(path) else Path(os.fsdecode(path)).read_bytes()
            )
    return found


@pytest.mark.requirement("R053")
@pytest.mark.case("S01")
def test_nothing_is_kept_and_all_comes_back(store, tmp_path):
    """The store holds manifest, recipe and version and no content; a rebuild gives every byte, name and link."""
    root = write_tree(tmp_path / "src", numbered(AWKWARD_NAMES + FOREIGN_NAMES) | {b"d/empty": b""})
    (root / "link").symlink_to("plain.txt")
    made = recipe(store, root)

    assert {"manifests", "recipes", "snapshots"} == {info.key.partition("/")[0] for info in store.list("")}
    found = rebuild(store, made, tmp_path / "out")
    assert (Verdict.VERIFIED, ()) == (found.verdict, found.items)
    assert tree(root) == tree(tmp_path / "out")
    assert [] == [path for path in tmp_path.iterdir() if path.name.startswith(".out")]


@pytest.mark.requirement("R053")
def test_rules_are_applied_again(files, tmp_path):
    """The recipe of a chain holds its rules in order; a rebuild applies them and gets the same digest."""
    root = corpus(tmp_path / "src", LISTS, {"p.txt": b"plain words\n"})
    steps = (step("filter", min_bytes=3), step("deduplicate"), step("sample", seed=1, documents=9))
    made = processed(files, root, tmp_path / "work", *steps)

    assert ("recipe", ["filter", "deduplicate", "sample"]) == (
        made.mode, [rule["kind"] for rule in read_recipe(files, made).rules],
    )  # fmt: skip
    assert [] == list(files.list("blobs/"))
    found = rebuild(files, made, tmp_path / "out")
    assert Verdict.VERIFIED is found.verdict
    place, shown = content_of(files, made, tmp_path / "again")
    assert isinstance(place, Overlay)
    assert made.manifest_digest == shown.manifest_digest
    lines = (tmp_path / "out/a.jsonl").read_bytes().splitlines(keepends=True)
    assert set(lines) <= set(LISTS["a.jsonl"])
    assert len(lines) == len(set(lines))


def test_changed_source_is_named(files, tmp_path):
    """A changed, a new and a lost file are each named with both digests, and no folder appears."""
    root = write_tree(tmp_path / "src", numbered(AWKWARD_NAMES[:1]) | {b"a.txt": b"a", b"b.txt": b"b"})
    made = recipe(files, root)
    (root / "a.txt").write_bytes(b"A")
    (root / "b.txt").unlink()
    (root / "c.txt").write_bytes(b"c")
    found = rebuild(files, made, tmp_path / "out")

    assert Verdict.CHANGED is found.verdict
    assert ["a.txt", "b.txt", "c.txt"] == [item.path for item in found.items]
    assert ["absent"] == [item.found for item in found.items if item.path == "b.txt"]
    assert {"src", "store", "ledger.db"} & {"src", "store"} <= {path.name for path in tmp_path.iterdir()}
    assert [] == [path.name for path in tmp_path.iterdir() if "out" in path.name]
    with pytest.raises(SourceChangedError, match=r"a\.txt, b\.txt, c\.txt"):
        content_of(files, made, tmp_path / "work")


def test_changed_source_under_rules(files, tmp_path):
    """Where rules stand between, the file of the source that changed is named, not what the rules made of it."""
    root = corpus(tmp_path / "src", LISTS, {"p.txt": b"plain words\n"})
    made = processed(files, root, tmp_path / "work", step("filter", exclude=["p.txt"]))
    (root / "p.txt").write_bytes(b"other words\n")
    found = rebuild(files, made, tmp_path / "out")

    assert ("source", ["p.txt"]) == (found.stage, [item.path for item in found.items])
    assert not (tmp_path / "out").exists()


def test_source_is_gone(files, tmp_path):
    """A source that is not there is a clear error that names it."""
    root = write_tree(tmp_path / "src", {b"a.txt": b"a"})
    made = recipe(files, root)
    shutil.rmtree(root)

    with pytest.raises(SourceError, match="src: is not there"):
        rebuild(files, made, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.requirement("R054")
def test_policy_decides(files, tmp_path):
    """What the policy said holds: what is forbidden or past its time is refused, and the approver named."""
    root = write_tree(tmp_path / "src", {b"a.txt": b"a"})
    allowed = read_recipe(files, recipe(files, root))
    forbidden = RIGHTS.model_copy(update={"rebuild_allowed": False})
    refused = read_recipe(files, recipe(files, root, name="other", rights=forbidden))
    made_at = format_time(datetime.now(UTC) - timedelta(days=29))
    long_ago = format_time(datetime.now(UTC) - timedelta(days=31))

    assert "alice" == require_rebuild_allowed(allowed, recorded_at=made_at)
    with pytest.raises(RefusedError, match="does not allow") as raised:
        require_rebuild_allowed(refused, recorded_at=made_at)
    assert (4, True) == (raised.value.exit_code, "alice" in raised.value.hint)
    with pytest.raises(RefusedError, match="kept for 30 days"):
        require_rebuild_allowed(allowed, recorded_at=long_ago)
    with pytest.raises(RefusedError, match="since when is unrecorded"):
        require_rebuild_allowed(allowed, recorded_at=None)


def test_other_rights_are_another_version(files, tmp_path):
    """The same content under another policy is another version: who approves is part of what is recorded."""
    root = write_tree(tmp_path / "src", {b"a.txt": b"a"})
    made = [recipe(files, root), recipe(files, root), recipe(files, root, rights=None)]

    assert [(1, False), (1, True), (2, False)] == [(found.version, found.unchanged) for found in made]


def test_wrong_targets(files, tmp_path):
    """A folder with something in it stays as it is; a copy is not rebuilt."""
    root = write_tree(tmp_path / "src", {b"a.txt": b"a"})
    made = recipe(files, root)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "x").write_text("x")

    with pytest.raises(InputError, match="not empty"):
        rebuild(files, made, mine)
    assert ["x"] == [path.name for path in mine.iterdir()]
    with pytest.raises(InputError, match="not as a recipe"):
        rebuild(files, made.model_copy(update={"mode": "copy"}), tmp_path / "out")


@pytest.mark.case("S11")
@pytest.mark.parametrize(
    ("keys", "told"),
    [
        pytest.param([b"../../up"], "leads out of a folder", id="up"),
        pytest.param([b"/tmp/pretrain-archive-never"], "leads out of a folder", id="absolute"),
        pytest.param([b"a//b", b"a/b"], "leads out of a folder", id="empty part"),
        pytest.param([b"x/../y", b"y"], "leads out of a folder", id="up within"),
        pytest.param([b"a", b"a/b"], "cannot stand beside", id="file and folder"),
    ],
)
def test_keys_that_no_folder_holds(files, tmp_path, keys, told):
    """Keys of a bucket are any bytes: nothing is written outside the folder or over another file, and the name told."""
    with odd_s3({key: key for key in keys}) as odd:
        found = BucketTree.at(open_bucket(BUCKET, s3_options=odd.options), Address(bucket=BUCKET))
        made = create_recipe(
            files,
            None,
            name="odd",
            tree=found,
            source_uri=found.uri,
            rights=RIGHTS,
            actor=ACTOR,
            origin=origin(),
        )
        with pytest.raises(InputError, match=told):
            rebuild(files, made, tmp_path / "p/q/out", source=found)

    assert [] == [path for path in (tmp_path / "p").rglob("*") if path.is_file()]
    assert not Path("/tmp/pretrain-archive-never").exists()


def test_link_as_target(files, tmp_path):
    """A link is no place for a rebuild, whether it leads somewhere or nowhere."""
    made = recipe(files, write_tree(tmp_path / "src", {b"a.txt": b"a"}))
    (tmp_path / "empty").mkdir()
    for name, leads in (("nowhere", "gone"), ("somewhere", "empty")):
        (tmp_path / name).symlink_to(tmp_path / leads)
        with pytest.raises(InputError, match="or a link"):
            rebuild(files, made, tmp_path / name)


@pytest.mark.parametrize("cut", [0, 20, 400])
def test_cut_recipe(files, tmp_path, cut):
    """A recipe of which a part is lost is told as such."""
    made = recipe(files, write_tree(tmp_path / "src", {b"a.txt": b"a"}))
    (path,) = (files.folder / "recipes").rglob("*.json")
    path.write_bytes(path.read_bytes()[:cut])

    with pytest.raises(ArchiveError, match="differs from its digest"):
        read_recipe(files, made)


@pytest.mark.parametrize("days", [0, -1, 1e12, float("inf"), float("nan")])
def test_days_that_no_calendar_holds(days):
    """A recipe is kept for some days: not for none, and not for ever."""
    with pytest.raises(ValidationError, match="keep_days"):
        RecipeRights(rebuild_allowed=True, keep_days=days, approver="alice")


def test_forged_recipe(files, tmp_path):
    """A recipe that is not what its digest says is not carried out."""
    made = recipe(files, write_tree(tmp_path / "src", {b"a.txt": b"a"}))
    (path,) = (files.folder / "recipes").rglob("*.json")
    path.write_bytes(path.read_bytes().replace(b'"rebuild_allowed":true', b'"rebuild_allowed":null'))

    with pytest.raises(ArchiveError, match="differs from its digest"):
        read_recipe(files, made)


def test_other_code_is_told(files, tmp_path):
    """Rules that another release carried out differently are not applied in their name."""
    root = corpus(tmp_path / "src", LISTS)
    made = read_recipe(files, processed(files, root, tmp_path / "work", step("deduplicate")))
    made.rules[0]["interpreter"] = "pretrain-archive deduplicate 0"

    with pytest.raises(ArchiveError, match=r"deduplicate 0.*this release has"):
        made.steps()


KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from pretrain_archive.data import rebuilding
from pretrain_archive.data.snapshots import open_version
from pretrain_archive.storage.files import FileStore

folder = Path(sys.argv[1])
real, count = shutil.copyfileobj, 0
def dying(*words):
    global count
    count += 1
    if count == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*words)
rebuilding.shutil.copyfileobj = dying
store = FileStore(folder / "store")
rebuilding.rebuild(store, open_version(store, "corpus"), folder / "out")
"""


def test_killed_rebuild(tmp_path):
    """Kill -9 while files are written leaves no folder of that name; the next rebuild clears the hidden one away."""
    store = FileStore(tmp_path / "store")
    made = recipe(store, write_tree(tmp_path / "src", numbered(AWKWARD_NAMES)))
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, check=False, timeout=60)

    assert -signal.SIGKILL == ended.returncode
    assert not (tmp_path / "out").exists()
    assert 1 == len(list(tmp_path.glob(".out.part-*")))
    assert Verdict.VERIFIED is rebuild(store, made, tmp_path / "out").verdict
    assert [] == list(tmp_path.glob(".out.part-*"))


@pytest.mark.requirement("R053", "R054")
def test_command_line(tmp_path):
    """Create --mode recipe and rebuild answer 0, 1 where the source differs, and 4 where the policy forbids."""
    root = write_tree(tmp_path / "src", {b"a.txt": b"a", b"b.txt": b"b"})
    text = (ROOT / "dags/policies/demo.toml").read_text()
    policy = tmp_path / "demo.toml"
    policy.write_text(text.replace(
        "[quotas]", '[data.recipe]\nrebuild_allowed = false\nkeep_days = 30\napprover = "alice"\n\n[quotas]'
    ))  # fmt: skip

    def run(*words):
        ended = subprocess.run(
            [PROGRAM, "snapshot", *words, "--store", str(tmp_path / "st"), "--json"],
            env=os.environ | {"AIRFLOW_HOME": str(tmp_path / "home")}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return ended.returncode, json.loads(ended.stdout)

    assert 0 == run("create", str(root), "--name", "free", "--mode", "recipe")[0]
    code, found = run("rebuild", "free", "--to", str(tmp_path / "out"))
    assert (0, "verified", None, 2) == (code, found["verdict"], found["approver"], found["file_count"])
    assert tree(root) == tree(tmp_path / "out")
    run("create", str(root), "--name", "tied", "--mode", "recipe", "--policy", str(policy))
    code, found = run("rebuild", "tied", "--to", str(tmp_path / "out2"))
    assert (4, "refused") == (code, found["error"]["code"])
    (root / "b.txt").write_bytes(b"c")
    code, found = run("rebuild", "free@1", "--to", str(tmp_path / "out2"))
    assert (1, "changed", ["b.txt"]) == (code, found["verdict"], [item["path"] for item in found["items"]])
    assert not (tmp_path / "out2").exists()
    assert 2 == run("rebuild", "none", "--to", str(tmp_path / "out2"))[0]


def test_no_version_where_the_source_changes(files, tmp_path, monkeypatch):
    """A source that changes while it is read gives no recipe."""
    from pretrain_archive.data import recipes

    def changing(*_words, **_more):
        raise SourceChangedError("source: 1 file changed", paths=("a.txt",))

    root = write_tree(tmp_path / "src", {b"a.txt": b"a"})
    monkeypatch.setattr(recipes, "create_snapshot", changing)
    with pytest.raises(SourceChangedError):
        recipe(files, root)
    assert ([], []) == (versions(files, "corpus"), list(files.list("")))
