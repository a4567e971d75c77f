"""Anchors remember checkpoints in order, survive torn writes, and say when they cannot."""

from __future__ import annotations

import io
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import pytest

from pretrain_archive.domain.errors import InputError
from pretrain_archive.ledger.anchors import Anchor, AnchorError, FileAnchor
from pretrain_archive.ledger.anchors_remote import GitAnchor, ObjectAnchor, open_anchors
from pretrain_archive.ledger.port import SignedCheckpoint
from pretrain_archive.ledger.signing import Signer

SIGNER = Signer.new()


@dataclass(frozen=True)
class _Info:
    key: str


@dataclass
class MemoryStore:
    """The part of an object store that an anchor uses."""

    objects: dict[str, bytes] = field(default_factory=dict)

    def put_if_absent(self, key: str, data: BinaryIO) -> bool:
        """True if this call stored it."""
        return self.objects.setdefault(key, content := data.read()) is content

    def list(self, prefix: str) -> Iterator[_Info]:
        """Sorted keys."""
        return iter([_Info(key) for key in sorted(self.objects) if key.startswith(prefix)])

    def open(self, key: str) -> BinaryIO:
        """The object's bytes."""
        return io.BytesIO(self.objects[key])


def checkpoint(size: int) -> SignedCheckpoint:
    """A signed checkpoint over ``size`` records."""
    return SIGNER.sign(origin="test", size=size, root=size.to_bytes(32, "big"))


def bare_repository(folder: Path) -> Path:
    """A git remote on this machine."""
    remote = folder / "remote.git"
    subprocess.run(["git", "init", "--quiet", "--bare", remote], check=True)
    return remote


@pytest.fixture(params=["file", "objects", "git"])
def anchor(request: pytest.FixtureRequest, tmp_path: Path) -> Anchor:
    """An empty anchor of each sort."""
    if request.param == "file":
        return FileAnchor(tmp_path / "anchors")
    if request.param == "objects":
        return ObjectAnchor(MemoryStore(), name="s3://bucket/anchors")
    return GitAnchor(str(bare_repository(tmp_path)), work_folder=tmp_path / "work")


def test_remembers_in_order_and_once(anchor: Anchor) -> None:
    """Entries come in the order of publishing, smaller after larger too; the newest is not repeated."""
    assert None is anchor.latest()
    assert [] == list(anchor.entries())
    for size in (3, 9, 9, 5):
        anchor.publish(checkpoint(size))

    assert [3, 9, 5] == [entry.size for entry in anchor.entries()]
    assert checkpoint(5) == anchor.latest()


@pytest.mark.parametrize("torn", [1, 30, -1])
def test_file_survives_a_torn_line(tmp_path: Path, torn: int) -> None:
    """A line that a crash cut short is passed over and stays as it is."""
    anchor = FileAnchor(tmp_path)
    for size in (1, 2):
        anchor.publish(checkpoint(size))
    path = tmp_path / "checkpoints.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:torn])
    before = path.read_bytes()
    assert (checkpoint(2) if torn == -1 else checkpoint(1)) == anchor.latest()
    anchor.publish(checkpoint(3))

    assert path.read_bytes().startswith(before)
    assert [1, 2, 3] if torn == -1 else [1, 3] == [entry.size for entry in anchor.entries()]
    assert checkpoint(3) == anchor.latest()


def test_file_token_changes_with_a_line(tmp_path: Path) -> None:
    """Whether something was added is known without reading."""
    anchor = FileAnchor(tmp_path)
    tokens = [anchor.token()]
    for size in (1, 2):
        anchor.publish(checkpoint(size))
        tokens.append(anchor.token())
    assert 3 == len(set(tokens))
    assert tokens[-1] == anchor.token()


def test_file_in_the_way_is_named(tmp_path: Path) -> None:
    """An anchor that cannot be written or read names itself."""
    (tmp_path / "checkpoints.jsonl").mkdir()
    for act in (lambda a: a.publish(checkpoint(1)), lambda a: a.latest(), lambda a: list(a.entries())):
        with pytest.raises(AnchorError, match=r"checkpoints\.jsonl"):
            act(FileAnchor(tmp_path))


def test_git_meets_other_pushers(tmp_path: Path) -> None:
    """Two clones push in turn and at once; nothing is lost."""
    remote = str(bare_repository(tmp_path))
    one, two = (GitAnchor(remote, work_folder=tmp_path / name) for name in ("one", "two"))
    one.publish(checkpoint(1))
    two.publish(checkpoint(2))
    one.publish(checkpoint(3))
    assert [1, 2, 3] == [entry.size for entry in two.entries()]


def test_git_rewritten_history_is_refused(tmp_path: Path) -> None:
    """A remote whose branch was replaced or removed is not believed by who saw more."""
    remote = bare_repository(tmp_path)
    anchor = GitAnchor(str(remote), work_folder=tmp_path / "work")
    for size in (1, 2):
        anchor.publish(checkpoint(size))
    parent = subprocess.run(
        ["git", "-C", remote, "rev-parse", "checkpoints~1"], check=True, capture_output=True, text=True
    ).stdout.strip()
    subprocess.run(["git", "-C", remote, "update-ref", "refs/heads/checkpoints", parent], check=True)
    with pytest.raises(AnchorError, match="rejected"):
        anchor.latest()
    subprocess.run(["git", "-C", remote, "update-ref", "-d", "refs/heads/checkpoints"], check=True)
    with pytest.raises(AnchorError, match="lost its branch"):
        anchor.latest()


def test_git_remote_that_is_gone_is_named_without_password(tmp_path: Path) -> None:
    """An unreachable remote is an error of the anchor, without the secret in its URL."""
    gone = GitAnchor("file://user:s3cret@/nowhere/x.git", work_folder=tmp_path)
    with pytest.raises(AnchorError) as refused:
        gone.latest()
    assert "s3cret" not in str(refused.value)


def test_object_anchor_race_is_told() -> None:
    """Two publishers of different checkpoints cannot both take one number."""
    store = MemoryStore()
    anchor = ObjectAnchor(store, name="s3://x")
    anchor.publish(checkpoint(1))
    store.objects["checkpoints/000000000002-000000000002.txt"] = checkpoint(7).text.encode()
    stale = ObjectAnchor(_Stale(store.objects), name="s3://x")
    with pytest.raises(AnchorError, match="already holds another"):
        stale.publish(checkpoint(2))


class _Stale(MemoryStore):
    """A store whose listing lags one object behind."""

    def list(self, prefix: str) -> Iterator[_Info]:
        """All but the last key."""
        return iter(list(super().list(prefix))[:-1])


def test_anchors_by_url(tmp_path: Path) -> None:
    """Each URL opens its sort of anchor; an unknown one names the option."""
    urls = ["file:///a%20b/", f"git+file://{tmp_path}/x.git", "s3://bucket/prefix"]
    found = open_anchors(urls, work_folder=tmp_path, open_store=lambda _: MemoryStore())
    assert ["file:///a b/checkpoints.jsonl", f"git+file://{tmp_path}/x.git", "s3://bucket/prefix"] == [
        anchor.name for anchor in found
    ]
    with pytest.raises(InputError, match="anchors"):
        open_anchors(["ftp://x"], work_folder=tmp_path, open_store=lambda _: MemoryStore())


def test_git_clone_is_made_again(tmp_path: Path) -> None:
    """Losing the local clone loses nothing."""
    anchor = GitAnchor(str(bare_repository(tmp_path)), work_folder=tmp_path / "work")
    anchor.publish(checkpoint(1))
    shutil.rmtree(tmp_path / "work")
    anchor.publish(checkpoint(2))
    assert [1, 2] == [entry.size for entry in anchor.entries()]
