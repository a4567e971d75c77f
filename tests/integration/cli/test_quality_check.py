"""``pretrain-archive quality check`` over data that cannot be read whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.integration.cli.conftest import Home


@pytest.mark.case("Q01")
@pytest.mark.requirement("R046")
def test_what_cannot_be_read_is_located(seeded: Home, tmp_path: Path) -> None:
    """Text and JSON name file, line and reason of each broken unit, the text the first ones and how many follow."""
    root = tmp_path / "data"
    root.mkdir()
    good = json.dumps({"text": "a line that can be read"}) + "\n"
    (root / "a.jsonl").write_text(good + '{"text": "cut\n' + "[1]\n" * 11)
    (root / "b.gz").write_bytes(b"no gzip at all")
    told = seeded.call("quality", "check", str(root))
    asked = seeded.ask("quality", "check", str(root), "--json")

    assert (1, 1) == (told.code, asked.code)
    lines = [line for line in told.out.splitlines() if line.startswith("not read: ")]
    assert "not read: a.jsonl line 2: not JSON at column 14: cut off or malformed" == lines[0]
    assert "not read: a.jsonl line 3: not an object" == lines[1]
    assert (11, "not read: 3 more; --json and --report FILE tell where") == (len(lines), lines[-1])
    found = asked.document["examples"]["format_errors"]
    assert [("a.jsonl", line) for line in range(2, 14)] + [("b.gz", 0)] == [
        (unit["file"], unit["line"]) for unit in found
    ]
    assert all(unit["reason"] for unit in found)
