# ruff: noqa: D103 - each preparation is named by what it does
"""Hostile packages: refused item by item, nothing outside is read, hashed or written (case A03)."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.faults import require_strace
from tests.support.packages import Built, faults, run_verifier

from pretrain_archive.ledger.canonical import canonical_bytes

pytestmark = pytest.mark.case("A03")


def relist(folder: Path, path: str, data: bytes) -> None:
    """Add a line to the manifest, with the true digest of ``data``."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    manifest["files"].append({"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()})
    (folder / "manifest.json").write_bytes(canonical_bytes(manifest))


@pytest.mark.parametrize(
    "path",
    [
        "../outside.txt",
        "evidence/../../outside.txt",
        "/etc/hostname",
        "evidence//metrics.csv",
        "./index.html",
        "C:\\outside.txt",
        "evidence\\..\\outside.txt",
        "",
        "a\x00b",
        "名称",
        ".hidden",
    ],
)
def test_listed_path_outside_is_refused_unread(built: Built, copy: Callable[[], Path], path: str) -> None:
    """A manifest with a path that leaves the package is a fault; the file outside is never opened."""
    folder = copy()
    outside = folder.parent / "outside.txt"
    outside.write_bytes(b"outside\n")
    relist(folder, path, b"outside\n")

    trace = folder.parent / "trace"
    done = subprocess.run(
        [
            *("strace", "-f", "-o", trace, "-e", "trace=open,openat", sys.executable, "-I", "-S"),
            built.folder / "verify.py",
            "--json",
            folder,
        ],
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert 1 == done.returncode
    assert any(repr(path) in name for name in faults(json.loads(done.stdout)))
    assert "outside.txt" not in trace.read_text(errors="replace")
    assert "/etc/hostname" not in trace.read_text(errors="replace")


# What each trick returns is the id of the item that must be reported.


def replace_with_link(folder: Path) -> str:
    path = folder / "evidence/metrics.csv"
    shutil.copy(path, folder.parent / "same.csv")
    path.unlink()
    path.symlink_to(folder.parent / "same.csv")
    return "evidence/metrics.csv"


def replace_folder_with_link(folder: Path) -> str:
    (folder / "evidence").rename(folder.parent / "evidence")
    (folder / "evidence").symlink_to(folder.parent / "evidence")
    return "evidence"


def dangling_link(folder: Path) -> str:
    (folder / "evidence/link").symlink_to("/no/such/file")
    return "evidence/link"


def hard_link(folder: Path) -> str:
    outside = folder.parent / "outside.csv"
    shutil.copy(folder / "evidence/metrics.csv", outside)
    (folder / "evidence/metrics.csv").unlink()
    os.link(outside, folder / "evidence/metrics.csv")
    return "evidence/metrics.csv"


def fifo(folder: Path) -> str:
    (folder / "index.html").unlink()
    os.mkfifo(folder / "index.html")
    return "index.html"


def fifo_as_manifest(folder: Path) -> str:
    (folder / "manifest.json").unlink()
    os.mkfifo(folder / "manifest.json")
    return "manifest.json"


def unix_socket(folder: Path) -> str:
    here = Path.cwd()
    os.chdir(folder)  # a socket's path is limited to 107 bytes
    try:
        socket.socket(socket.AF_UNIX).bind("s")
    finally:
        os.chdir(here)
    return "s"


def folder_in_place_of_a_file(folder: Path) -> str:
    (folder / "index.html").unlink()
    (folder / "index.html").mkdir()
    return "index.html"


def twin_by_case(folder: Path) -> str:
    (folder / "INDEX.html").write_bytes(b"other")
    return "INDEX.html"


def twin_by_unicode(folder: Path) -> str:
    (folder / "evidence/caf\u00e9").write_bytes(b"1")
    (folder / "evidence/cafe\u0301").write_bytes(b"2")
    return "evidence/cafe\u0301"


def name_not_utf8(folder: Path) -> str:
    (Path(os.fsdecode(bytes(folder) + b"/evidence/\xff.txt"))).write_bytes(b"1")
    return "evidence/%FF.txt"


def name_with_newline(folder: Path) -> str:
    (folder / "evidence/a\nverified").write_bytes(b"1")
    return "evidence/a%0Averified"


def deep_json(folder: Path) -> str:
    (folder / "proofs.json").write_bytes(b"[" * 200_000 + b"]" * 200_000)
    return "proofs.json"


def huge_number(folder: Path) -> str:
    (folder / "proofs.json").write_bytes(b'{"size":' + b"9" * 1_000_000 + b"}")
    return "proofs.json"


def not_a_number(folder: Path) -> str:
    (folder / "manifest.json").write_bytes(
        b'{"format":"pretrain-archive/package/1","records":NaN,"files":[]}'
    )
    return "manifest.json"


def key_twice_in_the_manifest(folder: Path) -> str:
    path = folder / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'{"files"', b'{"files":[],"files"', 1))
    return "manifest.json"


def path_twice_in_the_manifest(folder: Path) -> str:
    relist(folder, "index.html", b"other")
    return "manifest.json"


def sparse_giant(folder: Path) -> str:
    with (folder / "records/000008-gate.decision.json").open("r+b") as handle:
        handle.truncate(1 << 40)
    return "records/000008-gate.decision.json"


def wrong_types(folder: Path) -> str:
    (folder / "proofs.json").write_bytes(b'{"format":1,"hashes":{"a":1},"leaves":[[0,"x.y",7]],"size":"1"}')
    return "proofs.json"


def surrogate(folder: Path) -> str:
    (folder / "manifest.json").write_bytes(b'{"files":[{"path":"\\ud800","size":1,"sha256":"x"}]}')
    return "manifest.json"


@pytest.mark.parametrize(
    "prepare",
    [
        replace_with_link, replace_folder_with_link, dangling_link, hard_link, fifo, fifo_as_manifest,
        unix_socket, folder_in_place_of_a_file, twin_by_case, twin_by_unicode, name_not_utf8,
        name_with_newline, deep_json, huge_number, not_a_number, key_twice_in_the_manifest,
        path_twice_in_the_manifest, sparse_giant, wrong_types, surrogate,
    ],
    ids=lambda prepare: prepare.__name__.replace("_", " "),
)  # fmt: skip
@pytest.mark.parametrize("python", ["this", "3.9"])
def test_trick_is_a_finding(
    built: Built, copy: Callable[[], Path], prepare: Callable[[Path], str], python: str
) -> None:
    """Each trick: exit 1, a finding on its item, no traceback, no endless wait."""
    program = sys.executable
    if python != "this":
        found = sorted(Path.home().glob(f".pyenv/versions/{python}.*/bin/python"))
        if not found:
            pytest.skip(f"no Python {python} on this machine")
        program = str(found[-1])
    folder = copy()
    item = prepare(folder)

    code, report = run_verifier(built.folder, str(folder), python=program)

    assert 1 == code
    assert item in faults(report)


def test_unreadable_file_is_a_finding(copy: Callable[[], Path]) -> None:
    """What this user may not read is reported, and the rest is still checked."""
    require_strace()
    folder = copy()
    command = ["strace", "-f", "-o", "/dev/null", "-P", folder / "evidence/metrics.csv"]
    command += ["-e", "trace=openat", "-e", "inject=openat:error=EACCES"]
    command += [sys.executable, "-I", "-S", folder / "verify.py", "--json"]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)

    assert 1 == done.returncode
    assert {"evidence/metrics.csv": "cannot be opened: Permission denied"} == faults(json.loads(done.stdout))


def test_hostile_archive_unpacked_carelessly(built: Built, copy: Callable[[], Path]) -> None:
    """Members of a hostile tar file, unpacked by a tool that trusts them: all of them are reported."""
    folder = copy()
    outside = folder.parent / "outside.txt"
    outside.write_bytes(b"outside\n")
    unpack_carelessly(hostile_tar(folder.parent / "evil.tar"), folder)
    relist(folder, "../outside.txt", b"outside\n")

    code, report = run_verifier(built.folder, str(folder))

    assert 1 == code
    assert {"lnk", "hard", "dev", "evidence/metrics.csv", "'../outside.txt'"} <= set(faults(report))
    assert b"outside\n" == outside.read_bytes()


def hostile_tar(path: Path) -> Path:
    """A tar file with a way up, an absolute name, links, a FIFO and a member twice."""

    def put(
        tar: tarfile.TarFile, name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = ""
    ) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.size = kind, link, len(data)
        tar.addfile(info, io.BytesIO(data) if data else None)

    with tarfile.open(path, "w") as tar:
        put(tar, "../up.txt", b"up\n")
        put(tar, "/absolute_member.txt", b"absolute\n")
        put(tar, "lnk", kind=tarfile.SYMTYPE, link="/etc")
        put(tar, "hard", kind=tarfile.LNKTYPE, link="../outside.txt")
        put(tar, "dev", kind=tarfile.FIFOTYPE)
        put(tar, "evidence/metrics.csv", b"first\n")
        put(tar, "evidence/metrics.csv", b"second\n")
    return path


def unpack_carelessly(path: Path, folder: Path) -> None:
    """Make what a trusting tool leaves inside ``folder``; what would land outside is left out."""
    with tarfile.open(path) as tar:
        for member in tar.getmembers():
            target = folder / member.name
            if member.name.startswith(("/", "..")):
                continue
            if member.issym():
                target.symlink_to(member.linkname)
            elif member.islnk():
                os.link(folder / member.linkname, target)
            elif member.isfifo():
                os.mkfifo(target)
            else:
                source = tar.extractfile(member)
                assert source is not None
                target.write_bytes(source.read())
