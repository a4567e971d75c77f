"""Many processes write to one run and to many, and are killed in between: no gap, no fork, each fact once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.support.ledgers import Place

WRITERS = 4
EACH = 40
ROOT = Path(__file__).parents[3]

# One writer: appends its facts one by one and says which were acknowledged, by whom they can be found again.
PROGRAM = """
import json, sys
from pathlib import Path
from tests.support.ledgers import Place, draft
url, folder, name, streams, start, each = sys.argv[1:]
place = Place(url=url, folder=Path(folder))
ledger = place.open(auto_seal=True)
for i in range(int(start), int(each)):
    stream = f"project/{name if streams == 'many' else 'one'}"
    from pretrain_archive.domain.records import Origin
    (record,) = ledger.append(
        [draft(i, stream=stream, origin=Origin(dag_id="d", dag_run_id=name, task_id="t"))]
    )
    print(json.dumps([i, record.record_id, record.position]), flush=True)
"""


def start(place: Place, name: str, streams: str, *, first: int = 0) -> subprocess.Popen[str]:
    """Start a writer."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, place.url, str(place.folder), name, streams, str(first), str(EACH)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def write_with_kills(place: Place, name: str, streams: str, writer: subprocess.Popen[str]) -> dict[int, str]:
    """Follow a writer; kill it twice on the way and start it again from its first fact, as a retried task does."""
    assert writer.stdout is not None
    acknowledged: dict[int, str] = {}
    kills = random.Random(name).sample(range(5, EACH - 5), 2)  # the same places in every run
    seen = 0
    while True:
        for line in writer.stdout:
            number, record_id, _ = json.loads(line)
            assert acknowledged.setdefault(number, record_id) == record_id, "acknowledged twice, differently"
            seen += 1
            if kills and seen >= kills[-1]:
                kills.pop()
                writer.send_signal(signal.SIGKILL)
        if writer.wait() == 0:
            return acknowledged
        assert -signal.SIGKILL == writer.returncode
        writer = start(place, name, streams)
        assert writer.stdout is not None


@pytest.mark.parametrize("streams", ["one", "many"])
def test_writers_of_processes_with_kills(place: Place, streams: str) -> None:
    """Every acknowledged fact is there once, under the id it was acknowledged with, and the log is whole."""
    from concurrent.futures import ThreadPoolExecutor

    place.open().close()
    names = [f"writer{i}" for i in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        jobs = [
            pool.submit(write_with_kills, place, name, streams, start(place, name, streams)) for name in names
        ]
        acknowledged = {name: job.result() for name, job in zip(names, jobs, strict=True)}

    ledger = place.open()
    records = list(ledger.records())
    assert list(range(WRITERS * EACH)) == [record.position for record in records]
    assert all(set(range(EACH)) == set(found) for found in acknowledged.values())
    assert {
        (name, number, record_id)
        for name, found in acknowledged.items()
        for number, record_id in found.items()
    } == {(record.origin.dag_run_id, record.ordinal, record.record_id) for record in records}
    followers = Counter((record.stream, record.previous) for record in records)
    assert {1} == set(followers.values()), "a fork: two records name the same one before them"
    ledger.seal()
    result = ledger.audit()
    assert ("verified", ()) == (result.verdict, result.findings)
    sizes = [entry.size for entry in place.anchor.entries()]
    assert sizes == sorted(set(sizes))


def test_one_of_many_takes_a_unique_key(place: Place) -> None:
    """A launch token that several processes try to consume at once is consumed by one."""
    program = """
import sys
from pathlib import Path
from pretrain_archive.domain.errors import AlreadyRecordedError
from pretrain_archive.domain.records import Origin
from tests.support.ledgers import Place, draft
ledger = Place(url=sys.argv[1], folder=Path(sys.argv[2])).open()
won = 0
for i in range(20):
    try:
        ledger.append([draft(i, unique=f"launch/{i}", origin=Origin(dag_id="d", dag_run_id=sys.argv[3], task_id="t"))])
        won += 1
    except AlreadyRecordedError:
        pass
print(won)
"""
    place.open().close()
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", program, place.url, str(place.folder), str(i)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        for i in range(3)
    ]
    won = [int(writer.communicate()[0]) for writer in writers]

    assert [0, 0, 0] == [writer.returncode for writer in writers]
    assert 20 == sum(won) == len(list(place.open().records()))
