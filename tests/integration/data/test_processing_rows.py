"""Rules carried out on rows of Parquet files."""

from __future__ import annotations

import io
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.data_track import ACTOR, origin, write_tree
from tests.support.processing import apply, blob, dropped, entries, line, reasons, step

from pretrain_archive.data.snapshots import create_snapshot
from pretrain_archive.data.splits import create_split, read_split
from pretrain_archive.domain.errors import InputError

WORDS = [f"word{number} and more of it" for number in range(40)]


def taken(store, root, mode="copy"):
    """A snapshot of a folder."""
    return create_snapshot(
        store, None, name="corpus", mode=mode, actor=ACTOR, origin=origin(), source_root=os.fsencode(root)
    )


def parquet(path, texts, **more):
    """A Parquet file of texts with a number column and a nested one, in row groups of 7."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {
        "text": texts,
        "n": list(range(len(texts))),
        "m": [{"a": [n]} for n in range(len(texts))],
        **more,
    }
    pq.write_table(pa.table(columns).replace_schema_metadata({"who": "me"}), path, row_group_size=7)


@pytest.mark.requirement("R042", "R043")
def test_rows_of_parquet(store, tmp_path):
    """Rows are documents: filtered, deduplicated with lists, sampled; kept rows have all columns as they were."""
    texts = [*WORDS[:30], "x", None, *WORDS[:3]]
    parquet(tmp_path / "src/p/t.parquet", texts)
    write_tree(tmp_path / "src", {b"q/l.jsonl": line(WORDS[5]) + line("alone in the list of all")})
    snapshot = taken(store, tmp_path / "src")
    made = apply(
        store, snapshot, step("filter", min_bytes=5), step("deduplicate"), step("sample", seed=1, documents=9)
    )
    first, second, third = (one.account for one in made)

    assert (37, 35, {"min_bytes": 1}) == (
        first.documents_in, first.documents_out, {k: v for k, v in reasons(made[0]).items() if k == "min_bytes"}
    )  # fmt: skip
    assert (35, 31) == (second.documents_in, second.documents_out)
    assert 9 == third.documents_out
    assert "pyarrow" in first.codecs["parquet"]
    assert {31, 32} == {row["line"] for row in dropped(store, made[0]) if row["path"] == "p/t.parquet"}

    def table(snapshot):
        return pq.read_table(io.BytesIO(blob(store, entries(store, snapshot)["p/t.parquet"].sha256)))

    whole, kept = table(snapshot), table(made[1].snapshot)
    assert list(range(30)) == kept["n"].to_pylist()
    assert whole.slice(0, 30).to_pylist() == kept.to_pylist()
    assert whole.schema.equals(kept.schema, check_metadata=True)


def test_rows_that_need_no_change(files, tmp_path):
    """A Parquet file of which all rows are kept stays the same bytes; a rule that rewrites is refused by row."""
    parquet(tmp_path / "src/t.parquet", [*WORDS[:9], "with\r\nlines"])
    snapshot = taken(files, tmp_path / "src")
    (made,) = apply(files, snapshot, step("filter", min_bytes=1))

    assert entries(files, snapshot) == entries(files, made.snapshot)
    with pytest.raises(InputError, match=r"would be rewritten.*t\.parquet, row 10"):
        apply(files, snapshot, step("clean", line_ends=True))


def test_damaged_parquet(files, tmp_path):
    """A cut file is dropped by name and reason; one of rows in gzip is refused."""
    parquet(tmp_path / "src/t.parquet", WORDS)
    raw = (tmp_path / "src/t.parquet").read_bytes()
    write_tree(tmp_path / "src", {b"cut.parquet": raw[:-40], b"empty.parquet": b""})
    snapshot = taken(files, tmp_path / "src")
    (made,) = apply(files, snapshot, step("sample", seed=1, share=0.5))

    assert ["t.parquet"] == list(entries(files, made.snapshot))
    assert {"cut.parquet", "empty.parquet"} <= {row["path"] for row in dropped(files, made)}
    assert made.account.documents_in == made.account.documents_out + sum(reasons(made).values())


@pytest.mark.requirement("R044")
@pytest.mark.parametrize("mode", ["copy", "reference"])
def test_rows_are_split_by_document(files, tmp_path, mode):
    """Each row is in one part, equal texts in the same one as the lines of a list; all columns come along."""
    texts = [*WORDS, None, "", *WORDS[:5]]
    parquet(tmp_path / "src/t.parquet", texts)
    write_tree(tmp_path / "src", {b"l.jsonl": b"".join(line(text) for text in WORDS)})
    snapshot = taken(files, tmp_path / "src", mode=mode)
    split = create_split(
        files, None, snapshot=snapshot, seed=3, validation_fraction=0.3, actor=ACTOR, origin=origin()
    )
    found = {entry.path: entry for entry in read_split(files, split)}
    tables = {
        part: pq.read_table(io.BytesIO(blob(files, found[f"t.{part}.parquet"].sha256)))
        for part in ("train", "validation")
    }
    listed = {part: blob(files, found[f"l.{part}.jsonl"].sha256).decode() for part in ("train", "validation")}

    assert ({"lines": 2}, 85) == (split.left_out, split.train_documents + split.validation_documents)
    assert [45, 40] == [
        sum(found[f"{name}.{part}.{ends}"].documents for part in tables)
        for name, ends in (("t", "parquet"), ("l", "jsonl"))
    ]
    for part, table in tables.items():
        assert all(
            texts[n] == text
            for n, text in zip(table["n"].to_pylist(), table["text"].to_pylist(), strict=True)
        )
        assert all(f'"{text}"' in listed[part] for text in table["text"].to_pylist())
        assert [[{"a": [n]}][0] for n in table["n"].to_pylist()] == table["m"].to_pylist()


def test_split_of_another_column(files, tmp_path):
    """The column with the text is the one that is named, in Parquet as in lists."""
    parquet(tmp_path / "src/t.parquet", [None] * 40, content=WORDS)
    made = create_split(
        files, None, snapshot=taken(files, tmp_path / "src"), seed=3, validation_fraction=0.3, actor=ACTOR,
        origin=origin(), text_field="content",
    )  # fmt: skip

    assert (40, {}) == (made.train_documents + made.validation_documents, made.left_out)
