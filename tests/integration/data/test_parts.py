"""A snapshot in parts is the snapshot that one process makes; no part is lost, doubled or taken from elsewhere."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.data_track import AWKWARD_NAMES, FOREIGN_NAMES, numbered, write_tree

from pretrain_archive.data import tree
from pretrain_archive.data.building import build
from pretrain_archive.data.globs import Filter
from pretrain_archive.data.leftovers import drop, left_over
from pretrain_archive.data.parts import hash_part, merge_parts
from pretrain_archive.data.planning import MOST, make_plan, open_plan
from pretrain_archive.data.tree import FolderTree
from pretrain_archive.domain.errors import (
    ArchiveError,
    InputError,
    RefusedError,
    SourceChangedError,
    SourceError,
    StorageError,
)
from pretrain_archive.storage.files import FileStore

pytestmark = pytest.mark.requirement("R051")
WISH = {"name": "corpus", "mode": "reference", "include": [], "exclude": []}
FILES = numbered(AWKWARD_NAMES + FOREIGN_NAMES) | {b"x/%02d/f" % n: b"%d" % n * n for n in range(20)}


def planned(store, root, parts=4, **changes):
    """A plan with small steps."""
    return make_plan(
        store, FolderTree.at(root), WISH | changes, stream="data/corpus", parts=parts, step_files=3
    )


def merged(store, plan, root) -> str:
    """The digest of a merged plan."""
    built = merge_parts(store, plan, FolderTree.at(root))
    with built.file:
        list(built.entries())
    return built.digest


def whole(root) -> str:
    """The digest that one process gives."""
    built = build(FolderTree.at(root), Filter())
    built.file.close()
    return built.digest


def hash_all_parts(store, plan, root, order=None):
    """Hash each part, in any order."""
    return [
        hash_part(store, plan, number, FolderTree.at(root))
        for number in order or range(1, len(plan.parts) + 1)
    ]


@pytest.fixture
def root(tmp_path):
    """A tree with awkward names, a link and folders."""
    made = write_tree(tmp_path / "in", FILES)
    (made / "link").symlink_to("nowhere")
    return made


@pytest.mark.requirement("R052")
@pytest.mark.parametrize("parts", [1, 2, 7, 500])
def test_any_number_of_parts_gives_the_same_digest(store, root, parts):
    """One part, several, or more parts than files: the manifest is that of one process, whatever part came first."""
    plan = planned(store, root, parts)
    order = random.Random(parts).sample(range(1, len(plan.parts) + 1), len(plan.parts))
    hash_all_parts(store, plan, root, order)

    assert whole(root) == merged(store, plan, root)
    assert len(plan.parts) == min(parts, len(FILES) + 1)
    assert (len(FILES), 1) == (plan.files, plan.links)


NAME = st.binary(min_size=1, max_size=6).filter(
    lambda raw: not set(raw) & {0, 0x2F} and raw not in {b".", b".."}
)
PATH = st.lists(NAME, min_size=1, max_size=3).map(b"/".join)
TREE = st.dictionaries(PATH, st.binary(max_size=40), min_size=1, max_size=15)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=TREE, parts=st.integers(1, 8), mode=st.sampled_from(["reference", "copy"]))
def test_any_tree_in_any_number_of_parts(tmp_path_factory, files, parts, mode):
    """Random names and contents: sharded equals whole."""
    folder = tmp_path_factory.mktemp("case")
    # A name that is a file cannot be a folder as well.
    clean = {
        name: raw for name, raw in files.items() if not any(other.startswith(name + b"/") for other in files)
    }
    root, store = write_tree(folder / "in", clean), FileStore(folder / "store")
    plan = planned(store, root, parts, mode=mode)
    hash_all_parts(store, plan, root)

    assert whole(root) == merged(store, plan, root)


def test_parts_are_balanced_by_bytes_and_by_count(files, tmp_path):
    """A few large files and very many small ones: no part has much more than its share of either."""
    names = {b"a/%04d" % n: b"x" for n in range(400)} | {b"b/%d" % n: bytes(3_000_000) for n in range(8)}
    plan = planned(files, write_tree(tmp_path / "in", names), 8)
    weights = [part.size + 65536 * part.files for part in plan.parts]

    assert 8 == len(plan.parts)
    assert max(weights) < 1.5 * sum(weights) / 8


def test_a_plan_tells_its_bounds(files, root):
    """Each part names its first and last path; the ranges follow each other without a gap."""
    plan = planned(files, root, 5)
    again = open_plan(files, plan.name)

    assert plan == again
    assert [part.number for part in plan.parts] == [1, 2, 3, 4, 5]
    assert sum(part.size for part in plan.parts) == sum(map(len, FILES.values()))


def test_an_empty_source_has_no_plan(files, tmp_path):
    """Nothing to do is an error that says so, not a snapshot of nothing."""
    (tmp_path / "in").mkdir()
    with pytest.raises(SourceError, match="no file is left to read"):
        planned(files, tmp_path / "in")
    assert [] == list(files.list(""))


@pytest.mark.parametrize("parts", [0, -1, MOST + 1])
def test_a_number_of_parts_that_cannot_be(files, root, parts):
    """The limit is named."""
    with pytest.raises(InputError, match=f"not from 1 to {MOST}"):
        planned(files, root, parts)


@pytest.mark.case("P07")
def test_missing_parts_are_named(files, root):
    """Merging before all parts are done names them by number; then they are done and it goes through."""
    plan = planned(files, root, 4)
    hash_all_parts(files, plan, root, [1, 3])
    with pytest.raises(RefusedError, match=r"2 of 4 parts are not done \(2, 4\)"):
        merged(files, plan, root)
    hash_all_parts(files, plan, root, [4, 2])

    assert whole(root) == merged(files, plan, root)


@pytest.mark.case("P07")
def test_a_part_that_is_done_twice(files, root):
    """The second time nothing is read and nothing written."""
    plan = planned(files, root, 2)
    hash_all_parts(files, plan, root)
    before = [info.key for info in files.list("")]
    (again, _) = hash_all_parts(files, plan, root)

    assert again.steps == again.found > 1
    assert before == [info.key for info in files.list("")]


def test_a_part_goes_on_after_its_last_piece(files, root, monkeypatch):
    """A part that failed in the middle reads only what no piece tells yet."""
    plan = planned(files, root, 1)
    opened: list[bytes] = []
    real = FolderTree.content

    def failing(tree, listed):
        opened.append(listed.path)
        if len(opened) == 8:
            raise StorageError("the machine is gone", hint="")
        return real(tree, listed)

    monkeypatch.setattr(FolderTree, "content", failing)
    with pytest.raises(StorageError):
        hash_all_parts(files, plan, root)
    kept = len([info for info in files.list(plan.folder) if "/pieces/" in info.key])
    (done,) = hash_all_parts(files, plan, root)

    assert kept == done.found
    assert 0 < done.found < done.steps
    assert len(FILES) + 8 - 3 * kept <= len(opened) <= len(FILES) + 8
    assert whole(root) == merged(files, plan, root)


CHANGES = [
    pytest.param(lambda root: (root / "x/05/f").write_bytes(b"55556"), "x/05/f", id="edited"),
    pytest.param(lambda root: (root / "x/05/f").unlink(), "x/05/f", id="gone"),
    pytest.param(lambda root: (root / "new").write_bytes(b""), "new", id="new"),
    pytest.param(lambda root: os.replace(root / "x/05/f", root / "x/05/g"), "x/05/f, x/05/g", id="renamed"),  # noqa: PTH105
]


@pytest.mark.parametrize(("change", "named"), CHANGES)
def test_a_change_after_the_parts_is_named(files, root, change, named):
    """The merge looks at the whole tree again."""
    plan = planned(files, root, 3)
    hash_all_parts(files, plan, root)
    change(root)

    with pytest.raises(SourceChangedError, match=f"{named}; no version"):
        merged(files, plan, root)


def test_parts_are_hashed_on_another_machine(files, root, monkeypatch):
    """A shared folder has another device number where a part is hashed and where it is merged."""
    expected = whole(root)
    plan = planned(files, root, 3)
    mark = tree._mark
    monkeypatch.setattr(tree, "_mark", lambda found: (found.st_dev + 7, *mark(found)[1:]))
    hash_all_parts(files, plan, root)

    assert expected == merged(files, plan, root)


def test_a_change_before_a_part_is_named(files, root):
    """A part refuses a file that is not as it was listed."""
    plan = planned(files, root, 1)
    (root / "x/05/f").write_bytes(b"55556")

    with pytest.raises(SourceChangedError, match="x/05/f"):
        hash_all_parts(files, plan, root)


def _edit(files, plan, what: str, old: bytes, new: bytes) -> None:
    path = next(
        Path(files.folder) / i.key
        for i in files.list(plan.folder)
        if what in i.key and old in _bytes(files, i.key)
    )
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(old, new))


def _bytes(files, key: str) -> bytes:
    with files.open(key) as stream:
        return stream.read()


def test_an_edited_piece_is_refused(files, root):
    """A piece whose bytes are not those of its name never becomes part of a manifest."""
    plan = planned(files, root, 2)
    hash_all_parts(files, plan, root)
    _edit(files, plan, "/pieces/", b'"size":5', b'"size":6')

    with pytest.raises(ArchiveError, match="its bytes have sha256:"):
        merged(files, plan, root)


def test_a_piece_of_another_listing_is_refused(files, root, tmp_path):
    """A whole piece of another plan in the place of a step is found by its paths."""
    other = write_tree(tmp_path / "other", {name + b"_": content for name, content in FILES.items()})
    mine, theirs = planned(files, root, 1), planned(files, other, 1)
    hash_all_parts(files, theirs, other)
    for info in list(files.list(f"{theirs.folder}/pieces/")):
        with files.open(info.key) as stream:
            files.put_if_absent(info.key.replace(theirs.folder, mine.folder), stream)

    with pytest.raises(ArchiveError, match="tells of"):
        merged(files, mine, root)


def test_two_results_for_one_step_are_refused(files, root):
    """Two tries of a part that saw different bytes are no snapshot."""
    plan = planned(files, root, 1)
    hash_all_parts(files, plan, root)
    key = next(info.key for info in files.list(f"{plan.folder}/pieces/"))
    with files.open(key) as stream:
        files.put_if_absent(key[:-70] + "0" * 64 + ".jsonl", stream)

    with pytest.raises(ArchiveError, match="read twice with different results"):
        merged(files, plan, root)


def test_a_plan_that_is_not_the_planned_one(files, root):
    """The later steps name the plan by its digest: an edited plan is refused."""
    plan = planned(files, root, 2)
    _edit(files, plan, "plan.json", b'"reference"', b'"copy"')

    with pytest.raises(InputError, match="the document has sha256:"):
        open_plan(files, plan.name)


def test_a_copy_that_went_between_part_and_merge(files, root):
    """No version rests on a copy that is not there any more."""
    plan = planned(files, root, 2, mode="copy")
    hash_all_parts(files, plan, root)
    files.delete(next(info.key for info in files.list("blobs/")))

    with pytest.raises(StorageError, match="is not in the store any more"):
        merged(files, plan, root)


def test_a_damaged_copy_from_before_is_refused(files, root):
    """What was kept before is proven by the part that rests on it."""
    hash_all_parts(files, planned(files, root, 1, mode="copy"), root)
    blob = next(info.key for info in files.list("blobs/"))
    path = Path(files.folder) / blob
    path.chmod(0o644)
    path.write_bytes(b"damaged")

    with pytest.raises(StorageError, match="expected sha256:"):
        hash_all_parts(files, planned(files, root, 1, mode="copy"), root)


@pytest.mark.requirement("R057", "R154")
def test_what_a_plan_left_is_found_and_dropped(store, root):
    """Plans lie in one place, by stream, with the time they began; dropping proves that nothing is left."""
    one, two = planned(store, root, 2), planned(store, root, 3)
    hash_all_parts(store, one, root)
    found = {left.folder: left for left in left_over(store)}

    assert {one.folder, two.folder} == set(found)
    assert [] == list(left_over(store, "data/other"))
    assert found[one.folder].objects == len(list(store.list(one.folder)))
    assert one.planned_at[:16] == found[one.folder].planned_at.isoformat()[:16]
    drop(store, one.folder)
    assert [two.folder] == [left.folder for left in left_over(store, "data/corpus")]
