"""Run one attempt on this machine: start, watch, write down, stop, and leave nothing behind."""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pretrain_archive.compute.ending import Attempt, append_end, ended_payload
from pretrain_archive.compute.environment import allocated_of
from pretrain_archive.compute.ingest import TRANSIENT, Ingest, OnCheckpoint
from pretrain_archive.compute.intent import check_intent
from pretrain_archive.compute.log import LogTail
from pretrain_archive.compute.outcome import Outcome, conclude
from pretrain_archive.compute.process import WrapperProcess, lay_out
from pretrain_archive.compute.recovery import keep_stop
from pretrain_archive.compute.seen import Writer
from pretrain_archive.compute.spec import JobSpec, build_process
from pretrain_archive.compute.stops import first_stop, rules_of, state_of
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.kinds import AttemptEnded, AttemptStarted, StopFired
from pretrain_archive.domain.records import Actor, Draft, Origin, Record
from pretrain_archive.ledger.port import Ledger

log = logging.getLogger(__name__)

POLL_SECONDS = 0.1
FINAL_SECONDS = 15.0
_ENVIRONMENT_SECONDS = 30.0
_OWN_END_SECONDS = 15.0
Progress = Callable[[str], None]
ShouldStop = Callable[[], str]


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
        self.process = WrapperProcess(spec)
        self.killed = ""
        self.fired: StopFired | None = None
        self.begin = self.progress_at = 0.0
        self.own_end = math.inf  # by when a wrapper that stopped the job itself must have ended
        self.failing_since: float | None = None
        self.started = False
        self.pending: list[Draft] = []

    def kill(self, reason: str = "the task was asked to end") -> None:
        """Ask the whole tree for its end and return at once; nothing of it is alive four seconds later."""
        self.killed = self.killed or reason
        self.process.ask()

    def run(self) -> AttemptEnded:
        """Start and watch the attempt; return how it ended, as the ledger holds it.

        Raises ``RefusedError`` before anything starts if the intent does not cover this attempt, ``InputError``
        for a command that cannot start, ``LedgerUnavailableError`` if the end cannot be written (the next try's
        recovery does it). Whatever is raised, no process of the tree is left.
        """
        check_intent(self.spec, self.intent, self.ledger)
        request = build_process(self.spec, inherited=os.environ, parent=os.getpid())
        ingest = Ingest(
            self.writer, status=request.status, events=request.events, on_checkpoint=self.on_checkpoint,
            declared=self.spec.declared,
        )  # fmt: skip
        tail = LogTail(path=request.log)
        try:
            lay_out(self.spec, request)
        except InputError as error:  # the token is consumed: the attempt has an end, and it is known why
            outcome = Outcome(state="failed", reason=f"the program could not be started: {error}")
            append_end(self.writer, ended_payload(self._attempt(), outcome, ingest, tail))
            raise
        self.begin = time.monotonic()
        try:
            with _termination(self.kill):
                self.process.start(request, unwanted=lambda: self.killed)
                self._watch(ingest, tail)
                self.process.end()
        except BaseException as error:
            self.killed = self.killed or f"the task broke off while it watched the job: {error!r:.500}"
            self.process.end()
            self._try_to_end(ingest, tail)
            raise
        return self._end(ingest, tail)

    # -- start ---------------------------------------------------------------------------------------

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
            resume_refused=list(self.spec.resume_refused),
            requested={
                "accelerator": budget.accelerator,
                "accelerators": budget.accelerators,
                "minutes": budget.minutes,
            },
            allocated={
                **allocated_of(environment),
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
        while self.process.running and not self.process.overdue:
            self._show(tail)
            self._ingest(ingest)
            ingest.seen.replaced = ingest.seen.replaced or tail.replaced
            if ingest.seen.progress_steps > steps:
                steps, self.progress_at = ingest.seen.progress_steps, self._seconds()
            self._check(ingest)
            ingest.flush_seconds = 1.0 if self._seconds() < 120 else 10.0
            time.sleep(POLL_SECONDS)

    def _show(self, tail: LogTail, *, final: bool = False) -> None:
        for block in tail.blocks(final=final):
            for line in block:
                self.progress(line)

    def _ingest(self, ingest: Ingest, *, final: bool = False) -> None:
        """Write what is new; a ledger that cannot be reached is noticed, not raised: training goes on a while."""
        try:
            # A slow probe comes later.
            known = ingest.seen.environment or self._seconds() > _ENVIRONMENT_SECONDS
            if not self.started and ((ingest.seen.program and known) or final):
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
        if self.fired is None and ingest.seen.fired is not None:  # the wrapper judges too, and was first
            self.fired, self.own_end = ingest.seen.fired, self._seconds() + _OWN_END_SECONDS
        if self.fired or self.killed:
            if self._seconds() > self.own_end:
                self.process.ask()
            return
        seen = ingest.seen
        state = state_of(
            seen, seconds=self._seconds(), attempt=self.spec.attempt, progress_at=self.progress_at,
            evidence_failing_since=self._silent_since(ingest),
        )  # fmt: skip
        self.fired = first_stop(self.rules, state)
        if self.fired:
            log.warning("stop rule %s: %s, limit %s", self.fired.rule, self.fired.observed, self.fired.limit)
            ingest.stop(self.fired)
            keep_stop(self.spec.work_folder, self.fired)
        elif reason := self.should_stop():
            self.killed = reason
        if self.fired or self.killed:
            self.process.ask()

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

    def _end(self, ingest: Ingest, tail: LogTail) -> AttemptEnded:
        """Write the rest and the end; a ledger out of reach is tried for a while, a killed task has no time."""
        end = time.monotonic() + (0 if self.killed else FINAL_SECONDS)
        self._show(tail, final=True)
        ingest.seen.replaced = ingest.seen.replaced or tail.replaced
        while True:
            try:
                return self._write_end(ingest, tail)
            except TRANSIENT as error:
                if time.monotonic() >= end:
                    raise
                log.warning("the end cannot be written now, trying again: %s", error)
                time.sleep(1.0)

    def _write_end(self, ingest: Ingest, tail: LogTail) -> AttemptEnded:
        self._ingest(ingest, final=True)
        outcome = conclude(
            ingest.seen, target_steps=self.spec.target_steps, fired=self.fired, killed=self.killed,
            wrapper_code=self.process.code, checkpoint_every=self.spec.checkpoint_every,
        )  # fmt: skip
        payload = ended_payload(self._attempt(), outcome, ingest, tail)
        summary = ingest.summary()
        return append_end(self.writer, payload, before=[summary] if summary else [])

    def _attempt(self) -> Attempt:
        return Attempt(
            attempt=self.spec.attempt,
            accelerators=self.spec.budget.accelerators,
            resume_step=self.spec.resume_step,
            target_steps=self.spec.target_steps,
        )

    def _try_to_end(self, ingest: Ingest, tail: LogTail) -> None:
        try:
            self._end(ingest, tail)
        except Exception:  # the first error matters; the next try closes this attempt
            log.warning("the attempt's end could not be written; the next try does it", exc_info=True)


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
