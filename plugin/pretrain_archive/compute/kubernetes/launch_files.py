"""The attempt's folder on the shared volume, before a pod can see it."""

from __future__ import annotations

import os
from pathlib import Path

from pretrain_archive.compute.kubernetes.manifest import build_files
from pretrain_archive.compute.spec import JobSpec
from pretrain_archive.domain.errors import InputError, StorageError
from pretrain_archive.storage.regular import NotRegularError, open_regular


def lay_out(spec: JobSpec) -> None:
    """Write what the pods read. Done again, also by two at once, it changes nothing.

    Raises ``InputError`` if something else lies where a file belongs, ``StorageError`` if it cannot be written.
    """
    try:
        spec.work_folder.mkdir(parents=True, exist_ok=True)
        spec.checkpoint_folder.mkdir(parents=True, exist_ok=True)
        for path, content in build_files(spec).items():
            _write(path, content)
    except OSError as error:
        raise StorageError(
            f"the attempt's folder {spec.work_folder} cannot be written: {error}.",
            hint="Check that the shared volume is mounted here, writable and not full.",
        ) from error


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; one with other content is not ours."""
    hidden = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with hidden.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        hidden.chmod(0o644)
        os.link(hidden, path)
    except FileExistsError:
        if _content(path) != content:
            raise InputError(
                "work_folder", str(path), "is there already, and only a launch may make it",
                hint="Look who wrote it, move it away and launch again.",
            ) from None  # fmt: skip
    finally:
        hidden.unlink(missing_ok=True)


def _content(path: Path) -> bytes | None:
    try:
        with open_regular(path) as file:
            return file.read()
    except (NotRegularError, FileNotFoundError):
        return None
