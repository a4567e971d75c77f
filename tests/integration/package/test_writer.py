"""Writing a package: whole or not at all, the same bytes again, no secrets, honest about evidence."""

from __future__ import annotations

import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.ledgers import Place
from tests.support.packages import ACTOR, ORIGIN, build, closing, faults, memory_ledger, run_verifier
from tests.support.seeded_run import seed_run

from pretrain_archive.domain.errors import AlreadyRecordedError, PackageError, RefusedError
from pretrain_archive.domain.kinds import NoteAdded, PackageWritten
from pretrain_archive.domain.records import Draft
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.migrate import migrate
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.package.evidence import Part
from pretrain_archive.package.writer import Writer, write_package
from pretrain_archive.storage.files import FileStore


def view_of(ledger: Ledger, run_uid: str) -> RunView:
    """The run as the ledger has it now."""
    return RunView.of(run_uid, ledger.records(streams=[run_uid]))


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


class Failing:
    """A ledger that works until ``seal`` and then breaks: the moment between statement and folder."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        if name == "seal":
            raise OSError("killed here")
        return getattr(self._ledger, name)


def test_real_ledger_gives_a_verified_package(tmp_path: Path) -> None:
    """Records, proofs and note of the SQL ledger hold under the verifier's own arithmetic."""
    migrate(f"sqlite:///{tmp_path / 'ledger.db'}")
    place = Place(url=f"sqlite:///{tmp_path / 'ledger.db'}", folder=tmp_path)
    ledger = place.open()
    store = FileStore(tmp_path / "store")
    run_uid = seed_run(ledger, store, tmp_path)

    written = write_package(
        ledger,
        store,
        view_of(ledger, run_uid),
        folder=tmp_path / "package",
        writer=Writer(actor=ACTOR, origin=ORIGIN, verifier_key=place.public.read_text().strip()),
        closing=closing(run_uid),
    )

    code, report = run_verifier(tmp_path / "package", "--key", str(place.public))
    assert (0, "verified") == (code, report["verdict"])
    assert "verified" == written.verdict
    last = view_of(ledger, run_uid).records[-2:]
    assert ["package.written", "run.closed"] == [record.kind for record in last]
    assert written.digest == last[1].payload["package_digest"]


def test_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    """Two runs with equal records in equal stores differ in nothing but the places they name."""
    one = build(tmp_path / "one")
    shutil.move(tmp_path / "one", tmp_path / "kept")
    two = build(tmp_path / "one")

    assert one.written == two.written
    assert content(tmp_path / "kept/package") == content(two.folder)


@pytest.mark.case("A05")
def test_retry_after_a_crash_completes_the_same_package(tmp_path: Path) -> None:
    """Killed between the signed statement and the folder: the retry adds no record and no second digest."""
    ledger, store = memory_ledger(), FileStore(tmp_path / "store")
    run_uid = seed_run(ledger, store, tmp_path)
    writer = Writer(actor=ACTOR, origin=ORIGIN, verifier_key=ledger.verifier_key())
    arguments = {"folder": tmp_path / "package", "writer": writer, "closing": closing(run_uid)}
    with pytest.raises(OSError, match="killed here"):
        write_package(Failing(ledger), store, view_of(ledger, run_uid), **arguments)
    assert not (tmp_path / "package").exists()
    records = len(ledger.log)

    first = write_package(ledger, store, view_of(ledger, run_uid), **arguments)
    again = write_package(ledger, store, view_of(ledger, run_uid), **arguments)

    assert first == again
    assert records == len(ledger.log)
    assert 3 == run_verifier(tmp_path / "package")[0]
    assert {"package", "store", "checkpoints"} == {path.name for path in tmp_path.iterdir()}


def test_two_closers_make_one_package(tmp_path: Path) -> None:
    """Whoever comes second with an old view is told so; with a fresh view it finds the same package."""
    ledger, store = memory_ledger(), FileStore(tmp_path / "store")
    run_uid = seed_run(ledger, store, tmp_path)
    old = view_of(ledger, run_uid)
    writer = Writer(actor=ACTOR, origin=ORIGIN, verifier_key=ledger.verifier_key())
    other = Writer(actor=ACTOR, origin=replace(ORIGIN, try_number=2), verifier_key=ledger.verifier_key())
    first = write_package(ledger, store, old, folder=tmp_path / "package", writer=writer)

    with pytest.raises(AlreadyRecordedError):
        write_package(ledger, store, old, folder=tmp_path / "package", writer=other)
    second = write_package(ledger, store, view_of(ledger, run_uid), folder=tmp_path / "package", writer=other)

    assert first == second
    assert str(tmp_path / "package") == first.location
    assert 1 == sum(record.kind == "package.written" for record in ledger.log)


def test_parallel_closes_make_one_package(tmp_path: Path) -> None:
    """Four tries at the same moment: each ends with the one package, and no folder is left beside it."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    migrate(url)
    seed = Place(url=url, folder=tmp_path)
    store = FileStore(tmp_path / "store")
    run_uid = seed_run(seed.open(), store, tmp_path)
    key, together = seed.public.read_text().strip(), threading.Barrier(4)

    def close(number: int) -> PackageWritten:
        ledger = Place(url=url, folder=tmp_path).open()
        origin = replace(ORIGIN, try_number=number)
        arguments = {
            "folder": tmp_path / "out/package",
            "writer": Writer(actor=ACTOR, origin=origin, verifier_key=key),
            "closing": closing(run_uid),
        }
        view = view_of(ledger, run_uid)
        together.wait(60)
        try:
            return write_package(ledger, store, view, **arguments)
        except AlreadyRecordedError:
            return write_package(ledger, store, view_of(ledger, run_uid), **arguments)

    with ThreadPoolExecutor(4) as pool:
        written = list(pool.map(close, range(1, 5)))

    assert 1 == len({package.digest for package in written})
    assert ["package"] == [path.name for path in (tmp_path / "out").iterdir()]
    assert 0 == run_verifier(tmp_path / "out/package", "--key", str(seed.public))[0]
    kinds = [record.kind for record in view_of(seed.open(), run_uid).records]
    assert (1, 1) == (kinds.count("package.written"), kinds.count("run.closed"))


def test_later_facts_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    """A note after the close does not touch the frozen package; a renewed one holds it and verifies."""
    built = build(tmp_path)
    before = content(built.folder)
    note = NoteAdded(topic="feedback", text="Works for archive drills")
    built.ledger.append(
        [Draft(stream=built.run_uid, kind="note.added", payload=note.to_json(), actor=ACTOR, origin=ORIGIN)]
    )
    view = view_of(built.ledger, built.run_uid)
    writer = Writer(actor=ACTOR, origin=ORIGIN, verifier_key=built.key.read_text().strip())

    frozen = write_package(built.ledger, built.store, view, folder=built.folder, writer=writer)
    renewed = write_package(
        built.ledger, built.store, view, folder=tmp_path / "renewed", writer=writer, renew=True
    )

    assert built.written == frozen
    assert before == content(built.folder)
    assert renewed.digest != frozen.digest
    assert (tmp_path / "renewed/records/000037-note.added.json").exists()
    assert 0 == run_verifier(tmp_path / "renewed", "--key", str(built.key))[0]


def test_place_that_is_taken_is_left_alone(tmp_path: Path) -> None:
    """A folder with other content is never overwritten."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package/mine.txt").write_text("mine")

    with pytest.raises(PackageError, match="nothing was overwritten"):
        build(tmp_path)

    assert {"mine.txt": b"mine"} == content(tmp_path / "package")


@pytest.mark.parametrize(
    ("secret", "kind"),
    [
        pytest.param("AKIA" + "ABCDEFGHIJKLMNOP", "AWS access key", id="AWS"),
        pytest.param("ghp_" + "a1B2" * 9, "GitHub token", id="GitHub"),
        pytest.param("postgresql://user:hunter2secret@db/x", "password in a URL", id="URL"),
        pytest.param("password=correct-horse-battery", "password or secret", id="assignment"),
        pytest.param("-----BEGIN PRIVATE KEY-----", "private key", id="private key"),
    ],
)
def test_secret_blocks_the_package(tmp_path: Path, secret: str, kind: str) -> None:
    """A secret in a record stops everything; the error names file and kind, never the secret."""
    ledger, store = memory_ledger(), FileStore(tmp_path / "store")
    run_uid = seed_run(ledger, store, tmp_path, objective=f"Use {secret} here")
    records = len(ledger.log)

    with pytest.raises(RefusedError) as caught:
        write_package(
            ledger,
            store,
            view_of(ledger, run_uid),
            folder=tmp_path / "package",
            writer=Writer(actor=ACTOR, origin=ORIGIN, verifier_key=ledger.verifier_key()),
        )

    assert f"records/000000-run.opened.json line 1: {kind}" in str(caught.value)
    assert secret not in str(caught.value)
    assert not (tmp_path / "package").exists()
    assert records == len(ledger.log)


def test_evidence_that_changed_is_not_copied_but_told(tmp_path: Path) -> None:
    """A report that no longer fits its digest becomes a reference that says changed; the package exits 1."""
    ledger, store = memory_ledger(), FileStore(tmp_path / "store")
    run_uid = seed_run(ledger, store, tmp_path)
    report = store.folder / f"runs/{run_uid}/quality.json"
    report.chmod(0o644)
    report.write_bytes(b"{}")
    (store.folder / f"runs/{run_uid}/split.json").unlink()

    written = write_package(
        ledger,
        store,
        view_of(ledger, run_uid),
        folder=tmp_path / "package",
        writer=Writer(actor=ACTOR, origin=ORIGIN, verifier_key=ledger.verifier_key()),
    )

    code, found = run_verifier(tmp_path / "package")
    assert (1, "changed") == (code, written.verdict)
    assert {"reference/000004-quality-report.json"} == set(faults(found))
    listed = {
        r["id"]: r["verdict"]
        for r in json.loads((tmp_path / "package/references.json").read_bytes())["references"]
    }
    assert "unrecorded" == listed["000003-split.json"]
    assert not (tmp_path / "package/evidence/000004-quality-report.json").exists()


@pytest.mark.parametrize("until", ["open", "data", "prepare", "training", "evaluation", "run"])
def test_run_that_ended_early_gets_an_honest_package(tmp_path: Path, until: str) -> None:
    """What was never recorded is unrecorded; the package of a failed run is complete all the same."""
    ledger, store = memory_ledger(), FileStore(tmp_path / "store")
    run_uid = seed_run(ledger, store, tmp_path, until=until)

    written = write_package(
        ledger,
        store,
        view_of(ledger, run_uid),
        folder=tmp_path / "package",
        writer=Writer(actor=ACTOR, origin=ORIGIN, verifier_key=ledger.verifier_key()),
    )

    code, report = run_verifier(tmp_path / "package")
    assert (3, "unrecorded") == (code, written.verdict)
    assert "gate/close" in {i["id"] for i in report["items"] if i["verdict"] == "unrecorded"}


def test_run_without_records_is_refused(tmp_path: Path) -> None:
    """There is nothing to package."""
    ledger = memory_ledger()

    with pytest.raises(PackageError, match="no records"):
        write_package(
            ledger,
            FileStore(tmp_path),
            RunView.of("run_x", []),
            folder=tmp_path / "package",
            writer=Writer(actor=ACTOR, origin=ORIGIN, verifier_key=ledger.verifier_key()),
        )


@pytest.mark.parametrize("record", ["first", "none"])
def test_a_digest_that_a_file_only_claims_is_found(tmp_path: Path, record: str) -> None:
    """A file that says which record names its digest is compared with that record, which has to be there."""
    ledger, store = memory_ledger(), FileStore(tmp_path / "store")
    run_uid = seed_run(ledger, store, tmp_path)
    view = view_of(ledger, run_uid)
    name = view.records[0].record_id if record == "first" else "rec_nowhere"
    claim = Part(path="evidence/claimed.json", data=b"{}", record=name, field="conf_digest")

    with pytest.raises(PackageError, match=r"does not verify: evidence/claimed\.json"):
        write_package(
            ledger, store, view, folder=tmp_path / "package", extra=[claim],
            writer=Writer(actor=ACTOR, origin=ORIGIN, verifier_key=ledger.verifier_key()),
        )  # fmt: skip


@pytest.mark.case("A05")
def test_a_package_that_stands_is_found_by_another_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A close that is cleared after an upgrade finds what was signed, though the page would be made otherwise now."""
    built = build(tmp_path)
    before, records = content(built.folder), len(list(built.ledger.records()))
    monkeypatch.setattr("pretrain_archive.package.content.render_index", lambda *_, **__: b"<html>new</html>")
    writer = Writer(
        actor=ACTOR, origin=replace(ORIGIN, try_number=2), verifier_key=built.key.read_text().strip()
    )

    again = write_package(
        built.ledger, built.store, view_of(built.ledger, built.run_uid), folder=built.folder, writer=writer,
        closing=closing(built.run_uid),
    )  # fmt: skip

    assert built.written == again
    assert before == content(built.folder)
    assert records == len(list(built.ledger.records()))


def test_a_long_close_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records read, files made and scanned, files written, check: lines for the task's log."""
    monkeypatch.setattr("pretrain_archive.package.assembly.SAY_EVERY", -1.0)
    ledger, store = memory_ledger(), FileStore(tmp_path / "store")
    run_uid = seed_run(ledger, store, tmp_path)
    said: list[str] = []
    writer = Writer(actor=ACTOR, origin=ORIGIN, verifier_key=ledger.verifier_key(), say=said.append)
    written = write_package(
        ledger, store, view_of(ledger, run_uid), folder=tmp_path / "package", writer=writer
    )

    assert f"{written.files} files are made and hold no secret that a scan finds" in said
    total = written.files + 4
    assert f"{total} of {total} files of the package written" in said
    assert said[-1].startswith(f"{total} files are on the disk")


@pytest.mark.parametrize("name", ["records/000003-split.created.json", "index.html", "added.txt"])
def test_a_package_that_was_altered_where_it_stands_is_not_taken_for_the_signed_one(
    tmp_path: Path, name: str
) -> None:
    """A close that is repeated says that something else is there; it neither believes nor replaces it."""
    built = build(tmp_path)
    (built.folder / name).write_bytes(b"{}")
    writer = Writer(actor=ACTOR, origin=ORIGIN, verifier_key=built.key.read_text().strip())

    with pytest.raises(PackageError, match="nothing was overwritten"):
        write_package(
            built.ledger,
            built.store,
            view_of(built.ledger, built.run_uid),
            folder=built.folder,
            writer=writer,
        )
    assert b"{}" == (built.folder / name).read_bytes()


@pytest.mark.case("A05")
def test_a_close_that_was_killed_before_an_upgrade_is_completed_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stated bytes cannot be made again: the close stays, and a further package that verifies says what holds."""
    ledger, store = memory_ledger(), FileStore(tmp_path / "store")
    run_uid = seed_run(ledger, store, tmp_path)
    writer = Writer(actor=ACTOR, origin=ORIGIN, verifier_key=ledger.verifier_key())
    with pytest.raises(OSError, match="killed here"):
        write_package(
            Failing(ledger), store, view_of(ledger, run_uid), folder=tmp_path / "package", writer=writer,
            closing=closing(run_uid),
        )  # fmt: skip
    monkeypatch.setattr("pretrain_archive.package.content.render_index", lambda *_, **__: b"<html>new</html>")
    later = replace(writer, origin=replace(ORIGIN, try_number=2))

    first, again = [
        write_package(
            ledger,
            store,
            view_of(ledger, run_uid),
            folder=tmp_path / "package",
            writer=later,
            closing=closing(run_uid),
        )
        for _ in range(2)
    ]

    kinds = [record.kind for record in view_of(ledger, run_uid).records]
    assert (2, 1) == (kinds.count("package.written"), kinds.count("run.closed"))
    assert first == again
    assert 3 == run_verifier(tmp_path / "package")[0]
    assert b"<html>new</html>" == (tmp_path / "package/index.html").read_bytes()
