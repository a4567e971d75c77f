"""A run that is to serve, walked to its release with a key and a registry that is down."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.main_line import Line, line_policy
from tests.support.mlflow_server import free_port
from tests.support.released import model_key

from pretrain_archive.artifacts.export_mlflow import MlflowRegistry
from pretrain_archive.artifacts.signing import read_public_key
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.ledger.sql import SqlLedger
from pretrain_archive.services import closing
from pretrain_archive.services.release_reading import Verified, find_release, verify_release
from pretrain_archive.services.releasing import Releasing
from pretrain_archive.services.serving_checks import record_serving

USE = {"intended_use": "product", "usage_scope": ["product"], "serving": ["latency: p95 below 200 ms"]}
OTHERS = ("resources", "concurrency", "safety_boundary", "monitoring")


@dataclass
class Walk:
    """A run that is to serve, up to its signed close gate; its registry is down."""

    line: Line
    key: Path
    refused: str
    stale: str
    closed: closing.Closed
    beside: closing.Closed

    def close(self, *, try_number: int, key: Path | None = None) -> closing.Closed:
        """Close again."""
        return close(self.line, key or self.key, try_number=try_number)

    @property
    def public(self) -> str:
        """The key from outside."""
        return read_public_key(self.key.with_suffix(".pub"))

    def verify(self, **more) -> Verified:
        """Verify the release."""
        return verify_release(self.line.store, find_release(self.line.ledger, "line@1"), **more)

    def files(self) -> dict[str, bytes]:
        """Every file of the package."""
        folder = self.closed.folder
        return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def close(
    line: Line, key: Path | None, *, try_number: int = 1, ledger: SqlLedger | None = None
) -> closing.Closed:
    """Close with a key and a registry that is down."""
    registry = MlflowRegistry(f"http://127.0.0.1:{free_port()}", timeout=5)
    shelf = closing.Shelf(
        packages_folder=line.folder / "packages", verifier_key=(line.folder / "ledger.pub").read_text().strip(),
        policies=lambda _: line.policy, releasing=Releasing(signing_key=key, registry=registry),
    )  # fmt: skip
    caller = line.caller("archive_close", try_number=try_number)
    return closing.close_archive(ledger or line.ledger, line.store, caller, line.run_uid, shelf)


def walked(folder: Path) -> Walk:
    """One run from a folder to a release, closed by two tasks at the same moment."""
    policy = line_policy(min_documents="5", max_unclean_rate="1.0", usage_scope='["product"]')
    line, key = Line(folder=folder, policy=policy), model_key(folder / "model.key")
    line.to_signed_launch(**USE)
    line.launch()
    line.register()
    line.evaluate()
    line.sign("run")
    refused = str(line.answer("close", line.ask("close")).refusal)
    report = folder / "load-test.txt"
    report.write_text("p95 170 ms at 32 requests")

    def check(aspect: str, evidence: Path | None = None) -> None:
        caller = line.caller("check", map_index=len(line.view().records))
        record_serving(
            line.ledger, line.store, caller, line.run_uid, aspect=aspect, value="as agreed", by="dana",
            evidence=evidence,
        )  # fmt: skip

    for aspect in OTHERS:
        check(aspect)
    line.sign("close")
    check("latency", report)
    with pytest.raises(RefusedError) as stale:
        close(line, key)
    line.sign("close")
    return Walk(line, key, refused, f"{stale.value} {stale.value.reasons}", *both(line, key))


def both(line: Line, key: Path) -> list[closing.Closed]:
    """Two closes at the same moment, each with a connection of its own to the ledger."""
    start, done, faults = threading.Barrier(2), [], []

    def work(try_number: int) -> None:
        own = line.open_ledger()
        start.wait()
        try:
            done.append(close(line, key, try_number=try_number, ledger=own))
        except Exception as error:  # noqa: BLE001 - every fault of a thread is the test's
            faults.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == faults
    return done
