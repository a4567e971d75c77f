"""Two and more tries at once: threads and processes, round after round; exactly one starts the program, once."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.bypass.attacks.replay import derived
from tests.bypass.ground import MARK, Ground, Stages, cached_probe

from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.domain.kinds import AttemptEnded
from pretrain_archive.gates.permit import LaunchPermit, consume_permit
from pretrain_archive.services.caller import Caller

pytestmark = [pytest.mark.requirement("R125"), pytest.mark.timeout(300)]

RACER = """
import sys
from pathlib import Path
import pytest
from tests.bypass.attacks.replay import derived
from tests.bypass.ground import Ground, cached_probe, policy_of
from tests.support.main_line import Line
from pretrain_archive.domain.errors import ArchiveError

patch = pytest.MonkeyPatch()
cached_probe(patch)
policy, uid, number = policy_of("local"), sys.argv[1], int(sys.argv[2])
print("ready", flush=True)
for told in sys.stdin:
    line = Line(folder=Path(told.strip()), policy=policy, run_uid=uid)
    try:
        Ground(line=line, monkeypatch=patch).launch(task_id=f"gpu_launch_{number}")
        print("done", flush=True)
    except ArchiveError as error:
        print("refused", type(error).__name__, flush=True)
    line.ledger.close()
"""


def starts(ground: Ground) -> tuple[int, int]:
    """How many attempts started, by their marks and by the ledger."""
    marks = list(ground.line.runs_folder.glob(f"*/attempt-*/{MARK}"))
    records = list(ground.line.ledger.records(streams=[ground.line.run_uid], kinds=["attempt.started"]))
    return len(marks), len(records)


def at_once(count: int, act: Callable[[int], object]) -> list[object]:
    """Run ``act`` in threads that are let go together; what each returned, or its error."""
    barrier, out = threading.Barrier(count), list[object]()

    def work(number: int) -> None:
        barrier.wait()
        try:
            out.append(act(number))
        except ArchiveError as error:
            out.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return out


@pytest.mark.parametrize("number", range(20))
def test_threads(local_ground: Callable[[str], Ground], number: int) -> None:
    """Two to four tasks launch at the same moment."""
    ground = local_ground("signed")
    at_once(2 + number % 3, lambda n: ground.launch(task_id=f"gpu_launch_{n}"))
    assert (1, 1) == starts(ground)
    intents = list(ground.line.ledger.records(streams=[ground.line.run_uid], kinds=["launch.intended"]))
    assert [1] == [record.attempt for record in intents]


def test_tokens_of_one_attempt(local_ground: Callable[[str], Ground]) -> None:
    """Eight tokens of the same attempt, derived side by side: one is used, attempt after attempt."""
    ground = local_ground("signed")
    for attempt in range(1, 4):
        permits = [derived(ground) for _ in range(8)]
        caller = ground.caller(try_number=attempt)

        def use(n: int, permits: list[LaunchPermit] = permits, caller: Caller = caller) -> object:
            return consume_permit(
                ground.line.ledger, permits[n], target="local", actor=caller.actor, origin=caller.origin
            )

        out = at_once(8, use)
        assert 7 == sum(isinstance(found, ArchiveError) for found in out)
        end = AttemptEnded(
            attempt=attempt, state="lost", exit_code=None, reason="x", seconds=0.1, counted=False
        )
        ground.add("attempt.ended", end, task=f"end_{attempt}", attempt=attempt)


@pytest.fixture
def racers(local_stages: Stages) -> Iterator[list[subprocess.Popen[str]]]:
    """Three processes that launch when they are told a folder."""
    made = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, local_stages.uids["line"], str(number)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for number in range(3)
    ]  # fmt: skip
    yield made
    for racer in made:
        assert racer.stdin is not None
        racer.stdin.close()
        assert 0 == racer.wait(timeout=60)


def test_processes(
    local_stages: Stages, racers: list[subprocess.Popen[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three workers launch at the same moment, twenty rounds."""
    cached_probe(monkeypatch)
    for racer in racers:
        assert racer.stdout is not None
        assert "ready\n" == racer.stdout.readline()
    for number in range(20):
        line = local_stages.at("signed", tmp_path / str(number))
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write(f"{line.folder}\n")
            racer.stdin.flush()
        said = [racer.stdout.readline().strip() for racer in racers if racer.stdout is not None]
        assert "done" in said, said
        assert (1, 1) == starts(Ground(line=line, monkeypatch=monkeypatch)), said
        line.ledger.close()
