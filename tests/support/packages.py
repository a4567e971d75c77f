"""A finished package for tests: the seeded run, closed, on a ledger in memory and a folder store."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.memory_ledger import MemoryLedger
from tests.support.seeded_run import seed_run

from pretrain_archive.domain.kinds import PackageWritten, RunClosed
from pretrain_archive.domain.records import Actor, Draft, Origin
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.package.writer import Writer, write_package
from pretrain_archive.storage.files import FileStore

ACTOR = Actor(type="task", name="archive_close")
ORIGIN = Origin(dag_id="pretraining_reference", dag_run_id="manual__1", task_id="archive_close")


@dataclass(frozen=True, kw_only=True)
class Built:
    """A package with what it was made from."""

    folder: Path
    key: Path
    run_uid: str
    ledger: Ledger
    store: FileStore
    written: PackageWritten


def memory_ledger() -> MemoryLedger:
    """A ledger whose times and ids are the same in every test run."""
    seconds, numbers = itertools.count(), itertools.count()
    return MemoryLedger(
        clock=lambda: f"2026-11-29T10:{(s := next(seconds)) // 60:02d}:{s % 60:02d}.000000Z",
        ids=lambda prefix: f"{prefix}_019a0000-0000-7000-8000-{next(numbers):012d}",
    )


def closing(run_uid: str) -> Callable[[PackageWritten], Sequence[Draft]]:
    """The close that goes into the same transaction as the statement."""

    def make(written: PackageWritten) -> Sequence[Draft]:
        payload = RunClosed(outcome="register", reason="approved", package_digest=written.digest)
        return [
            Draft(
                stream=run_uid,
                kind="run.closed",
                payload=payload.to_json(),
                actor=ACTOR,
                origin=ORIGIN,
                unique=f"closed:{run_uid}",
            )
        ]

    return make


def build(place: Path, **seed: Any) -> Built:
    """Seed a run below ``place`` and package it to ``place / "package"``."""
    ledger, store = memory_ledger(), FileStore(place / "store")
    # Another project's records lie around the run: proofs have to bridge them.
    seed_run(ledger, store, place / "other", run_uid="run_019a0000-0000-7000-8000-00000000000f", until="data")
    run_uid = seed_run(ledger, store, place, **seed)
    seed_run(ledger, store, place / "after", run_uid="run_019a0000-0000-7000-8000-0000000000ff", until="open")
    written = write_package(
        ledger,
        store,
        RunView.of(run_uid, ledger.records(streams=[run_uid])),
        folder=place / "package",
        writer=Writer(actor=ACTOR, origin=ORIGIN, verifier_key=ledger.verifier_key()),
        closing=closing(run_uid),
    )
    key = place / "ledger.pub"
    key.write_text(ledger.verifier_key() + "\n")
    return Built(
        folder=place / "package", key=key, run_uid=run_uid, ledger=ledger, store=store, written=written
    )


def run_verifier(
    folder: Path | bytes, *arguments: str, python: str = sys.executable, cwd: Path | None = None
) -> tuple[int, dict[str, Any]]:
    """Run the package's own verifier as a stranger would; (exit code, its JSON)."""
    script = bytes(folder) + b"/verify.py"
    done = subprocess.run(
        [python, "-I", "-S", script, "--json", *arguments],
        capture_output=True,
        timeout=120,
        cwd=cwd,
        check=False,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.returncode, json.loads(done.stdout)


def faults(report: dict[str, Any]) -> dict[str, str]:
    """The changed items: id → what was found."""
    return {item["id"]: item["found"] for item in report["items"] if item["verdict"] == "changed"}
