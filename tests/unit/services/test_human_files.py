"""Where outputs for readers lie: named by a request, written by a program, kept for a sample."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from tests.support.human_run import ITEMS
from tests.unit.services.test_human_items import drawn, lines

from pretrain_archive.domain.errors import InputError
from pretrain_archive.services import human_files
from pretrain_archive.storage.files import FileStore


def test_requested_file(tmp_path: Path) -> None:
    """A path or file address, with the run's names filled in."""
    path = tmp_path / "run_x-ckpt_1.jsonl"
    path.write_bytes(b"x")
    names = {"run_uid": "run_x", "checkpoint_id": "ckpt_1"}

    for uri in (f"{tmp_path}/{{run_uid}}-{{checkpoint_id}}.jsonl", path.as_uri()):
        file, where = human_files.open_items(uri, names=names)
        with file:
            assert (b"x", path.as_uri()) == (file.read(), where)


@pytest.mark.parametrize("uri", ["relative.jsonl", "https://example.org/x", "/none/such", "s3://bucket"])
def test_requested_nothing(uri: str) -> None:
    """Anything else is refused, naming the field."""
    with pytest.raises(InputError, match="human_items"):
        human_files.open_items(uri, names={})


def test_requested_folder(tmp_path: Path) -> None:
    """A folder or a pipe is no file; opening a pipe does not hang."""
    os.mkfifo(tmp_path / "pipe")

    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(InputError, match="human_items"):
            human_files.open_items(str(path), names={})


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_program_writes_something_else(tmp_path: Path, kind: str) -> None:
    """A link to another file, a pipe or a folder in place of the outputs is refused and never followed."""
    store, path = FileStore(tmp_path / "store"), tmp_path / "samples.jsonl"
    secret = tmp_path / "secret"
    secret.write_text("not yours")
    {"link": lambda: path.symlink_to(secret), "pipe": lambda: os.mkfifo(path), "folder": path.mkdir}[kind]()

    with pytest.raises(InputError, match="samples"):
        human_files.keep_samples(store, "run_x", "eval_1", path)
    assert [] == list(store.list(""))


def test_a_program_writes_nothing(tmp_path: Path) -> None:
    """No outputs are no error; those of two same evaluations lie under their digests, none in place of the other."""
    store, path = FileStore(tmp_path / "store"), tmp_path / "samples.jsonl"

    assert human_files.keep_samples(store, "run_x", "eval_1", path) is None
    for text in ("first", "second", "first"):
        path.write_text(text)
        kept = human_files.keep_samples(store, "run_x", "eval_1", path)
        digest = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
        key = human_files.samples_key("run_x", "eval_1", digest)
        assert (store.location(key), digest) == kept
        with store.open(key) as file:
            assert text.encode() == file.read()
    assert 2 == len(list(store.list("")))


def test_kept_items_are_compared(tmp_path: Path) -> None:
    """The drawn lines come back as they were; changed ones are refused."""
    store = FileStore(tmp_path / "store")
    items = drawn(lines(ITEMS)).items
    _, digest = human_files.keep_items(store, "run_x", human_files.lines_of(items))
    key = human_files.items_key("run_x", digest)

    assert list(items) == human_files.kept_items(store, "run_x", digest)
    (tmp_path / "store" / key).chmod(0o600)
    (tmp_path / "store" / key).write_bytes(b"{}\n")
    with pytest.raises(InputError, match="not the recorded ones"):
        human_files.kept_items(store, "run_x", digest)
