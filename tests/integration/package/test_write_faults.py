"""Kills, EIO and ENOSPC at the syscalls of package writing: never half-visible, complete after a retry."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.faults import observe, plan, require_strace, run
from tests.support.ledgers import Place
from tests.support.packages import ACTOR, ORIGIN, closing
from tests.support.seeded_run import seed_run

from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.migrate import migrate
from pretrain_archive.package.verify import parse_key, verify
from pretrain_archive.package.writer import Writer, write_package
from pretrain_archive.storage.files import FileStore

pytestmark = pytest.mark.forks


def prepare(folder: Path) -> str:
    """A seeded run on a real SQLite ledger in ``folder``."""
    url = f"sqlite:///{folder / 'ledger.db'}"
    migrate(url)
    place = Place(url=url, folder=folder)
    run_uid = seed_run(place.open(), FileStore(folder / "store"), folder)
    for ledger in place.opened:
        ledger.close()
    return run_uid


def writing(folder: Path, run_uid: str) -> Callable[[], None]:
    """Write the package, as a fresh process would."""

    def work() -> None:
        place = Place(url=f"sqlite:///{folder / 'ledger.db'}", folder=folder)
        ledger = place.open()
        write_package(
            ledger,
            FileStore(folder / "store"),
            RunView.of(run_uid, ledger.records(streams=[run_uid])),
            folder=folder / "out/package",
            writer=Writer(actor=ACTOR, origin=ORIGIN, verifier_key=place.public.read_text().strip()),
            closing=closing(run_uid),
        )

    return work


def statements(folder: Path, run_uid: str) -> list[str]:
    """The closing records in the ledger."""
    place = Place(url=f"sqlite:///{folder / 'ledger.db'}", folder=folder)
    ledger = place.open()
    found = [r.kind for r in ledger.records(streams=[run_uid], kinds=["package.written", "run.closed"])]
    ledger.close()
    return found


@pytest.mark.timeout(1200)
def test_every_fault_leaves_nothing_half_and_the_retry_completes(tmp_path: Path) -> None:
    """At each place: no visible folder or a verified one; then one retry, one statement, one package."""
    require_strace()
    seed = tmp_path / "seed"
    seed.mkdir()
    run_uid = prepare(seed)
    place = tmp_path / "case"

    def fresh() -> None:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(seed, place)

    fresh()
    work = writing(place, run_uid)
    part = place / "out/.package.1.part"
    names = ["", "records", "evidence", "manifest.json", "index.html", "verify.py", "checkpoint.txt"]
    names += ["proofs.json", "records/000000-run.opened.json", "evidence/metrics.csv"]
    paths = [place / "out", place / "out/package", *(part / name if name else part for name in names)]
    cases = plan(observe(work, paths=paths), each=2)
    assert {"write", "fsync", "rename", "mkdir"} <= {case.syscall for case in cases}
    key = parse_key((seed / "ledger.pub").read_bytes())

    hit = 0
    for case in cases:
        fresh()
        outcome = run(work, paths=paths, fault=case)
        package = place / "out/package"
        if package.exists():
            assert "verified" == verify(str(package), key=key)["verdict"], case
        hit += outcome.code != 0

        again = run(work, paths=paths)

        assert 0 == again.code, (case, again.text)
        assert "verified" == verify(str(package), key=key)["verdict"], case
        assert ["package"] == [path.name for path in (place / "out").iterdir()], case
        assert ["package.written", "run.closed"] == statements(place, run_uid), case
    assert hit > len(cases) // 2
