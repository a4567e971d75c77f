"""A program as it is signed: which files a command runs, and their digests.

Counted is every regular file of the program's folder, whatever its suffix: a compiled extension or a kernel
changes what runs as much as a script does. What stays out is listed in :data:`EXCLUDED`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.identity import path_to_text
from pretrain_archive.ledger.canonical import digest_of

EXCLUDED = frozenset({
    "__pycache__", ".git", ".hg", ".svn", ".venv", "venv", "node_modules", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", ".ipynb_checkpoints", ".DS_Store",
})  # fmt: skip
"""Names that are no code of the program: caches, histories, installed environments (recorded by themselves)."""

OUTPUTS = frozenset({"checkpoints", "wandb", "tensorboard"})
"""Folders that programs write to; one that holds an ``__init__.py`` is a package and counts."""

COMPILED = (".pyc", ".pyo")
"""What Python writes beside a source; it follows from the source."""

MOST_FILES = 10_000
MOST_BYTES = 1 << 30
"""A folder above these is not a program's own: a home, or one with data in it."""

SETTINGS = (".json", ".toml", ".yaml", ".yml", ".cfg", ".ini", ".txt", ".py", ".sh")
"""Files outside the folder that a command names as arguments count too if they end so; others are data."""

LAUNCHERS = frozenset({
    "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "deepspeed.launcher.launch",
    "deepspeed.launcher.runner",
})  # fmt: skip
"""Modules that start another program, which the command names after them."""

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=", re.ASCII)
_PYTHON = re.compile(r"(python|pypy)[0-9.]*t?", re.ASCII)
_SHELL = re.compile(r"(ba|da|k|z)?sh", re.ASCII)
_TAKES_VALUE = {"-u", "--unset", "-C", "--chdir"}
_FIND_MODULE = """
import importlib.util, json, os, sys, sysconfig
spec = importlib.util.find_spec(sys.argv[1])
places = [] if spec is None else list(spec.submodule_search_locations or [spec.origin])
print(json.dumps([os.path.realpath(sysconfig.get_path("stdlib")), *[os.path.realpath(p) for p in places if p]]))
"""
_MODULE_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Code:
    """A program's folder and the SHA-256 of each of its files by relative path (as ``path_to_text`` writes it).

    A file outside the folder that the command names stands under its full path.
    """

    folder: Path
    files: dict[str, str]

    @property
    def digest(self) -> str:
        """The digest over paths and file digests; empty where no program file was found: that is unrecorded."""
        return digest_of(self.files) if self.files else ""


@dataclass(frozen=True, kw_only=True)
class _Program:
    """Where a program stands: the folder it is started in, and what of it counts (the folder by default)."""

    folder: Path
    parts: tuple[Path, ...] = ()


@dataclass(kw_only=True)
class _Room:
    """How many files and bytes may still be hashed."""

    folder: Path
    files: int = 0
    size: int = 0
    seen: set[tuple[int, int]] = field(default_factory=set)

    def take(self, size: int) -> None:
        """Count one file of ``size`` bytes; :class:`InputError` above the limits."""
        self.files, self.size = self.files + 1, self.size + size
        if self.files > MOST_FILES or self.size > MOST_BYTES:
            raise InputError(
                "program folder", str(self.folder),
                f"holds more than {MOST_FILES:,} files or {MOST_BYTES:,} bytes, too much to be a program's code",
                hint="Put the program into a folder of its own, with data and checkpoints elsewhere.",
            )  # fmt: skip


def resolve_command(command: Sequence[str], *, field: str) -> list[str]:
    """The command with ``{python}`` resolved; :class:`InputError` if program or script do not exist."""
    words = [sys.executable if word == "{python}" else word for word in command]
    for program in dict.fromkeys((words[0], *words[_start(words) :][:1])):
        if shutil.which(program) is None:
            raise InputError(
                field,
                program,
                "no such program",
                hint="Give a program on the worker's PATH or its full path.",
            )
    for word in words[1:]:
        if word.endswith((".py", ".sh")) and not _ASSIGNMENT.match(word) and not Path(word).is_file():
            raise InputError(field, word, "no such file on this worker", hint="Give the script's full path.")
    return words


def read_code(command: Sequence[str]) -> Code:
    """Hash the files of the program that ``command`` runs.

    That is the folder of its first script, the package behind ``-m``, or the folder of a program given by its
    path. A bare name on the PATH, or code inside the command, has no files of its own: nothing is found then.
    Raises :class:`InputError` for a folder above the limits.
    """
    program = _find(command)
    if program is None:
        return Code(folder=Path.cwd(), files={})
    room = _Room(folder=program.folder)
    files: dict[str, str] = {}
    for part in program.parts or (program.folder,):
        for path in _walk(part, room):
            files[path_to_text(os.fsencode(os.path.relpath(path, program.folder)))] = _sha256(path)
    for path in _settings(command, program.folder):
        room.take(path.stat().st_size)
        files[path_to_text(os.fsencode(path))] = _sha256(path)
    return Code(folder=program.folder, files=files)


def changed_files(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Names that were added, removed or changed between two readings."""
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def _start(words: Sequence[str]) -> int:
    """The place of the program: behind a leading ``env``, its options and assignments."""
    if not words or Path(words[0]).name != "env":
        return 0
    place = 1
    while place < len(words):
        word = words[place]
        if word in _TAKES_VALUE:
            place += 2
        elif word.startswith("-") or _ASSIGNMENT.match(word):
            place += 1
        else:
            break
    return place


def _find(command: Sequence[str]) -> _Program | None:
    start = _start(command)
    prefix, words = list(command[:start]), list(command[start:])
    if not words:
        return None
    python: str | None = None
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        if before == "-m" and (found := _module(prefix, python or _python_beside(words[0]), word)):
            return found
        name = Path(word).name
        interprets = bool(_PYTHON.fullmatch(Path(before).name) or _SHELL.fullmatch(Path(before).name))
        if (interprets or word.endswith((".py", ".sh"))) and place and Path(word).is_file():
            return _Program(folder=Path(word).resolve().parent)
        python = word if _PYTHON.fullmatch(name) else python
    return _by_path(words[0])


def _by_path(word: str) -> _Program | None:
    """A program that is named by its path and is neither an interpreter nor in a folder of the PATH."""
    name, path = Path(word).name, Path(word)
    if "/" not in word or _PYTHON.fullmatch(name) or _SHELL.fullmatch(name) or not path.is_file():
        return None
    folder = path.resolve().parent
    installed = {Path(entry).resolve() for entry in os.environ.get("PATH", "").split(os.pathsep) if entry}
    if folder in installed or folder == Path(sys.executable).parent:
        return None
    return _Program(folder=folder)


def _python_beside(program: str) -> str:
    """The interpreter that a launcher such as ``torchrun`` uses: the one installed beside it."""
    found = shutil.which(program)
    beside = Path(found).with_name("python") if found else None
    return str(beside) if beside is not None and beside.is_file() else sys.executable


def _module(prefix: Sequence[str], python: str, module: str) -> _Program | None:
    """The files behind ``python -m module``, as that interpreter finds them; None for Python's own modules.

    Only the top-level package is looked up: finding a submodule would run the package's code. From an installed
    package its own folder counts, from any other place the whole folder that it is imported from.
    """
    if module in LAUNCHERS:
        return None
    try:
        done = subprocess.run(
            [*prefix, python, "-c", _FIND_MODULE, module.partition(".")[0]], cwd="/", check=True,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=_MODULE_SECONDS,
        )  # fmt: skip
        stdlib, *places = [Path(text) for text in json.loads(done.stdout)]
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    own = [place for place in places if place.exists() and not _inside(place, stdlib)]
    if not own:
        return None
    folder = own[0].parent
    installed = folder.name in {"site-packages", "dist-packages"}
    return _Program(folder=folder, parts=tuple(own) if installed or len(own) > 1 else ())


def _inside(place: Path, stdlib: Path) -> bool:
    return place.is_relative_to(stdlib) and not {"site-packages", "dist-packages"} & set(place.parts)


def _walk(part: Path, room: _Room) -> Iterator[Path]:
    """Every regular file at or below ``part``, links followed, each folder once."""
    if part.is_file():
        room.take(part.stat().st_size)
        yield part
        return
    pending = [part]
    while pending:
        folder = pending.pop()
        status = folder.stat()
        if (status.st_dev, status.st_ino) in room.seen:
            continue
        room.seen.add((status.st_dev, status.st_ino))
        for entry in sorted(os.scandir(folder), key=lambda e: os.fsencode(e.name)):
            path = Path(entry.path)
            if entry.name in EXCLUDED or entry.name.endswith(COMPILED):
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:  # a link to nothing runs nothing
                continue
            if stat.S_ISDIR(status.st_mode):
                if entry.name not in OUTPUTS or (path / "__init__.py").is_file():
                    pending.append(path)
            elif stat.S_ISREG(status.st_mode):
                room.take(status.st_size)
                yield path


def _settings(command: Sequence[str], folder: Path) -> list[Path]:
    """Files outside ``folder`` that the command hands to the program by name, such as its settings."""
    named = (Path(word.rpartition("=")[2]) for word in command[1:] if word.endswith(SETTINGS))
    found = {path.resolve() for path in named if path.is_absolute() and path.is_file()}
    return sorted(path for path in found if not path.is_relative_to(folder))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
