"""Anchors beyond this machine: an object store with retention, and a git remote."""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import unquote, urlsplit

from pretrain_archive.domain.errors import ArchiveError, InputError
from pretrain_archive.ledger.anchors import (
    Anchor,
    AnchorError,
    Claim,
    FileAnchor,
    to_claim,
    to_line,
    whole_lines,
)
from pretrain_archive.ledger.port import SignedCheckpoint
from pretrain_archive.ledger.signing import parse_checkpoint

_GIT_SECONDS = 60
_PUSHES = 3
_LONGEST = 64 * 1024
_KEY = re.compile(r"\d{12,18}-\d{12,18}\.txt")


class _Info(Protocol):
    @property
    def key(self) -> str: ...


class Store(Protocol):
    """The three acts of an object store that an anchor needs; see the storage port."""

    def put_if_absent(self, key: str, data: BinaryIO) -> bool:
        """Store an object unless its key exists."""

    def list(self, prefix: str) -> Iterator[_Info]:
        """The objects under a prefix, sorted by key."""

    def open(self, key: str) -> BinaryIO:
        """Read an object."""


class ObjectAnchor:
    """One object per checkpoint; retention (object lock) is the store's to enforce."""

    def __init__(self, store: Store, *, name: str, prefix: str = "checkpoints/") -> None:
        self._store = store
        self._prefix = prefix
        self.name = name

    def publish(self, checkpoint: SignedCheckpoint) -> None:
        """See ``Anchor``."""
        if self.latest() == checkpoint:
            return
        keys = self._keys()
        number = self._number(keys[-1]) + 1 if keys else 1
        key = f"{self._prefix}{number:012d}-{checkpoint.size:012d}.txt"
        try:
            stored = self._store.put_if_absent(key, io.BytesIO(checkpoint.text.encode()))
        except (ArchiveError, OSError) as problem:
            raise AnchorError(f"The anchor {self.name} cannot be written: {problem}") from problem
        if not stored and self._load(key) != checkpoint:
            raise AnchorError(f"The anchor {self.name} already holds another checkpoint as {key}.")

    def latest(self) -> SignedCheckpoint | None:
        """See ``Anchor``."""
        keys = self._keys()
        return self._load(keys[-1]) if keys else None

    def entries(self) -> Iterator[SignedCheckpoint]:
        """See ``Anchor``."""
        yield from filter(None, map(self._load, self._keys()))

    def claims(self) -> Iterator[Claim]:
        """See ``Anchor``. The size is in the key, so that only what matters is fetched."""
        for key in self._keys():
            yield Claim(size=int(key.rpartition("-")[2].partition(".")[0]), load=partial(self._load, key))

    def token(self) -> object:
        """Not cheap here: compared when the ledger is opened for writing and at each seal."""
        return None

    def _keys(self) -> list[str]:
        """The keys of our form by number; others are not ours to judge."""
        try:
            found = [info.key for info in self._store.list(self._prefix)]
        except (ArchiveError, OSError) as problem:
            raise AnchorError(f"The anchor {self.name} cannot be listed: {problem}") from problem
        return sorted(
            (key for key in found if _KEY.fullmatch(key.removeprefix(self._prefix))), key=self._number
        )

    def _number(self, key: str) -> int:
        return int(key.removeprefix(self._prefix).partition("-")[0])

    def _load(self, key: str) -> SignedCheckpoint | None:
        try:
            with self._store.open(key) as stream:
                return parse_checkpoint(stream.read(_LONGEST).decode())
        except (ArchiveError, OSError) as problem:
            raise AnchorError(f"The anchor {self.name} holds an unreadable {key}: {problem}") from problem
        except ValueError:
            return None


class GitAnchor:
    """A branch of a git remote, one line per checkpoint in one file; best where force-pushes are refused."""

    _FILE = "checkpoints.jsonl"

    def __init__(self, remote: str, *, work_folder: Path, branch: str = "checkpoints") -> None:
        self._remote = remote
        self._branch = branch
        self._clone = work_folder / f"anchor-{hashlib.sha256(remote.encode()).hexdigest()[:16]}"
        self._tracking = f"refs/anchored/{branch}"
        parts = urlsplit(remote)
        self.name = f"git+{parts._replace(netloc=parts.netloc.rpartition('@')[2]).geturl()}"

    def publish(self, checkpoint: SignedCheckpoint) -> None:
        """See ``Anchor``. Another pusher in between is met by fetching again."""
        for left in reversed(range(_PUSHES)):
            if self.latest() == checkpoint:
                return
            blob = self._git("hash-object", "-w", "--stdin", data=self._text() + to_line(checkpoint))
            tree = self._git("mktree", data=f"100644 blob {blob}\t{self._FILE}\n".encode())
            parents = ["-p", self._tip()] if self._tip() else []
            commit = self._git("commit-tree", tree, *parents, "-m", f"Anchor {checkpoint.size} records")
            try:
                self._git("push", "--quiet", self._remote, f"{commit}:refs/heads/{self._branch}")
            except AnchorError:
                if not left:
                    raise
            else:
                self._git("update-ref", self._tracking, commit)  # a later fetch must contain it
                return

    def latest(self) -> SignedCheckpoint | None:
        """See ``Anchor``."""
        *_, newest = (None, *self.entries())
        return newest

    def entries(self) -> Iterator[SignedCheckpoint]:
        """See ``Anchor``."""
        yield from filter(None, (claim.load() for claim in self.claims()))

    def claims(self) -> Iterator[Claim]:
        """See ``Anchor``."""
        self._fetch()
        yield from map(to_claim, whole_lines(io.BytesIO(self._text())))

    def token(self) -> object:
        """Not cheap here: compared when the ledger is opened for writing and at each seal."""
        return None

    def _fetch(self) -> None:
        if not (self._clone / "HEAD").exists():
            self._clone.mkdir(parents=True, exist_ok=True)
            self._git("init", "--quiet", "--bare", ".")
        refs = self._git("ls-remote", self._remote, f"refs/heads/{self._branch}")
        if refs:
            # No '+': a remote whose history was rewritten is refused, as it must be.
            self._git("fetch", self._remote, f"refs/heads/{self._branch}:{self._tracking}")
        elif self._tip():
            raise AnchorError(f"The anchor {self.name} lost its branch {self._branch!r}.")

    def _tip(self) -> str:
        return self._git("for-each-ref", "--format=%(objectname)", self._tracking)

    def _text(self) -> bytes:
        tip = self._tip()
        return self._run(["cat-file", "blob", f"{tip}:{self._FILE}"], b"") if tip else b""

    def _git(self, *arguments: str, data: bytes = b"") -> str:
        return self._run(arguments, data).decode().strip()

    def _run(self, arguments: Sequence[str], data: bytes) -> bytes:
        person = {"NAME": "pretrain-archive", "EMAIL": "ledger@localhost"}
        names = {
            f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in person.items()
        }
        try:
            done = subprocess.run(
                ["git", "-C", str(self._clone), *arguments],
                input=data,
                capture_output=True,
                timeout=_GIT_SECONDS,
                check=True,
                env=os.environ | names | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
            )
        except subprocess.CalledProcessError as problem:
            said = problem.stderr.decode(errors="replace").strip().splitlines()
            raise AnchorError(
                f"The anchor {self.name} failed at git {arguments[0]}: {said[-1] if said else problem}."
            ) from problem
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise AnchorError(f"The anchor {self.name} cannot be reached: {problem}.") from problem
        return done.stdout


def open_anchors(
    urls: Sequence[str], *, work_folder: Path, open_store: Callable[[str], Store]
) -> list[Anchor]:
    """The anchors that ``[pretrain_archive] anchors`` names. ``open_store`` opens an ``s3://`` URL."""
    return [_open(url, work_folder=work_folder, open_store=open_store) for url in urls]


def _open(url: str, *, work_folder: Path, open_store: Callable[[str], Store]) -> Anchor:
    parts = urlsplit(url)
    if parts.scheme == "file":
        return FileAnchor(Path(unquote(parts.path)))
    if parts.scheme == "s3":
        return ObjectAnchor(open_store(url), name=url)
    if parts.scheme.startswith("git+"):
        return GitAnchor(url.removeprefix("git+"), work_folder=work_folder)
    raise InputError("[pretrain_archive] anchors", url, "must begin with file://, s3:// or git+")
