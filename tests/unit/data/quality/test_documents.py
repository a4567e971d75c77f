"""Reading documents, and telling what is none."""

from __future__ import annotations

import gzip
import io

import pytest

from pretrain_archive.data.quality.documents import (
    NO_DATA,
    Broken,
    Document,
    Shard,
    kind_not_read,
    read_units,
)
from pretrain_archive.data.quality.scan import Measures, scan

ROWS = [b'{"id":%d,"text":"row %d"}' % (i, i) for i in range(3)]


def units(name: str, content: bytes) -> list:
    """``(line, bytes)`` of each document and ``(line, reason)`` of each broken unit."""
    shard = Shard(path=name, size=len(content), open=lambda: io.BytesIO(content))
    return [
        (unit.line, unit.statistics.bytes if isinstance(unit, Document) else unit.reason)
        for unit in read_units(shard, text_field="text")
    ]


@pytest.mark.case("Q01")
@pytest.mark.requirement("R046")
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"\n".join(ROWS) + b"\n", [(1, 5), (2, 5), (3, 5)], id="good"),
        pytest.param(b"\n".join(ROWS), [(1, 5), (2, 5), (3, 5)], id="no newline at the end"),
        pytest.param(
            ROWS[0] + b"\n" + ROWS[1] + b"\n" + ROWS[2][:14],
            [(1, 5), (2, 5), (3, "not JSON at column 15: cut off or malformed")],
            id="cut in the last line",
        ),
        pytest.param(
            ROWS[0] + b"\n[1,2]\n7\nnull\n\n" + ROWS[1] + b"\n",
            [(1, 5), (2, "not an object"), (3, "not an object"), (4, "not an object"), (6, 5)],
            id="lines that are no objects",
        ),
        pytest.param(b'{"text": NaN}\n', [(1, "not JSON: cut off or malformed")], id="NaN"),
        pytest.param(
            b'{"text": 1}\n{"t": ""}\n',
            [(1, "no text in field 'text'"), (2, "no text in field 'text'")],
            id="no text",
        ),
        pytest.param(b"[" * 100_000, [(1, "nested too deeply")], id="nested"),
        pytest.param(
            b'{"text": %s}' % (b"1" * 5000), [(1, "not JSON: cut off or malformed")], id="huge number"
        ),
        pytest.param(b"", [], id="zero bytes"),
    ],
)
def test_json_lines(content, expected):
    """Good lines are read, each bad line is told with its number, and reading goes on."""
    assert expected == units("x.jsonl", content)


@pytest.mark.case("Q05")
def test_characters_that_have_no_utf_8_form():
    """A lone surrogate and a byte that is not UTF-8 are broken; a pair is fine; NUL is counted."""
    content = (
        b'{"id":1,"text":"a\\ud83d b"}\n{"id":2,"text":"\\ud83d\\ude00"}\n{"id":3,"text":"n\\u0000l"}\n'
        b'{"id":4,"text":"x\xffy"}\n{"id":5,"text":"ok"}\n'
    )

    assert [
        (1, "a lone surrogate, which has no UTF-8 form"),
        (2, 4),
        (3, 3),
        (4, "not UTF-8"),
        (5, 2),
    ] == units("chars.jsonl", content)


NEW_LINE = (
    "new-line character seen in unquoted field - do you need to open the file in universal-newline mode?"
)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"id,text\n", [], id="header only"),
        pytest.param(b'id,text\n1,one\n\n2,"two\nlines"\n', [(2, 3), (4, 9)], id="rows"),
        pytest.param(b"\xef\xbb\xbftext,id\nok,1\n", [(2, 2)], id="byte order mark"),
        pytest.param(b"id,text\n1\n2,b\n", [(2, "1 columns, the header has 2"), (3, 1)], id="short row"),
        pytest.param(b"id,text\n1,\xff\n2,b\n", [(2, "not UTF-8"), (3, 1)], id="not UTF-8"),
        pytest.param(
            b"a\rb\n1,x\n",
            [(0, f"not CSV: its header is none: {NEW_LINE}")],
            id="no header",
        ),
        pytest.param(b"text,caf\xe9\nx,1\n", [(1, "not UTF-8"), (2, 1)], id="header not UTF-8"),
        pytest.param(b"id,body\n1,x\n", [(2, "no text in field 'text'")], id="no such column"),
        pytest.param(b'id,text\n1,"cut', [(2, "not CSV: unexpected end of data")], id="cut"),
        pytest.param(b"", [], id="zero bytes"),
    ],
)
def test_csv(content, expected):
    """A row is a document; a row that is none is told with its line."""
    assert expected == units("x.csv", content)


def test_plain_text():
    """A file is a document; one that is not UTF-8 is told without a word of it."""
    assert [(0, 5)] == units("a/b.py", b"a = 1")
    assert [(0, "not UTF-8")] == units("a/b.py", b"caf\xe9")


@pytest.mark.case("Q01")
def test_no_reason_holds_text_of_the_data():
    """Whatever is wrong, the reason does not repeat the data."""
    secret = b"SECRETWORD"
    for name, content in {
        "x.jsonl": b'{"text": "%s' % secret
        + b'\n%s\n["%s"]\n{"text": {"%s": 1}}\n' % (secret, secret, secret),
        "x.csv": b'text\n%s,%s\n"%s' % (secret, secret, secret),
        "x.txt": b"%s\xff" % secret,
    }.items():
        shard = Shard(path=name, size=1, open=lambda c=content: io.BytesIO(c))
        broken = list(read_units(shard, text_field="text"))
        assert broken
        assert all(isinstance(unit, Broken) and "SECRET" not in unit.reason for unit in broken)


LONG = b"text \n" * 2000


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        pytest.param("a.txt", b"words\n", "", id="text"),
        pytest.param("a.gz.txt", b"words\n", "", id="a name that only looks like one"),
        pytest.param("a.txt", LONG + b"\0", "", id="NUL after the beginning"),
        pytest.param("a.txt", b"wor\0ds\n", "binary", id="NUL"),
        pytest.param("a.txt", "wörter".encode("utf-16"), "binary", id="UTF-16"),
        pytest.param("a.txt", LONG + b"\xff", "encoding", id="not UTF-8"),
        pytest.param("a.txt", LONG + b"\xc3", "encoding", id="cut in a character"),
        pytest.param("a.txt", b"", NO_DATA, id="empty"),
        pytest.param("a.txt", b" \n\r\n\t\n", NO_DATA, id="blank lines"),
        pytest.param("a.jsonl.gz", gzip.compress(b'{"text": "x"}\n')[:20], "truncated gzip", id="cut gzip"),
        pytest.param("a.jsonl", gzip.compress(b'{"text": "x"}\n'), "", id="gzip under another name"),
        pytest.param("A.GZ", b"no gzip at all", "not gzip", id="gzip by name alone"),
        pytest.param("a.gz", gzip.compress(gzip.compress(b"x")), "gzip inside gzip", id="gzip in gzip"),
        pytest.param("a.tgz", gzip.compress(b"folder/"), "tar", id="packed folder"),
        pytest.param("a.zst", b"\x28\xb5\x2f\xfd\x00", "truncated zstd", id="zstd"),
        pytest.param("a.zip", b"PK\x03\x04", "zip", id="zip"),
        pytest.param("a.parquet", b"PAR1garbage", "truncated parquet", id="broken parquet"),
        pytest.param("a", b"PAR1\x15\x04", "truncated parquet", id="parquet without a name"),
        pytest.param("a.txt", b"PAR1 is a word\n", "", id="a text about parquet"),
        pytest.param("a.arrow", b"ARROW1\0\0", "arrow", id="arrow"),
        pytest.param("a.csv", b"id,text\n", NO_DATA, id="CSV of a header"),
        pytest.param("a.csv", b"id,text\n\n1,words\n", "", id="CSV with a row"),
        pytest.param("a.jsonl", b"\n\n", NO_DATA, id="JSON lines of blank lines"),
        pytest.param("a.jsonl", b'{"text": ""}\n', NO_DATA, id="JSON lines of empty texts"),
        pytest.param("a.jsonl", b'{"te\n', "damaged", id="cut JSON lines"),
        pytest.param("a.jsonl", b'\0\n{"text": "x"}\n', "", id="JSON lines with one damaged line"),
    ],
)
def test_files_without_a_document(tmp_path, name, content, kind):
    """What a split leaves out is exactly what the quality check reads no document of."""
    shard = Shard(path=name, size=len(content), open=lambda: io.BytesIO(content))
    totals = scan([shard], measures=Measures(heuristics=False), work=tmp_path).totals

    assert kind == kind_not_read(shard)
    assert ({kind: 1} if kind else {}) == totals.not_read
    assert bool(totals.documents) == (kind == "")
    assert bool(totals.broken) >= (kind not in {"", NO_DATA})
