"""Files that people add to a package: under their relative paths, in a folder of their own, never over ours.

A package is checked on any system, so that its names are plain: a byte outside of ``A-Z a-z 0-9 . -`` is written as
``_`` and two hex digits, as is a point at the beginning. :func:`original_name` reads the name back.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pretrain_archive.domain.errors import PackageError
from pretrain_archive.domain.identity import path_to_text
from pretrain_archive.package.evidence import COPY_LIMIT, Part

FOLDER = "attachments"
OWN_FILES = ("manifest.json", "proofs.json", "checkpoint.txt")
"""What the package gets beside its parts when it is put together."""
MOST_FILES = 10_000
_PLAIN = re.compile(rb"[A-Za-z0-9.-]")


def attachments(roots: Sequence[Path]) -> list[Part]:
    """Every regular file below ``roots`` (a file stands for itself), by its path relative to its root.

    Raises :class:`PackageError` for links and special files, for a file above 4 MiB and for more than 10,000 files.
    That two files would get one name is found by :func:`refuse_clashes`, which knows every part of the package.
    """
    found: list[Part] = []
    for root in roots:
        for path, relative in _files(root):
            name = "/".join(plain_name(part) for part in relative)
            found.append(
                Part(path=f"{FOLDER}/{name}", data=_read(path), source=path_to_text(os.fsencode(path)))
            )
            if len(found) > MOST_FILES:
                raise PackageError(
                    f"more than {MOST_FILES} files are attached.", hint="Attach an archive of them."
                )
    return found


def plain_name(name: bytes) -> str:
    """A file name in the characters that packages use; see the module's text."""
    out = [chr(byte) if _PLAIN.fullmatch(bytes([byte])) else f"_{byte:02x}" for byte in name]
    if out and out[0] == ".":
        out[0] = "_2e"
    return "".join(out)


def original_name(plain: str) -> bytes:
    """The name that :func:`plain_name` was given."""
    return re.sub(rb"_([0-9a-f]{2})", lambda found: bytes([int(found[1], 16)]), plain.encode())


def refuse_clashes(parts: Iterable[Part]) -> None:
    """:class:`PackageError` naming both sources where two files would have one name, in any writing of its letters."""
    taken = dict.fromkeys(OWN_FILES, "the package's own file")
    folders: dict[str, str] = {}
    for part in parts:
        name, source = part.path.casefold(), part.source or part.record or part.path
        above = name
        while above := above.rpartition("/")[0]:
            folders.setdefault(above, source)
        if name in taken:
            raise PackageError(
                f"two files would have the name {part.path} in the package: {taken[name]} and {source}.",
                hint="Rename one of them where it comes from; nothing was written.",
            )
        taken[name] = source
    for name in taken.keys() & folders.keys():
        raise PackageError(
            f"{name} would be a file and a folder in the package: {taken[name]} and {folders[name]}.",
            hint="Rename one of them where it comes from; nothing was written.",
        )


def _files(root: Path) -> Iterator[tuple[Path, tuple[bytes, ...]]]:
    try:
        kind = root.lstat().st_mode
    except OSError as error:
        name = path_to_text(os.fsencode(root))
        raise PackageError(
            f"{name}: {error.strerror}.", hint="Name a file or folder that is there."
        ) from error
    if not stat.S_ISDIR(kind):
        yield root, (os.fsencode(root.name),)
        return
    for folder, names, files in os.walk(os.fsencode(root)):
        names.sort()
        for path in (folder + b"/" + name for name in names):
            if os.path.islink(path):  # noqa: PTH114 - names are bytes
                _refuse(path, "a link")
        for path in (folder + b"/" + name for name in sorted(files)):
            yield Path(os.fsdecode(path)), tuple(os.path.relpath(path, os.fsencode(root)).split(b"/"))


def _read(path: Path) -> bytes:
    if path.is_symlink():
        _refuse(os.fsencode(path), "a link")
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            _refuse(os.fsencode(path), "no regular file")
        if found.st_size > COPY_LIMIT:
            _refuse(os.fsencode(path), f"{found.st_size} bytes, more than {COPY_LIMIT}")
        return file.read(COPY_LIMIT + 1)


def _refuse(path: bytes, what: str) -> None:
    raise PackageError(
        f"{path_to_text(path)} cannot be attached: it is {what}.", hint="Attach small regular files only."
    )
