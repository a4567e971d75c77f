"""The program as it is signed: which files count, and commands that do not exist."""

from __future__ import annotations

import hashlib
import sys

import pytest

from pretrain_archive.domain.errors import InputError
from pretrain_archive.services import code as code_module
from pretrain_archive.services.code import changed_files, read_code, resolve_command
from pretrain_archive.services.progress import every


@pytest.fixture
def program(tmp_path):
    """A program of two files among others."""
    folder = tmp_path / "program"
    (folder / "lib").mkdir(parents=True)
    (folder / "train.py").write_text("import model\n")
    (folder / "lib" / "model.py").write_text("layers = 1\n")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "train.cpython-311.pyc").write_text("x")
    return folder


def code(program):
    """What is signed."""
    return read_code([sys.executable, str(program / "train.py")])


def test_files(program):
    """Files beside and below the script count; caches do not."""
    found = code(program)

    assert {"train.py", "lib/model.py"} == set(found.files)
    assert hashlib.sha256(b"import model\n").hexdigest() == found.files["train.py"]


@pytest.mark.parametrize(
    ("name", "counts"),
    [("lib/model.py", True), ("train.py", True), ("new.toml", True), ("run.sh", True), ("notes.md", True),
     ("kernel.cu", True), ("lib/_C.cpython-311.so", True), (".hidden", True), ("checkpoints/__init__.py", True),
     ("__pycache__/x.py", False), ("lib/model.pyc", False), (".git/HEAD", False), ("checkpoints/step.bin", False),
     ("venv/lib/x.py", False)],
)  # fmt: skip
def test_digest(program, name, counts):
    """Any changed or added file changes the digest, whatever its suffix; excluded names do not."""
    before = code(program).digest

    (program / name).parent.mkdir(exist_ok=True, parents=True)
    (program / name).write_text("changed = True\n")

    assert counts == (code(program).digest != before)


def test_links(program, tmp_path):
    """Code behind a link counts as the link's content; a circle of links ends."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "ops.py").write_text("fast = False\n")
    (program / "shared").symlink_to(shared)
    (program / "lib" / "again").symlink_to(program)
    (program / "nothing").symlink_to(tmp_path / "nowhere")
    before = code(program)
    assert {"train.py", "lib/model.py", "shared/ops.py"} == set(before.files)

    (shared / "ops.py").write_text("fast = True\n")

    assert ["shared/ops.py"] == changed_files(before.files, code(program).files)


@pytest.mark.parametrize(("name", "most"), [("MOST_FILES", 2), ("MOST_BYTES", 60)])
def test_too_much(program, monkeypatch, name, most):
    """A folder that cannot be a program's own is refused, not half read."""
    (program / "data.bin").write_bytes(b"x" * 40)
    monkeypatch.setattr(code_module, name, most)

    with pytest.raises(InputError, match="program folder: holds more than") as raised:
        code(program)
    assert str(program) in str(raised.value)
    assert "folder of its own" in raised.value.hint


@pytest.fixture
def package(tmp_path):
    """A package that only PYTHONPATH makes importable, and one beside it; importing it would fail."""
    root = tmp_path / "import root"
    for name in ("mytrain/sub", "common"):
        (root / name).mkdir(parents=True)
    (root / "mytrain" / "__init__.py").write_text("raise SystemExit('imported')\n")
    (root / "mytrain" / "sub" / "main.py").write_text("import common\n")
    (root / "common" / "ops.py").write_text("fast = 1\n")
    return root


LAUNCH = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["-m", "mytrain.sub.main"], id="module"),
        pytest.param(["-m", "mytrain", "--steps", "3"], id="package"),
        pytest.param([*LAUNCH, "-m", "mytrain.sub.main"], id="behind a launcher"),
        pytest.param(["-m", "trace", "-m", "mytrain"], id="behind a module of Python"),
    ],
)
def test_module(package, words):
    """``-m`` is found where the named interpreter finds it, with what it is imported beside."""
    command = ["env", "-u", "NOTHING", f"PYTHONPATH={package}", "OTHER=a.py", sys.executable, *words]

    found = read_code(command)

    assert {"mytrain/__init__.py", "mytrain/sub/main.py", "common/ops.py"} == set(found.files)
    assert package == found.folder
    assert command == resolve_command(command, field="train_command")


def test_installed_module(tmp_path):
    """Of an installed package its own files count, not those of its neighbours."""
    site = tmp_path / "site-packages"
    for name in ("mytrain", "neighbour"):
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").write_text("x = 1\n")

    found = read_code(["env", f"PYTHONPATH={site}", sys.executable, "-m", "mytrain"])

    assert {"mytrain/__init__.py"} == set(found.files)


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(["env", "OMP_NUM_THREADS=1", "-i", sys.executable, "-u"], id="env"),
        pytest.param([sys.executable, *LAUNCH], id="launcher"),
        pytest.param(["sh"], id="shell"),
        pytest.param(["nice", "-n", "3", sys.executable], id="nice"),
    ],
)
def test_script_behind_words(program, before):
    """What stands before the script does not hide it."""
    assert code(program).files == read_code([*before, str(program / "train.py")]).files


def test_settings_elsewhere(program, tmp_path):
    """A settings file that the command names counts wherever it lies; data does not."""
    settings, data = tmp_path / "big.yaml", tmp_path / "tokens.bin"
    settings.write_text("layers: 2\n")
    data.write_bytes(b"x")
    command = [sys.executable, str(program / "train.py"), f"--config={settings}", "--data", str(data)]

    found = read_code(command)

    assert {"train.py", "lib/model.py", str(settings)} == set(found.files)
    settings.write_text("layers: 3\n")
    assert found.digest != read_code(command).digest


def test_binary_by_path(program):
    """A program given by its path is its folder."""
    tool = program / "tool"
    tool.write_bytes(b"\x7fELF")
    tool.chmod(0o755)

    assert {"tool", "train.py", "lib/model.py"} == set(read_code([str(tool), "--fast"]).files)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["sh", "-c", "true"], id="code in a shell"),
        pytest.param([sys.executable, "-c", "pass"], id="code in Python"),
        pytest.param([sys.executable, "-m", "no_such_module"], id="no such module"),
        pytest.param([sys.executable, "-m", "http.server"], id="module of Python"),
        pytest.param(["true"], id="program of the system"),
        pytest.param(["env", "A=1"], id="env alone"),
    ],
)
def test_no_program_file(command):
    """Where no file of a program is found, nothing is claimed: the digest is unrecorded."""
    found = read_code(command)

    assert ({}, "") == (found.files, found.digest)


def test_renamed_and_removed(program):
    """A renamed or removed file is another program."""
    digests = {code(program).digest}
    (program / "lib" / "model.py").rename(program / "lib" / "other.py")
    digests.add(code(program).digest)
    (program / "lib" / "other.py").unlink()
    digests.add(code(program).digest)

    assert len(digests) == 3


def test_resolved():
    """``{python}`` is this interpreter, the other words stay."""
    assert [sys.executable, "-c", "{x}"] == resolve_command(["{python}", "-c", "{x}"], field="train_command")


@pytest.mark.parametrize(
    ("command", "text"),
    [
        pytest.param(["no-such-program-here"], "no such program", id="program"),
        pytest.param([""], "no such program", id="empty"),
        pytest.param(["/etc"], "no such program", id="a folder"),
        pytest.param(["env", "A=1", "no-such-program-here"], "no such program", id="behind env"),
        pytest.param(["{python}", "/no/such.py"], "no such file on this worker", id="script"),
        pytest.param(["sh", "/no/such.sh", "x"], "no such file on this worker", id="shell script"),
    ],
)
def test_missing(command, text):
    """A command that does not exist is named with its field."""
    with pytest.raises(InputError, match=f"evaluate_command: {text}") as raised:
        resolve_command(command, field="evaluate_command")
    assert raised.value.hint


def test_progress_is_not_chatty():
    """A line at most every few seconds."""
    now = [0.0]
    said: list[str] = []
    report = every(said.append, "hashed", seconds=5, clock=lambda: now[0])
    for number in range(100):
        now[0] = number / 4
        report(number, number * 1_000_000)

    assert [
        "hashed 20 files, 20.0 MB, 4.0 MB/s, 4 files/s",
        "hashed 40 files, 40.0 MB, 4.0 MB/s, 4 files/s",
    ] == said[:2]
    assert len(said) == 4
