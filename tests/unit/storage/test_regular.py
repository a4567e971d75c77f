"""A file is opened only if it is one: nothing waits for a pipe, nothing follows a link."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from pretrain_archive.artifacts import metric_files
from pretrain_archive.domain.errors import InputError
from pretrain_archive.storage.regular import NotRegularError, open_regular


def put(path: Path, kind: str) -> None:
    """Put something at ``path``."""
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a symbolic link":
        path.with_name("secret").write_text("root:x:0:0")
        path.symlink_to("secret")
    elif kind == "a folder":
        path.mkdir()
    else:
        socket.socket(socket.AF_UNIX).bind(str(path))


KINDS = ["a pipe", "a symbolic link", "a folder", "a socket or device"]


@pytest.mark.parametrize("kind", KINDS)
def test_other_things_are_named(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies there is said; its content is not read."""
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    put(Path("it"), kind)

    with pytest.raises(NotRegularError) as caught:
        open_regular(Path("it"))
    with pytest.raises(InputError, match=kind) as refused:
        metric_files.read(Path("it"))

    assert kind == caught.value.found
    assert "root" not in str(refused.value)


def test_regular_files_are_opened(tmp_path: Path) -> None:
    """A regular file is read, a missing one is missing."""
    (tmp_path / "it").write_bytes(b"text")

    with open_regular(tmp_path / "it") as file:
        assert b"text" == file.read()
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "other")
