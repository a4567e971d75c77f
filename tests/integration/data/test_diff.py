"""What changed between two versions, against an own count over random trees."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.support.data_track import write_tree

from pretrain_archive.data.diffing import compare
from pretrain_archive.data.snapshots import manifest_key
from pretrain_archive.domain.errors import ArchiveError

pytestmark = pytest.mark.requirement("R041")
OLD = {b"keep": b"k", b"edit": b"old", b"gone": b"gg", b"a/move": b"moved bytes", b"empty": b""}
NEW = {b"keep": b"k", b"edit": b"newer", b"come": b"ccc", b"z/move": b"moved bytes", b"other empty": b""}


def sha(content: bytes) -> str:
    """The digest of content."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def two(snap, store, tmp_path, old: dict[bytes, bytes], new: dict[bytes, bytes]):
    """Two versions of one name."""
    return (
        snap(store, write_tree(tmp_path / "old", old)),
        snap(store, write_tree(tmp_path / "new", new)),
    )


def test_each_kind_of_change(store, snap, tmp_path):
    """Added, removed, modified and renamed are told apart, with counts, bytes and what stood there before."""
    left, right = two(snap, store, tmp_path, OLD, NEW)
    found = compare(store, left, right).to_json()

    assert {
        "added": {"files": 2, "bytes": 3},
        "removed": {"files": 2, "bytes": 2},
        "modified": {"files": 1, "bytes": 5},
        "renamed": {"files": 1, "bytes": 11},
        "unchanged": {"files": 1, "bytes": 1},
    } == found["counts"]
    assert [
        ("added", "come"), ("added", "other empty"), ("removed", "empty"), ("removed", "gone"),
        ("modified", "edit"), ("renamed", "z/move"),
    ] == [(change["change"], change["path"]) for change in found["changes"]]  # fmt: skip
    assert {
        "change": "modified", "path": "edit", "before": {"size": 3, "sha256": sha(b"old")},
        "after": {"size": 5, "sha256": sha(b"newer")},
    } == found["changes"][4]  # fmt: skip
    assert "a/move" == found["changes"][5]["from"]
    assert (False, False) == (found["same"], found["truncated"])
    assert (None, "snapshot:corpus@1") == (found["left"]["parent"], found["right"]["parent"])


def test_backwards_is_the_mirror(files, snap, tmp_path):
    """What the right added, the left lacks: from right to left each kind is mirrored."""
    left, right = two(snap, files, tmp_path, OLD, NEW)
    there, back = compare(files, left, right).tallies, compare(files, right, left).tallies

    assert there["added"] == back["removed"]
    assert there["removed"] == back["added"]
    assert there["renamed"] == back["renamed"]
    assert there["modified"].files == back["modified"].files


def test_the_same_version(files, snap, tmp_path):
    """A version against itself has no change."""
    left, _ = two(snap, files, tmp_path, OLD, NEW)
    found = compare(files, left, left)

    assert found.same
    assert not found.truncated
    assert 5 == found.tallies["unchanged"].files


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no symbolic links")
def test_a_file_that_became_a_link(files, snap, tmp_path):
    """A link in place of a file is a modification; a link elsewhere is never a rename."""
    old = write_tree(tmp_path / "old", {b"a": b"x", b"b": b"y"})
    new = write_tree(tmp_path / "new", {b"b": b"y"})
    (new / "a").symlink_to("b")
    (old / "c").symlink_to("b")
    (new / "d").symlink_to("b")
    found = compare(files, snap(files, old), snap(files, new)).to_json()

    assert [("added", "d"), ("removed", "c"), ("modified", "a")] == [
        (change["change"], change["path"]) for change in found["changes"]
    ]
    assert {"link": "b"} == found["changes"][2]["after"]


@pytest.mark.parametrize("seed", range(12))
def test_random_trees(files, snap, tmp_path, seed):
    """Counts agree with a count over dictionaries, and nothing is left out or counted twice."""
    draw = random.Random(seed)
    contents = [b"%d" % n for n in range(6)] + [b""]

    def tree() -> dict[bytes, bytes]:
        names = draw.sample([b"%c/%d" % (97 + n % 3, n) for n in range(30)], draw.randint(1, 25))
        return {name: draw.choice(contents) for name in names}

    old, new = tree(), tree()
    found = compare(files, *(snap(files, write_tree(tmp_path / side, files_), name=side)
                             for side, files_ in (("old", old), ("new", new))))  # fmt: skip
    gone = Counter(content for name, content in old.items() if name not in new)
    came = Counter(content for name, content in new.items() if name not in old)
    moved = sum((number for content, number in (gone & came).items() if content), 0)

    assert {
        "added": came.total() - moved,
        "removed": gone.total() - moved,
        "modified": sum(name in old and old[name] != content for name, content in new.items()),
        "renamed": moved,
        "unchanged": sum(old.get(name) == content for name, content in new.items()),
    } == {kind: tally.files for kind, tally in found.tallies.items()}, f"seed {seed}"
    assert found.tallies["renamed"].files == sum(change.kind == "renamed" for change in found.changes)
    for change in found.changes:
        if change.kind == "renamed":
            assert change.before is not None
            assert change.after is not None
            assert change.before.sha256 == change.after.sha256


def test_names_are_limited_and_counts_are_not(files, snap, tmp_path):
    """With a limit each kind names its first paths; the counts stay whole and the cut is told."""
    left, right = two(snap, files, tmp_path, {b"z": b"z"}, {b"%02d" % n: b"%d" % n for n in range(40)})
    found = compare(files, left, right, limit=3).to_json()

    assert ["00", "01", "02", "z"] == [change["path"] for change in found["changes"]]
    assert 40 == found["counts"]["added"]["files"]
    assert found["truncated"]


def test_a_manifest_that_is_not_the_versions_own(files, snap, tmp_path):
    """A damaged manifest is refused by name: no difference is told from it."""
    left, right = two(snap, files, tmp_path, OLD, NEW)
    path = Path(files.folder) / manifest_key(left.manifest_digest)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b'"size":3', b'"size":4'))

    with pytest.raises(ArchiveError, match=left.manifest_digest):
        compare(files, left, right)


MEASURED = """
import sys
from tests.support.memory import peak_bytes
from tests.support.data_track import fake_version
from pretrain_archive.data.diffing import compare
from pretrain_archive.storage.factory import open_store
store = open_store(sys.argv[1])
left, right = (fake_version(store, n, files=60_000, turned=n) for n in (0, 1))
before = peak_bytes()
found = compare(store, left, right, limit=10)
print(peak_bytes() - before, found.tallies["renamed"].files, found.tallies["modified"].files)
"""


def test_memory_does_not_grow_with_the_changes(tmp_path):
    """Sixty thousand renames take a few megabytes: they wait on disk."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, f"file://{tmp_path}/store"],
        cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True,
    )  # fmt: skip
    grown, renamed, modified = map(int, done.stdout.split())

    assert (60_000, 0) == (renamed, modified)
    assert grown < 24 << 20


def ask(*words: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Call the command line with a home of its own."""
    return subprocess.run(
        [Path(sys.executable).with_name("pretrain-archive"), *words],
        env=os.environ | {"AIRFLOW_HOME": str(home)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_on_the_command_line(files, snap, tmp_path):
    """Text names the first paths and all counts; JSON is one document; a version that is not there is wrong use."""
    two(snap, files, tmp_path, OLD, NEW)
    store = ["--store", str(files.folder)]
    text = ask("snapshot", "diff", "corpus@1", "corpus@2", *store, home=tmp_path)
    document = ask("snapshot", "diff", "corpus@1", "corpus", "--json", *store, home=tmp_path)
    absent = ask("snapshot", "diff", "corpus@1", "corpus@9", *store, home=tmp_path)

    assert [
        "+ come", "+ other empty", "- empty", "- gone", "~ edit", "> a/move → z/move",
        "2 added (3 B), 2 removed (2 B), 1 modified (5 B), 1 renamed (11 B)",
    ] == text.stdout.splitlines()  # fmt: skip
    assert (0, 0, 2) == (text.returncode, document.returncode, absent.returncode)
    assert {"files": 1, "bytes": 11} == json.loads(document.stdout)["counts"]["renamed"]
    assert "corpus@9" in absent.stderr
    assert "Traceback" not in absent.stderr
