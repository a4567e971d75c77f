"""A world with one thing of every kind to delete, and a pass over it that dies before the step whose number is given.

The pass runs in a process of its own that kills itself (SIGKILL). Every append to the ledger is a step before it and
one after it; so is every write to a store, with one more in the middle of each deletion of many.
"""

from __future__ import annotations

import io
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.artifact_run import ACTOR, CONFIGURATION, Run
from tests.support.deleting import PLAN, Free, Stepping

from pretrain_archive.artifacts.location import to_location
from pretrain_archive.data.snapshots import create_snapshot
from pretrain_archive.domain import kinds
from pretrain_archive.domain.identity import text_to_path
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.deletion import Applied, Deletion
from pretrain_archive.retention.folders import FolderFiles
from pretrain_archive.retention.objects import StoreFiles
from pretrain_archive.retention.subjects_folders import WorkFolders
from pretrain_archive.retention.subjects_snapshots import Snapshots
from pretrain_archive.retention.trees import TreeFiles, measure
from pretrain_archive.storage.bulk import delete_many, versions_of
from pretrain_archive.storage.files import FileStore
from pretrain_archive.storage.s3 import S3Store

DIGEST = "sha256:" + "a" * 64
Step = Callable[[str], None]


def quiet(name: str) -> None:
    """A step that nothing happens at."""
    del name


@dataclass(kw_only=True)
class World:
    """A checkpoint that goes, one of which the optimizer goes, one in a bucket, a data copy and a snapshot.

    ``reset`` brings everything back as it was first. With a ``remote`` store, which keeps versions, only what lies
    there is deleted: each step costs a request.
    """

    root: Path
    remote: S3Store | None = None
    items: list[dict[str, Any]] = field(default_factory=list)
    held: int = 0
    uid: str = ""
    _objects: list[tuple[str, bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The ledger's address."""
        return f"sqlite:///{self.root / 'live' / 'ledger.db'}"

    @property
    def bucket(self) -> S3Store | FileStore:
        """Where the checkpoint in a store lies."""
        return self.remote or FileStore(self.root / "live" / "bucket")

    @property
    def store(self) -> FileStore:
        """The store with the snapshots."""
        return FileStore(self.root / "live" / "store")

    @property
    def work(self) -> Path:
        """The work folder."""
        return self.root / "live" / "work"

    def make(self) -> World:
        """Build it once and keep a copy."""
        (self.root / "live").mkdir(parents=True)
        ledger = open_ledger(self.url, signing_key=None, anchors=(), create=True)
        run = Run(ledger, self.store, self.work / "checkpoints").open()
        self.uid = run.uid
        facts = [run.checkpoint(step) for step in (100, 300)]
        copy = self.work / "runs" / run.uid / "data"
        (copy / "deep").mkdir(parents=True)
        (copy / "deep" / "blob").write_bytes(b"x" * 5000)
        (copy / "link").symlink_to(self.root)
        source = self.root / "source"
        source.mkdir()
        (source / "shared").write_bytes(b"s" * 900)
        for number in (1, 2):
            (source / "own").write_bytes(bytes([number]) * 700)
            create_snapshot(
                self.store, ledger, name="corpus", source_root=source, mode="copy", actor=ACTOR,
                origin=Run.origin(),
            )  # fmt: skip
        remote = self._remote(run, facts[0])
        run.close()
        self._plan(facts, copy, remote)
        shutil.copytree(self.root / "live", self.root / "kept", symlinks=True)
        self.held = self.bytes_held()
        return self

    def reset(self) -> Ledger:
        """As it was first."""
        shutil.rmtree(self.root / "live")
        shutil.copytree(self.root / "kept", self.root / "live", symlinks=True)
        if self.remote is not None:
            delete_many(self.remote, list(versions_of(self.remote, "")))
            self._fill()
        return self.ledger()

    def ledger(self) -> Ledger:
        """The ledger, opened anew."""
        return open_ledger(self.url, signing_key=None, anchors=())

    def run_pass(self, step: Step = quiet, *, items: list[dict[str, Any]] | None = None) -> Applied:
        """One pass over the plan, or over other ``items``."""
        ledger = self.ledger()
        append = ledger.append

        def appending(drafts):
            step("before append")
            records = append(drafts)
            step("after append")
            return records

        ledger.append = appending
        work = WorkFolders(
            work=self.work, runs=self.work / "runs", packages=self.work / "packages",
            files=TreeFiles(on_step=step),
        )  # fmt: skip
        finders = (work, Snapshots(store=Stepping(self.store, step)))
        places = (StoreFiles(Stepping(self.bucket, step)), FolderFiles(on_step=step))
        approval = kinds.RetentionApproved(plan_digest=PLAN, approved_by="bob", person=True, reason="old")
        deletion = Deletion(
            ledger=ledger, judge=Free(), places=places, approval=approval, actor=ACTOR, origin=Run.origin(),
            undertakers=finders,
        )  # fmt: skip
        return deletion.run(self.items if items is None else items)

    def die_at(self, number: int) -> tuple[bool, list[str]]:
        """Run a pass in a process that kills itself before step ``number``; whether it died, and the steps it told."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(reader)
                self.run_pass(_Countdown(number, writer))
                code = 0
            finally:
                os._exit(code)
        os.close(writer)
        with os.fdopen(reader, "r") as told:
            steps = told.read().splitlines()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in {0, -signal.SIGKILL}, (status, steps)
        return status != 0, steps

    def there(self) -> Iterator[str]:
        """The references of the plan's things of which any byte is there now."""
        for item in self.items:
            ref, folder = (
                item["id"],
                Path(os.fsdecode(text_to_path(item["location"].removeprefix("file://")))),
            )
            if ref.startswith("snapshot:"):
                own = [e.key for e in versions_of(self.store, "") if not e.key.startswith("retention/")]
                gone = "snapshots/corpus/1.json" not in own and len(own) == 4
                found = not gone
            elif item["location"] == self.bucket.location("runs/x/step_100"):
                found = any(versions_of(self.bucket, "runs/"))
            elif item["action"] == "delete_parts":
                found = (folder / "optimizer.safetensors").exists()
            else:
                found = os.path.lexists(folder)
            if found:
                yield ref

    def journals(self) -> list[str]:
        """What passes left for later ones."""
        kept = [str(path) for path in (self.root / "live").rglob("*.retention.json*")]
        objects = [*versions_of(self.bucket, "retention/"), *versions_of(self.store, "retention/")]
        return kept + [entry.key for entry in objects if not entry.marker]

    def bytes_held(self) -> int:
        """Everything that the plan's things hold, over all versions, journals left out."""
        below = sum(
            measure(self.work / name).held for name in ("checkpoints", "runs") if (self.work / name).exists()
        )
        stored = sum(
            e.size for s in (self.store, self.bucket) for e in versions_of(s, "") if "journal" not in e.key
        )
        return below + stored

    def _remote(self, run: Run, fact: kinds.CheckpointRegistered) -> kinds.CheckpointRegistered:
        for file in fact.files:
            data = (self.work / "checkpoints" / "step_00000100" / file.path).read_bytes()
            self._objects += [
                (f"runs/x/step_100/{file.path}", b"older"),
                (f"runs/x/step_100/{file.path}", data),
            ]
        self._fill()
        changes = {"checkpoint_id": "ckpt_remote", "location": self.bucket.location("runs/x/step_100")}
        remote = fact.model_copy(update={**changes, "configuration_digest": CONFIGURATION})
        run.append(remote, attempt=1)
        return remote

    def _fill(self) -> None:
        for key, data in self._objects:
            if self.remote is None:
                self.bucket.delete(key)
                self.bucket.put_if_absent(key, io.BytesIO(data))
                continue
            self.bucket.client.put_object(Bucket=self.bucket.bucket, Key=self.bucket.prefix + key, Body=data)

    def _plan(self, facts: list[Any], copy: Path, remote: kinds.CheckpointRegistered) -> None:
        first, third = facts
        for fact, action in (
            (first, "delete"),
            (remote, "delete"),
            (third, "delete_parts"),
        ):
            self.items.append(
                self._item(f"checkpoint:{fact.checkpoint_id}", "checkpoint", fact.location, action)
            )
        tree = self._item(f"temporary:{self.uid}/data@{'0' * 12}", "temporary", to_location(copy), "delete")
        snapshot = self._item(
            "snapshot:corpus@1", "snapshot", self.store.location("snapshots/corpus/1.json"), "delete"
        )
        self.items += [tree, snapshot]
        self.items[2]["parts"] = ["optimizer"]
        if self.remote is not None:
            self.items = [item for item in self.items if item["location"] == remote.location]

    def _item(self, ref: str, kind: str, location: str, action: str) -> dict[str, Any]:
        return {
            "id": ref, "kind": kind, "class": kind, "action": action, "reason": "old", "bytes": 1, "run": self.uid,
            "digest": DIGEST, "location": location, "policy_digest": None,
        }  # fmt: skip


class _Countdown:
    """Tells each step and kills the process before the one whose number was given."""

    def __init__(self, number: int, writer: int) -> None:
        self._left, self._writer = number, writer

    def __call__(self, name: str) -> None:
        os.write(self._writer, f"{name}\n".encode())
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1
