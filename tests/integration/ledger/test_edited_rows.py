"""No gate is answered and nothing is launched on a row that was edited after it was sealed."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from tests.support.main_line import Line, line_policy

from pretrain_archive.domain.errors import ArchiveError, RefusedError
from pretrain_archive.domain.merkle import leaf_hash
from pretrain_archive.ledger.canonical import canonical_bytes


def edit(line: Line, kind: str, old: str, new: str, *, rehash: bool) -> int:
    """Replace text in the newest record of a kind, as the owner of the database; returns its position."""
    with sqlite3.connect(line.folder / "ledger.db") as owner:
        for (name,) in owner.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            owner.execute(f"DROP TRIGGER {name}")
        position, stored = owner.execute(
            "SELECT position, stored FROM pretrain_archive_record WHERE kind = ? ORDER BY position DESC",
            (kind,),
        ).fetchone()
        assert old in stored.decode()
        stored = canonical_bytes(json.loads(stored.decode().replace(old, new)))
        owner.execute("UPDATE pretrain_archive_record SET stored = ? WHERE position = ?", (stored, position))
        if rehash:
            owner.execute(
                "UPDATE pretrain_archive_record SET leaf = ? WHERE position = ?",
                (leaf_hash(stored), position),
            )
    return int(position)


@pytest.mark.requirement("R005")
@pytest.mark.parametrize("rehash", [False, True], ids=["bytes alone", "bytes and leaf"])
@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        pytest.param("split.created", "/splits/sha256", "/forged/sha256", id="earlier record"),
        pytest.param("gate.decision", '"reason":"read"', '"reason":"evil"', id="newest record"),
    ],
)
def test_edited_row_is_not_launched(tmp_path: Path, kind: str, old: str, new: str, rehash: bool) -> None:
    """Another split under an approval, and another reason of it: nothing starts.

    The launch names the row whose bytes are not its leaf; where the leaf was made to fit, the anchor that was signed
    over the row before.
    """
    line = Line(folder=tmp_path)
    line.to_signed_launch()
    line.ledger.seal()
    position = edit(line, kind, old, new, rehash=rehash)
    named = "are not those that the anchor .* was signed over" if rehash else f"at position {position} "
    with pytest.raises(ArchiveError, match=named):
        line.launch()
    line.ledger.close()
    with sqlite3.connect(tmp_path / "ledger.db") as reader:
        query = "SELECT count(*) FROM pretrain_archive_record WHERE kind = 'launch.intended'"
        assert (0,) == reader.execute(query).fetchone()


@pytest.mark.parametrize("rehash", [False, True], ids=["bytes alone", "bytes and leaf"])
def test_edited_evidence_is_not_signed(tmp_path: Path, rehash: bool) -> None:
    """A failed quality report that was made to pass: the answer is refused and the row named."""
    line = Line(folder=tmp_path, policy=line_policy(min_documents="1000", max_unclean_rate="1.0"))
    line.open()
    line.prepare_data()
    asked = line.ask("prepare")
    line.ledger.seal()
    position = edit(line, "quality.reported", '"passed":false', '"passed":true', rehash=rehash)
    with pytest.raises(RefusedError if rehash else ArchiveError, match=f"at position {position} "):
        line.answer("prepare", asked)
