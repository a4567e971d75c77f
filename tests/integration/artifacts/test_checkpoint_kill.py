"""A registration that is killed anywhere leaves one whole record or none, and the next one completes it."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys

import pytest
from tests.support.artifact_files import write_checkpoint

from pretrain_archive.artifacts.hash_stamps import NAME, HashStamps
from pretrain_archive.artifacts.registration import Claim, Reading, register_checkpoint, registered
from pretrain_archive.domain.records import Actor, Origin
from pretrain_archive.ledger.factory import open_ledger

RUN = "run_019a0000-0000-7000-8000-000000000001"
ACTOR = Actor(type="task", name="register_checkpoints")
ORIGIN = Origin(dag_id="pretraining_reference", dag_run_id="manual__1", task_id="register_checkpoints")
CLAIM = {
    "run_uid": RUN, "attempt": 1, "step": 100, "tokens": None, "snapshot": "stdlib@1",
    "configuration_digest": "sha256:" + "c" * 64, "responsible": "alice",
}  # fmt: skip

PROGRAM = """
import json, os, signal, sys
from pathlib import Path
from pretrain_archive.artifacts import hash_stamps, hashing, readers, registration
from pretrain_archive.artifacts.registration import Claim, Reading, register_checkpoint
from pretrain_archive.domain.records import Actor, Origin
from pretrain_archive.ledger.factory import open_ledger

told = json.loads(sys.argv[1])
ledger = open_ledger(told["url"], signing_key=None, anchors=())

def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

def before(place, name):
    setattr(place, name, die)

def after(place, name):
    true = getattr(place, name)
    def then_die(*args, **kwargs):
        true(*args, **kwargs)
        die()
    setattr(place, name, then_die)

{"listed": lambda: before(registration, "inspect"),
 "inspected": lambda: before(hashing, "hash_checkpoint"),
 "a file hashed": lambda: after(hashing, "_hash_one"),
 "stamps half written": lambda: before(hash_stamps.os, "fsync"),
 "hashed": lambda: after(hashing, "hash_checkpoint"),
 "looked again": lambda: after(hashing, "changed_since"),
 "appended": lambda: after(ledger, "append"),
 "nowhere": lambda: None}[told["at"]]()
stamps = hash_stamps.HashStamps(Path(told["stamps"]))
hash_stamps.AGE_NS = -1_000_000_000
made = register_checkpoint(ledger, Path(told["folder"]), Claim(**told["claim"]), actor=Actor(**told["actor"]),
                           origin=Origin(**told["origin"]), reading=Reading(stamps=stamps))
print(made.checkpoint_id)
"""


@pytest.mark.parametrize(
    "at",
    ["listed", "inspected", "a file hashed", "stamps half written", "hashed", "looked again", "appended"],
)
def test_a_kill_between_phases_leaves_nothing_half(ledger_url, tmp_path, at):
    """After one more try there is one record, of the bytes that are there."""
    folder = write_checkpoint(tmp_path, 100)
    told = {
        "url": ledger_url, "folder": str(folder), "claim": CLAIM, "at": at, "stamps": str(tmp_path),
        "actor": dataclasses.asdict(ACTOR), "origin": dataclasses.asdict(ORIGIN),
    }  # fmt: skip

    killed = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(told)], capture_output=True, check=False
    )
    assert -signal.SIGKILL == killed.returncode, killed.stderr.decode()[-600:]
    ledger = open_ledger(ledger_url, signing_key=None, anchors=())
    assert (at == "appended") == (len(registered(ledger, RUN)) == 1)

    again = register_checkpoint(
        ledger, folder, Claim(**CLAIM), actor=ACTOR, origin=dataclasses.replace(ORIGIN, try_number=2),
        reading=Reading(stamps=HashStamps(tmp_path)),
    )  # fmt: skip

    assert [again] == [fact for _, fact in registered(ledger, RUN)]
    assert [] == [path for path in folder.iterdir() if "stamp" in path.name]
    assert {"checkpoint.registered"} == {record.kind for record in ledger.records()}


def test_two_writers_of_one_checkpoint_make_one_record(ledger_url, tmp_path):
    """Both return the same fact; the second finds the first one's."""
    folder = write_checkpoint(tmp_path, 100)
    told = [
        {
            "url": ledger_url, "folder": str(folder), "claim": CLAIM, "at": "nowhere", "stamps": str(tmp_path),
            "actor": dataclasses.asdict(ACTOR), "origin": dataclasses.asdict(ORIGIN) | {"try_number": number},
        }
        for number in (1, 2)
    ]  # fmt: skip

    running = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, json.dumps(each)], stdout=subprocess.PIPE, text=True)
        for each in told
    ]
    names = [process.communicate(timeout=60)[0].strip() for process in running]

    ledger = open_ledger(ledger_url, signing_key=None, anchors=())
    assert [0, 0] == [process.returncode for process in running]
    assert {fact.checkpoint_id for _, fact in registered(ledger, RUN)} == set(names)
    assert 1 == len(list(ledger.records()))
    assert (tmp_path / NAME).exists()
