"""The verifier as a stranger runs it: isolated, from any place, on older and newer Pythons."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.packages import Built, run_verifier

import pretrain_archive.package.verify as module


def test_untouched_with_the_key_is_verified(built: Built) -> None:
    """Exit 0, everything holds, nothing is unrecorded."""
    code, report = run_verifier(built.folder, "--key", str(built.key))

    assert (0, "verified") == (code, report["verdict"])
    assert {"changed": 0, "unrecorded": 0} == {k: report["counts"][k] for k in ("changed", "unrecorded")}
    keys = {"id", "track", "verdict", "check", "checked_at", "expected", "found"}
    assert all(keys == item.keys() and item["check"] for item in report["items"])


def test_untouched_without_a_key_is_intact(built: Built) -> None:
    """Exit 3: whoever changed the package could have changed the key inside it."""
    code, report = run_verifier(built.folder)

    assert (3, "intact") == (code, report["verdict"])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(b"a folder with  spaces", id="spaces"),
        pytest.param(b"not utf-8 \xff\xfe", id="not UTF-8"),
        pytest.param("名称\n100%".encode(), id="newline and percent"),
        pytest.param(b"-dash", id="leading dash"),
    ],
)
def test_moved_package_still_verifies(built: Built, tmp_path: Path, name: bytes) -> None:
    """The package names nothing outside itself: any folder will do."""
    target = bytes(tmp_path) + b"/" + name
    shutil.copytree(bytes(built.folder), target)

    code, report = run_verifier(Path(os.fsdecode(target)), "--key", str(built.key))

    assert (0, "verified") == (code, report["verdict"])


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13"])
def test_runs_on_other_pythons(built: Built, version: str) -> None:
    """Nothing newer than Python 3.9 is used."""
    roots = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    python = str(roots[-1]) if roots else shutil.which(f"python{version}")
    if python is None:
        pytest.skip(f"no Python {version} on this machine")

    code, report = run_verifier(built.folder, "--key", str(built.key), python=python)

    assert (0, "verified") == (code, report["verdict"])


def test_imports_nothing_but_the_standard_library() -> None:
    """No package of ours or of others is imported, at any level, and nothing that unpickles or connects."""
    tree = ast.parse(Path(module.__file__).read_text())
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }

    assert names <= sys.stdlib_module_names
    assert not names & {"pickle", "socket", "ssl", "subprocess", "http", "ctypes", "shelve", "marshal"}


def test_only_reads(built: Built) -> None:
    """Under strace, no call opens for writing, connects, or starts a program."""
    if not shutil.which("strace"):
        pytest.skip("no strace")
    before = {path: path.stat().st_mtime_ns for path in built.folder.rglob("*")}
    calls = "trace=openat,open,creat,unlink,unlinkat,rename,renameat2,mkdir,socket,connect,execve,fork,vfork"
    done = subprocess.run(
        ["strace", "-f", "-e", calls, sys.executable, "-I", "-S", "-B", built.folder / "verify.py"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert 3 == done.returncode
    seen = [line for line in done.stderr.splitlines() if "(" in line]
    writing = [line for line in seen if any(flag in line for flag in ("O_WRONLY", "O_RDWR", "O_CREAT"))]
    other = [
        line for line in seen if line.startswith(("socket", "connect", "unlink", "rename", "mkdir", "fork"))
    ]
    assert [] == writing
    assert [] == other
    assert 1 == sum("execve(" in line for line in seen)
    assert before == {path: path.stat().st_mtime_ns for path in built.folder.rglob("*")}


def test_person_reads_worst_first_and_folded(built: Built, copy: Callable[[], Path]) -> None:
    """The table starts with what is wrong, sums up what holds, and ends with the verdict."""
    folder = copy()
    (folder / "evidence/metrics.csv").write_bytes(b"cut")
    done = subprocess.run(
        [sys.executable, "-I", "-S", built.folder / "verify.py", folder],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )

    lines = [line for line in done.stdout.splitlines() if line]
    assert "evidence/metrics.csv" in lines[2]
    assert lines[2].startswith("△ changed")
    assert lines[-1].startswith("Verdict: changed 已变更")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["/no/such/folder"], "not a folder", id="no such folder"),
        pytest.param(["--key", "/no/such/key"], "/no/such/key", id="no such key"),
        pytest.param(["--key", "/etc/hostname"], "not a verification key", id="a file that is no key"),
        pytest.param(["--what"], "unrecognized", id="unknown option"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(built: Built, arguments: list[str], words: str) -> None:
    """A mistake is told in words, never as a traceback."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", built.folder / "verify.py", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert 2 == done.returncode
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("form", ["note", "raw", "base64", "pem"])
def test_key_in_every_form(built: Built, tmp_path: Path, form: str) -> None:
    """The key may come as note text, 32 bytes, base64 or PEM."""
    import base64

    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    raw = built.ledger.public_key  # type: ignore[attr-defined]
    pem = Ed25519PublicKey.from_public_bytes(raw).public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    data = {"note": built.key.read_bytes(), "raw": raw, "base64": base64.b64encode(raw) + b"\n", "pem": pem}
    path = tmp_path / "key"
    path.write_bytes(data[form])

    assert 0 == run_verifier(built.folder, "--key", str(path))[0]


def test_another_key_is_a_fault(built: Built, tmp_path: Path) -> None:
    """A wrong key is no missing key: the package is not verified and not intact."""
    path = tmp_path / "key"
    path.write_bytes(b"\x01" * 32)

    code, report = run_verifier(built.folder, "--key", str(path))

    assert 1 == code
    assert "signature" == report["items"][0]["id"]


def test_pointers_are_looked_at_on_request(built: Built, tmp_path: Path) -> None:
    """With --pointers: the bytes on disk are hashed; absent is unrecorded, other bytes are changed."""
    checkpoints = built.folder.parent / "checkpoints"
    kept = tmp_path / "kept"
    shutil.copytree(checkpoints, kept)
    name = "reference/checkpoint-ckpt_019a0000-0000-7000-8000-000000000001_"
    try:
        assert 0 == run_verifier(built.folder, "--pointers", "--key", str(built.key))[0]
        (checkpoints / "step-000020").rename(checkpoints / "step-000021")
        (checkpoints / "step-000040/state.json").write_bytes(b"{}")

        code, report = run_verifier(built.folder, "--pointers", "--key", str(built.key))

        verdicts = {item["id"]: item["verdict"] for item in report["items"]}
        assert 1 == code
        expected = {"000020": "unrecorded", "000040": "changed", "000060": "verified"}
        assert expected == {step: verdicts[name + step] for step in expected}
    finally:
        shutil.rmtree(checkpoints)
        shutil.copytree(kept, checkpoints)
