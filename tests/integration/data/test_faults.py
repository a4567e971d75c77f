"""Snapshots when processes are killed, disks fail or fill up, and several write at once."""

from __future__ import annotations

import io
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.data_track import ACTOR, AWKWARD_NAMES, new_ledger, numbered, write_tree
from tests.support.faults import Outcome, observe, plan, require_strace, run

from pretrain_archive.data.manifest import read_entries
from pretrain_archive.data.snapshots import create_snapshot, open_manifest, open_version, versions
from pretrain_archive.data.verify import verify_snapshot
from pretrain_archive.domain.identity import text_to_path
from pretrain_archive.domain.records import Origin
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.storage.factory import open_store

pytestmark = pytest.mark.forks

FILES = numbered(AWKWARD_NAMES) | {b"large.bin": os.urandom(3_000_000)}
ROOT = Path(__file__).parents[3]
STEP = Origin(dag_id="pretraining_reference", dag_run_id="manual", task_id="snapshot")


def snapshot(folder: Path, mode: str = "copy"):
    """Snapshot ``folder/in`` into the store and ledger in ``folder``, as a task would."""
    ledger = open_ledger(f"sqlite:///{folder / 'ledger.db'}", signing_key=None, anchors=[])
    store = open_store(f"file://{folder}/store")
    return create_snapshot(
        store, ledger, name="corpus", source_root=folder / "in", mode=mode, actor=ACTOR, origin=STEP
    )


def records(folder: Path) -> list[dict]:
    """The payloads of all snapshots on record."""
    ledger = open_ledger(f"sqlite:///{folder / 'ledger.db'}", signing_key=None, anchors=[])
    return [dict(record.payload) for record in ledger.records(kinds=["snapshot.created"])]


def check_nothing_half_done(folder: Path) -> None:
    """Whatever version or record can be seen is complete, down to the last byte."""
    store = open_store(f"file://{folder}/store")
    seen = versions(store, "corpus")
    assert seen in ([], [1])
    for version in seen:
        assert [] == list(verify_snapshot(store, "corpus", version).items)
        with open_manifest(store, open_version(store, "corpus", version).manifest_digest) as stream:
            assert sorted(FILES) == [text_to_path(entry.path) for entry in read_entries(stream)]
    assert len(records(folder)) <= len(seen)


def check_swept_by_the_next_write(folder: Path) -> None:
    """What a killed writer left is gone after any further write to the store."""
    open_store(f"file://{folder}/store").put_if_absent("another", io.BytesIO(b"x"))
    assert [] == list((folder / "store/.tmp").iterdir())


@pytest.fixture
def template(tmp_path) -> Path:
    """A source and an empty ledger to copy."""
    folder = tmp_path / "template"
    folder.mkdir()
    write_tree(folder / "in", FILES)
    new_ledger(folder)
    return folder


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["copy", "reference"])
def test_a_fault_at_every_kind_of_syscall(template, tmp_path, mode):
    """Killed or failing anywhere: nothing incomplete is visible, and the same step then succeeds, once.

    Places are counted for each thread. By reference only the main thread writes, so that the places between
    manifest, version and record are hit too.
    """
    require_strace()
    case = tmp_path / "case"

    def fresh() -> None:
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(template, case)

    fresh()
    seen = observe(lambda: snapshot(case, mode), paths=[])
    assert {"write", "fsync", "link", "mkdir", "read"} <= set(seen), seen
    hit = 0
    # Places are counted for each thread and copying shares its files among them: more places, so that enough hit.
    for fault in plan(seen, each=5):
        fresh()
        try:
            outcome = run(lambda: snapshot(case, mode), fault=fault, paths=[])
        except BrokenPipeError:
            # Every syscall is watched, also the read by which the process waits for its start signal.
            outcome = Outcome(code=-signal.SIGKILL, text="killed before it began", seen={})
        hit += outcome.code != 0
        try:
            check_nothing_half_done(case)
            made = snapshot(case, mode)
            check_nothing_half_done(case)
            assert [made.to_json()] == records(case)
            assert 1 == made.version
            check_swept_by_the_next_write(case)
        except BaseException as error:
            error.add_note(f"after {fault}, which ended with {outcome.code}:\n{outcome.text}")
            raise
    # A plan that mostly misses would prove nothing.
    assert hit > 60, hit


KILLED = """
import os, sys
from pathlib import Path
from tests.integration.data.test_faults import ACTOR, STEP
from pretrain_archive.data.snapshots import create_snapshot
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.storage.factory import open_store
folder = Path(sys.argv[1])
def told(files, size):
    print(files, flush=True)
create_snapshot(open_store(f"file://{folder}/store"), open_ledger(f"sqlite:///{folder}/ledger.db", signing_key=None,
    anchors=[]), name="corpus", source_root=folder / "in", mode="copy", actor=ACTOR, origin=STEP, progress=told)
"""


@pytest.mark.parametrize("after", [1, 150, 299])
def test_killed_in_the_middle_of_copying(tmp_path, after):
    """After SIGKILL while files are copied no version is seen; the next try keeps what was copied."""
    write_tree(tmp_path / "in", {b"%03d" % i: b"%d" % i * 5000 for i in range(300)})
    new_ledger(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, tmp_path], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    # Small files are told in batches: wait until at least so many are done.
    while int(process.stdout.readline()) < after:
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    store = open_store(f"file://{tmp_path}/store")
    kept = {info.key for info in store.list("blobs/")}
    assert kept
    if after < 299:
        assert ([], []) == (versions(store, "corpus"), records(tmp_path))

    made = snapshot(tmp_path)
    assert (1, 300) == (made.version, made.file_count)
    assert kept <= {info.key for info in store.list("blobs/")}
    assert 300 == verify_snapshot(store, "corpus").counts["verified"]
    assert [made.to_json()] == records(tmp_path)
    check_swept_by_the_next_write(tmp_path)


def _create(folder: Path, number: int, barrier, options: dict | None, url: str, answers) -> None:
    """One of several processes that snapshot at the same moment."""
    store = open_store(url, s3_options=options)
    barrier.wait(timeout=60)
    made = create_snapshot(
        store, None, name="corpus", source_root=folder / f"in{number}", mode="copy", actor=ACTOR, origin=STEP
    )
    answers.put((number, made.version, made.manifest_digest, made.unchanged, made.parent))


@pytest.mark.parametrize("kind", ["files", "s3"])
@pytest.mark.parametrize("same", [True, False], ids=["same content", "different content"])
def test_two_processes_create_the_same_version(tmp_path, kind, same, request):
    """Same content: one version, made once. Different content: a version each, the later on the earlier."""
    url, options = f"file://{tmp_path}/store", None
    if kind == "s3":
        server = request.getfixturevalue("s3")
        url, options = f"s3://{server.bucket}/p", server.options
    for number in range(3):
        write_tree(
            tmp_path / f"in{number}", {b"f": b"same" if same else b"%d" % number, b"g": b"g" * 100_000}
        )
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    barrier = context.Barrier(3)
    processes = [
        context.Process(target=_create, args=(tmp_path, n, barrier, options, url, answers)) for n in range(3)
    ]
    for process in processes:
        process.start()
    made = sorted(answers.get(timeout=60) for _ in processes)
    for process in processes:
        process.join()
    store = open_store(url, s3_options=options)

    assert ([1] if same else [1, 2, 3]) == versions(store, "corpus")
    assert (1 if same else 3) == [unchanged for _, _, _, unchanged, _ in made].count(False)
    for _, version, digest, _, parent in made:
        assert digest == open_version(store, "corpus", version).manifest_digest
        assert parent == (None if version == 1 else f"snapshot:corpus@{version - 1}")
        assert "verified" == verify_snapshot(store, "corpus", version).verdict.value


FULL = """
import resource, sys
from pathlib import Path
from tests.integration.data.test_faults import snapshot
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
try:
    snapshot(Path(sys.argv[1]))
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_full_disk_makes_no_version(template):
    """The error names path and bytes needed; once there is room, the same step succeeds."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, template], capture_output=True, text=True, check=True, cwd=ROOT
    )

    assert done.stdout.startswith(f"StorageError {template}/store/blobs/sha256/")
    assert "the object needs 3000000 bytes" in done.stdout
    check_nothing_half_done(template)
    assert [] == records(template)
    assert 1 == snapshot(template).version
