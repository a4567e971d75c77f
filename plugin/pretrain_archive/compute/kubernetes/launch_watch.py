"""One visit to an attempt on a cluster: evidence read, members and waits written down, stop rules asked."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pretrain_archive.compute.ingest import TRANSIENT, Ingest, OnCheckpoint
from pretrain_archive.compute.kubernetes.api import ClusterApi
from pretrain_archive.compute.kubernetes.exits import JobVerdict, member_of, verdict_of
from pretrain_archive.compute.kubernetes.exits_pod import worker_of
from pretrain_archive.compute.kubernetes.launch_compare import edits
from pretrain_archive.compute.kubernetes.launch_end import gone_verdict, recorded_verdict
from pretrain_archive.compute.kubernetes.launch_facts import Facts, allocated_at, started_payload
from pretrain_archive.compute.kubernetes.launch_fence import recorded_job
from pretrain_archive.compute.kubernetes.launch_words import stopped, told, told_end
from pretrain_archive.compute.kubernetes.standing import MOST_PENDING, Job, Look, Object, Standing, look
from pretrain_archive.compute.kubernetes.waiting import Wait, wait_of
from pretrain_archive.compute.log import LogTail
from pretrain_archive.compute.recovery import keep_stop
from pretrain_archive.compute.seen import Seen, Writer
from pretrain_archive.compute.spec import JobSpec
from pretrain_archive.compute.stops import first_stop, rules_of, state_of
from pretrain_archive.domain.errors import ClusterUnavailableError
from pretrain_archive.domain.identity import format_time
from pretrain_archive.domain.kinds import JobCreated, MemberObserved, StopFired, read_payload
from pretrain_archive.domain.kinds.cluster import ExitClass
from pretrain_archive.domain.policy_compute import Kubernetes

log = logging.getLogger(__name__)


class Watch:
    """What a launch remembers from visit to visit; nothing of it is needed to go on in another process."""

    def __init__(
        self, spec: JobSpec, *, writer: Writer, cluster: Kubernetes, on_checkpoint: OnCheckpoint,
        progress: Callable[[str], None], evidence_seconds: float, log_offset: int,
    ) -> None:  # fmt: skip
        self.spec, self.writer, self.cluster, self.progress = spec, writer, cluster, progress
        folder = spec.work_folder
        self.facts = Facts(writer)
        self.ingest = Ingest(
            writer, status=folder / "status.jsonl", events=folder / "events.jsonl", on_checkpoint=on_checkpoint,
            declared=spec.declared, workers=spec.budget.nodes,
        )  # fmt: skip
        self.tail = LogTail(path=folder / "log.txt", offset=log_offset)
        self.rules = rules_of(spec, evidence_seconds=evidence_seconds)
        self.fired: StopFired | None = None
        self.pods: list[Object] = []
        self.unreleased = False
        self.steps: int | None = None
        self.progress_at = 0.0
        self.failing_since: float | None = None
        self.suspended = False
        self.released: Mapping[str, Any] | None = None

    @property
    def seen(self) -> Seen:
        """What the program and its wrappers reported."""
        return self.ingest.seen

    # -- one visit -------------------------------------------------------------------------------------

    def visit(self, api: ClusterApi, job: Job, *, killed: str, now: Callable[[], datetime]) -> Standing:
        """See :meth:`KubernetesLaunch.visit`."""
        self.show()
        shown: Look | None = None
        away: ClusterUnavailableError | None = None
        try:
            shown = self._with_missed(api, job, look(api, job, at=now()))
        except ClusterUnavailableError as error:  # the files are read all the same: a stop rule may fire
            away = error
        at = shown.at if shown else now()
        wait = self._write_down(shown, at)
        stop = self._check(at)
        if shown is None:
            if stop is None or away is None:
                raise away or ClusterUnavailableError("the cluster showed nothing")
            return Standing(state="ended", why=stopped(stop), stop=stop, last_step=self.seen.last_step)
        return self._stand(shown, wait=wait, stop=stop, killed=killed)

    def _with_missed(self, api: ClusterApi, job: Job, shown: Look) -> Look:
        """Add what the cluster's events say of pods that went between two visits."""
        present = {str(pod["metadata"].get("uid")) for pod in shown.pods}
        events = list(shown.events)
        for member in self.facts.missing(present)[:MOST_PENDING]:
            events += api.list("Event", job.namespace, fields=f"involvedObject.uid={member.uid}")
        return replace(shown, events=events)

    def _write_down(self, shown: Look | None, at: datetime) -> Wait | None:
        """Append what is new; a ledger out of reach is noticed: the job goes on a while without."""
        wait: Wait | None = None
        try:
            if shown is not None:
                self.suspended = shown.suspended
                self.unreleased = shown.suspended and not shown.released
                self.observe(shown.pods, at=at, events=shown.events)
                self._compare(shown, at)
                wait = self._wait(shown)
            self.ingest.poll()
            self._start()
            self.failing_since = None
        except TRANSIENT as error:
            if self.failing_since is None:
                self.failing_since = time.monotonic()
                log.warning("evidence cannot be written now, trying again: %s", error)
            wait = wait or (self._waits(shown) if shown else None)
        return wait

    def _stand(self, shown: Look, *, wait: Wait | None, stop: StopFired | None, killed: str) -> Standing:
        over, gone = self.facts.over, False
        if shown.job is not None:
            verdict = verdict_of(shown.job, self.facts.newest)
        elif over is not None:
            verdict = recorded_verdict(over)
        else:
            verdict, gone = gone_verdict(self.facts.newest), True
        why = self._why(verdict, wait=wait, stop=stop, killed=killed)
        return Standing(
            state="ended" if why else "waiting" if wait is not None else "running", why=why, wait=wait,
            verdict=verdict, members=tuple(self.facts.newest), stop=stop, gone=gone, last_step=self.seen.last_step,
        )  # fmt: skip

    def _why(self, verdict: JobVerdict, *, wait: Wait | None, stop: StopFired | None, killed: str) -> str:
        if stop is not None:
            return stopped(stop)
        if killed:
            return killed
        if verdict.terminal:
            return verdict.reason
        return f"{wait.reason}: {wait.message}" if wait is not None and wait.hopeless else ""

    def _compare(self, shown: Look, at: datetime) -> None:
        """Write down what somebody changed in the job since it was put on record: its deadline, its members."""
        if self.released is None and (record := recorded_job(self.writer)) is not None:
            self.released = read_payload(record, JobCreated).manifest
        if shown.job is None or self.released is None:
            return
        for text in edits(self.released, shown.job):
            if self.facts.edited(text, at=at):
                self.progress(f"the job was changed after its release: {text}")

    # -- facts -----------------------------------------------------------------------------------------

    def observe(
        self, pods: Sequence[Object], *, at: datetime, events: Sequence[Object] = (), removing: bool = False
    ) -> None:
        """Write down the members that changed, and those that are gone; ``removing`` says that this was wanted."""
        self.pods = list(pods)
        present = {str(pod["metadata"].get("uid")) for pod in pods}
        default: ExitClass | None = "interrupted" if removing else "requeued" if self.suspended else None
        missed = self.facts.vanished(present, at=at, how=lambda member: told_end(member, events) or default)
        fresh = [self._member(pod, at=at, events=events) for pod in sorted(pods, key=_age)]
        for member in [*missed, *self.facts.observe(fresh)]:
            self.progress(told(member))

    def _member(self, pod: Object, *, at: datetime, events: Sequence[Object]) -> MemberObserved:
        uid = pod["metadata"].get("uid")
        about = [event for event in events if (event.get("involvedObject") or {}).get("uid") == uid]
        ended = self.seen.of(worker_of(pod)).ended if self._last_of(pod) else None
        member = member_of(
            pod,
            attempt=self.spec.attempt,
            at=format_time(at),
            events=about,
            ended=ended,
            suspended=self.suspended,
        )
        return member.model_copy(update={"allocated_at": allocated_at(pod)})

    def _last_of(self, pod: Object) -> bool:
        """Whether the worker's newest pod: what its wrapper wrote last is of no other one."""
        newest = max((other for other in self.pods if worker_of(other) == worker_of(pod)), key=_age)
        return bool(newest["metadata"].get("uid") == pod["metadata"].get("uid"))

    def _waits(self, shown: Look) -> Wait | None:
        if shown.job is None:
            return None
        return wait_of(
            shown.job, shown.pods, shown.events, shown.workload, now=shown.at,
            start_limit_seconds=self.cluster.start_minutes * 60, position=shown.position,
        )  # fmt: skip

    def _wait(self, shown: Look) -> Wait | None:
        wait = self._waits(shown)
        new = self.facts.wait(wait, at=shown.at)
        if new is not None and new.ended:
            self.progress(f"no longer waiting for {new.reason}")
        elif new is not None:
            self.progress(f"waiting ({new.reason}): {new.message}")
        elif wait is not None and shown.position is not None and self._moved(wait):
            self.progress(f"still waiting ({wait.reason}): {wait.message}")
        return wait

    def _moved(self, wait: Wait) -> bool:
        """Whether the launch moved in its queue since its wait went on record."""
        place, last = "positionInClusterQueue", self.facts.last_wait
        return last is not None and last.details.get(place) != wait.details.get(place)

    def _start(self, *, final: bool = False) -> None:
        """``attempt.started`` once all members are there; at the end with those that ever were."""
        if self.facts.started is not None:
            return
        members = {m.worker: m for m in self.facts.newest if m.started_at or (final and m.node)}
        probed = all(self.seen.of(worker).environment is not None for worker in members)
        if not members or not (final or (len(members) >= self.spec.budget.nodes and probed)):
            return
        self.facts.start(started_payload(
            [members[worker] for worker in sorted(members)], requested=self._requested(),
            environments={worker: self.seen.of(worker).environment for worker in members},
            attempt=self.spec.attempt, resume_step=self.spec.resume_step, resume_refused=self.spec.resume_refused,
            resume_from=str(self.spec.resume_from) if self.spec.resume_from else None,
        ))  # fmt: skip

    def _requested(self) -> dict[str, object]:
        budget, cluster = self.spec.budget, self.cluster
        return {
            "accelerator": budget.accelerator, "accelerators": budget.accelerators, "nodes": budget.nodes,
            "minutes": budget.minutes, "cpu": cluster.cpu, "memory": cluster.memory, "image": cluster.image,
            "queue": cluster.queue, "workload_priority": cluster.workload_priority,
            "priority_class": cluster.priority_class, "namespace": cluster.namespace,
        }  # fmt: skip

    # -- stop rules ------------------------------------------------------------------------------------

    def _check(self, at: datetime) -> StopFired | None:
        """What the rules say; one that a wrapper found, or that an earlier visit wrote down, counts as well."""
        if self.seen.fired is not None:
            return self.seen.fired
        seconds = self.facts.allocated_seconds(at) / max(1, self.spec.budget.nodes)
        if not seconds:
            return None
        self._follow_progress(seconds, at)
        state = state_of(
            self.seen, seconds=seconds, attempt=self.spec.attempt, progress_at=self.progress_at,
            evidence_failing_since=self._silent_since(seconds),
        )  # fmt: skip
        self.fired = self.fired or first_stop(self.rules, state)
        if self.fired is not None:
            log.warning("stop rule %s: %s, limit %s", self.fired.rule, self.fired.observed, self.fired.limit)
            keep_stop(self.spec.work_folder, self.fired)
            self.ingest.stop(self.fired)
        return self.fired

    def _follow_progress(self, seconds: float, at: datetime) -> None:
        """When the highest step last rose; for what rose before the first visit, the event file's time."""
        steps = self.seen.progress_steps
        if self.steps is None and steps:
            try:
                ago = at.timestamp() - (self.spec.work_folder / "events.jsonl").stat().st_mtime
            except OSError:
                ago = seconds
            self.progress_at = max(0.0, seconds - max(0.0, ago))
        elif steps > (self.steps or 0):
            self.progress_at = seconds
        self.steps = steps if steps or self.steps is not None else None

    def _silent_since(self, seconds: float) -> float | None:
        """Since when nothing can be written down, in the attempt's seconds: no ledger, or no heartbeats."""
        now, limit = time.monotonic(), 4 * self.spec.heartbeat_seconds
        since = [moment for moment in self.seen.silent_workers.values() if now - moment > limit]
        since += [self.failing_since] if self.failing_since is not None else []
        return seconds - (now - min(since)) if since else None

    # -- log and end -----------------------------------------------------------------------------------

    def show(self, *, final: bool = False) -> None:
        """Tell the new lines of worker 0's log."""
        for block in self.tail.blocks(final=final):
            for line in block:
                self.progress(line)
        self.seen.replaced = self.seen.replaced or self.tail.replaced

    def settle(self, seconds: float, *, at: datetime, sleep: Callable[[float], None]) -> None:
        """Read the rest of the evidence; for up to ``seconds`` wait for the wrappers' last lines."""
        until = time.monotonic() + seconds
        while True:
            self.ingest.poll(final=True)
            if all(worker.ended for worker in self.seen.workers) or time.monotonic() >= until:
                break
            sleep(0.2)
        self._start(final=True)
        self.facts.wait(None, at=at)
        self.show(final=True)


def _age(pod: Object) -> tuple[str, str]:
    meta = pod["metadata"]
    return str(meta.get("creationTimestamp", "")), str(meta.get("name", ""))
