"""Duplicates from files on: scanned on two processes, searched, killed on the way, and compared between data sets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from tests.support.data_track import ACTOR, origin, write_tree
from tests.support.planted import jaccard, planted

from pretrain_archive.cli import run_command
from pretrain_archive.data.globs import Filter
from pretrain_archive.data.quality.contamination import Grams
from pretrain_archive.data.quality.neardup.search import find
from pretrain_archive.data.quality.neardup.settings import Settings
from pretrain_archive.data.quality.scan import Measures, scan
from pretrain_archive.data.shards import of_path
from pretrain_archive.data.splits import create_split
from pretrain_archive.domain.errors import ArchiveError, InputError
from pretrain_archive.services.overlapping import compare, side

NEAR = Settings(threshold=0.7, memory_bytes=1 << 20)
FRESH = "nobody wrote these particular words before and nobody will ever write them in this order again"


def jsonl(texts) -> bytes:
    """JSON Lines of texts."""
    return b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts)


@pytest.mark.requirement("R043", "R047")
def test_scan_and_search(tmp_path):
    """Sketches of a scan on any number of processes give the same twins, named by the scan's own numbers."""
    texts = planted(4000, 20, 60, seed=21, share=0.3).texts
    tree = {b"d/%d.jsonl" % part: jsonl(texts[part * 500 : part * 500 + 500]) for part in range(8)}
    write_tree(tmp_path / "in", tree)
    told = []
    for processes in (1, 2):
        measures = Measures(heuristics=False, language="off", near_duplicates=NEAR)
        shards = of_path(os.fsencode(tmp_path / "in"), Filter())
        done = scan(shards, measures=measures, work=tmp_path / f"scan{processes}", processes=processes)
        result = find(done.sketches, NEAR, work=tmp_path / "work")
        told.append(result.to_json())
        pairs = list(result.found_pairs())
    assert told[0] == told[1]
    assert 4000 == result.documents
    # Small files are one job: its rows count through.
    assert all(pair.jaccard == jaccard(texts[pair.first], texts[pair.second]) for pair in pairs)
    truth = planted(4000, 20, 60, seed=21, share=0.3)
    wanted = {b for _, b in truth.at_least(0.7)}
    assert len(set(result.drop) & wanted) >= 0.99 * len(wanted)


KILLED = """
import sys
from pathlib import Path
from pretrain_archive.data.quality.neardup.search import find
from pretrain_archive.data.quality.neardup.settings import Settings
find([Path(sys.argv[1])], Settings(threshold=0.7, memory_bytes=1 << 20), work=Path(sys.argv[2]),
     progress=lambda stage, done, total: print(stage, done, total, flush=True))
print("end", flush=True)
"""


@pytest.mark.parametrize("stage", ["signatures", "bands"])
def test_a_search_that_is_killed_starts_over(stage, tmp_path):
    """A search killed while it sorts or compares leaves a folder in which the next one gives the right result."""
    from pretrain_archive.data.quality.neardup.sketch import SketchWriter

    texts = planted(5000, 20, 40, seed=22).texts
    with SketchWriter(tmp_path / "one.sketch", NEAR) as writer:
        writer.add_many(range(len(texts)), texts)
    expected = find([tmp_path / "one.sketch"], NEAR, work=tmp_path / "other").to_json()
    command = [sys.executable, "-c", KILLED, tmp_path / "one.sketch", tmp_path / "work"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.startswith(stage):
                os.kill(process.pid, signal.SIGKILL)
                break
        assert -signal.SIGKILL == process.wait()
    assert (tmp_path / "work" / "scratch").is_dir()
    assert expected == find([tmp_path / "one.sketch"], NEAR, work=tmp_path / "work").to_json()


def test_memory_of_the_process_follows_the_setting(tmp_path):
    """Four times the documents raise the peak of a search by little beside what the sketches grow by."""
    from pretrain_archive.data.quality.neardup.sketch import SketchWriter

    measured = KILLED.replace(
        'print("end"', "from tests.support.memory import peak_bytes; print(peak_bytes()"
    )
    peaks, sizes = [], []
    for documents in (8_000, 32_000):
        path = tmp_path / f"{documents}.sketch"
        with SketchWriter(path, NEAR) as writer:
            writer.add_many(range(documents), planted(documents, 20, 40, seed=23).texts)
        done = subprocess.run(
            [sys.executable, "-c", measured, path, tmp_path / "work"],
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=True,
        )
        peaks.append(int(done.stdout.splitlines()[-1]))
        sizes.append(path.stat().st_size)
    assert sizes[1] - sizes[0] > 14 << 20
    assert peaks[1] - peaks[0] < 6 << 20


@pytest.fixture(params=["copy", "reference"])
def divided(request, files, ledger, snap, tmp_path):
    """A snapshot with lists and plain files, split; some validation texts have near twins among the training ones."""
    texts = planted(600, 30, 60, seed=24, share=0.5).texts
    tree = {b"list.jsonl": jsonl(texts[:400])} | {
        b"p/%03d.txt" % n: texts[n].encode() for n in range(400, 600)
    }
    snapshot = snap(files, write_tree(tmp_path / "in", tree), mode=request.param)
    split = create_split(
        files, ledger, snapshot=snapshot, seed=3, validation_fraction=0.2, actor=ACTOR, origin=origin()
    )
    return texts, split


@pytest.mark.requirement("R043", "R044")
def test_train_against_validation(divided, files, ledger, tmp_path):
    """Validation documents with near twins in training are told by place; equal ones are on one side."""
    texts, split = divided
    parts = [side(f"corpus@1#{part}", lambda: files, lambda: ledger) for part in ("train", "validation")]
    found = compare(*parts, NEAR, Grams(), work=tmp_path)
    assert (split.train_documents, split.validation_documents) == (
        found.twins.left_documents,
        found.twins.right_documents,
    )
    held = [[text for _, batch in part.batches() for text in batch] for part in parts]
    assert sorted(texts) == sorted([*held[0], *held[1]])
    expected = sum(any(jaccard(one, two) >= 0.7 for one in held[0]) for two in held[1])
    assert 0.95 * expected <= found.twins.near <= expected > 5
    assert 0 == found.twins.exact
    told = found.to_json()
    assert ("corpus@1#train", "corpus@1#validation", False) == (told["left"], told["right"], told["clean"])
    places = {
        place.partition(":")[0] for example in told["twins"]["examples"] for place in (example["right"],)
    }
    assert places <= {"list.validation.jsonl", *(f"p/{n:03d}.txt" for n in range(400, 600))}
    assert [] == [path for path in tmp_path.iterdir() if path.name.startswith("overlap-")]


@pytest.mark.parametrize("mode", ["copy", "reference"])
def test_across_snapshots(mode, files, snap, ledger, tmp_path):
    """What a second snapshot has of the first is told, whether its bytes were copied or not."""
    texts = planted(60, 30, 60, seed=25, share=0).texts
    snap(files, write_tree(tmp_path / "a", {b"a.jsonl": jsonl(texts)}), name="old", mode=mode)
    later = {b"x/same.txt": texts[7].encode() + b"\n", b"x/new.txt": FRESH.encode()}
    snap(files, write_tree(tmp_path / "b", later), name="new", mode=mode)
    found = compare(
        *(side(name, lambda: files, lambda: ledger) for name in ("old", "new@1")),
        NEAR,
        Grams(),
        work=tmp_path,
    ).to_json()
    assert (1, 1, 0, 1) == tuple(found[name] for name in ("documents", "exact", "near", "contaminated"))
    assert [{"left": "a.jsonl:8", "right": "x/same.txt", "jaccard": 1.0}] == found["twins"]["examples"]


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        pytest.param("corpus@1#test", InputError, "is no part of a split", id="unknown part"),
        pytest.param("corpus@1#train", InputError, "was never split", id="not split"),
        pytest.param("corpus@9", ArchiveError, "corpus@9", id="unknown version"),
        pytest.param("no/such/folder", InputError, "snapshot name", id="neither a path nor a name"),
    ],
)
def test_sides_that_cannot_be_read(name, error, words, files, snap, ledger, tmp_path):
    """A side that does not exist is named with what is wrong."""
    snap(files, write_tree(tmp_path / "in", {b"a.txt": b"text"}))
    with pytest.raises(error, match=words):
        side(name, lambda: files, lambda: ledger)


def call(capsys, home: Path, *arguments: str) -> tuple[int, str, str]:
    """Run the program in a home of its own."""
    with mock.patch.dict(os.environ, {"AIRFLOW_HOME": str(home), "NO_COLOR": "1"}):
        code = run_command([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.requirement("R047")
def test_command(capsys, tmp_path):
    """The command tells counts and places and no text, ends with 1 on a finding, 0 without, 2 with no data."""
    train = " ".join(f"training{n}" for n in range(30))
    write_tree(tmp_path / "train", {b"a.jsonl": jsonl(["other text", train])})
    write_tree(tmp_path / "dirty", {b"b.jsonl": jsonl([f"Question: {train[:200]} what?", FRESH])})
    write_tree(tmp_path / "clean", {b"b.jsonl": jsonl([FRESH])})
    write_tree(tmp_path / "empty", {b"b.jsonl": b"{broken\n"})
    code, out, _ = call(
        capsys, tmp_path, "quality", "overlap", tmp_path / "train", tmp_path / "dirty", "--json"
    )
    document = json.loads(out)
    assert (1, 0, 1, False) == (code, document["documents"], document["contaminated"], document["clean"])
    assert ("a.jsonl:2", "b.jsonl:1") == tuple(
        document["grams"]["examples"][0][key] for key in ("left", "right")
    )
    assert "training3" not in out
    code, out, _ = call(
        capsys, tmp_path, "quality", "overlap", tmp_path / "train", tmp_path / "dirty" / "b.jsonl"
    )
    assert 1 == code
    assert "b.jsonl:1 shares" in out
    twins = ("quality", "overlap", tmp_path / "train", tmp_path / "dirty", "--grams", "0")
    code, out, _ = call(capsys, tmp_path, *twins, "--json")
    assert (0, None, None) == (code, json.loads(out)["grams"], json.loads(out)["contaminated"])
    assert "n-grams: not looked for" in call(capsys, tmp_path, *twins)[1]
    write_tree(
        tmp_path / "other", {b"c.jsonl": b'{"content":"one"}\n{"content":"' + train.encode() + b'"}\n{bad\n'}
    )
    other = ("quality", "overlap", tmp_path / "other", tmp_path / "other", "--text-field", "content")
    code, out, _ = call(capsys, tmp_path, *other)
    assert (1, True) == (code, "not read of" in out)
    assert 0 == call(capsys, tmp_path, "quality", "overlap", tmp_path / "train", tmp_path / "clean")[0]
    code, _, err = call(capsys, tmp_path, "quality", "overlap", tmp_path / "train", tmp_path / "empty")
    assert 2 == code
    assert "holds no document that can be read" in err
    code, _, err = call(capsys, tmp_path, "quality", "overlap", ".", ".", "--mode", "fuzzy")
    assert (2, True) == (code, "fuzzy" in err)
