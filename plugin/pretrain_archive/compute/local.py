"""Run one attempt on this machine: start, watch, write down, stop, and leave nothing behind."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pretrain_archive.compute.ingest import TRANSIENT, Ingest, OnCheckpoint, Writer
from pretrain_archive.compute.leftovers import end_leftovers
from pretrain_archive.compute.log import LogTail
from pretrain_archive.compute.outcome import conclude
from pretrain_archive.compute.spec import JobSpec, ProcessRequest, build_process, check_command
from pretrain_archive.compute.stops import JobState, first_stop, rules_of
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import AlreadyRecordedError, LedgerError, RefusedError
from pretrain_archive.domain.kinds import AttemptEnded, AttemptStarted, StopFired
from pretrain_archive.domain.records import Actor, Draft, Origin, Record
from pretrain_archive.ledger.port import Ledger

log = logging.getLogger(__name__)

POLL_SECONDS = 0.1
END_SECONDS = 4.5
Progress = Callable[[str], None]
ShouldStop = Callable[[], str]


def check_intent(spec: JobSpec, intent: Record, ledger: Ledger) -> None:
    """Fail closed: only a consumed launch token of exactly this attempt, not used yet, may start a process."""
    if (intent.kind, intent.stream, intent.attempt) != ("launch.intended", spec.run_uid, spec.attempt):
        raise RefusedError(
            "no process was started: the launch intent is not of this attempt",
            reasons=(
                f"expected launch.intended of {spec.run_uid} attempt {spec.attempt}",
                f"got {intent.kind} of {intent.stream} attempt {intent.attempt}",
            ),
            hint="Consume a launch token for this attempt first.",
        )
    names = ("launch.intended", "attempt.started", "attempt.ended")
    known = [r for r in ledger.records(streams=[spec.run_uid], kinds=names) if r.attempt == spec.attempt]
    if not any(r.kind == "launch.intended" and r.record_id == intent.record_id for r in known):
        raise RefusedError(
            "no process was started: the ledger does not hold this launch intent",
            hint="Consume a launch token for this attempt first.",
        )
    if used := [r.kind for r in known if r.kind != "launch.intended"]:
        raise RefusedError(
            f"no process was started: attempt {spec.attempt} has been used", reasons=tuple(used),
            hint="A launch token starts one process once; consume a new one for the next attempt.",
        )  # fmt: skip


class LocalLaunch:
    """One attempt as a process tree of this machine. :meth:`run` once; :meth:`kill` from a signal handler."""

    def __init__(
        self, spec: JobSpec, *, intent: Record, ledger: Ledger, actor: Actor, origin: Origin,
        on_checkpoint: OnCheckpoint, progress: Progress = log.info, should_stop: ShouldStop = lambda: "",
        evidence_seconds: float = 120.0,
    ) -> None:  # fmt: skip
        self.spec, self.intent, self.ledger = spec, intent, ledger
        self.writer = Writer(
            ledger=ledger, run_uid=spec.run_uid, attempt=spec.attempt, actor=actor, origin=origin
        )
        self.on_checkpoint, self.progress, self.should_stop = on_checkpoint, progress, should_stop
        self.rules = rules_of(spec, evidence_seconds=evidence_seconds)
        self.process: subprocess.Popen[bytes] | None = None
        self.killed = ""
        self.drift = ""
        self.fired: StopFired | None = None
        self.begin = self.progress_at = 0.0
        self.failing_since: float | None = None
        self.started = False
        self.pending: list[Draft] = []

    def kill(self, reason: str = "the task was asked to end") -> None:
        """Ask the whole tree for its end and return at once; nothing of it is alive four seconds later."""
        self.killed = self.killed or reason
        self._signal()

    def run(self) -> AttemptEnded:
        """Start and watch the attempt; return how it ended, as the ledger holds it.

        Raises ``RefusedError`` before anything starts if the intent does not cover this attempt, ``InputError``
        for a command that cannot start, ``LedgerUnavailableError`` if the end cannot be written (the next try's
        recovery does it). Whatever is raised, no process of the tree is left.
        """
        check_intent(self.spec, self.intent, self.ledger)
        request = self._prepare()
        ingest = Ingest(
            self.writer, status=request.status, events=request.events, on_checkpoint=self.on_checkpoint,
            declared=self.spec.declared,
        )  # fmt: skip
        tail = LogTail(path=request.log)
        self.begin = time.monotonic()
        try:
            with _termination(self.kill):
                self._start(request)
                self._watch(ingest, tail)
                return self._end(ingest, tail, request)
        except BaseException:
            self.killed = self.killed or "the task failed while it watched the job"
            self._finish_process()
            self._try_to_end(ingest, tail, request)
            raise

    # -- start ---------------------------------------------------------------------------------------

    def _prepare(self) -> ProcessRequest:
        spec = self.spec
        request = build_process(spec, inherited=os.environ, parent=os.getpid())
        spec.work_folder.mkdir(parents=True, exist_ok=True)
        check_command(spec.command, folder=spec.folder, path=request.environment.get("PATH"))
        try:
            request.status.open("xb").close()
        except FileExistsError:
            raise RefusedError(
                f"no process was started: attempt {spec.attempt} was started before in {spec.work_folder}",
                hint="A launch token starts one process once; consume a new one for the next attempt.",
            ) from None
        spec.checkpoint_folder.mkdir(parents=True, exist_ok=True)
        for path, content in request.files.items():
            path.write_bytes(content)
        request.events.touch()
        return request

    def _start(self, request: ProcessRequest) -> None:
        if self.killed:
            return
        with request.log.open("ab") as raw:
            self.process = subprocess.Popen(
                request.argv, env=dict(request.environment), cwd=request.folder, stdin=subprocess.DEVNULL,
                stdout=raw, stderr=subprocess.STDOUT, start_new_session=True, close_fds=True,
            )  # fmt: skip
        if self.killed:  # a signal between the two lines above
            self._signal()

    def _announce(self, ingest: Ingest) -> None:
        """Write ``attempt.started`` with what was asked for and what is there, in one record."""
        budget, environment = self.spec.budget, ingest.seen.environment or {}
        program = ingest.seen.program or {}
        payload = AttemptStarted(
            attempt=self.spec.attempt,
            host=socket.gethostname(),
            process_group=program.get("pid"),
            resume_from=str(self.spec.resume_from) if self.spec.resume_from else None,
            resume_step=self.spec.resume_step,
            requested={
                "accelerator": budget.accelerator,
                "accelerators": budget.accelerators,
                "minutes": budget.minutes,
            },
            allocated={
                "accelerators": len(environment["accelerators"]) if "accelerators" in environment else None,
                "devices": [device.get("uuid") for device in environment.get("accelerators") or ()],
                "cpus": (environment.get("cpu") or {}).get("usable"),
                "memory_bytes": environment.get("memory_bytes"),
                "wrapper": program.get("wrapper"),
                "wrapper_start": program.get("wrapper_start"),
                "program_start": program.get("start"),
                "boot": program.get("boot"),
            },
        )
        key = f"attempt.started/{self.spec.run_uid}/{self.spec.attempt}"
        self.pending.append(self.writer.draft(payload, 0, unique=key))
        self.started = True

    # -- watch ---------------------------------------------------------------------------------------

    def _watch(self, ingest: Ingest, tail: LogTail) -> None:
        steps = 0
        while self.process is not None and self.process.poll() is None:
            for line in tail.read():
                self.progress(line)
            self._ingest(ingest)
            if ingest.seen.progress_steps > steps:
                steps, self.progress_at = ingest.seen.progress_steps, self._seconds()
            self._check(ingest)
            ingest.flush_seconds = 1.0 if self._seconds() < 120 else 10.0
            time.sleep(POLL_SECONDS)

    def _ingest(self, ingest: Ingest, *, final: bool = False) -> None:
        """Write what is new; a ledger that cannot be reached is noticed, not raised: training goes on a while."""
        try:
            if not self.started and (ingest.seen.program or final):
                self._announce(ingest)
            if self.pending:
                self.ledger.append(self.pending)
                self.pending.clear()
            ingest.poll(final=final)
            self.failing_since = None
        except TRANSIENT as error:
            if final:
                raise
            if self.failing_since is None:
                self.failing_since = self._seconds()
                log.warning("evidence cannot be written now, trying again: %s", error)

    def _check(self, ingest: Ingest) -> None:
        if self.fired or self.killed or self.drift:
            return
        seen = ingest.seen
        state = JobState(
            seconds=self._seconds(), attempt=self.spec.attempt, last_step=seen.last_step,
            last_checkpoint_step=seen.last_checkpoint_step, progress_at=self.progress_at,
            worst_loss=seen.worst_loss, evidence_failing_since=self._silent_since(ingest),
        )  # fmt: skip
        self.fired = first_stop(self.rules, state)
        blocking = [d["field"] for d in seen.differences if d["grade"] == "blocking"]
        if self.fired:
            log.warning("stop rule %s: %s, limit %s", self.fired.rule, self.fired.observed, self.fired.limit)
            self.pending.append(self.writer.draft(self.fired, 0))
        elif self.spec.drift == "stop" and blocking:
            self.drift = ", ".join(blocking[:10])
        elif reason := self.should_stop():
            self.killed = reason
        if self.fired or self.drift or self.killed:
            self._signal()

    def _silent_since(self, ingest: Ingest) -> float | None:
        """Since when the ledger cannot be written, or the wrapper writes no heartbeats (its disk is full)."""
        beat = ingest.seen.last_heartbeat
        quiet = None
        if beat is not None and time.monotonic() - beat > 4 * self.spec.heartbeat_seconds:
            quiet = beat - self.begin
        since = [moment for moment in (self.failing_since, quiet) if moment is not None]
        return min(since) if since else None

    # -- end -----------------------------------------------------------------------------------------

    def _seconds(self) -> float:
        return time.monotonic() - self.begin

    def _signal(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()

    def _finish_process(self) -> None:
        """Wait for the wrapper to end the tree; if it cannot, end the tree from here."""
        if self.process is None:
            return
        self._signal()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        end_leftovers(self.spec.run_uid, self.spec.attempt, grace=0.0)

    def _end(self, ingest: Ingest, tail: LogTail, request: ProcessRequest) -> AttemptEnded:
        self._finish_process()
        for line in tail.read(final=True):
            self.progress(line)
        self._ingest(ingest, final=True)
        if self.pending:
            self.ledger.append(self.pending)
        code = self.process.returncode if self.process else None
        if self.process is None and not self.killed:
            self.killed = "the task ended before the job started"
        payload = ended_payload(
            self.spec, ingest, tail, request, code=code, fired=self.fired, killed=self.killed, drift=self.drift,
            seconds=self._seconds(),
        )  # fmt: skip
        return append_end(self.writer, payload, ingest)

    def _try_to_end(self, ingest: Ingest, tail: LogTail, request: ProcessRequest) -> None:
        try:
            self._end(ingest, tail, request)
        except Exception:  # noqa: BLE001 (the first error matters; the next try closes this attempt)
            log.warning("the attempt's end could not be written; the next try does it", exc_info=True)


def ended_payload(
    spec: JobSpec, ingest: Ingest, tail: LogTail, request: ProcessRequest, *, code: int | None,
    fired: StopFired | None = None, killed: str = "", drift: str = "", seconds: float | None = None,
) -> AttemptEnded:  # fmt: skip
    """The record of an attempt's end from everything that was seen."""
    seen, ended = ingest.seen, ingest.seen.ended or {}
    outcome = conclude(
        seen, target_steps=spec.target_steps, fired=fired, killed=killed, drift=drift, wrapper_code=code
    )
    lasted = ended.get("seconds", seconds)
    last = seen.last_step if seen.last_step is not None else tail.last_step
    by_log = seen.last_step is None and last is not None
    share = spec.budget.accelerators
    return AttemptEnded(
        attempt=spec.attempt,
        state=outcome.state,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        reason=outcome.reason + (" (last step as the log says)" if by_log else ""),
        first_step=seen.first_step,
        last_step=last,
        last_checkpoint_step=seen.last_checkpoint_step,
        steps_repeated=repeated_steps(spec.resume_step, spec, ingest),
        steps_lost=None
        if last is None
        else max(0, last - (seen.last_checkpoint_step or spec.resume_step or 0)),
        seconds=lasted,
        accelerator_seconds=None if lasted is None else round(lasted * share, 3),
        cpu_seconds=ended.get("cpu_seconds"),
        max_rss_bytes=ended.get("max_rss_bytes"),
        log_uri=request.log.as_uri(),
        log_digest=tail.digest(),
    )


def repeated_steps(resume_step: int | None, spec: JobSpec, ingest: Ingest) -> int | None:
    """Steps of this attempt that an earlier attempt had done; None without an earlier attempt on record."""
    last = ingest.seen.last_step
    before = [
        record.payload["last_step"]
        for record in ingest.writer.ledger.records(streams=[spec.run_uid], kinds=["attempt.ended"])
        if record.attempt < spec.attempt and record.payload.get("last_step") is not None
    ]
    if not before or last is None:
        return None
    return max(0, min(last, max(before)) - (resume_step or 0))


def append_end(writer: Writer, payload: AttemptEnded, ingest: Ingest) -> AttemptEnded:
    """Append the end, once in the ledger; if another one was first, that one is the answer."""
    drafts = [draft for draft in (ingest.summary(),) if draft]
    key = f"attempt.ended/{writer.run_uid}/{writer.attempt}"
    drafts.append(writer.draft(payload, 0, unique=key))
    try:
        writer.ledger.append(drafts)
    except AlreadyRecordedError:
        return known_end(writer)
    return payload


def known_end(writer: Writer) -> AttemptEnded:
    """The recorded end of the attempt."""
    for record in writer.ledger.records(streams=[writer.run_uid], kinds=["attempt.ended"]):
        if record.attempt == writer.attempt:
            return kinds.read_payload(record, AttemptEnded)
    raise LedgerError(f"attempt {writer.attempt} of {writer.run_uid} has no recorded end.")


@contextmanager
def _termination(kill: Callable[[str], None]) -> Iterator[None]:
    """Let SIGTERM end the job where nobody else listens to it (outside Airflow, in the main thread)."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, lambda *_: kill("the task was asked to end by SIGTERM"))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def run_local(
    spec: JobSpec, *, intent: Record, ledger: Ledger, actor: Actor, origin: Origin,
    on_checkpoint: OnCheckpoint, progress: Progress = log.info, should_stop: ShouldStop = lambda: "",
) -> AttemptEnded:  # fmt: skip
    """Run one attempt; see :class:`LocalLaunch` (which also has ``kill``)."""
    launch = LocalLaunch(
        spec, intent=intent, ledger=ledger, actor=actor, origin=origin, on_checkpoint=on_checkpoint,
        progress=progress, should_stop=should_stop,
    )  # fmt: skip
    return launch.run()
