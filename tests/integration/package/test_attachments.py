"""Files that people add: each under its own relative path, none over ours, a real clash stops everything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.packages import ACTOR, ORIGIN, closing, memory_ledger, run_verifier
from tests.support.seeded_run import seed_run

from pretrain_archive.domain.errors import PackageError, RefusedError
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.package.attachments import attachments, original_name, plain_name, refuse_clashes
from pretrain_archive.package.evidence import COPY_LIMIT, Part
from pretrain_archive.package.writer import Writer, write_package
from pretrain_archive.storage.files import FileStore

NAMES = [b"plain-1.json", b".hidden", b"a_b", b"line\nbreak", b"\xff\xfe", "配置.json".encode(), b"50%"]


def package(place: Path, *roots: Path, extra: tuple[Part, ...] = ()) -> Path:
    """A package of the seeded run with what lies below ``roots``."""
    ledger, store = memory_ledger(), FileStore(place / "store")
    run_uid = seed_run(ledger, store, place)
    writer = Writer(actor=ACTOR, origin=ORIGIN, verifier_key=ledger.verifier_key())
    write_package(
        ledger, store, RunView.of(run_uid, ledger.records(streams=[run_uid])), folder=place / "package", writer=writer,
        closing=closing(run_uid), extra=[*attachments(roots), *extra],
    )  # fmt: skip
    return place / "package"


@pytest.mark.case("A01")
def test_equal_base_names_stay_apart_and_our_own_files_are_not_touched(tmp_path: Path) -> None:
    """Three config.json and a manifest.json of the user: four files under their paths, with their bytes."""
    user = tmp_path / "user"
    for part in ("data", "train", "eval"):
        (user / part).mkdir(parents=True)
        (user / part / "config.json").write_text(f'{{"part": "{part}"}}')
    (user / "manifest.json").write_text('{"user": "file"}')

    folder = package(tmp_path, user)

    assert 3 == run_verifier(folder)[0]
    below = folder / "attachments"
    unpacked = {str(p.relative_to(below)): p.read_bytes() for p in below.rglob("*") if p.is_file()}
    assert unpacked == {str(p.relative_to(user)): p.read_bytes() for p in user.rglob("*") if p.is_file()}
    assert 4 == len(unpacked)
    assert b'"user"' not in (folder / "manifest.json").read_bytes()


@pytest.mark.case("A01")
@pytest.mark.parametrize("name", NAMES, ids=map(repr, NAMES))
def test_any_name_survives(tmp_path: Path, name: bytes) -> None:
    """Names of any bytes are written in plain characters, and read back."""
    user = tmp_path / "user"
    user.mkdir()
    Path(os.fsdecode(os.fsencode(user) + b"/" + name)).write_bytes(b"content")

    [part] = attachments([user])

    assert name == original_name(part.path.removeprefix("attachments/"))
    assert plain_name(name) == part.path.removeprefix("attachments/")


@pytest.mark.case("A01")
def test_a_real_clash_stops_the_close_with_both_sources(tmp_path: Path) -> None:
    """Names that differ in case alone, from two folders: both sources are named, nothing is written."""
    for part in ("one", "two"):
        (tmp_path / part).mkdir()
        (tmp_path / part / ("config.json" if part == "one" else "CONFIG.json")).write_text(part)

    with pytest.raises(PackageError) as caught:
        package(tmp_path, tmp_path / "one", tmp_path / "two")

    assert "one/config.json" in str(caught.value)
    assert "two/CONFIG.json" in str(caught.value)
    assert not (tmp_path / "package").exists()


@pytest.mark.case("A01")
@pytest.mark.parametrize(
    "path",
    [
        pytest.param("manifest.json", id="the list of files"),
        pytest.param("index.html", id="the page"),
        pytest.param("evidence/items.json", id="evidence"),
        pytest.param("records/000000-run.opened.json/x", id="below a file"),
    ],
)
def test_nothing_takes_the_place_of_our_own_files(tmp_path: Path, path: str) -> None:
    """Whatever hands in a further file: a name that is taken is refused."""
    with pytest.raises(PackageError, match="in the package"):
        package(tmp_path, extra=(Part(path=path, data=b"{}", source="/elsewhere"),))


def test_only_small_regular_files_are_attached(tmp_path: Path) -> None:
    """A link, a folder behind a link, a pipe, a large file and nothing at all are refused by name."""
    (tmp_path / "file").write_text("x")
    for name, make in {
        "link": lambda path: path.symlink_to(tmp_path / "file"),
        "pipe": os.mkfifo,
        "large": lambda path: path.write_bytes(b"x" * (COPY_LIMIT + 1)),
        "folder": lambda path: path.symlink_to("/etc"),
    }.items():
        root = tmp_path / f"with-{name}"
        root.mkdir()
        make(root / name)
        with pytest.raises(PackageError, match=name):
            attachments([root])
    with pytest.raises(PackageError, match="No such file"):
        attachments([tmp_path / "nothing"])


def test_a_secret_in_an_attachment_blocks_the_close(tmp_path: Path) -> None:
    """What people add is scanned like everything else."""
    (tmp_path / "user").mkdir()
    (tmp_path / "user/env.txt").write_text("TOKEN\nghp_" + "a1B2" * 9)

    with pytest.raises(RefusedError, match=r"attachments/env\.txt line 2: GitHub token"):
        package(tmp_path, tmp_path / "user")


def test_parts_that_differ_pass() -> None:
    """Equal base names in different folders are no clash."""
    refuse_clashes([Part(path="a/config.json", data=b""), Part(path="b/config.json", data=b"")])
