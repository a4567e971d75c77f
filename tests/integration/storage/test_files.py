"""The folder store when disks fill up and processes die."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import textwrap

import pytest

from pretrain_archive.storage.files import FileStore


def python(code: str, *arguments: object) -> list[str]:
    """The command that runs ``code``."""
    return [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]


FULL = """
    import io, resource, sys
    from pretrain_archive.storage.files import FileStore
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
    store = FileStore(sys.argv[1])
    try:
        store.put_if_absent("blobs/large", io.BytesIO(b"x" * 5_000_000))
    except Exception as error:
        print(type(error).__name__, error)
    print([info.key for info in store.list("")], store.put_if_absent("small", io.BytesIO(b"x")))
"""


def test_a_full_disk_names_path_and_bytes_needed(tmp_path):
    """The error tells where and how much; nothing of the object stays, and small ones still fit."""
    done = subprocess.run(python(FULL, tmp_path), capture_output=True, text=True, check=True)
    error, after = done.stdout.splitlines()

    assert error.startswith(f"StorageError {tmp_path}/blobs/large: cannot write: File too large;")
    assert "needs 5000000 bytes" in error
    assert "[] True" == after
    assert [] == list((tmp_path / ".tmp").iterdir())


HANGS = """
    import io, sys
    from pretrain_archive.storage.files import FileStore
    class Slow(io.RawIOBase):
        blocks = [b"y" * 100_000]
        def read(self, size=-1):
            if self.blocks:
                return self.blocks.pop()
            print("in the middle", flush=True)
            sys.stdin.read()
            return b""
    FileStore(sys.argv[1]).put_if_absent("blobs/x", Slow())
"""


@pytest.fixture
def writer(tmp_path):
    """A process that hangs in the middle of a write."""
    process = subprocess.Popen(python(HANGS, tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert b"in the middle\n" == process.stdout.readline()
    yield process
    process.kill()
    process.wait()


def test_what_a_killed_writer_left_is_not_seen_and_is_swept(tmp_path, writer):
    """After SIGKILL the key is free, and the next writer removes the unfinished file."""
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    assert 1 == len(list((tmp_path / ".tmp").iterdir()))

    store = FileStore(tmp_path)
    assert [] == list(store.list(""))
    assert store.put_if_absent("blobs/x", io.BytesIO(b"good")) is True
    assert [] == list((tmp_path / ".tmp").iterdir())


def test_a_living_writer_is_not_swept(tmp_path, writer):
    """Another store in the same folder leaves the file of a writer at work alone, which then loses the race."""
    assert FileStore(tmp_path).put_if_absent("blobs/x", io.BytesIO(b"faster")) is True
    assert 1 == len(list((tmp_path / ".tmp").iterdir()))

    writer.stdin.close()
    assert 0 == writer.wait()
    assert b"faster" == (tmp_path / "blobs/x").read_bytes()
    assert [] == list((tmp_path / ".tmp").iterdir())
