"""Values of other types in a package: the item is changed, the other checks go on, the report is JSON."""

from __future__ import annotations

import gc
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.forgery import forge, places, put
from tests.support.packages import Built, faults, run_verifier

from pretrain_archive.package import verify

pytestmark = pytest.mark.case("A03")
CHECKPOINT = "records/000021-checkpoint.registered.json"
DECISION = "records/000008-gate.decision.json"
ODD = [None, True, 5, -1, 2**70, 1e300, "", "x\x00y", "\ud800", "file://[", [], [1], [[]], {}, {"a": []}]


def record(folder: Path, kind: str) -> str:
    """The path of the last record of a kind."""
    return str(max((folder / "records").glob(f"*-{kind}.json")).relative_to(folder))


@pytest.mark.parametrize(
    ("kind", "place", "value"),
    [
        pytest.param("gate.decision", ("record_id",), [1], id="record id a list"),
        pytest.param("gate.decision", ("record_id",), {}, id="record id an object"),
        pytest.param("gate.dossier", ("sequence",), "x", id="sequence a text"),
        pytest.param("gate.dossier", ("sequence",), None, id="sequence null"),
        pytest.param("gate.dossier", ("sequence",), [], id="sequence a list"),
        pytest.param("gate.dossier", ("sequence",), True, id="sequence a truth value"),
        pytest.param("checkpoint.registered", ("payload", "checkpoint_id"), [1], id="checkpoint id a list"),
        pytest.param("checkpoint.registered", ("payload", "checkpoint_id"), {}, id="checkpoint id an object"),
    ],
)
def test_record_of_other_types(
    built: Built, copy: Callable[[], Path], kind: str, place: tuple[str, ...], value: object
) -> None:
    """The record is named; a fault elsewhere is still found."""
    folder = copy()
    path = record(folder, kind)
    forge(folder, path, put(place, value))
    (folder / "index.html").write_bytes(b"other")

    code, report = run_verifier(built.folder, str(folder))

    assert 1 == code
    assert {path, "index.html"} <= faults(report).keys()


@pytest.mark.parametrize("eligible", [5, True, 1e300, "bob and all others", {"bob": 1}, None])
def test_who_may_sign_is_a_list(built: Built, copy: Callable[[], Path], eligible: object) -> None:
    """A number is no list, and a text that holds a name is none either."""
    folder = copy()
    forge(folder, record(folder, "gate.dossier"), put(("payload", "eligible"), eligible))

    _, report = run_verifier(built.folder, str(folder))

    assert type(eligible).__name__ in faults(report)["gate/close"]


@pytest.mark.parametrize("kind", ["candidate.named", "evaluation.reported", "release.made"])
@pytest.mark.parametrize("value", [[1], {"a": []}])
def test_result_that_names_no_text(built: Built, copy: Callable[[], Path], kind: str, value: object) -> None:
    """The checkpoint of a result is named by a text; the result is the changed item."""
    folder = copy()
    forge(folder, record(folder, kind), put(("payload", "checkpoint_id"), value))

    _, report = run_verifier(built.folder, str(folder))

    found = {name.partition("/")[0]: text for name, text in faults(report).items()}
    assert type(value).__name__ in found[kind.partition(".")[0]]


@pytest.mark.parametrize("size", [60 << 30, 1 << 40], ids=["60 GB", "1 TB"])
def test_listed_giant_is_not_read(built: Built, copy: Callable[[], Path], size: int) -> None:
    """A sparse file whose size the manifest gives truly: too large to be read, at once."""
    folder = copy()
    os.truncate(folder / "README.txt", size)

    def grow(manifest: Any) -> Any:
        next(line for line in manifest["files"] if line["path"] == "README.txt")["size"] = size
        return manifest

    manifest = folder / "manifest.json"
    manifest.write_bytes(json.dumps(grow(json.loads(manifest.read_bytes()))).encode())

    _, report = run_verifier(built.folder, str(folder))

    assert "are not read" in faults(report)["README.txt"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("location", "file://[", id="address"),
        pytest.param("location", 5, id="address a number"),
        pytest.param("files", 5, id="files a number"),
        pytest.param("files", [5], id="a file a number"),
        pytest.param("files", [{}], id="a file without keys"),
        pytest.param("files", {"a": 1}, id="files an object"),
        pytest.param("size", "1", id="size a text"),
        pytest.param("more", 1, id="a key too many"),
    ],
)
def test_reference_of_other_types(built: Built, copy: Callable[[], Path], field: str, value: object) -> None:
    """The reference or the list is named; the references beside it are still looked at."""
    folder = copy()
    forge(folder, "references.json", put(("references", 0, field), value))
    listed = json.loads((folder / "references.json").read_bytes())["references"]

    code, report = run_verifier(built.folder, "--pointers", str(folder))

    ids = {item["id"] for item in report["items"]}
    assert 1 == code
    assert {"references.json", f"reference/{listed[0]['id']}"} & faults(report).keys()
    assert f"reference/{listed[1]['id']}" in ids


@pytest.mark.parametrize(
    ("path", "place", "value"),
    [
        pytest.param("proofs.json", ("more",), 1, id="proofs key"),
        pytest.param("proofs.json", ("hashes",), {}, id="proofs hashes an object"),
        pytest.param("proofs.json", ("size",), 1.0, id="proofs size a fraction"),
        pytest.param("proofs.json", ("leaves", 0, 0), False, id="proofs position a truth value"),
        pytest.param("manifest.json", ("more",), 1, id="manifest key"),
        pytest.param("manifest.json", ("records",), True, id="manifest count a truth value"),
        pytest.param("manifest.json", ("records",), -1, id="manifest count negative"),
        pytest.param("manifest.json", ("run_uid",), {}, id="manifest run an object"),
        pytest.param("manifest.json", ("verifier_key",), "\ud800", id="manifest key not UTF-8"),
        pytest.param("manifest.json", ("files", 0, "more"), 1, id="line key"),
        pytest.param("manifest.json", ("files", 0, "size"), True, id="line size a truth value"),
        pytest.param("references.json", ("more",), 1, id="references key"),
        pytest.param("references.json", ("format",), "other", id="references format"),
    ],
)  # fmt: skip
def test_file_with_other_keys_or_types(
    built: Built, copy: Callable[[], Path], path: str, place: tuple[Any, ...], value: object
) -> None:
    """No byte of these files is free: exactly the keys and types of their format."""
    folder = copy()
    forge(folder, path, put(place, value))

    code, report = run_verifier(built.folder, str(folder))

    assert 1 == code
    assert path in faults(report)


def test_hashes_as_object_where_no_hash_is_needed(tmp_path: Path) -> None:
    """A log of this run alone needs no further nodes; another empty value there is a fault."""
    from tests.support.packages import ACTOR, ORIGIN, closing, memory_ledger
    from tests.support.seeded_run import seed_run

    from pretrain_archive.domain.run_view import RunView
    from pretrain_archive.package.writer import Writer, write_package
    from pretrain_archive.storage.files import FileStore

    ledger, store = memory_ledger(), FileStore(tmp_path / "store")
    run_uid = seed_run(ledger, store, tmp_path)
    view = RunView.of(run_uid, ledger.records(streams=[run_uid]))
    writer = Writer(actor=ACTOR, origin=ORIGIN, verifier_key=ledger.verifier_key())
    folder = tmp_path / "package"
    write_package(ledger, store, view, folder=folder, writer=writer, closing=closing(run_uid))
    assert [] == json.loads((folder / "proofs.json").read_bytes())["hashes"]
    forge(folder, "proofs.json", put(("hashes",), {}))

    code, report = run_verifier(folder)

    assert 1 == code
    assert "proofs.json" in faults(report)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda raw: raw + "\u2014 other AAAA\n".encode(), id="a second signature"),
        pytest.param(lambda raw: raw.replace(b"\n\n", b"\nmore\n\n"), id="a fourth line"),
        pytest.param(lambda raw: raw.replace(b"\n", b"\r\n"), id="other line ends"),
        pytest.param(lambda raw: raw.rstrip(b"\n"), id="no line end"),
        pytest.param(lambda raw: raw + b"\n", id="an empty line"),
    ],
)
def test_note_with_something_more(
    built: Built, copy: Callable[[], Path], change: Callable[[bytes], bytes]
) -> None:
    """The checkpoint note has one form."""
    folder = copy()
    note = folder / "checkpoint.txt"
    note.write_bytes(change(note.read_bytes()))

    assert "checkpoint.txt" in faults(run_verifier(built.folder, str(folder))[1])


@pytest.mark.parametrize(
    "name",
    [b"extra", b"records/extra", b"extra/inner", b"\xff\n", b"evidence/.hidden"],
    ids=["beside", "among the records", "nested", "odd name", "hidden"],
)
def test_empty_folder_is_reported(built: Built, copy: Callable[[], Path], name: bytes) -> None:
    """A folder that holds nothing was not signed either."""
    folder = copy()
    Path(os.fsdecode(bytes(folder) + b"/" + name)).mkdir(parents=True)

    code, report = run_verifier(built.folder, str(folder))

    assert (1, {"an empty folder"}) == (code, set(faults(report).values()))
    assert verify.show(name) in faults(report)


def test_unexpected_error_is_a_finding(
    built: Built, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever breaks inside a check: its item is changed, and the others are still there."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("broken on purpose")

    for name in ("check_decision", "check_pointer", "check_claim", "compare_listing"):
        with monkeypatch.context() as patch:
            patch.setattr(verify.Verifier, name, broken)
            code = verify.main(["--json", str(built.folder)])
        report = json.loads(capsys.readouterr().out)
        gc.enable()
        assert 1 == code
        assert {"ZeroDivisionError: broken on purpose"} <= set(faults(report).values()), name
        assert report["counts"]["verified"] > 20, name


def test_findings_of_a_hostile_package_are_bounded(copy: Callable[[], Path]) -> None:
    """Neither a giant text nor a million faults of one item make a giant report."""
    folder = copy()

    def fill(manifest: Any) -> Any:
        manifest["files"] += [{"path": "x" * 5000 + " ", "size": 1, "sha256": "0" * 64}] * 5000
        return manifest

    forge(folder, "manifest.json", fill)

    assert 500_000 > len(json.dumps(verify.verify(str(folder))))


def test_any_value_anywhere(built: Built, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Hundreds of packages with one value replaced, hashed again without the key: exit 1 and valid JSON."""
    rng = random.Random(20261129)
    paths = [p.relative_to(built.folder) for p in sorted((built.folder / "records").iterdir())]
    names = ["manifest.json", "proofs.json", "references.json"] * 15 + [str(path) for path in paths] * 2
    folder = tmp_path / "package"
    shutil.copytree(built.folder, folder)
    missed, tried = [], 0
    for name in names:
        before = json.loads((built.folder / name).read_bytes())
        for place in rng.sample(list(places(before)), k=3):
            value = rng.choice(ODD)
            shutil.copytree(built.folder, folder, dirs_exist_ok=True)
            forge(folder, name, put(place, value))
            if (folder / name).read_bytes() == (built.folder / name).read_bytes():
                continue
            tried += 1
            code = verify.main(["--json", "--pointers", str(folder)])
            report = json.loads(capsys.readouterr().out)
            if code != 1 or not faults(report) or "Error: " in json.dumps(list(faults(report).values())):
                missed.append((name, place, value, faults(report)))
    gc.enable()

    assert [] == missed
    assert tried > 300
