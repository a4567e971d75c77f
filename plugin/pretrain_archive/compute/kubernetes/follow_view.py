"""What a follower keeps of one job: the newest state of its objects, and nothing of other jobs."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field

from pretrain_archive.compute.kubernetes.follow_api import Object
from pretrain_archive.compute.kubernetes.names import ATTEMPT_LABEL, RUN_LABEL, label_value

MOST_EVENTS = 50
"""Events that are kept of one job; a pod that cannot be placed writes a new count of the same event."""

MOST_GONE = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """The job to follow: its labels' values, its name and kind, and whether Kueue admits it."""

    run_uid: str
    attempt: int
    name: str
    object_kind: str = "Job"
    queued: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """The values of the labels by which job and pods are found."""
        return label_value(self.run_uid), str(self.attempt)


@dataclass(kw_only=True, eq=False)
class View:
    """The objects of one job as they were last seen.

    ``listed`` are the kinds that were listed since the job is followed: of another kind nothing is known yet, and
    that nothing was seen means nothing. ``away_since`` is when the cluster stopped answering (monotonic clock).
    """

    target: Target
    job: Object | None = None
    pods: dict[str, Object] = field(default_factory=dict)
    events: deque[Object] = field(default_factory=lambda: deque(maxlen=MOST_EVENTS))
    workload: Object | None = None
    listed: set[str] = field(default_factory=set)
    away_since: float | None = None
    problem: str = ""
    changes: int = 0
    followed: bool = False
    left: float = 0.0
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _gone: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_GONE))

    @property
    def ready(self) -> bool:
        """Whether job and pods were listed."""
        return {self.target.object_kind, "Pod"} <= self.listed

    @property
    def away_seconds(self) -> float:
        """How long the cluster has not answered."""
        return 0.0 if self.away_since is None else time.monotonic() - self.away_since

    async def changed(self, seconds: float) -> bool:
        """Wait for a change; False if none came within ``seconds``."""
        try:
            await asyncio.wait_for(self._woken.wait(), timeout=max(0.0, seconds))
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    def wake(self) -> None:
        """Something is new."""
        self.changes += 1
        self._woken.set()

    def concerns(self, kind: str, item: Object) -> bool:
        """Whether ``item`` belongs to the job."""
        meta = item.get("metadata") or {}
        name = str(meta.get("name") or "")
        match kind:
            case "Event":
                about = str((item.get("involvedObject") or {}).get("name") or "")
                return about == self.target.name or about.startswith(f"{self.target.name}-")
            case "Workload":
                return any(o.get("name") == self.target.name for o in meta.get("ownerReferences") or ())
            case "Pod":
                return labels_of(item) == self.target.key
        return kind == self.target.object_kind and name == self.target.name

    def put(self, kind: str, item: Object, *, watched: bool) -> None:
        """Keep an object; what a list tells never replaces what the watch told later, or brings back a deletion."""
        uid = str((item.get("metadata") or {}).get("uid") or "")
        name = str((item.get("metadata") or {}).get("name") or "")
        if not watched and uid and uid in self._gone:
            return
        match kind:
            case "Event":
                kept = [e for e in self.events if (e.get("metadata") or {}).get("name") != name]
                self.events.clear()
                self.events.extend([*kept, item])
            case "Workload":
                self.workload = item
            case "Pod":
                self.pods[name] = item
            case _:
                self.job = item

    def drop(self, kind: str, item: Object) -> None:
        """An object was deleted; a pod of the same name that came after it stays."""
        meta = item.get("metadata") or {}
        self._gone.append(str(meta.get("uid") or ""))
        match kind:
            case "Pod":
                known = (self.pods.get(str(meta.get("name"))) or {}).get("metadata") or {}
                if known.get("uid") == meta.get("uid"):
                    self.pods.pop(str(meta.get("name")), None)
            case "Workload":
                self.workload = None
            case "Event":
                return  # an event that expired was true all the same
            case _:
                self.job = None

    def keep_only(self, kind: str, items: list[Object]) -> None:
        """A whole list: what it does not hold is gone."""
        names = {str((item.get("metadata") or {}).get("name")) for item in items}
        match kind:
            case "Pod":
                self.pods = {name: pod for name, pod in self.pods.items() if name in names}
            case "Workload" if not items:
                self.workload = None
            case "Job" | "TrainJob" if not items:
                self.job = None


def labels_of(item: Object) -> tuple[str, str]:
    """Run and attempt that an object's labels name."""
    labels = (item.get("metadata") or {}).get("labels") or {}
    return str(labels.get(RUN_LABEL, "")), str(labels.get(ATTEMPT_LABEL, ""))


def trimmed(kind: str, item: Object) -> Object:
    """The object without what nobody here reads and what is large: who set which field, a job's pod template."""
    meta = {k: v for k, v in (item.get("metadata") or {}).items() if k != "managedFields"}
    spec = item.get("spec")
    if kind in {"Job", "TrainJob"} and isinstance(spec, dict):
        spec = {k: v for k, v in spec.items() if k not in {"template", "podTemplateOverrides"}}
    return {**item, "metadata": meta, **({"spec": spec} if spec is not None else {})}
