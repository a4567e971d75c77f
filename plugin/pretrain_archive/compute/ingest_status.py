"""What a worker's wrapper wrote: environments, heartbeats, its end, and what belongs on the timeline."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from pretrain_archive.compute.environment import compare_environments, environment_of
from pretrain_archive.compute.events import Line, clean_text, number_of, step_of
from pretrain_archive.compute.ingest_lines import Lines
from pretrain_archive.compute.ingest_outbox import Outbox, status_of
from pretrain_archive.compute.seen import Seen
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import EnvironmentObserved, MetricPoint, StopFired
from pretrain_archive.domain.records import Edge, Relation
from pretrain_archive.ledger.canonical import digest_of

_TIMELINE = ("signal", "ending_tree", "libraries", "not_started", "stop")
_SYSTEM_EVERY = 12  # heartbeats: one a minute
Moment = Literal["start", "resume", "end"]
_MOMENTS = ("start", "resume", "end")


class StatusReader:
    """Reads one worker's status file. ``previous`` is what this worker was at the start of the attempt before."""

    def __init__(
        self, worker: int, path: Path, *, outbox: Outbox, seen: Seen, declared: Mapping[str, Any] | None,
        previous: Mapping[str, Any] | None,
    ) -> None:  # fmt: skip
        self.worker, self.outbox, self.seen = worker, outbox, seen
        self.mine = seen.of(worker)
        self.source = status_of(worker)
        self.declared, self.previous = declared, previous
        self.lines = Lines(path, seen)
        self.heartbeats = self.recorded = 0
        self.stop_line: Mapping[str, Any] | None = None

    def poll(self, *, final: bool) -> None:
        """Take the new lines."""
        self.lines.drain(self._take, final=final)

    def _place(self, line: Line) -> int:
        """Where a line that is recorded stands: its byte, or its number among the recorded ones of a further worker.

        Ordinals have an end, and a status file of weeks would reach it if the bytes of thousands of workers counted.
        """
        self.recorded += 1
        return self.recorded if self.worker else line.position

    def _take(self, line: Line) -> None:
        data = line.data or {}
        self.mine.heard(data.get("at"))
        at = clean_text(data["at"], 40) if isinstance(data.get("at"), str) else None
        match data.get("status"):
            case "environment":
                self._environment(self._place(line), data, at)
            case "program_started":
                self._begin("program_started", self._place(line), at)
                self.mine.program = data
            case "heartbeat":
                self._heartbeat(line, data, at)
            case "ended":
                self.mine.ended = data
            case str(name) if name in _TIMELINE:
                place = self._place(line)
                if name == "not_started":
                    self._begin(name, place, at)
                    self.mine.problem = clean_text(str(data.get("problem", "")))
                if name == "stop" and self.worker == 0:
                    self.stop_line = data
                rest = {key: value for key, value in data.items() if key not in {"status", "at"}}
                self._event(place, name, rest, at)

    def _event(self, position: int, name: str, data: Mapping[str, Any], at: str | None) -> None:
        named = {**data, "worker": self.worker} if self.worker else data
        self.outbox.event(self.source, position, name, named, at=at, step=self.seen.last_step)

    def _begin(self, line: str, position: int, at: str | None) -> None:
        if self.mine.begin(line) and self.mine.starts > 1 and line != "not_started":
            self._event(position, "worker_restarted", {"start": self.mine.starts}, at)

    def _environment(self, position: int, data: Mapping[str, Any], at: str | None) -> None:
        told = data.get("moment")
        moment: Moment = told if told in _MOMENTS else "start"
        if moment != "end":
            self._begin("environment", position, at)
        environment = environment_of(data.get("environment"))
        found = compare_environments(self.declared, environment) if self.declared is not None else []
        self.mine.differences = [difference.to_dict() for difference in found]
        self.mine.since_previous = None
        before = self._before(moment)
        if before is not None:
            since = compare_environments(before, environment)
            self.mine.since_previous = [difference.to_dict() for difference in since]
        self.mine.environment = environment
        digest = digest_of(environment)
        payload = EnvironmentObserved(
            moment=moment, worker=self.worker, environment=environment, environment_digest=digest,
            differences=self.mine.differences, since_previous=self.mine.since_previous,
        )  # fmt: skip
        edge = Edge(
            subject=Ref(type="run", id=self.outbox.writer.run_uid),
            relation=Relation.USED,
            object=Ref(type="environment", id=digest),
        )
        self.outbox.put("environment.observed", payload, self.source.ordinal(position), edges=(edge,))

    def _before(self, moment: Moment) -> Mapping[str, Any] | None:
        """What this worker was earlier in the attempt, else in the one before; the libraries are those of its end."""
        earlier = self.mine.environment
        if earlier is None or moment != "end" or earlier.get("libraries") or not self.previous:
            return earlier or self.previous
        return {**earlier, "libraries": self.previous.get("libraries")}

    def tell_stop(self) -> None:
        """The wrapper stopped the job by a rule: record it, once the program's events up to there were read.

        A line that cannot be a rule is on the timeline alone.
        """
        data, self.stop_line = self.stop_line, None
        if data is None:
            return
        try:
            fired = StopFired.model_validate({
                "attempt": self.outbox.writer.attempt,
                "rule": data.get("rule"),
                "observed": clean_text(str(data.get("observed", "")), 500),
                "limit": clean_text(str(data.get("limit", "")), 500),
                "last_step": step_of(data.get("last_step")),
                # What the line says of checkpoints is the program's word: here those count that were verified.
                "last_checkpoint_step": self.seen.last_checkpoint_step,
            })  # fmt: skip
        except ValidationError:
            return
        self.outbox.stop(fired)

    def _heartbeat(self, line: Line, data: Mapping[str, Any], at: str | None) -> None:
        self.mine.last_heartbeat = time.monotonic()
        self.heartbeats += 1
        if self.heartbeats % _SYSTEM_EVERY != 1:
            return
        position = self._place(line)
        values = {name: number_of(data.get(name)) for name in ("rss_bytes", "cpu_seconds", "processes")}
        for device in _devices(data):
            for name in ("percent", "memory_mib"):
                text = str(device.get(name, ""))
                number = float(text) if re.fullmatch(r"[0-9]{1,15}", text) else None
                values[clean_text(f"accelerator{device.get('index')}/{name}", 100)] = number
        prefix = f"system/worker{self.worker}/" if self.worker else "system/"
        for name, value in values.items():
            if value is not None and math.isfinite(value):
                step = self.seen.last_step or 0
                point = MetricPoint(name=f"{prefix}{name}", step=step, value=value, at=at)
                self.outbox.point(self.source, position, point)


def _devices(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    told = data.get("accelerators")
    return [device for device in told if isinstance(device, dict)] if isinstance(told, list) else []
