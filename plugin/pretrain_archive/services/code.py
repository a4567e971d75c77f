"""The training code as it is signed: which files a command runs, and their digests."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.identity import path_to_text
from pretrain_archive.ledger.canonical import digest_of

SUFFIXES = {".py", ".json", ".toml", ".yaml", ".yml", ".sh", ".txt"}
"""Files of a program's folder that change what it does."""


@dataclass(frozen=True, kw_only=True)
class Code:
    """A program's folder and the SHA-256 of each of its files by relative path (as ``path_to_text`` writes it)."""

    folder: Path
    files: dict[str, str]

    @property
    def digest(self) -> str:
        """The digest over paths and file digests."""
        return digest_of(self.files)


def resolve_command(command: Sequence[str], *, field: str) -> list[str]:
    """The command with ``{python}`` resolved; :class:`InputError` if program or script do not exist."""
    words = [sys.executable if word == "{python}" else word for word in command]
    program = shutil.which(words[0])
    if program is None:
        raise InputError(
            field, words[0], "no such program", hint="Give a program on the worker's PATH or its full path."
        )
    for word in words[1:]:
        if word.endswith((".py", ".sh")) and not Path(word).is_file():
            raise InputError(field, word, "no such file on this worker", hint="Give the script's full path.")
    return words


def read_code(command: Sequence[str]) -> Code:
    """Hash the files beside the first script that ``command`` names; the program itself if it names none."""
    script = next(
        (Path(word) for word in command if word.endswith((".py", ".sh")) and Path(word).is_file()), None
    )
    if script is None:
        program = Path(shutil.which(command[0]) or command[0])
        return Code(folder=Path.cwd(), files={path_to_text(os.fsencode(program.name)): _sha256(program)})
    folder = script.resolve().parent
    found = sorted(
        p for p in folder.rglob("*") if p.suffix in SUFFIXES and p.is_file() and "__pycache__" not in p.parts
    )
    files = {path_to_text(os.fsencode(p.relative_to(folder).as_posix())): _sha256(p) for p in found}
    return Code(folder=folder, files=files)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
