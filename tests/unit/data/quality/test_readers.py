"""Every format, packed and not, whole and damaged: what is read of it and what is told."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrain_archive.data.quality.documents import (
    Broken,
    Fields,
    Oversized,
    Shard,
    Text,
    kind_not_read,
    read_texts,
    read_units,
)
from pretrain_archive.data.quality.readers import base, packed, parquet_pages, plain

RECORDS = b"".join(b'{"id":%d,"text":"%x"}\n' % (i, i * 2654435761) for i in range(1000))
GZIP = gzip.compress(RECORDS, mtime=0)
FRAME = zstandard.ZstdCompressor(write_checksum=True).compress(RECORDS)
SKIPPED = b"\x53\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"notes"


def read(name: str, content: bytes, **fields) -> list[Text | Broken]:
    """All units of a file with this content."""
    shard = Shard(path=name, size=len(content), open=lambda: io.BytesIO(content))
    return list(read_texts(shard, fields=Fields(**fields)))


def told(name: str, content: bytes) -> tuple[int, list[tuple[int, str]]]:
    """How many documents were read, and line and kind of each broken unit; reasons hold no text of the data."""
    units = read(name, content)
    broken = [unit for unit in units if isinstance(unit, Broken)]
    assert all(name == unit.path and "SECRET" not in unit.reason for unit in broken)
    return len(units) - len(broken), [(unit.line, unit.kind) for unit in broken]


@pytest.mark.case("Q03")
@pytest.mark.requirement("R046")
@pytest.mark.parametrize(
    ("content", "documents", "broken"),
    [
        pytest.param(GZIP, 1000, [], id="whole"),
        pytest.param(GZIP[: int(len(GZIP) * 0.6)], None, [(0, "truncated gzip")], id="cut"),
        pytest.param(GZIP[:-8], 1000, [(0, "truncated gzip")], id="no trailer"),
        pytest.param(GZIP[:-1], 1000, [(0, "truncated gzip")], id="half a trailer"),
        pytest.param(GZIP + GZIP, 2000, [], id="two members"),
        pytest.param(GZIP + GZIP[:-8], 2000, [(0, "truncated gzip")], id="second member cut"),
        pytest.param(GZIP + GZIP[:1], 1000, [(0, "junk after gzip")], id="one byte of a second member"),
        pytest.param(GZIP + b"\0" * 200_000, 1000, [], id="zero padding"),
        pytest.param(GZIP + b"\0" * 70_000 + b"x", 1000, [(0, "junk after gzip")], id="junk in padding"),
        pytest.param(GZIP + b"SECRET", 1000, [(0, "junk after gzip")], id="junk"),
        pytest.param(b"", 0, [(0, "not gzip")], id="zero bytes"),
        pytest.param(b"SECRET words", 0, [(0, "not gzip")], id="text under the name"),
        pytest.param(GZIP[:-6] + b"\0\0" + GZIP[-4:], 0, [(0, "damaged gzip")], id="wrong checksum"),
        pytest.param(GZIP[:3], 0, [(0, "truncated gzip")], id="three bytes"),
    ],
)
def test_gzip(content, documents, broken):
    """What stands before a damage is read, and the file is broken all the same."""
    found, faults = told("x.jsonl.gz", content)

    assert broken == faults
    assert documents == found if documents is not None else 0 < found < 1000


@pytest.mark.case("Q03")
@pytest.mark.parametrize(
    ("content", "documents", "broken"),
    [
        pytest.param(FRAME, 1000, [], id="whole"),
        pytest.param(FRAME + FRAME, 2000, [], id="two frames"),
        pytest.param(SKIPPED + FRAME + SKIPPED + FRAME, 2000, [], id="skippable frames"),
        pytest.param(FRAME[: len(FRAME) // 2], None, [(0, "truncated zstd")], id="cut"),
        pytest.param(FRAME[:-2], 1000, [(0, "truncated zstd")], id="half a checksum"),
        pytest.param(FRAME + FRAME[:-9], None, [(0, "truncated zstd")], id="second frame cut"),
        pytest.param(SKIPPED[:-1], 0, [(0, "truncated zstd")], id="skippable frame cut"),
        pytest.param(FRAME[:-1] + bytes([FRAME[-1] ^ 1]), None, [(0, "damaged zstd")], id="wrong checksum"),
        pytest.param(FRAME + b"SECRET", 1000, [(0, "junk after zstd")], id="junk"),
        pytest.param(FRAME + b"\0" * 9, 1000, [(0, "junk after zstd")], id="zero padding"),
        pytest.param(b"", 0, [(0, "not zstd")], id="zero bytes"),
        pytest.param(b"SECRET", 0, [(0, "not zstd")], id="text under the name"),
    ],
)
def test_zstd(content, documents, broken):
    """Several frames are one stream; what stands before a damage is read."""
    found, faults = told("x.jsonl.zst", content)

    assert broken == faults
    assert documents == found if documents is not None else found <= 2000


def test_zstd_with_a_dictionary():
    """A frame that needs a dictionary is told so, with the dictionary's number."""
    samples = [b'{"text": "%d and some more words"}' % i for i in range(2000)]
    dictionary = zstandard.train_dictionary(4096, samples)
    content = zstandard.ZstdCompressor(dict_data=dictionary).compress(RECORDS)
    (broken,) = read("x.jsonl.zst", content)

    assert f"needs the zstd dictionary {dictionary.dict_id()}, which is not there" == broken.reason


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(["a.jsonl.gz", "a.txt.zst", "a.parquet", "a.jsonl", "a.csv"]))
def test_any_bytes_are_read_or_told(content, name):
    """No content of any name makes a reader raise; a packed file that is none is always told."""
    units = read(name, content)

    assert all(isinstance(unit, Text | Broken) for unit in units)
    if name.endswith((".gz", ".zst", ".parquet")):
        assert any(isinstance(unit, Broken) for unit in units)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_one_flipped_byte_is_told(data):
    """One changed byte anywhere in a packed file is told, or no record differs."""
    name, content = data.draw(st.sampled_from([("x.jsonl.gz", GZIP), ("x.jsonl.zst", FRAME)]))
    place = data.draw(st.integers(0, len(content) - 1))
    flipped = bytearray(content)
    flipped[place] ^= data.draw(st.integers(1, 255))
    units = read(name, bytes(flipped))
    texts = [unit.record for unit in units if isinstance(unit, Text)]

    assert any(isinstance(unit, Broken) for unit in units) or RECORDS == b"".join(texts)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gzip", "zstd"])
def test_bombs(pack):
    """A stream that grows without end is left where it is known for a bomb; memory stays bounded."""
    name = "x.txt.gz" if pack is gzip.compress else "x.txt.zst"
    content = pack(b" " * (packed.BOMB_FROM + (40 << 20)))

    assert len(content) * packed.BOMB_RATIO < packed.BOMB_FROM
    assert [name[6:].replace("zst", "zstd").replace("gz", "gzip").removeprefix(".") + " bomb"] == [
        unit.kind for unit in read(name, content)
    ]


BOMB_MEMORY = """
import io, sys, zstandard
from tests.support.memory import peak_bytes
from pretrain_archive.data.quality.documents import Broken, Shard, read_texts
compressor = zstandard.ZstdCompressor().compressobj()
content = b"".join(compressor.compress(b" " * (1 << 20)) for _ in range(2048)) + compressor.flush()
shard = Shard(path="x.jsonl.zst", size=len(content), open=lambda: io.BytesIO(content))
before = peak_bytes()
assert [unit.kind for unit in read_texts(shard)] == ["zstd bomb"]
print(peak_bytes() - before)
"""


def test_a_bomb_takes_little_memory():
    """Two gigabytes of blanks in some kilobytes are noticed in less than 300 MB of memory."""
    done = subprocess.run(
        [sys.executable, "-c", BOMB_MEMORY], capture_output=True, text=True, check=True, timeout=120
    )

    assert int(done.stdout) < 300 << 20


@pytest.mark.parametrize(
    ("name", "content", "documents"),
    [
        pytest.param("a.gz", RECORDS, 1000, id="JSON lines by content"),
        pytest.param(
            "a.zst", b'\n{"text": "%s"}\n' % (b"x" * 20_000), 1, id="a first line longer than the head"
        ),
        pytest.param("a.gz", b'{\n "text": "x"\n}\n', 1, id="an object over lines is a text"),
        pytest.param("a.txt.gz", RECORDS, 1, id="text by name"),
        pytest.param("a.csv.zst", b"text\none\ntwo\n", 2, id="CSV"),
        pytest.param("a.b/c.gz", b"words of a text", 1, id="text by content"),
    ],
)
def test_what_is_packed_is_told_by_name_then_by_content(name, content, documents):
    """The name under the packing counts; without one a JSON object in the first line makes JSON Lines."""
    pack = gzip.compress if name.endswith("gz") else zstandard.ZstdCompressor().compress

    assert (documents, []) == told(name, pack(content))


@pytest.mark.case("Q01", "Q05")
@pytest.mark.requirement("R046")
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        pytest.param(b'{"text":"SECRET","text":"b"}', "field 'text' stands twice", id="text twice"),
        pytest.param(b'{"text":"a","label":1,"label" : 2}', "field 'label' stands twice", id="label twice"),
        pytest.param(b'{"text":"a","m":{"text":"b"}}', "", id="a nested one is another"),
        pytest.param(b'{"text":"a \\"text\\": b"}', "", id="a quoted one is text"),
        pytest.param(b'{"m":[{"text":1,"text":2}],"text":"a"}', "", id="twice inside another"),
        pytest.param(b'{"text":"a","x":NaN}', "not JSON: cut off or malformed", id="NaN"),
        pytest.param(b'{"text":"a\\udc00"}', "a lone surrogate, which has no UTF-8 form", id="low surrogate"),
        pytest.param(b'{"text":"a\x00b"}', "not JSON at column 11: cut off or malformed", id="raw NUL"),
        pytest.param(b'{"text":"a","\\ud800":1}', "", id="surrogate in a name that nobody reads"),
        pytest.param(b'{"text":"a","language":"\\ud800"}', "", id="surrogate in a declaration"),
        pytest.param(b'{"text":"a"} {"text":"b"}', "not JSON at column 14: cut off or malformed", id="two"),
        pytest.param(b'{"text":["SECRET"]}', "no text in field 'text'", id="a list"),
        pytest.param(b'"SECRET"', "not an object", id="a string"),
        pytest.param(b'{"text":"a","x":1' + b"0" * 400 + b"}", "", id="a number beyond floating point"),
    ],
)
def test_strict_json(line, reason):
    """Every fault of a line is told by its own reason, and the lines around it are read."""
    first, *middle, last = read("x.jsonl", b'{"text":"one"}\n' + line + b'\n{"text":"two"}\n')

    assert ["one", "two"] == [first.text, last.text]
    assert [(2, reason)] == [(unit.line, unit.reason if isinstance(unit, Broken) else "") for unit in middle]


def test_what_a_record_carries():
    """Text, bytes of the record, and what it declares; a file's folder is the domain where none is declared."""
    lines = [
        b'\xef\xbb\xbf{"body":"\\u00e9","source":"web","lang":"fr","label":3}\r\n',
        b"\n",
        b'{"body":"x","source":"","lang":null,"label":true}',
    ]
    one, two = read("a/b.jsonl", b"".join(lines), text="body", domain="source", language="lang")

    assert (1, "é", "é".encode(), lines[0], "web", "fr", "3") == (
        one.line, one.text, one.raw, one.record, one.domain, one.language, one.label
    )  # fmt: skip
    assert (3, b"x", lines[2], "a", None, None) == (
        two.line, two.raw, two.record, two.domain, two.language, two.label
    )  # fmt: skip


def test_csv_record_is_its_lines():
    """A row over several lines begins at its first one; its record is all its bytes."""
    one, two = read("x.csv", b'text,label\n"a\nb",x\nc,\n')

    assert (2, b'"a\nb",x\n', "x", ".") == (one.line, one.record, one.label, one.domain)
    assert (4, b"c,\n", None) == (two.line, two.record, two.label)


def test_a_line_above_the_limit(monkeypatch):
    """An overlong line or row is told, not held, and reading goes on behind it."""
    monkeypatch.setattr(base, "LINE_LIMIT", 40)
    long = b'{"text":"%s"}\n' % (b"x" * 100)

    assert [(1, "damaged"), (3, "damaged")] == told("x.jsonl", long + b'{"text":"x"}\n' + long)[1]
    assert (1, [(2, "damaged")]) == told("x.csv", b"text\n%s\nx\n" % (b"y" * 100))


def test_a_text_above_the_limit(monkeypatch):
    """A plain text that is too large for memory is counted while it streams by, and is a document still."""
    monkeypatch.setattr(plain, "TEXT_LIMIT", 3 << 20)
    content = b"some words in a line\n" * 200_000
    shard = Shard(path="a/x.txt", size=len(content), open=lambda: io.BytesIO(content))
    (large,), (document,) = list(read_texts(shard)), list(read_units(shard, text_field="text"))

    assert isinstance(large, Oversized)
    assert (1_000_000, 200_000, len(content)) == (
        large.tokens, large.statistics.lines, document.statistics.bytes
    )  # fmt: skip
    assert not kind_not_read(shard)
    assert (0, [(0, "encoding")]) == told("x.txt", content + b"\xff")


def parquet(table: pa.Table, **options) -> bytes:
    """The table as a Parquet file."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


ROWS = pa.table(
    {
        "id": range(3000),
        "text": [f"row {i}" for i in range(3000)],
        "domain": pa.array(["web", "books", None] * 1000).dictionary_encode(),
        "label": range(3000),
    }
)


@pytest.mark.requirement("R046")
def test_parquet():
    """Rows are documents with what their columns declare, in every type that holds text."""
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())):
        table = ROWS.set_column(1, "text", ROWS["text"].cast(kind))
        units = read("c/x.parquet", parquet(table, row_group_size=700))
        assert [f"row {i}" for i in range(3000)] == [unit.text for unit in units]
        assert list(range(1, 3001)) == [unit.line for unit in units]
        assert ["web", "books", "c"] * 1000 == [unit.domain for unit in units]
        assert ("2999", b"", None) == (units[-1].label, units[-1].record, units[-1].language)


def test_parquet_in_gzip_and_without_a_name():
    """A Parquet file is known by its bytes, and unpacked where it is packed."""
    assert (3000, []) == told("x", parquet(ROWS))
    assert (3000, []) == told("x.gz", gzip.compress(parquet(ROWS)))


WHOLE = parquet(ROWS, row_group_size=1000, use_dictionary=False, compression="none", write_page_checksum=True)


def _middle() -> bytes:
    """The file with damage in the text of its second row group."""
    at = WHOLE.index(b"row 1500")
    return WHOLE[:at] + b"XXX" + WHOLE[at + 3 :]


BAD = pa.array([b"ok", b"caf\xe9", None, b"end"], pa.binary()).view(pa.string())


@pytest.mark.parametrize(
    ("content", "documents", "broken"),
    [
        pytest.param(WHOLE[:-5], 0, [(0, "truncated parquet")], id="cut in the footer"),
        pytest.param(WHOLE[:40], 0, [(0, "truncated parquet")], id="cut near the beginning"),
        pytest.param(b"", 0, [(0, "truncated parquet")], id="zero bytes"),
        pytest.param(WHOLE[:-4] + b"PARE", 0, [(0, "encrypted parquet")], id="encrypted directory"),
        pytest.param(WHOLE[:-200] + b"\xff" * 150 + WHOLE[-50:], 0, [(0, "damaged parquet")], id="directory"),
        pytest.param(parquet(ROWS.select(["id"])), 0, [(0, "no text")], id="no such column"),
        pytest.param(parquet(pa.table({"text": [1, 2]})), 0, [(0, "no text")], id="a column of another type"),
        pytest.param(_middle(), 2000, [(1001, "damaged parquet")], id="row group damaged"),
        pytest.param(
            parquet(pa.table({"text": BAD})), 2, [(2, "damaged"), (3, "damaged")], id="not UTF-8, null"
        ),
    ],
)
def test_broken_parquet(content, documents, broken):
    """Each fault is told with its row; other row groups are read."""
    assert (documents, broken) == told("x.parquet", content)


def test_rows_behind_a_damaged_row_group():
    """They keep their numbers."""
    rows = [unit.line for unit in read("x.parquet", _middle()) if isinstance(unit, Text)]

    assert [*range(1, 1001), *range(2001, 3001)] == rows


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        pytest.param(b"\xfe\xff\xff\xff\x0f\x15\x20", "holds 2147483647 bytes", id="decompressed"),
        pytest.param(b"\x1c\x15\xfe\xff\xff\xff\x0f", "takes 2147483647 bytes", id="on disk"),
        pytest.param(b"\x1c\x15\xfe\xff\xff\xff\xff\xff\x0f", "takes -1 bytes", id="beyond 32 bits"),
    ],
)
def test_a_page_that_claims_gigabytes_is_not_believed(sizes, words):
    """Eleven bytes of a page's header ask for room that no reader makes."""
    content = bytearray(parquet(pa.table({"text": ["one", "two"]})))
    header = b"\x15\x04\x15" + sizes + b"\x00"
    content[4 : 4 + len(header)] = header

    [broken] = read("x.parquet", bytes(content))

    assert ("damaged parquet", True) == (broken.kind, words in broken.reason)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_pages_of_every_kind_are_walked_to_the_end_of_their_column(version, compression, monkeypatch):
    """Headers and pages together are as long as the directory says: no page is passed over unseen."""
    content = parquet(
        ROWS, data_page_version=version, compression=compression, data_page_size=4096, row_group_size=1000
    )
    file = pq.ParquetFile(io.BytesIO(content))
    for number in range(file.num_row_groups):
        for column in range(file.metadata.num_columns):
            chunk = file.metadata.row_group(number).column(column)
            start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
            position, size = start, 0
            while position < start + chunk.total_compressed_size:
                header, decompressed, compressed = parquet_pages._sizes(io.BytesIO(content), position, 16384)
                position, size = position + header + compressed, size + header + decompressed
            assert (start + chunk.total_compressed_size, chunk.total_uncompressed_size) == (position, size)
            limit = chunk.total_uncompressed_size // 8
            monkeypatch.setattr(parquet_pages, "LARGEST_PAGE", limit)
            pages = parquet_pages.Pages(io.BytesIO(content))
            assert pages.oversized(number, [chunk.path_in_schema]).startswith("a page says")
            monkeypatch.undo()
            assert "" == pages.oversized(number, [chunk.path_in_schema])


def test_parquet_is_not_held_in_memory():
    """Row groups are read by batches: the units of a file come before its end was read."""
    content = parquet(ROWS, row_group_size=500, compression="none", use_dictionary=False)
    taken = []

    class Watched(io.BytesIO):
        def read(self, size=-1):
            block = super().read(size)
            taken.append(len(block))
            return block

    shard = Shard(path="x.parquet", size=len(content), open=lambda: Watched(content))
    next(iter(read_texts(shard)))

    assert sum(taken) < len(content)


def test_reasons_are_plain():
    """Every unit of every kind can be written as strict JSON."""
    for name, content in (("x.jsonl.gz", GZIP[:-4]), ("x.parquet", WHOLE[:-5]), ("x.csv", b'text\n"x')):
        for unit in read(name, content):
            if isinstance(unit, Broken):
                json.dumps([unit.path, unit.line, unit.reason, unit.kind], allow_nan=False).encode()


@pytest.mark.parametrize("name", ["text", "domain", "label"])
def test_a_column_that_stands_twice(name):
    """Of two columns of one name nobody can tell which was meant: as in JSON, no row is a document."""
    header = ["text", "domain", "label", "other", "other", name]
    found = read("a.csv", ",".join(header).encode() + b"\na,b,c,d,e,f\n")

    assert [f"field {name!r} stands twice"] == [one.reason for one in found]
