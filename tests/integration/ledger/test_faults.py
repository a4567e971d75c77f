"""Killed or failing at any file syscall of append, seal and anchor: no violation, and no duplicate on retry."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support import faults
from tests.support.ledgers import Place, draft, edge

from pretrain_archive.ledger.anchors import FileAnchor

pytestmark = pytest.mark.forks

EARLIER = 3


def new_place(folder: Path, template: Path) -> Place:
    """A ledger with a few sealed records, and one unsealed."""
    folder.mkdir()
    shutil.copy(template, folder / "ledger.db")
    place = Place(url=f"sqlite:///{folder}/ledger.db", folder=folder)
    ledger = place.open()
    ledger.append([draft(i) for i in range(EARLIER - 1)])
    ledger.seal()
    ledger.append([draft(EARLIER - 1)])
    ledger.close()
    return place


def database_paths(place: Place) -> list[Path]:
    """What SQLite touches: the file, its journal, and the folder that it is removed from."""
    return [place.folder / "ledger.db", place.folder / "ledger.db-journal", place.folder]


def anchor_paths(place: Place) -> list[Path]:
    """What the anchor and the seal lock touch."""
    folder = place.folder / "anchors"
    return [folder / "checkpoints.jsonl", folder, place.folder / "ledger.db.seal"]


def append(place: Place) -> Callable[[], None]:
    """A step that appends two records with edges."""

    def work() -> None:
        ledger = place.open()
        ledger.append([draft(i, edges=(edge(f"run:{i}", "source:a"),)) for i in (100, 101)])

    return work


def seal(place: Place) -> Callable[[], None]:
    """A step that seals."""

    def work() -> None:
        assert place.open().seal().size == EARLIER
        newest = place.anchor.latest()
        assert newest is not None
        assert newest.size == EARLIER

    return work


def check_append(place: Place, *, done: bool) -> None:
    """The log is whole: all of the batch or nothing of it, and nothing twice."""
    ledger = place.open()
    found = [record.ordinal for record in ledger.records()]
    expected = [*range(EARLIER), 100, 101]
    assert found == expected if done else found in (expected, expected[:EARLIER])
    result = ledger.audit()
    assert ("verified", ()) == (result.verdict, result.findings)
    ledger.close()


def check_seal(place: Place, *, done: bool) -> None:
    """Checkpoints in the anchor and in the database only ever agree with the log."""
    ledger = place.open()
    result = ledger.audit()
    assert ("verified", ()) == (result.verdict, result.findings)
    sizes = [entry.size for entry in place.anchor.entries()]
    assert sizes == [EARLIER - 1, EARLIER] if done else sizes in ([EARLIER - 1], [EARLIER - 1, EARLIER])
    ledger.close()


@pytest.mark.parametrize(
    ("step", "paths", "check", "needed"),
    [
        pytest.param(
            append,
            database_paths,
            check_append,
            {"pwrite64": 3, "fdatasync": 3, "unlink": 1, "openat": 1},
            id="append",
        ),
        pytest.param(
            seal, database_paths, check_seal, {"pwrite64": 3, "fdatasync": 3, "unlink": 1}, id="seal"
        ),
        pytest.param(
            seal, anchor_paths, check_seal, {"write": 1, "fsync": 2, "openat": 1, "flock": 1}, id="anchor"
        ),
    ],
)
def test_no_violation_and_no_duplicate(
    tmp_path: Path,
    sqlite_template: Path,
    step: Callable[[Place], Callable[[], None]],
    paths: Callable[[Place], list[Path]],
    check: Callable[..., None],
    needed: dict[str, int],
) -> None:
    """Killed and failing at every single file syscall, the state is whole and the retry does it once."""
    first = new_place(tmp_path / "observed", sqlite_template)
    seen = faults.observe(step(first), paths=paths(first))
    assert all(seen[name] >= least for name, least in needed.items()), seen
    hit = 0
    for number, fault in enumerate(faults.plan(seen, each=None)):
        place = new_place(tmp_path / str(number), sqlite_template)
        outcome = faults.run(step(place), paths=paths(place), fault=fault)
        hit += outcome.code != 0
        try:
            check(place, done=outcome.code == 0)
            retry = faults.run(step(place), paths=paths(place))
            assert 0 == retry.code, retry.text
            check(place, done=True)
        except AssertionError as problem:
            raise AssertionError(f"after {fault} ({outcome.code}): {outcome.text}") from problem
        shutil.rmtree(place.folder)
    assert hit > len(seen), "the faults must really have hit"


def test_full_disk_is_named_with_the_bytes_needed(tmp_path: Path, sqlite_template: Path) -> None:
    """ENOSPC is an error that names the database and how much was to be written."""
    place = new_place(tmp_path / "x", sqlite_template)
    fault = faults.Fault(syscall="pwrite64", action="ENOSPC", when=1)
    outcome = faults.run(append(place), paths=database_paths(place), fault=fault)
    assert 1 == outcome.code
    assert "ledger.db is full" in outcome.text
    assert "bytes were to be written and nothing was" in outcome.text


def test_anchor_failure_fails_no_seal(tmp_path: Path, sqlite_template: Path) -> None:
    """An anchor that cannot be written is made up for by the next seal."""
    place = new_place(tmp_path / "x", sqlite_template)
    broken = FileAnchor(place.folder / "broken")
    (place.folder / "broken" / "checkpoints.jsonl").mkdir(parents=True)
    ledger = place.open(anchors=(broken, place.anchor))
    assert EARLIER == ledger.seal().size
    (place.folder / "broken" / "checkpoints.jsonl").rmdir()
    ledger.seal()
    assert broken.latest() == place.anchor.latest()
