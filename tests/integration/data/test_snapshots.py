"""Versions of data: made once, complete, and checked against every byte."""

from __future__ import annotations

import hashlib
import json
import os
import threading

import pytest
from tests.support.data_track import AWKWARD_NAMES, FOREIGN_NAMES, numbered, origin, write_tree

from pretrain_archive.data import layout
from pretrain_archive.data.manifest import read_entries
from pretrain_archive.data.snapshots import diff, manifest_key, open_manifest, open_version, versions
from pretrain_archive.data.verify import verify_snapshot
from pretrain_archive.domain.errors import InputError, SourceChangedError, SourceError
from pretrain_archive.domain.identity import text_to_path
from pretrain_archive.ledger.canonical import canonical_bytes

RUN = "run_0198c0de-0000-7000-8000-000000000000"


def sha(content: bytes) -> str:
    """The digest of content."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def entries(store, snapshot):
    """The entries of a snapshot's manifest."""
    with open_manifest(store, snapshot.manifest_digest) as stream:
        return list(read_entries(stream))


@pytest.mark.requirement("R051", "R052", "R041")
def test_a_first_version(store, snap, ledger, tmp_path):
    """The version names manifest and counts; content lies under its digest; the record has the edges."""
    root = write_tree(tmp_path / "in", {b"b/two.txt": b"same", b"a.txt": b"same", b"c.txt": b"other"})
    made = snap(store, root, stream=RUN, source_id="source_1")

    assert ("corpus", 1, 3, 13, None, False) == (
        made.name, made.version, made.file_count, made.total_bytes, made.parent, made.unchanged
    )  # fmt: skip
    assert {"added": 3, "removed": 0, "modified": 0} == made.changes
    assert [("a.txt", sha(b"same")), ("b/two.txt", sha(b"same")), ("c.txt", sha(b"other"))] == [
        (entry.path, entry.sha256) for entry in entries(store, made)
    ]
    assert sorted([layout.blob_key(sha(b"same")), layout.blob_key(sha(b"other"))]) == [
        info.key for info in store.list("blobs/")
    ]
    with store.open(manifest_key(made.manifest_digest)) as stream:
        assert made.manifest_digest == sha(stream.read())
    (record,) = ledger.records(kinds=["snapshot.created"])
    assert made.to_json() == record.payload
    assert {
        "snapshot:corpus@1 was_derived_from source:source_1",
        f"run:{RUN} used snapshot:corpus@1",
    } == {f"{edge.subject} {edge.relation.value} {edge.object}" for edge in record.edges}


def test_unchanged_content_is_the_same_version(store, snap, ledger, tmp_path):
    """Content as before makes no version; a run that used it still has its record."""
    root = write_tree(tmp_path / "in", {b"a.txt": b"1"})
    first = snap(store, root)
    second = snap(store, root, stream=RUN)

    assert (1, True) == (second.version, second.unchanged)
    assert first.manifest_digest == second.manifest_digest
    assert [1] == versions(store, "corpus")
    assert {"added": 0, "removed": 0, "modified": 0} == second.changes
    assert [False, True] == [r.payload["unchanged"] for r in ledger.records(kinds=["snapshot.created"])]


@pytest.mark.requirement("R041")
def test_changes_against_the_parent_are_counted(store, snap, ledger, tmp_path):
    """A new version names its parent and how many files came, went and changed."""
    root = write_tree(tmp_path / "in", {b"keep": b"k", b"edit": b"old", b"gone": b"g"})
    first = snap(store, root)
    (root / "gone").unlink()
    write_tree(root, {b"edit": b"new", b"new1": b"", b"x/new2": b"n"})
    second = snap(store, root)

    assert ("snapshot:corpus@1", {"added": 2, "removed": 1, "modified": 1}) == (second.parent, second.changes)
    assert {"added": 1, "removed": 2, "modified": 1} == diff(store, second, first)
    edges = list(ledger.records(kinds=["snapshot.created"]))[1].edges
    assert ["snapshot:corpus@2 snapshot:corpus@1"] == [f"{e.subject} {e.object}" for e in edges]


def test_content_that_comes_back_is_a_version_of_its_own(store, snap, tmp_path):
    """A, B, A are three versions: history is not folded."""
    root = tmp_path / "in"
    made = [snap(store, write_tree(root, {b"f": content})) for content in (b"A", b"B", b"A")]

    assert [1, 2, 3] == [version.version for version in made]
    assert made[0].manifest_digest == made[2].manifest_digest


@pytest.mark.case("S01")
@pytest.mark.requirement("R052")
def test_line_breaks_and_percent_signs(store, snap, tmp_path):
    """Ten files are ten entries; every name comes back byte for byte and every digest is that of its bytes."""
    files = numbered(AWKWARD_NAMES)
    made = snap(store, write_tree(tmp_path / "in", files))

    assert {name: sha(content) for name, content in files.items()} == {
        text_to_path(entry.path): entry.sha256 for entry in entries(store, made)
    }
    assert 10 == made.file_count
    assert {"changed": 0, "unrecorded": 0, "verified": 10} == verify_snapshot(store, "corpus").counts


@pytest.mark.case("S03")
def test_names_that_are_not_utf_8(store, snap, ledger, tmp_path):
    """All four are recorded without loss, through JSON and the database."""
    files = numbered(FOREIGN_NAMES)
    made = snap(store, write_tree(tmp_path / "in", files))

    assert sorted(files) == [text_to_path(entry.path) for entry in entries(store, made)]
    assert 1 == len(list(ledger.records(kinds=["snapshot.created"])))
    (tmp_path / "in" / os.fsdecode(b"dup\xff.txt")).unlink()
    check = verify_snapshot(store, "corpus", source_root=tmp_path / "in")
    json.dumps(check.to_json()).encode("utf-8")
    assert [("dup%FF.txt", "changed", "absent")] == [(i.path, i.verdict.value, i.found) for i in check.items]


@pytest.mark.case("S05")
@pytest.mark.requirement("R052")
def test_an_edit_that_keeps_size_and_time(store, snap, tmp_path):
    """An edit with restored time stamp and a changed line end are seen; the first version still verifies."""
    root = write_tree(tmp_path / "in", {b"d.txt": b"AAAABBBB", b"crlf.txt": b"one\r\ntwo\r\n"})
    first = snap(store, root)
    for name, content in {"d.txt": b"AAAACCCC", "crlf.txt": b"one\ntwo\n"}.items():
        before = (root / name).stat()
        (root / name).write_bytes(content)
        os.utime(root / name, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = snap(store, root)

    assert (2, {"added": 0, "removed": 0, "modified": 2}) == (second.version, second.changes)
    assert {"crlf.txt": sha(b"one\ntwo\n"), "d.txt": sha(b"AAAACCCC")} == {
        entry.path: entry.sha256 for entry in entries(store, second)
    }
    assert "verified" == verify_snapshot(store, "corpus", first.version).verdict.value
    live = verify_snapshot(store, "corpus", first.version, source_root=root)
    assert ["crlf.txt", "d.txt"] == [item.path for item in live.items]
    assert (sha(b"AAAABBBB"), sha(b"AAAACCCC")) == (live.items[1].expected, live.items[1].found)


def test_links_are_kept_as_links(files, snap, tmp_path):
    """A link is an entry with its target, never the bytes that it points to; a new target is a change."""
    write_tree(tmp_path, {b"secret": b"not ours"})
    root = write_tree(tmp_path / "in", {b"f": b"x"})
    (root / "l").symlink_to("../secret")
    made = snap(files, root)

    assert [("f", None), ("l", "../secret")] == [(e.path, e.link) for e in entries(files, made)]
    assert (1, 1) == (made.file_count, made.total_bytes)
    assert files.stat(layout.blob_key(sha(b"not ours"))) is None
    (root / "l").unlink()
    (root / "l").symlink_to("../other")
    (item,) = verify_snapshot(files, "corpus", source_root=root).items
    assert ("l", "link to ../secret", "link to ../other") == (item.path, item.expected, item.found)


@pytest.mark.requirement("R053")
def test_a_snapshot_by_reference(store, snap, tmp_path):
    """Only manifest and version are kept; verifying reads the source, and says so when it is away."""
    root = write_tree(tmp_path / "in", {b"a": b"1", b"b": b"2"})
    snap(store, root, mode="reference")

    assert [] == list(store.list("blobs/"))
    assert "verified" == verify_snapshot(store, "corpus").verdict.value
    (root / "a").write_bytes(b"x")
    write_tree(root, {b"c": b"new"})
    assert [("a", sha(b"x")), ("c", "a file")] == [
        (i.path, i.found) for i in verify_snapshot(store, "corpus").items
    ]
    root.rename(tmp_path / "moved")
    check = verify_snapshot(store, "corpus")
    assert ("unrecorded", 0) == (check.verdict.value, check.counts["verified"])


def test_include_and_exclude(files, snap, tmp_path):
    """Patterns choose the files, are recorded, and are used again to verify the live source."""
    root = write_tree(tmp_path / "in", {b"a.py": b"1", b"a.txt": b"2", b"t/b.py": b"3"})
    made = snap(files, root, include=["*.py"], exclude=["t"])

    assert ["a.py"] == [entry.path for entry in entries(files, made)]
    assert (["*.py"], ["t"]) == (made.include, made.exclude)
    assert [] == list(verify_snapshot(files, "corpus", source_root=root).items)


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        pytest.param(lambda path: path.write_bytes(b"other"), sha(b"other"), id="edited"),
        pytest.param(lambda path: path.write_bytes(b""), sha(b""), id="emptied"),
        pytest.param(lambda path: path.unlink(), "absent", id="removed"),
    ],
)
def test_damage_to_the_stored_copy_is_named(files, snap, tmp_path, damage, found):
    """Verifying names the file with what was expected and found."""
    snap(files, write_tree(tmp_path / "in", {b"a": b"1", b"b": b"2"}))
    damage(files.folder / layout.blob_key(sha(b"2")))
    check = verify_snapshot(files, "corpus").to_json()

    assert ("changed", {"changed": 1, "unrecorded": 0, "verified": 1}) == (check["verdict"], check["counts"])
    assert [{"path": "b", "verdict": "changed", "expected": sha(b"2"), "found": found}] == check["items"]


def test_damage_to_the_manifest_is_a_finding(files, snap, tmp_path):
    """An edited manifest, and a replaced one that only the record can unmask, are both found."""
    made = snap(files, write_tree(tmp_path / "in", {b"a": b"1"}))
    place = files.folder / manifest_key(made.manifest_digest)
    place.write_bytes(place.read_bytes().replace(b"a", b"b", 1))
    assert "changed" == verify_snapshot(files, "corpus").verdict.value

    other = snap(files, write_tree(tmp_path / "other", {b"a": b"2"}), name="other")
    document = files.folder / layout.version_key("corpus", 1)
    fields = json.loads(document.read_bytes()) | {"manifest_digest": other.manifest_digest}
    document.write_bytes(canonical_bytes(fields))
    assert "verified" == verify_snapshot(files, "corpus").verdict.value
    check = verify_snapshot(files, "corpus", manifest_digest=made.manifest_digest)
    assert [("", f"manifest {made.manifest_digest}")] == [(i.path, i.expected) for i in check.items]


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        pytest.param({"name": "../up"}, InputError, "snapshot name: not a usable name", id="name"),
        pytest.param({"name": ""}, InputError, "snapshot name", id="no name"),
        pytest.param({"mode": "link"}, InputError, "snapshot mode", id="mode"),
        pytest.param({"include": ["*.none"]}, SourceError, "no file is left to read", id="nothing chosen"),
        pytest.param({"source_root": "/no/such"}, SourceError, "/no/such: is not there", id="missing"),
        pytest.param({"source_root": "/dev/null"}, SourceError, "neither a folder nor", id="device"),
    ],
)
def test_bad_input_makes_no_version(files, snap, ledger, tmp_path, changes, error, text):
    """A wrong value is refused with its name; store and ledger stay empty."""
    root = write_tree(tmp_path / "in", {b"a": b"1"})

    with pytest.raises(error, match=text):
        snap(files, changes.pop("source_root", root), **changes)
    assert ([], []) == (list(files.list("")), list(ledger.records()))


def test_an_unknown_version_lists_the_known(files, snap, tmp_path):
    """Asking for what is not there tells what is."""
    snap(files, write_tree(tmp_path / "in", {b"a": b"1"}))

    with pytest.raises(InputError, match=r"versions: 1.*corpus@7"):
        open_version(files, "corpus", 7)
    with pytest.raises(InputError, match=r"versions: none.*nothing"):
        open_version(files, "nothing")


def _edit(root):
    (root / "m.txt").write_bytes(b"edited in place")


def _swap_for_link(root):
    (root / "m.txt").unlink()
    (root / "m.txt").symlink_to("/etc/hostname")


CHANGES = {
    "edited": (_edit, "m.txt"),
    "same size and time": (None, "m.txt"),
    "removed": (lambda root: (root / "m.txt").unlink(), "m.txt"),
    "swapped for a link": (_swap_for_link, "m.txt"),
    "added": (lambda root: (root / "new.txt").write_bytes(b"n"), "new.txt"),
    "earlier file edited": (lambda root: (root / "a.txt").write_bytes(b"A"), "a.txt"),
}


@pytest.mark.parametrize("how", CHANGES)
def test_data_that_changes_while_it_is_read(files, snap, ledger, tmp_path, how):
    """Whatever changes before the last look is named, and no version exists."""
    root = write_tree(tmp_path / "in", {b"a.txt": b"a", b"m.txt": b"m" * 2_500_000, b"z.txt": b"z"})
    change, name = CHANGES[how]

    def act(done: int, _: int) -> None:
        if done == 3 and change:
            change(root)
        elif done == 3:
            before = (root / "m.txt").stat()
            (root / "m.txt").write_bytes(b"n" * 2_500_000)
            os.utime(root / "m.txt", ns=(before.st_atime_ns, before.st_mtime_ns))

    with pytest.raises(SourceChangedError, match="no version was made") as caught:
        snap(files, root, progress=act)
    assert (name,) == caught.value.paths
    assert [] == list(files.list("snapshots/"))
    assert [] == list(ledger.records())


def test_a_file_that_grows_all_the_time(files, snap, tmp_path):
    """A log that another thread writes to is refused, whatever the moment."""
    root = write_tree(tmp_path / "in", {b"a.txt": b"a", b"log.txt": b"x" * 30_000_000})
    stop = threading.Event()

    def grow() -> None:
        with (root / "log.txt").open("ab", buffering=0) as log:
            # Bounded, so that a reader that never notices does not fill the disk.
            while not stop.is_set() and log.tell() < 500_000_000:
                log.write(b"y" * 4096)

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        with pytest.raises(SourceChangedError) as caught:
            snap(files, root)
    finally:
        stop.set()
        thread.join()
    assert ("log.txt",) == caught.value.paths


@pytest.mark.requirement("R023")
def test_a_retried_step_writes_one_record(files, snap, ledger, tmp_path):
    """The same step again, after its answer was lost, is the same fact: not 'unchanged', not a conflict."""
    root = write_tree(tmp_path / "in", {b"a": b"1"})
    step = origin()
    first = snap(files, root, origin=step)

    assert first == snap(files, root, origin=step)
    assert 1 == len(list(ledger.records(kinds=["snapshot.created"])))


@pytest.mark.case("P05")
def test_twenty_thousand_files_give_a_small_answer(files, snap, tmp_path):
    """The returned value has the size of a reference, whatever the number of files, and is strict JSON."""
    write_tree(tmp_path / "in", {b"%02d/%05d.txt" % (i // 1000, i): b"%d" % i for i in range(19_999)})
    write_tree(tmp_path / "in", {b"19/bad\xff.txt": b"name"})
    made = snap(files, tmp_path / "in", mode="reference")
    check = verify_snapshot(files, "corpus")

    assert 20_000 == made.file_count == check.counts["verified"]
    for answer in (made.to_json(), check.to_json()):
        assert 4096 > len(canonical_bytes(answer))
