"""A scan over files of every kind: the same on any number of processes, after a kill, and after a crash."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.data_track import write_tree

from pretrain_archive.data.globs import Filter
from pretrain_archive.data.quality.documents import Broken, Fields, Shard, Text, read_texts
from pretrain_archive.data.quality.neardup.search import find
from pretrain_archive.data.quality.neardup.settings import Settings as Near
from pretrain_archive.data.quality.readers import plain
from pretrain_archive.data.quality.scan import Measures, Scan, scan
from pretrain_archive.data.quality.scanning import plan as scan_plan
from pretrain_archive.data.quality.scanning import process as scan_process
from pretrain_archive.data.quality.sensitive import Settings as Sensitive
from pretrain_archive.data.shards import of_path
from pretrain_archive.domain.errors import ArchiveError, SourceError

PLAIN = Measures(heuristics=False)
ALL = Measures(sensitive=Sensitive(), near_duplicates=Near(), normalised="normalised")
WORDS = "A line of words that is like no other line, and it bears the number"


def record(number: int, **more: object) -> bytes:
    """A line of JSON whose text bears a number."""
    return json.dumps({"text": f"{WORDS} {number}.", **more}).encode() + b"\n"


def parquet(texts: list[str | None]) -> bytes:
    """A Parquet file with these texts."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), sink, row_group_size=10)
    return sink.getvalue()


def lines(first: int, count: int) -> bytes:
    """So many lines, with a blank one, a broken one, an empty text and a NUL among them."""
    odd = {7: b"\n", 11: b'{"text": "cut\n', 13: b'{"text": ""}\n', 17: b'{"text": "n\\u0000l"}\n'}
    return b"".join(odd.get(i % 100, record(first + i, domain=f"d{i % 3}")) for i in range(count))


CORPUS = {
    b"web/large.jsonl": lines(0, 2000),
    b"web/more.ndjson": lines(5000, 900),
    b"web/x.jsonl.gz": gzip.compress(lines(10_000, 300)),
    b"web/cut.jsonl.gz": gzip.compress(lines(20_000, 300))[:-9],
    b"web/y.jsonl.zst": zstandard.ZstdCompressor().compress(lines(30_000, 300)),
    b"books/p.parquet": parquet([f"{WORDS} {i}" for i in range(40_000, 40_050)] + [None, ""]),
    b"books/rows.csv": b"text,label\n" + b"".join(b"%d words,l\n" % i for i in range(50)),
    b"code/latin.py": b"caf\xe9",
    b"code/empty.py": b"",
    b"code/model.bin": b"\0\1\2",
    b"code/model.large": bytes(3 << 20),
    b"code/none.jsonl": b"\n\n",
} | {b"code/%03d.py" % i: b"# %d\nvalue = 1\nvalue = 1\n" % i for i in range(120)}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """Files of every kind."""
    return write_tree(tmp_path_factory.mktemp("corpus"), CORPUS)


@pytest.fixture(autouse=True)
def _small(monkeypatch) -> None:
    """Ranges and groups so small that a few files make many jobs."""
    monkeypatch.setattr(scan_plan, "RANGE", 20_000)
    monkeypatch.setattr(scan_plan, "GROUP", 30_000)
    monkeypatch.setattr(scan_plan, "GROUP_FILES", 25)


def shards(root: Path) -> list[Shard]:
    """All files below a folder."""
    return list(of_path(os.fsencode(root), Filter()))


def everything(found: Scan) -> tuple:
    """All that a scan tells."""
    table = found.columns(found.column_names)
    # Dictionaries may be numbered in another order: the values count.
    return table.to_pylist(), found.totals, list(found.findings())


@pytest.fixture(scope="module")
def one(corpus, tmp_path_factory):
    """The scan of the corpus in this process, with every measure."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan_plan, "RANGE", 20_000)
        patch.setattr(scan_plan, "GROUP", 30_000)
        patch.setattr(scan_plan, "GROUP_FILES", 25)
        return scan(shards(corpus), measures=ALL, work=tmp_path_factory.mktemp("one"), processes=1)


@pytest.mark.requirement("R046", "R047")
def test_the_rows_are_the_documents(corpus, one):
    """Every document that a reader gives has its row, in order, with its line in the file and its numbers."""
    units = [unit for shard in shards(corpus) for unit in read_texts(shard)]
    texts = [unit for unit in units if isinstance(unit, Text) and unit.raw]
    table = one.columns(["path", "line", "domain", "bytes", "characters", "label"])

    assert len(one.names) > 15
    assert [
        (t.path, t.line, t.domain, len(t.raw), len(t.text), t.label) for t in texts
    ] == [tuple(row.values()) for row in table.to_pylist()]  # fmt: skip
    assert len({row["number"] for row in one.columns(["number"]).to_pylist()}) == len(texts)


@pytest.mark.case("Q01", "Q03", "Q05")
def test_totals_and_findings(corpus, one):
    """Files, documents and faults are counted completely; each fault is located by file and line."""
    units = [unit for shard in shards(corpus) for unit in read_texts(shard)]
    broken = [(u.path, u.line, u.reason) for u in units if isinstance(u, Broken)]
    totals = one.totals
    listed = list(one.findings())

    assert len(CORPUS) == totals.files
    assert {"encoding": 1, "binary": 2, "no data": 2} == dict(totals.not_read)
    assert (len(broken), 4) == (totals.broken, totals.broken_files)
    assert sum(isinstance(u, Text) and not u.raw for u in units) == totals.empty == totals.found["empty"]
    assert broken == [(f["path"], f["line"], f["reason"]) for f in listed if f["kind"] == "broken"]
    assert {"not JSON at column N: cut off or malformed", "not UTF-8", "binary: has a NUL byte"} < set(
        totals.reasons
    )
    nul = [(f["path"], f["line"]) for f in listed if f["kind"] == "nul"]
    assert [("web/large.jsonl", 18 + 100 * i) for i in range(20)] == [n for n in nul if "large" in n[0]]
    domains = [u.domain for u in units if isinstance(u, Text) and u.raw]
    assert {name: domains.count(name) for name in set(domains)} == {
        name: numbers[0] for name, numbers in totals.domains.items()
    }
    assert totals.tokens == sum(numbers[2] for numbers in totals.domains.values()) > 10 * totals.documents


@pytest.mark.parametrize("processes", [2, 3])
def test_any_number_of_processes_gives_the_same(corpus, one, tmp_path, processes, caplog):
    """Rows, totals, findings and sketches are equal, whoever measured; no process had to be started again."""
    many = scan(shards(corpus), measures=ALL, work=tmp_path, processes=processes)

    assert everything(one) == everything(many)
    assert [p.read_bytes() for p in one.sketches] == [p.read_bytes() for p in many.sketches]
    assert all(use["peak"] > 0 for use in many.use)
    assert "ended while" not in caplog.text


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([b"", b"a", b"bcd", b"e" * 9, b"f" * 31]), max_size=30),
    st.booleans(),
    st.integers(1, 40),
    st.integers(1, 13),
)
def test_ranges_hold_every_line_once(monkeypatch, parts, ends, size, block):
    """Wherever the borders fall, the ranges are whole lines and together the file."""
    content = b"\n".join(parts) + (b"\n" if ends else b"")
    monkeypatch.setattr(scan_plan, "RANGE", size)
    monkeypatch.setattr(scan_plan, "BLOCK", block)
    shard = Shard(path="x.jsonl", size=len(content), open=lambda: io.BytesIO(content))
    made = [b"".join(part.blocks()) for job in scan_plan.jobs_of([shard]) for part in job.parts]

    assert content == b"".join(made)
    assert all(piece.endswith(b"\n") for piece in made[:-1] if piece and not content.endswith(piece))


def test_a_second_scan_takes_everything_over(corpus, one):
    """Nothing is measured again; everything is told as before."""
    again = scan(shards(corpus), measures=ALL, work=one.folder.parent, processes=2)

    assert ((), everything(one)) == (again.use, everything(again))


def test_other_settings_start_over(corpus, one):
    """With another setting every job is measured anew, and the first result stays."""
    other = scan(shards(corpus), measures=PLAIN, work=one.folder.parent, processes=1)

    assert len(other.names) == len(other.use) == len(one.names)
    assert one.totals.documents == other.totals.documents


def test_other_code_starts_over(corpus, tmp_path, monkeypatch):
    """What another version of the program measured is not taken over."""
    first = scan(shards(corpus), measures=PLAIN, work=tmp_path, processes=1)
    monkeypatch.setattr(scan_plan, "code_digest", lambda: "other")

    assert len(first.names) == len(scan(shards(corpus), measures=PLAIN, work=tmp_path, processes=1).use)


@pytest.mark.case("S05")
def test_a_change_that_keeps_size_and_time_is_measured(tmp_path):
    """Only the job whose bytes changed is measured again, whatever size and time stamp say."""
    root = write_tree(tmp_path / "in", {b"a.jsonl": lines(0, 1000), b"b.txt": b"words"})
    scan(shards(root), measures=PLAIN, work=tmp_path / "work", processes=1)
    stamp = (root / "a.jsonl").stat()
    changed = lines(0, 1000).replace(b"number 501.", b"number 999.")
    (root / "a.jsonl").write_bytes(changed)
    os.utime(root / "a.jsonl", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    again = scan(shards(root), measures=PLAIN, work=tmp_path / "work", processes=1)

    assert 1 == len(again.use)
    assert everything(again) == everything(
        scan(shards(root), measures=PLAIN, work=tmp_path / "new", processes=1)
    )


KILLED = """
import os, sys
from pathlib import Path
from pretrain_archive.data.globs import Filter
from pretrain_archive.data.quality.scanning import plan as scan_plan
from pretrain_archive.data.quality.scan import Measures, scan
from pretrain_archive.data.shards import of_path
scan_plan.RANGE, scan_plan.GROUP, scan_plan.GROUP_FILES = 20_000, 30_000, 25
scan(of_path(os.fsencode(sys.argv[1]), Filter()), measures=Measures(heuristics=False), work=Path(sys.argv[2]),
     processes=2)
"""


@pytest.mark.parametrize("results", [1, 5, 9])
def test_a_killed_scan_resumes(corpus, tmp_path, results):
    """After kill −9 the complete results are taken over, the rest is measured, and no process is left."""
    whole = scan(shards(corpus), measures=PLAIN, work=tmp_path / "whole", processes=1)
    work = tmp_path / "work"
    child = subprocess.Popen([sys.executable, "-c", KILLED, corpus, work])
    while len(list(work.glob("*/*.json"))) < results:
        assert child.poll() is None
        time.sleep(0.002)
    below = psutil.Process(child.pid).children(recursive=True)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    done = len(list(work.glob("*/*.json")))
    assert [] == psutil.wait_procs(below, timeout=20)[1]
    again = scan(shards(corpus), measures=PLAIN, work=work, processes=2)

    assert 2 == len(below)
    assert done >= results
    assert len(whole.names) - done == len(again.use)
    assert everything(whole) == everything(again)
    assert not list(work.glob("*/*.tmp"))


CRASHING = """
import os
from pretrain_archive.data.quality.scanning import worker as scan_worker
read = scan_worker.read_stream
def crash(path, stream, fields):
    if path.endswith("crash.txt"):
        os.kill(os.getpid(), 11)
    return read(path, stream, fields=fields)
scan_worker.read_stream = crash
scan_worker.main()
"""


def test_a_file_that_crashes_its_reader(tmp_path, monkeypatch):
    """It is told as broken and everything else is measured; the next scan tries it again."""
    files = {b"%03d.txt" % i: b"words %d" % i for i in range(60)} | {
        b"020crash.txt": b"x",
        b"050crash.txt": b"y",
    }
    root = write_tree(tmp_path / "in", files)
    sound = scan_process.START
    monkeypatch.setattr(scan_process, "START", CRASHING)
    found = scan(shards(root), measures=PLAIN, work=tmp_path / "work", processes=2)
    told = [(f["path"], f["reason"]) for f in found.findings()]
    totals = found.totals
    monkeypatch.setattr(scan_process, "START", sound)
    again = scan(shards(root), measures=PLAIN, work=tmp_path / "work", processes=2)

    reason = "its reader crashed on it, twice"
    assert [("020crash.txt", reason), ("050crash.txt", reason)] == told
    assert (60, 62, 2) == (totals.documents, totals.files, totals.not_read["crash"])
    assert (62, 2) == (again.totals.documents, len(again.use))


def test_a_file_that_cannot_be_read(corpus, tmp_path):
    """The error of the source comes through, and what was complete is there for the next try."""

    def refuse(shard: Shard) -> io.BytesIO:
        if shard.path == "web/large.jsonl":
            raise SourceError("source: it is gone.")
        return shard.open()

    files = shards(corpus)
    guarded = [Shard(path=s.path, size=s.size, open=partial(refuse, s)) for s in files]
    with pytest.raises(SourceError, match="gone"):
        scan(guarded, measures=PLAIN, work=tmp_path, processes=2)
    done = len(list(tmp_path.glob("*/*.json")))
    again = scan(files, measures=PLAIN, work=tmp_path, processes=2)

    assert len(again.names) - done == len(again.use) < len(again.names)


def test_results_hold_no_text(tmp_path):
    """Sensitive findings are counted and located by character; their text is in no file of the result."""
    content = record(1) + json.dumps({"text": f"äö {WORDS} to jane.roe@mail.example.org now."}).encode()
    root = write_tree(tmp_path / "in", {b"x.jsonl": content.replace(b"mail.example.org", b"acme-mail.com")})
    found = scan(shards(root), measures=ALL, work=tmp_path / "work", processes=1)

    assert [0, 1] == found.columns(["sensitive_email"])["sensitive_email"].to_pylist()
    assert [
        {"kind": "sensitive_email", "path": "x.jsonl", "line": 2, "offset": len(f"äö {WORDS} to ")}
    ] == list(found.findings())
    for file in found.folder.iterdir():
        assert b"jane" not in file.read_bytes()


def test_many_findings_are_counted_and_few_listed(tmp_path):
    """A kind lists its first 200; the totals tell all."""
    root = write_tree(tmp_path / "in", {b"x.jsonl": b'{"text": 1}\n' * 5000})
    found = scan(shards(root), measures=PLAIN, work=tmp_path / "work", processes=1)
    listed = [f["line"] for f in found.findings()]

    assert (5000, list(range(1, 201))) == (found.totals.broken, listed)
    assert {"no text in field 'text'": 5000} == dict(found.totals.reasons)


def test_near_duplicates_across_jobs(tmp_path):
    """The sketches of all jobs make one corpus whose numbers are the rows' numbers."""
    twin = " ".join(f"word{i}" for i in range(80))
    near = twin.replace("word40", "other")
    files = {
        b"a.jsonl": lines(0, 600),
        b"b.jsonl": json.dumps({"text": twin}).encode(),
        b"c.txt": near.encode(),
    }
    root = write_tree(tmp_path / "in", files)
    found = scan(shards(root), measures=ALL, work=tmp_path / "work", processes=2)
    rows = found.columns(["number", "path", "line"]).to_pylist()
    places = {row["number"]: (row["path"], row["line"]) for row in rows}
    near_found = find(found.sketches, settings=Near(), work=tmp_path / "near")

    assert {("c.txt", 0)} == {places[number] for number in near_found.drop if places[number][0] != "a.jsonl"}


def test_an_oversized_text_has_a_row(tmp_path, monkeypatch):
    """A text above the limit has its counts; what was not measured is null, and it is listed."""
    monkeypatch.setattr(plain, "TEXT_LIMIT", 1000)
    files = {b"d/w.txt": b"some words\n", b"d/x.txt": b"some words\n" * 1000, b"d/y.txt": b"some words\n"}
    root = write_tree(tmp_path / "in", files)
    found = scan(shards(root), measures=ALL, work=tmp_path / "work", processes=1)
    first, large, small = found.columns(["bytes", "tokens", "words", "sensitive_email", "domain"]).to_pylist()

    assert first == small
    assert {"bytes": 11_000, "tokens": 2000, "words": None, "sensitive_email": None, "domain": "d"} == large
    assert (2, 2) == (small["tokens"], small["words"])
    assert [("oversized", "d/x.txt")] == [(f["kind"], f["path"]) for f in found.findings()]


def test_what_a_killed_scan_was_writing_is_cleared(tmp_path):
    """Half a result of a job that no longer exists is taken away by the next scan."""
    root = write_tree(tmp_path / "in", {b"x.txt": b"words"})
    found = scan(shards(root), measures=PLAIN, work=tmp_path / "work", processes=1)
    (found.folder / "gone.parquet.tmp").write_bytes(b"PAR1")
    scan(shards(root), measures=PLAIN, work=tmp_path / "work", processes=1)

    assert [] == list(found.folder.glob("*.tmp"))


def test_two_scans_in_one_folder(corpus, tmp_path):
    """The second one is refused while the first is at work."""

    def second(files: int, size: int) -> None:
        with pytest.raises(ArchiveError, match="another one is at work"):
            scan(shards(corpus), measures=PLAIN, work=tmp_path, processes=1)
        seen.append((files, size))

    seen: list[tuple[int, int]] = []

    def slow():
        for shard in shards(corpus):
            while not seen and shard.path.startswith("web/x"):
                second(0, 0)
            yield shard

    found = scan(slow(), measures=PLAIN, work=tmp_path, processes=1)

    assert seen
    assert len(CORPUS) == found.totals.files


def test_progress(corpus, tmp_path):
    """The last call tells all files and all bytes, from the calling thread."""
    calls: list[tuple[int, int]] = []
    scan(
        shards(corpus), measures=PLAIN, work=tmp_path, processes=2, progress=lambda f, b: calls.append((f, b))
    )

    assert (len(CORPUS), sum(map(len, CORPUS.values()))) == calls[-1]
    assert calls == sorted(calls)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_scan_that_is_asked_to_end(tmp_path, processes):
    """What stops the calling thread stops the scan at once, and no process is left."""
    held = threading.Event()
    others = set(psutil.Process().children())  # servers of other tests

    class Slow(io.BytesIO):
        def read(self, size=-1):
            held.wait(20)
            return super().read(size)

    def end(*_: int) -> None:
        held.set()
        raise KeyboardInterrupt

    files = [Shard(path=f"{n}.txt", size=40_000, open=lambda: Slow(b"words " * 7000)) for n in range(50)]
    with pytest.raises(KeyboardInterrupt):
        scan(files, measures=PLAIN, work=tmp_path, processes=processes, progress=end)

    assert len(list(tmp_path.glob("*/*.json"))) < 50
    mine = set(psutil.Process().children()) - others
    assert [] == psutil.wait_procs(mine, timeout=10)[1]


def test_nothing(tmp_path):
    """No file is no fault: everything is zero, and a column that nobody knows is an error."""
    found = scan([], measures=PLAIN, work=tmp_path)

    assert (0, 0, []) == (
        found.totals.files,
        found.columns(["bytes", "path"]).num_rows,
        list(found.findings()),
    )


def test_an_unknown_column(one):
    """It is named."""
    with pytest.raises(KeyError, match="nobody"):
        one.columns(["bytes", "nobody"])


def test_declared_fields(tmp_path):
    """Declared language and label are columns; the language is identified where one is declared."""
    text = "Dies ist ein deutscher Satz über das Wetter und die Menschen in der Stadt."
    content = b"".join(
        json.dumps({"body": text, **more}).encode() + b"\n" for more in ({"lang": "de", "class": 1}, {})
    )
    root = write_tree(tmp_path / "in", {b"x.jsonl": content})
    fields = Fields(text="body", language="lang", label="class")
    names = ["language", "label", "language_found"]
    found = scan(shards(root), measures=Measures(fields=fields), work=tmp_path / "work")

    assert [("de", "1", "de"), (None, None, None)] == [
        tuple(row.values()) for row in found.columns(names).to_pylist()
    ]
