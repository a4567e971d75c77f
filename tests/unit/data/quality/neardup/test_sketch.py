"""Sketch files: whole or not there, read in place, refused when they cannot serve."""

from __future__ import annotations

import numpy as np
import pytest

from pretrain_archive.data.quality.neardup import sketch as module
from pretrain_archive.data.quality.neardup.search import find
from pretrain_archive.data.quality.neardup.settings import Settings
from pretrain_archive.data.quality.neardup.sketch import SketchWriter
from pretrain_archive.domain.errors import ArchiveError, InputError

SETTINGS = Settings()
TEXTS = [f"document {n} of a few words, one of them {n % 5}" for n in range(500)]


def write(path, numbers=range(500), texts=TEXTS, settings=SETTINGS):
    """A sketch of the texts."""
    with SketchWriter(path, settings) as writer:
        writer.add_many(numbers, texts)
    return path


def test_file_appears_whole_at_the_end(tmp_path):
    """Until it is closed there is no file by any name, after that exactly one."""
    writer = SketchWriter(tmp_path / "a.sketch", SETTINGS)
    writer.add_many(range(500), TEXTS)
    assert [] == list(tmp_path.iterdir())
    writer.close()
    assert ["a.sketch"] == [path.name for path in tmp_path.iterdir()]


def test_error_leaves_nothing(tmp_path):
    """A writer that is left by an error leaves the file that was there before, and no other."""
    before = write(tmp_path / "a.sketch").read_bytes()

    def fail():
        with SketchWriter(tmp_path / "a.sketch", SETTINGS) as writer:
            writer.add(1, "text")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert [("a.sketch", before)] == [(path.name, path.read_bytes()) for path in tmp_path.iterdir()]


@pytest.mark.parametrize("batch", [1, 100, 1 << 20])
def test_batches_do_not_show(batch, tmp_path, monkeypatch):
    """The bytes of a sketch do not depend on how its documents were put together."""
    expected = write(tmp_path / "a.sketch").read_bytes()
    monkeypatch.setattr(module, "BATCH_BYTES", batch)
    assert expected == write(tmp_path / "b.sketch").read_bytes()


@pytest.mark.parametrize("numbers", [pytest.param([2, 1], id="falling"), pytest.param([1, 1], id="twice")])
def test_numbers_must_ascend(numbers, tmp_path):
    """A number that is not above the last one is refused, and nothing is written."""
    with pytest.raises(ValueError, match="must ascend"):
        write(tmp_path / "a.sketch", numbers, ["a", "b"])
    assert [] == list(tmp_path.iterdir())


def test_a_number_in_two_sketches_is_refused(tmp_path):
    """Two documents under one number are named, not mixed up."""
    parts = [write(tmp_path / "a", [1, 7, 9], "abc"), write(tmp_path / "b", [3, 7], "de")]
    with pytest.raises(InputError, match=r"two documents \(got 7\)"):
        find(parts, SETTINGS, work=tmp_path / "work")


@pytest.mark.parametrize(
    "changes",
    [{"shingle": 4}, {"permutations": 64}, {"seed": 2}, {"mode": "exact"}, {"number_tables": False}],
    ids=lambda changes: next(iter(changes)),
)
def test_other_settings_are_refused(changes, tmp_path):
    """A sketch that was made under other settings is refused; another threshold or memory is none."""
    path = write(tmp_path / "a.sketch")
    with pytest.raises(InputError, match="differ from those of the sketch"):
        find([path], Settings(**changes), work=tmp_path / "work")
    assert (
        500 == find([path], Settings(threshold=0.5, memory_bytes=1 << 21), work=tmp_path / "work").documents
    )


@pytest.mark.parametrize("keep", [0, 10, 40, 300, 20_000])
def test_a_cut_file_is_refused(keep, tmp_path):
    """A sketch that is cut anywhere is named with what to do."""
    path = write(tmp_path / "a.sketch")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ArchiveError, match=r"a\.sketch: is no whole sketch.*Scan the data again"):
        find([path], SETTINGS, work=tmp_path / "work")


def test_settings_travel_to_other_processes():
    """Settings survive pickling and say in JSON what follows from them."""
    import json
    import pickle

    assert SETTINGS == pickle.loads(pickle.dumps(SETTINGS))
    told = json.loads(json.dumps(SETTINGS.to_json()))
    assert (0.8, 5, 128, 21, 6) == tuple(
        told[name] for name in ("threshold", "shingle", "permutations", "bands", "rows")
    )


def test_signatures_are_stable(tmp_path):
    """The numbers of a sketch are those of every machine and version: kept sketches stay comparable."""
    path = write(tmp_path / "a.sketch", [0], ["The quick brown fox jumps over the lazy dog"])
    words = np.frombuffer(path.read_bytes()[-20:], "<u4").tolist()
    assert words == sorted(words)
    assert [
        1075738747,
        2099015291,
        2269267151,
        2797877476,
        3524286849,
    ] != words  # that text has a small letter
    assert 5 == len(set(words))
