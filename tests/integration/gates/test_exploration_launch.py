"""Exploration runs with real processes: launched unsigned, ended by their deadline, never a candidate."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support.main_line import Line, line_policy

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError, RefusedError, StreamMovedError
from pretrain_archive.gates.permit import consume_permit, derive_permit
from pretrain_archive.gates.service import compute_dossier
from pretrain_archive.services import exploring as exploring_service
from pretrain_archive.services.closing import Closed, Shelf
from pretrain_archive.services.exploring import close_exploration, ends_unsigned, incomplete
from pretrain_archive.services.launch_inputs import observed_now

RACER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from tests.support.main_line import Line, line_policy
from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.gates.permit import consume_permit, derive_permit
from pretrain_archive.services.launch_inputs import observed_now

folder, uid, dag_run_id, changes = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4]
policy = line_policy(min_documents="5", max_unclean_rate="1.0", accelerator_minutes_per_day=changes)
line = Line(folder=Path(folder), policy=policy, dag_run_id=dag_run_id, run_uid=uid)
view = line.view()
observed, _ = observed_now(view, policy.policy)
permit = derive_permit(line.ledger, view, dag_run_id=dag_run_id, policy=policy, observed=observed,
                       now=datetime.now(UTC))
caller = line.caller("gpu_launch")
print("derived", flush=True)
sys.stdin.readline()
try:
    consume_permit(line.ledger, permit, target="local", actor=caller.actor, origin=caller.origin)
    print("consumed")
except ArchiveError as error:
    print("refused", type(error).__name__, "; ".join(getattr(error, "reasons", ())))
"""


def exploring(
    folder: Path, *, dag_run_id: str = "manual__line", policy: dict[str, str] | None = None, **changes: Any
) -> Line:
    """An exploration with data, without any answer."""
    line = Line(
        folder=folder, dag_run_id=dag_run_id,
        policy=line_policy(**{"min_documents": "5", "max_unclean_rate": "1.0"} | (policy or {})),
    )  # fmt: skip
    line.open(**{"scope": "exploration", "budget_minutes": 2} | changes)
    line.prepare_data()
    return line


@pytest.mark.requirement("R132")
def test_exploration_runs_and_names_no_candidate(tmp_path: Path) -> None:
    """Unsigned, it trains, registers and is measured; no candidate comes of it, and no gate hands it over."""
    line = exploring(tmp_path)
    ended = line.launch()
    assert ("completed", 40) == (ended.state, ended.last_step)
    launched = line.view().latest(kinds.LaunchIntended)
    assert launched is not None
    assert "exploration" == launched.scope
    line.register()
    measured = line.evaluate()
    assert measured.report.metrics
    assert measured.candidate is None
    assert [] == list(line.view().all(kinds.CandidateNamed))
    dossier = compute_dossier(line.ledger, line.view(), "close")
    blocked = {item.id: item.found for item in dossier.blocked_by()}
    assert "never a candidate" in blocked["close.candidate"]
    assert "release.scope" in {item.id for item in dossier.release_gaps()}


def test_deadline_ends_it(tmp_path: Path) -> None:
    """The job ends at the ceiling, and a further attempt finds nothing left."""
    line = exploring(
        tmp_path, policy={"accelerator_minutes": "0.15"}, budget_minutes=0.15,
        configuration={"steps": 4000, "seconds": 0.05},
    )  # fmt: skip
    begin = time.monotonic()
    ended = line.launch()
    assert "stopped" == ended.state
    assert time.monotonic() - begin < 60
    assert ended.seconds is not None
    assert ended.seconds <= 9.0
    fired = line.view().latest(kinds.StopFired)
    assert fired is not None
    assert "of an exploration" in fired.limit
    with pytest.raises(RefusedError):
        line.launch(try_number=2)
    assert 1 == line.view().attempts


def test_wrapper_alone_holds_the_ceiling(tmp_path: Path) -> None:
    """The job's own process ends it by the deadline, whoever follows it: the limit stands on its command line."""
    from pretrain_archive.compute.spec import backstop_seconds, build_process

    line = exploring(tmp_path, configuration={"steps": 40})
    jobs: list[Any] = []
    line.launch(hold=jobs.append)
    spec = jobs[0].spec
    assert 120.0 == spec.deadline_seconds
    argv = build_process(spec, inherited={}).argv
    limit = float(argv[argv.index("--max-seconds") + 1])
    assert limit == backstop_seconds(spec, margin=15) == 120.0 - spec.grace_seconds


def test_withdrawn_source_stops_an_exploration_too(tmp_path: Path) -> None:
    """Rights are asked as for a signed launch."""
    from pretrain_archive.domain.records import Draft
    from pretrain_archive.domain.source_rights import source_stream

    line = exploring(tmp_path)
    source = line.view().latest(kinds.SourceRegistered)
    assert source is not None
    fact = kinds.SourceWithdrawn(source_id=source.source_id, name=source.name, reason="over", by="dana",
                                 at="2026-11-29T10:00:00Z")  # fmt: skip
    caller = line.caller("withdraw")
    line.ledger.append([
        Draft(stream=source_stream(source.source_id), kind="source.withdrawn", payload=fact.to_json(),
              actor=caller.actor, origin=caller.origin)
    ])  # fmt: skip
    with pytest.raises(RefusedError) as raised:
        line.launch()
    assert "was withdrawn" in "; ".join(raised.value.reasons)
    assert not (line.runs_folder / line.run_uid / "attempt-1").exists()


def test_changed_bytes_stop_an_exploration_too(tmp_path: Path) -> None:
    """The snapshot's digest is proved before an exploration as well."""
    line = exploring(tmp_path)
    kept = [path for path in (tmp_path / "store").rglob("*") if path.is_file() and path.stat().st_size > 100]
    for path in kept:
        path.chmod(0o644)
        if b"document" in (data := path.read_bytes()):
            path.write_bytes(data.replace(b"document", b"dokument"))
    with pytest.raises((RefusedError, InputError), match="changed"):
        line.launch()
    assert 0 == line.view().attempts


def test_processes_race_for_the_last_minutes(tmp_path: Path) -> None:
    """Of processes that all saw the last two minutes, one takes them, round after round."""
    lines = [
        exploring(tmp_path, dag_run_id=f"manual__{n}", policy={"accelerator_minutes_per_day": "2"})
        for n in range(3)
    ]
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(tmp_path), line.run_uid, line.dag_run_id, "2"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for line in lines
    ]  # fmt: skip
    for racer in racers:
        assert racer.stdout is not None
        assert "derived" == racer.stdout.readline().strip()
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = sorted(racer.communicate(timeout=60)[0].strip() for racer in racers)
    assert [0, 0, 0] == [racer.returncode for racer in racers]
    assert 1 == sum(text == "consumed" for text in said), said
    assert 2 == sum("RefusedError" in text for text in said), said
    assert 1 == sum(line.view().attempts for line in lines)


def closed(line: Line, *, try_number: int = 1) -> Closed:
    """Close as the DAG's last task does."""
    shelf = Shelf(
        packages_folder=line.folder / "packages", verifier_key=(line.folder / "ledger.pub").read_text().strip(),
        policies=lambda _: line.policy,
    )  # fmt: skip
    caller = line.caller("archive_close", try_number=try_number)
    return close_exploration(line.ledger, line.store, caller, line.run_uid, shelf)


def test_it_ends_as_explored(tmp_path: Path) -> None:
    """Closed without a gate: a package that verifies, says so first, holds the evidence, and no release."""
    line = exploring(tmp_path)
    line.launch()
    line.register()
    assert ends_unsigned(line.ledger, line.caller("archive_close"), line.run_uid)
    done = closed(line)
    end = line.view().latest(kinds.RunClosed)
    assert end is not None
    assert ("explored", done.package.digest, "40") == (
        end.outcome,
        end.package_digest,
        end.figures["resume_step"],
    )
    assert [] == list(line.view().all(kinds.ReleaseMade))
    assert [] == list(line.view().all(kinds.GateDossier))
    first, second = (done.folder / "README.txt").read_text().splitlines()[:2]
    assert "never a candidate" in first
    assert "不得成为候选" in second
    page = (done.folder / "index.html").read_text()
    assert "There is no release" in page
    assert page.index("never a candidate") < page.index("<h1>")
    told = line.verify(done.folder)
    assert (0, "verified") == (told.returncode, json.loads(told.stdout)["verdict"])
    assert list((done.folder / "evidence").rglob("*"))

    assert done.package == closed(line, try_number=2).package
    assert 1 == sum(1 for _ in line.view().all(kinds.RunClosed))
    with pytest.raises(RefusedError, match="is closed and frozen"):
        line.launch(try_number=3)


def test_one_that_failed_ends_too(tmp_path: Path) -> None:
    """A stopped exploration is closed with its evidence, and whoever closes it learns that it did not complete."""
    line = exploring(
        tmp_path, policy={"accelerator_minutes": "0.15"}, budget_minutes=0.15,
        configuration={"steps": 4000, "seconds": 0.05},
    )  # fmt: skip
    line.launch()
    assert "explored" == closed(line).outcome
    assert "attempt 1 stopped" in str(incomplete(line.ledger, line.run_uid))


def test_what_cannot_be_closed_without_a_gate(tmp_path: Path) -> None:
    """Neither a full run, nor one that was never launched, nor one whose attempt has no end."""
    full = Line(folder=tmp_path, dag_run_id="manual__full", policy=line_policy(min_documents="5"))
    full.open()
    with pytest.raises(RefusedError) as raised:
        closed(full)
    assert "no exploration" in raised.value.reasons[0]
    line = exploring(tmp_path)
    with pytest.raises(RefusedError) as raised:
        closed(line)
    assert "never launched" in raised.value.reasons[0]
    intend(line)
    with pytest.raises(RefusedError) as raised:
        closed(line)
    assert "attempt 1 has no recorded end" in raised.value.reasons[0]
    assert [] == list(line.view().all(kinds.RunClosed))


def test_a_launch_meanwhile_keeps_it_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tasks at once: a token that is consumed while the package is made is not closed over."""
    line = exploring(tmp_path, max_attempts=3)
    line.launch()
    real = exploring_service.write_package

    def later(*args: Any, **more: Any) -> Any:
        intend(line)
        return real(*args, **more)

    monkeypatch.setattr(exploring_service, "write_package", later)
    with pytest.raises(StreamMovedError):
        closed(line)
    assert [] == list(line.view().all(kinds.RunClosed))
    assert [] == list(line.view().all(kinds.PackageWritten))


def intend(line: Line) -> None:
    """Consume the next token and start nothing."""
    observed, _ = observed_now(line.view(), line.policy.policy)
    permit = derive_permit(
        line.ledger, line.view(), dag_run_id=line.dag_run_id, policy=line.policy, observed=observed,
        now=datetime.now(UTC),
    )  # fmt: skip
    caller = line.caller("gpu_launch")
    consume_permit(line.ledger, permit, target="local", actor=caller.actor, origin=caller.origin)
