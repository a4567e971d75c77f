"""Splits over real snapshots, and laying them out for a training program."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from tests.support.data_track import ACTOR, AWKWARD_NAMES, FOREIGN_NAMES, numbered, origin, write_tree
from tests.support.processing import blob

from pretrain_archive.data import layout
from pretrain_archive.data.materialise import materialise
from pretrain_archive.data.quality.check import check_quality
from pretrain_archive.data.quality.suite import Limits
from pretrain_archive.data.splits import create_split, read_split, split_key
from pretrain_archive.domain.errors import ArchiveError, InputError

RUN = "run_0198c0de-0000-7000-8000-000000000000"
DOCUMENTS = {b"d/%03d.txt" % i: b"document %d\n" % (i // 2) for i in range(200)} | {b"empty.txt": b""}


@pytest.fixture
def split(ledger):
    """Divide a snapshot with few words."""

    def divide(store, snapshot, **changes):
        fields = {"seed": 17, "validation_fraction": 0.2, "actor": ACTOR, "origin": origin(), "stream": RUN}
        return create_split(store, ledger, snapshot=snapshot, **fields | changes)

    return divide


def rows(manifest: Path) -> list[dict]:
    """The lines of a training manifest."""
    return [json.loads(line) for line in manifest.read_bytes().splitlines()]


@pytest.mark.requirement("R044")
def test_duplicates_never_cross(store, snap, split, ledger, tmp_path):
    """Documents with the same bytes are in one part; counts and digest describe the stored list."""
    made = split(store, snap(store, write_tree(tmp_path / "in", DOCUMENTS)))
    listed = list(read_split(store, made))

    sides = {}
    for entry in listed:
        sides.setdefault(entry.sha256, set()).add(entry.split)
    assert [1] * 100 == [len(parts) for parts in sides.values()]
    assert (200, made.train_documents, made.validation_documents) == (
        len(listed),
        sum(entry.split == "train" for entry in listed),
        sum(entry.split == "validation" for entry in listed),
    )
    assert 0 < made.validation_documents < made.train_documents
    assert sum(map(len, DOCUMENTS.values())) == made.train_bytes + made.validation_bytes
    with store.open(split_key(made.split_digest)) as stream:
        assert made.split_digest == "sha256:" + hashlib.sha256(stream.read()).hexdigest()
    (record,) = ledger.records(kinds=["split.created"])
    assert {
        f"split:{made.split_digest} was_derived_from snapshot:corpus@1",
        f"run:{RUN} used split:{made.split_digest}",
    } == {f"{edge.subject} {edge.relation.value} {edge.object}" for edge in record.edges}


def test_the_same_split_twice(files, snap, split, ledger, tmp_path):
    """Same snapshot and seed give the same list; another seed another one; a retried step one record."""
    snapshot = snap(files, write_tree(tmp_path / "in", DOCUMENTS))
    step = origin()
    made = split(files, snapshot, origin=step)

    assert made == split(files, snapshot, origin=step)
    assert 1 == len(list(ledger.records(kinds=["split.created"])))
    assert made.split_digest != split(files, snapshot, seed=18).split_digest


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        pytest.param({"validation_fraction": 0.0001}, "leaves no validation document", id="no validation"),
        pytest.param({"validation_fraction": 0.9999}, "leaves no train document", id="no train"),
        pytest.param({"validation_fraction": 0}, "is not between 0 and 1", id="zero"),
        pytest.param({"validation_fraction": 1.5}, "is not between 0 and 1", id="above one"),
    ],
)
def test_an_empty_part_is_refused(files, snap, split, ledger, tmp_path, changes, text):
    """A split without training or validation documents is an error, and nothing is stored."""
    snapshot = snap(files, write_tree(tmp_path / "in", DOCUMENTS))

    with pytest.raises(InputError, match=text):
        split(files, snapshot, **changes)
    assert ([], []) == (list(files.list("splits/")), list(ledger.records(kinds=["split.created"])))


@pytest.mark.parametrize("mode", ["copy", "reference"])
@pytest.mark.case("S01")
def test_a_training_program_finds_every_document(store, snap, split, tmp_path, mode):
    """Each line names an absolute path with the document's bytes, whatever its name in the source."""
    files = numbered(AWKWARD_NAMES + (FOREIGN_NAMES if mode == "copy" else ()))
    snapshot = snap(store, write_tree(tmp_path / "in", files), mode=mode)
    made = split(store, snapshot, validation_fraction=0.4)
    listed = rows(materialise(store, snapshot, made, tmp_path / "work"))

    assert [(e.path, e.split, e.size) for e in read_split(store, made)] == [
        (row["path"], row["split"], row["size"]) for row in listed
    ]
    for row in listed:
        content = Path(row["location"]).read_bytes()
        assert Path(row["location"]).is_absolute()
        assert ("sha256:" + hashlib.sha256(content).hexdigest(), len(content)) == (row["sha256"], row["size"])


@pytest.mark.requirement("R044")
@pytest.mark.parametrize("mode", ["copy", "reference"])
def test_a_training_program_finds_the_lines_of_a_list(store, snap, split, tmp_path, mode):
    """Both parts of a list are files of the kept lines, and the files after it keep their place, in every mode."""
    rows_in = [json.dumps({"text": f"line {number} of a list"}).encode() + b"\n" for number in range(60)]
    # The names of the parts sort behind a file that follows their list: nothing may rest on their order.
    files = {
        b"a.jsonl": b"".join(rows_in),
        b"a.t.txt": b"between\n",
        b"b.txt": b"behind\n",
        b"c.txt": b"last\n",
    }
    snapshot = snap(store, write_tree(tmp_path / "in", files), mode=mode)
    made = split(store, snapshot, validation_fraction=0.3)
    listed = rows(materialise(store, snapshot, made, tmp_path / "work"))

    content = {row["path"]: Path(row["location"]).read_bytes() for row in listed}
    halves = [text for path, text in content.items() if "jsonl" in path]
    assert 2 == len(halves)
    assert sorted(rows_in) == sorted(line for half in halves for line in half.splitlines(keepends=True))
    assert {name.decode(): files[name] for name in (b"a.t.txt", b"b.txt", b"c.txt")} == {
        path: text for path, text in content.items() if "jsonl" not in path
    }


@pytest.mark.case("S11")
def test_nothing_is_written_outside_the_folder(snap, split, s3, tmp_path):
    """Downloaded documents lie below the folder under their digest, and stay when laid out again."""
    from pretrain_archive.storage.factory import open_store

    store = open_store(f"s3://{s3.bucket}", s3_options=s3.options)
    names = [b"..%2Fup.txt", b"...", b"%2e%2e", b" ..", b"a/..b/c"]
    snapshot = snap(store, write_tree(tmp_path / "in", {name: name * 3 for name in names}))
    made = split(store, snapshot, validation_fraction=0.4)
    work = tmp_path / "work"
    for _ in range(2):
        listed = rows(materialise(store, snapshot, made, work))
        assert 5 == len({row["location"] for row in listed})
        assert all(Path(row["location"]).resolve().is_relative_to(work) for row in listed)
    assert {"in", "work", "ledger.db", "key.pem", "key.pub"} >= {path.name for path in tmp_path.iterdir()}
    assert 6 == sum(path.is_file() for path in work.rglob("*"))


def test_changed_bytes_never_reach_training(files, snap, split, tmp_path):
    """A stored document that was altered is named, and there is no list to train from."""
    snapshot = snap(files, write_tree(tmp_path / "in", DOCUMENTS))
    made = split(files, snapshot)
    entry = next(read_split(files, made))
    (files.folder / layout.blob_key(entry.sha256)).write_bytes(b"document X\n")

    with pytest.raises(ArchiveError, match=rf"document {entry.path}: .* holds 11 bytes"):
        materialise(files, snapshot, made, tmp_path / "work")
    assert [] == list((tmp_path / "work").iterdir())


def test_the_split_of_another_snapshot_is_refused(files, snap, split, tmp_path):
    """A document that the manifest does not list is not read, though it lies in the source: nothing pins its state."""
    root = write_tree(tmp_path / "in", {b"%c" % (97 + n): b"%d words\n" % n for n in range(20)})
    made = split(files, snap(files, root, mode="reference"), validation_fraction=0.4)
    (root / "a").rename(tmp_path / "a")
    other = snap(files, root, mode="reference")
    (tmp_path / "a").rename(root / "a")

    with pytest.raises(
        ArchiveError, match="document a: stands in the split, and not in the manifest of corpus@2"
    ):
        materialise(files, other, made, tmp_path / "work")


def test_a_changed_split_list_is_refused(files, snap, split, tmp_path):
    """A list that is not what its digest says cannot be read."""
    made = split(files, snap(files, write_tree(tmp_path / "in", DOCUMENTS)))
    place = files.folder / split_key(made.split_digest)
    place.write_bytes(place.read_bytes().replace(b"validation", b"train", 1))

    with pytest.raises(ArchiveError, match="differs from its digest"):
        list(read_split(files, made))


@pytest.mark.requirement("R044", "R046")
@pytest.mark.parametrize("mode", ["copy", "reference"])
def test_split_and_quality_share_one_list(store, snap, split, tmp_path, mode):
    """What quality cannot read is no document of the split; both say how many files of which kind that are."""
    odd = {
        b"cut.jsonl.gz": b"\x1f\x8b\x08\0",
        b"two.gz": b"words",
        b"p.parquet": b"PAR1garbage",
        b"model.bin": b"\0\1\2",
        b"latin.txt": b"caf\xe9\n",
        b"zero.jsonl": b"",
        b"h.csv": b"text\n",
        b"blank.txt": b"\n\n",
    }
    snapshot = snap(store, write_tree(tmp_path / "in", DOCUMENTS | odd), mode=mode)
    made = split(store, snapshot)
    report = check_quality(store, snapshot=snapshot, limits=Limits()).report

    damaged = {"not gzip": 1, "truncated gzip": 1, "truncated parquet": 1}
    kinds = {"binary": 1, "encoding": 1, "no data": 4} | damaged
    assert 200 == made.train_documents + made.validation_documents
    assert (200, 200, kinds) == (report["documents"], report["files_read"], report["not_read"])
    assert made.method.endswith(
        "files without a document: 1 binary, 1 encoding, 4 no data, 1 not gzip, 1 truncated gzip, "
        "1 truncated parquet"
    )
    with store.open(split_key(made.split_digest)) as stream:
        assert kinds == json.loads(stream.readline())["not_read"]
    assert not {entry.path.encode() for entry in read_split(store, made)} & set(odd)
    named = {fault["file"]: fault["reason"] for fault in report["examples"]["format_errors"]}
    assert {"cut.jsonl.gz", "two.gz", "p.parquet", "model.bin", "latin.txt"} == set(named)
    assert "not a gzip file: it does not begin as one" == named["two.gz"]


@pytest.mark.requirement("R044")
def test_text_in_another_field(files, snap, split, tmp_path):
    """Lists that hold their text in another field are split by it, and the record and the list name the field."""
    lines = b"".join(b'{"content":"words %d"}\r\n' % (n // 2) for n in range(80))
    snapshot = snap(files, write_tree(tmp_path / "src", {b"l.jsonl": lines}))
    with pytest.raises(InputError, match="leaves no train document"):
        split(files, snapshot)

    made = split(files, snapshot, text_field="content")
    found = list(read_split(files, made))
    with files.open(split_key(made.split_digest)) as stream:
        header = json.loads(stream.readline())

    assert ("content", "content") == (made.text_field, header["text_field"])
    assert 80 == sum(entry.documents for entry in found)
    parts = [blob(files, entry.sha256).splitlines(keepends=True) for entry in found]
    assert sorted(lines.splitlines(keepends=True)) == sorted(parts[0] + parts[1])
    assert set(parts[0]).isdisjoint(parts[1])


@pytest.mark.requirement("R044")
def test_what_is_in_neither_part_is_counted(files, snap, split, tmp_path):
    """Documents that are left out are counted by reason in the record, and a file of rows is not among them."""
    tree = DOCUMENTS | {
        b"cut.jsonl": b'{"text":"one"}\n{"text":\n{"text":"two"}\n{"text":""}\n', b"bytes.txt": b"\x00\x01\xff",
        b"rows.csv": b"text\nwords in a row\n",
    }  # fmt: skip
    made = split(files, snap(files, write_tree(tmp_path / "src", tree)))

    assert {"binary": 1, "lines": 2, "no data": 1} == made.left_out
    assert 200 + 2 + 1 == made.train_documents + made.validation_documents
