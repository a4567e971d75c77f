"""Numbers that records carry themselves: from every form, also where a neighbour is broken or nothing can seek."""

from __future__ import annotations

import gzip
import io
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pretrain_archive.data.quality.documents import Shard
from pretrain_archive.data.quality.fields import field_batches

LINES = b'{"text": "a", "score": 1}\n{"text": "b", "score": 2}\n{"text": "c"}\n'
ROWS = b"text,score\na,1\nb,2\n"


class _Unseekable(io.RawIOBase):
    """Bytes as a network answer gives them."""

    def __init__(self, content: bytes) -> None:
        self._inner = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        return self._inner.readinto(buffer)


def parquet() -> bytes:
    """The same records in a Parquet file."""
    out = io.BytesIO()
    pq.write_table(pa.table({"text": ["a", "b"], "score": [1, 2]}), out)
    return out.getvalue()


def scores(name: str, content: bytes, opened=io.BytesIO) -> list[float | None]:
    """The field ``score`` of a file's records."""
    shard = Shard(path=name, size=len(content), open=partial(opened, content))
    batches = field_batches(lambda: [shard])(["score"])
    return [score for table in batches for score in table["score"].to_pylist()]


FORMS = [
    pytest.param("a.jsonl", LINES, id="lines"),
    pytest.param("a.csv", ROWS, id="rows"),
    pytest.param("a.jsonl.gz", gzip.compress(LINES), id="packed lines"),
    pytest.param("shard-0001.gz", gzip.compress(LINES), id="packed lines without an ending"),
    pytest.param("a.parquet", parquet(), id="columns"),
]


@pytest.mark.requirement("R061")
@pytest.mark.parametrize("opened", [io.BytesIO, lambda content: io.BufferedReader(_Unseekable(content))])
@pytest.mark.parametrize(("name", "content"), FORMS)
def test_each_form_gives_its_numbers(name, content, opened):
    """A store that answers over a network cannot seek, and gives the same."""
    assert [1.0, 2.0] == scores(name, content, opened)


@pytest.mark.case("Q13")
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param(b'a,1\nb"c",2\n"d"e,3\nf,4\n', [1.0, 2.0, 4.0], id="a quote in the middle"),
        pytest.param(b"a,1\nb\nc,3\n", [1.0, 3.0], id="a row that is too short"),
        pytest.param(b"a,1\n" + b"x" * 200_000 + b",2\nc,3\n", [1.0, 2.0, 3.0], id="a long text"),
        pytest.param(b"a,1\n\xff\xfe,2\nc,3\n", [1.0, 2.0, 3.0], id="bytes that are no text"),
    ],
)
def test_a_broken_row_costs_no_other(rows, expected):
    """What follows a row that is none is judged too."""
    assert expected == scores("a.csv", b"text,score\n" + rows)


@pytest.mark.case("Q13")
def test_what_is_no_number():
    """NaN is missing, infinity a number, a text or a truth value none."""
    lines = b"".join(b'{"score": %s}\n' % one for one in (b"NaN", b"Infinity", b'"x"', b"true", b'"2.5"'))

    assert [None, float("inf"), None, None, 2.5] == scores("a.jsonl", lines)
