"""The program as it is signed: which files count, and commands that do not exist."""

from __future__ import annotations

import hashlib
import sys
import time

import pytest

from pretrain_archive.domain.errors import InputError
from pretrain_archive.services.code import read_code, resolve_command
from pretrain_archive.services.progress import every


@pytest.fixture
def program(tmp_path):
    """A program of two files among others."""
    (tmp_path / "train.py").write_text("import model\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "model.py").write_text("layers = 1\n")
    for name in ("notes.md", "weights.bin", "__pycache__/train.cpython-311.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    return tmp_path


def code(program):
    """What is signed."""
    return read_code([sys.executable, str(program / "train.py")])


def test_files(program):
    """Sources beside and below the script count; caches and other files do not."""
    found = code(program)

    assert {"train.py", "lib/model.py"} == set(found.files)
    assert hashlib.sha256(b"import model\n").hexdigest() == found.files["train.py"]


@pytest.mark.parametrize(
    ("name", "counts"),
    [("lib/model.py", True), ("train.py", True), ("new.toml", True), ("run.sh", True), ("notes.md", False),
     ("weights.bin", False), ("__pycache__/x.py", False)],
)  # fmt: skip
def test_digest(program, name, counts):
    """Any changed or added source changes the digest; nothing else does."""
    before = code(program).digest

    (program / name).write_text("changed = True\n")

    assert counts == (code(program).digest != before)


def test_renamed_and_removed(program):
    """A renamed or removed file is another program."""
    digests = {code(program).digest}
    (program / "lib" / "model.py").rename(program / "lib" / "other.py")
    digests.add(code(program).digest)
    (program / "lib" / "other.py").unlink()
    digests.add(code(program).digest)

    assert len(digests) == 3


def test_program_without_a_script():
    """A command that names no script is the program itself."""
    assert {"sh"} == set(read_code(["sh", "-c", "true"]).files)


def test_resolved():
    """``{python}`` is this interpreter, the other words stay."""
    assert [sys.executable, "-c", "{x}"] == resolve_command(["{python}", "-c", "{x}"], field="train_command")


@pytest.mark.parametrize(
    ("command", "text"),
    [
        pytest.param(["no-such-program-here"], "no such program", id="program"),
        pytest.param([""], "no such program", id="empty"),
        pytest.param(["/etc"], "no such program", id="a folder"),
        pytest.param(["{python}", "/no/such.py"], "no such file on this worker", id="script"),
        pytest.param(["sh", "/no/such.sh", "x"], "no such file on this worker", id="shell script"),
    ],
)
def test_missing(command, text):
    """A command that does not exist is named with its field."""
    with pytest.raises(InputError, match=f"evaluate_command: {text}") as raised:
        resolve_command(command, field="evaluate_command")
    assert raised.value.hint


def test_progress_is_not_chatty(monkeypatch):
    """A line at most every few seconds."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    said: list[str] = []
    report = every(said.append, "hashed", seconds=5)
    for number in range(100):
        now[0] = number / 4
        report(number, number * 1_000_000)

    assert ["hashed 20 files, 20.0 MB", "hashed 40 files, 40.0 MB"] == said[:2]
    assert len(said) == 4
