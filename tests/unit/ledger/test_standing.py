"""Whoever can write to an anchor and cannot sign switches no refusal off, and no person is kept from going on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.ledgers import Place, as_owner, draft
from tests.unit.ledger.test_anchors import MemoryStore, bare_repository

from pretrain_archive.domain.errors import BehindAnchorError, LedgerError
from pretrain_archive.ledger import standing as module
from pretrain_archive.ledger.anchors import Anchor, FileAnchor, to_line
from pretrain_archive.ledger.anchors_remote import GitAnchor, ObjectAnchor
from pretrain_archive.ledger.recovery import recover
from pretrain_archive.ledger.signing import Signer
from pretrain_archive.ledger.sql import SqlLedger
from pretrain_archive.ledger.standing import AnchorTailError, standing

STRANGER = Signer.new()


def lines_of(place: Place) -> Path:
    """The anchor's file."""
    return place.folder / "anchors" / "checkpoints.jsonl"


def add(place: Place, data: bytes) -> None:
    """What somebody with the right to append writes."""
    with lines_of(place).open("ab") as stream:
        stream.write(data)


@pytest.fixture
def restored(place: Place) -> Place:
    """A database at 100 records under an anchor that knows 100 and 150."""
    ledger = place.open()
    ledger.append([draft(i) for i in range(100)])
    ledger.seal()
    ledger.append([draft(i) for i in range(100, 150)])
    ledger.seal()
    ledger.close()
    with as_owner(place) as session:
        for table, where in (
            ("record", "position >= 100"), ("edge", "position >= 100"), ("node", "1 = 1"), ("checkpoint", "size > 100"),
        ):  # fmt: skip
            session.run(f"DELETE FROM pretrain_archive_{table} WHERE {where}")
    return place


def forged(size: int) -> bytes:
    """A line by a key that nobody here knows."""
    return to_line(STRANGER.sign(origin="evil", size=size, root=b"x" * 32))


def overstated(line: bytes) -> bytes:
    """A believed line behind a larger size that its first of two notes claims."""
    note = json.dumps(json.loads(line)["note"], ensure_ascii=False)
    return f'{{"note": "x\\n999999\\nx", "note": {note}}}\n'.encode()


ENDS: dict[str, Callable[[bytes], bytes]] = {
    "an old line again": lambda first: first,
    "an old line many times": lambda first: first * 500,
    "70 kB of noise": lambda _: b"x" * 70_000 + b"\n",
    "70 kB without an end": lambda _: b"x" * 70_000,
    "noise and an old line": lambda first: b"\xff\x00[\n" + first,
    "a line of a stranger": lambda _: forged(500),
    "many large lines of a stranger": lambda first: b"".join(forged(10**6 + i) for i in range(100)) + first,
    "a size beside the signed one": overstated,
    "brackets": lambda _: b"[" * 60_000 + b"\n",
}


@pytest.mark.requirement("R002")
@pytest.mark.parametrize("end", ENDS)
def test_no_unsigned_line_lets_an_old_copy_pass(restored: Place, end: str) -> None:
    """Whatever is appended to the anchor, the largest checkpoint that a known key signed is compared."""
    add(restored, ENDS[end](lines_of(restored).read_bytes().splitlines(keepends=True)[0]))
    ledger = restored.open()
    for act in (lambda: ledger.append([draft(900)]), ledger.seal):
        for _ in range(2):
            with pytest.raises(BehindAnchorError, match="knows 150"):
                act()


@pytest.mark.parametrize(
    "noise", [pytest.param(b"noise\n", id="noise"), pytest.param(forged(999), id="stranger")]
)
def test_end_of_a_stranger_blocks_until_a_person_signs(place: Place, noise: bytes) -> None:
    """A whole log with a foreign end at its anchor is not written to; a recovery record lets it go on."""
    ledger = place.open()
    ledger.append([draft(0)])
    ledger.seal()
    add(place, noise)
    with pytest.raises(AnchorTailError, match=r"checkpoints.jsonl.*ledger recover"):
        ledger.append([draft(1)])
    with pytest.raises(AnchorTailError):
        ledger.seal()
    assert any("last entry" in f.problem or "not signed" in f.problem for f in ledger.audit().findings)

    (record,) = recover(ledger, person="carol", reason="somebody wrote to the anchor")
    assert (0, 1) == (record.payload["anchored_size"], record.payload["database_size"])
    assert 2 == ledger.append([draft(1)])[0].position
    assert 3 == place.open().seal().size
    with pytest.raises(LedgerError, match="nothing to recover"):
        recover(ledger, person="carol", reason="again")


def test_own_torn_line_blocks_nothing(place: Place) -> None:
    """What a crash cut short at the very end is no finding, before and after the next line."""
    ledger = place.open()
    ledger.append([draft(0)])
    ledger.seal()
    add(place, lines_of(place).read_bytes()[:70])
    assert 1 == ledger.append([draft(1)])[0].position
    assert 2 == ledger.seal().size
    assert ("verified", ()) == (ledger.audit().verdict, ledger.audit().findings)


def test_recovered_branch_binds_no_more_and_the_new_one_does(restored: Place) -> None:
    """After a recovery the lost checkpoints bind nobody; those signed since do, whatever is repeated after them."""
    first, second = lines_of(restored).read_bytes().splitlines(keepends=True)
    ledger = restored.open()
    recover(ledger, person="carol", reason="old copy")
    ledger.append([draft(i) for i in range(1000, 1040)])
    ledger.seal()
    assert 141 == ledger.append([draft(2000)])[0].position
    ledger.close()
    with as_owner(restored) as session:
        for table, where in (("record", "position >= 110"), ("node", "1 = 1"), ("checkpoint", "size > 110")):
            session.run(f"DELETE FROM pretrain_archive_{table} WHERE {where}")
    for line in (b"", first, second):
        add(restored, line)
        with pytest.raises(BehindAnchorError, match="knows 141"):
            restored.open().append([draft(3000)])


def object_anchor(_: Path) -> tuple[Anchor, Callable[[bytes], None]]:
    """Objects, and how a stranger adds one."""
    store = MemoryStore()
    anchor = ObjectAnchor(store, name="s3://x")

    def put(data: bytes) -> None:
        keys = sorted(store.objects)
        store.objects[f"checkpoints/{int(keys[-1][12:24]) + 1:012d}-000000000001.txt"] = data
        store.objects["checkpoints/zzz"] = data

    return anchor, put


def git_anchor(folder: Path) -> tuple[Anchor, Callable[[bytes], None]]:
    """A git remote, and how a stranger pushes to it."""
    remote = str(bare_repository(folder))
    anchor, other = (GitAnchor(remote, work_folder=folder / name) for name in ("one", "two"))

    def put(data: bytes) -> None:
        pushed, text = other._text, other._run
        other._fetch()
        blob = text(["hash-object", "-w", "--stdin"], pushed() + data + b"\n").decode().strip()
        tree = text(["mktree"], f"100644 blob {blob}\tcheckpoints.jsonl\n".encode()).decode().strip()
        commit = text(["commit-tree", tree, "-p", other._tip(), "-m", "x"], b"").decode().strip()
        text(["push", "--quiet", remote, f"{commit}:refs/heads/checkpoints"], b"")

    return anchor, put


@pytest.mark.parametrize("make", [object_anchor, git_anchor])
def test_other_sorts_of_anchor(
    place: Place, tmp_path: Path, make: Callable[[Path], tuple[Anchor, Callable[[bytes], None]]]
) -> None:
    """Noise at the end of an object store or a git branch hides nothing, blocks, and is signed for."""
    anchor, put = make(tmp_path)
    ledger = place.open(anchors=(anchor,))
    ledger.append([draft(i) for i in range(5)])
    ledger.seal()
    put(b"noise")
    found = standing(anchor, ledger.keys)
    assert found.checkpoint is not None
    assert (5, "its last entry is not a checkpoint") == (found.checkpoint.size, found.fault)
    with pytest.raises(AnchorTailError):
        place.open(anchors=(anchor,)).append([draft(9)])
    recover(ledger, person="carol", reason="noise")
    assert 6 == place.open(anchors=(anchor,)).append([draft(9)])[0].position


def test_pipe_in_place_of_the_anchor_is_told(place: Place) -> None:
    """An anchor that is no file never hangs its reader."""
    lines_of(place).parent.mkdir()
    os.mkfifo(lines_of(place))
    ledger = place.open()
    ledger.append([draft(0)])
    assert "not a regular file" in ledger.audit().findings[0].problem


def test_anchor_is_read_with_bounded_memory(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the largest claims are kept on the way, and few signatures are checked."""
    ledger = place.open()
    ledger.append([draft(0)])
    ledger.seal()
    signed = lines_of(place).read_bytes()
    lines_of(place).write_bytes(signed * 20_000)
    asked: list[int] = []
    check = module.believed
    monkeypatch.setattr(module, "believed", lambda *known: asked.append(1) or check(*known))
    found = standing(FileAnchor(place.folder / "anchors"), ledger.keys)
    assert found.checkpoint is not None
    assert 1 == found.checkpoint.size
    assert len(asked) <= 2


def test_keys_decide_who_is_believed(restored: Place) -> None:
    """Without any key every signer counts: a larger claim blocks rather than passes."""
    add(restored, forged(999))
    ledger = SqlLedger(restored.open().database, anchors=(restored.anchor,))
    with pytest.raises(BehindAnchorError, match="knows 999"):
        ledger.append([draft(0)])
