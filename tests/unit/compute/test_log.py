"""Logs that are not clean text."""

from __future__ import annotations

import hashlib
import tracemalloc
from pathlib import Path

import pytest

from pretrain_archive.compute.log import BURST, LAST_LINES, LINES_A_SECOND, MAX_DISPLAY, LogTail, clean_line


def noisy() -> bytes:
    """A split glyph, Latin-1, NUL, colours, a progress bar, a line of a mebibyte, and a step at the end."""
    bar = b"".join(b"\r%d%%" % (index // 20) for index in range(2000))
    return (
        b"half \xe2\x96\n\x88 glyph\nlatin \xe9\xe8\nnul \x00 end\n\x1b[31mred\x1b[0m\n"
        + bar + b"\n" + b"z" * (1 << 20) + b"\nstep 10 loss 0.5\n"
    )  # fmt: skip


def read(tail: LogTail, *, final: bool = False) -> list[str]:
    """All lines of one reading."""
    return [line for block in tail.blocks(final=final) for line in block]


def test_a_noisy_log_is_shown_cleanly(tmp_path: Path) -> None:
    """Bad bytes become marks and are counted, lines are bounded, the raw bytes keep their digest."""
    file = tmp_path / "log"
    file.write_bytes(noisy())
    tail = LogTail(path=file)
    lines = read(tail, final=True)

    assert ["half �", "� glyph", "latin ��", "nul � end", "red", "99%"] == lines[:6]
    assert lines[6].startswith("zzz")
    assert len(lines[6]) < MAX_DISPLAY + 40
    assert ("step 10 loss 0.5", 10, 5) == (lines[7], tail.last_step, tail.bad_bytes)
    assert "sha256:" + hashlib.sha256(noisy()).hexdigest() == tail.digest()


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_lines_do_not_depend_on_chunks(tmp_path: Path, size: int) -> None:
    """Read while it is written in small pieces, the same lines come out."""
    content = noisy() if size > 100 else noisy()[:2000]
    whole = tmp_path / "whole"
    whole.write_bytes(content)
    file, tail, found = tmp_path / "log", LogTail(path=tmp_path / "log"), list[str]()
    with file.open("ab", buffering=0) as out:
        for at in range(0, len(content), size):
            out.write(content[at : at + size])
            found += read(tail)
    found += read(tail, final=True)

    expected = read(LogTail(path=whole), final=True)
    assert [line[:200] for line in expected] == [line[:200] for line in found]


def test_memory_stays_bounded(tmp_path: Path) -> None:
    """A line of sixty-four mebibytes costs a few chunks of memory."""
    file = tmp_path / "log"
    file.write_bytes(b"z" * (1 << 26))
    tail = LogTail(path=file)
    tracemalloc.start()
    lines = read(tail, final=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert 1 == len(lines)
    assert peak < 16 << 20


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(b"\x1b]0;title\x07text", "text", id="window title"),
        pytest.param(b"a\x08b\x1b[2Kc", "abc", id="control characters"),
        pytest.param(b"tab\there\r", "tab\there", id="tab and carriage return"),
        pytest.param("模型 ✓".encode(), "模型 ✓", id="Chinese"),
    ],
)
def test_a_line_for_people(raw: bytes, expected: str) -> None:
    """Escapes go, text stays."""
    assert (expected, 0) == clean_line(raw)


def test_a_flood_is_counted_and_its_end_is_shown(tmp_path: Path) -> None:
    """Only so many lines at once and a second; what was passed over is counted, the last lines are shown."""
    file, now = tmp_path / "log", [100.0]
    tail = LogTail(path=file, clock=lambda: now[0])
    file.write_bytes(b"".join(b"line %d\n" % n for n in range(BURST)) + b"line\n" * 5000)
    first = read(tail)
    with file.open("ab") as out:
        out.write(b"\x1b[1mStep 40\x1b[0m loss\n" + b"later\n" * 300)
    now[0] += 1.0
    second = read(tail)
    with file.open("ab") as out:
        out.write(b"more\n" * 100 + b"the reason")
    last = read(tail, final=True)

    assert [f"line {n}" for n in range(BURST)] == first
    assert ["… 5000 lines more in the log", "Step 40 loss"] == second[:2]
    assert LINES_A_SECOND == len(second) - 1
    assert f"… {301 + 100 - LINES_A_SECOND - LAST_LINES} lines more in the log" == last[0]
    assert ["more"] * LAST_LINES == last[1:-1]
    assert "the reason" == last[-1]
    assert 40 == tail.last_step


def test_one_call_reads_a_bounded_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that grows without end cannot hold its reader for ever; at the end all of it is read."""
    monkeypatch.setattr("pretrain_archive.compute.log.MAX_READ", 1 << 20)
    file = tmp_path / "log"
    file.write_bytes(b"x" * 99 + b"\n" + b"y" * (3 << 20) + b"\nstep 9\n")
    tail = LogTail(path=file)

    read(tail)
    assert 1 << 20 == tail.offset
    read(tail, final=True)
    assert (file.stat().st_size, 9) == (tail.offset, tail.last_step)
