"""One list and one watch per kind of object, cluster and namespace, shared by all triggers of a process.

Five hundred jobs that each watch their own objects would hold a thousand connections open; here it is a handful,
however many jobs there are. A follower keeps only the objects of the jobs that are followed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from pretrain_archive.compute.kubernetes.follow_api import (
    LABELLED,
    AsyncCluster,
    ClientCluster,
    FollowError,
    Object,
)
from pretrain_archive.compute.kubernetes.follow_stream import Pace, Stream
from pretrain_archive.compute.kubernetes.follow_view import Target, View, labels_of, trimmed
from pretrain_archive.compute.kubernetes.names import RUN_LABEL

__all__ = ["Connect", "Follower", "Pace", "Target", "View", "follower_for"]

log = logging.getLogger(__name__)

Connect = Callable[[], AbstractAsyncContextManager[Any]]
"""Opens an ``ApiClient`` of kubernetes_asyncio with credentials that hold now."""

GATHER_SECONDS = 0.1
"""Jobs that begin to be followed within this time are looked up together."""

NAMED_RUNS = 40
"""Up to so many runs are named in a selector; of more, everything is listed."""

UNAUTHORISED = 401
OPTIONAL = frozenset({"Event", "Workload"})


class Follower:
    """Follows the jobs of one namespace of one cluster. Made and used in one event loop."""

    def __init__(self, connect: Connect, *, namespace: str, name: str = "", pace: Pace | None = None) -> None:
        self.connect, self.namespace, self.name = connect, namespace, name or namespace
        self.pace = pace or Pace()
        self.views: dict[tuple[str, str], list[View]] = {}
        self.streams: dict[str, asyncio.Task[None]] = {}
        self.listed: set[str] = set()
        self.failing: set[str] = set()
        self.away_since: float | None = None
        self.problem = ""
        self._client: tuple[AbstractAsyncContextManager[Any], AsyncCluster] | None = None
        self._opening = asyncio.Lock()
        self._refused = False
        self._new: list[View] = []
        self._looking: asyncio.Task[None] | None = None

    # -- jobs ------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def follow(self, target: Target) -> AsyncIterator[View]:
        """The job's view, kept up to date as long as the context is open, and for a while after it.

        A trigger leaves for a visit and comes back: it finds the view as it is, and nothing is asked for again.
        """
        resting = [v for v in self.views.get(target.key, []) if not v.followed and v.target == target]
        view = resting[0] if resting else self._begin(target)
        view.followed = True
        try:
            yield view
        finally:
            view.followed = False
            view.left = time.monotonic()
            asyncio.get_running_loop().call_later(self.pace.linger, self._forget, view)

    def _begin(self, target: Target) -> View:
        view = View(target=target, away_since=self.away_since, problem=self.problem)
        self.views.setdefault(target.key, []).append(view)
        kinds = {target.object_kind, "Pod", "Event"} | ({"Workload"} if target.queued else set())
        for kind in sorted(kinds - self.streams.keys()):
            self._start(kind)
        if kinds & self.listed:  # lists that came before this job was followed do not tell of it
            self._new.append(view)
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look())
        return view

    def _forget(self, view: View) -> None:
        """Drop what is known of a job that nobody has followed for a while."""
        if view.followed or time.monotonic() - view.left < self.pace.linger * 0.9:
            return
        left = [other for other in self.views.get(view.target.key, []) if other is not view]
        if left:
            self.views[view.target.key] = left
        else:
            self.views.pop(view.target.key, None)

    @property
    def jobs(self) -> int:
        """How many jobs are followed."""
        return sum(any(view.followed for view in views) for views in self.views.values())

    async def close(self) -> None:
        """End every stream and the connection."""
        tasks = [*self.streams.values(), *([self._looking] if self._looking else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.streams.clear()
        await self._disconnect()

    # -- the cluster -----------------------------------------------------------------------------------

    async def cluster(self) -> AsyncCluster:
        """The connection, opened when it is needed; :class:`FollowError` where it cannot be."""
        async with self._opening:
            if self._refused:
                await self._disconnect()
            if self._client is None:
                manager = self.connect()
                try:
                    client = await manager.__aenter__()
                except Exception as error:
                    raise FollowError(f"no connection to {self.name}: {error}") from error
                self._client = (manager, ClientCluster(client))
            return self._client[1]

    async def _disconnect(self) -> None:
        self._refused = False
        if self._client is not None:
            manager, self._client = self._client[0], None
            await manager.__aexit__(None, None, None)

    def _start(self, kind: str) -> None:
        selector = RUN_LABEL if kind in LABELLED else ""
        stream = Stream(
            kind=kind, namespace=self.namespace, selector=selector, cluster=self.cluster, sink=self,
            pace=self.pace, optional=kind in OPTIONAL,
        )  # fmt: skip
        self.streams[kind] = asyncio.create_task(stream.run(), name=f"follow {kind} in {self.name}")

    async def _look(self) -> None:
        """Look up jobs that are followed since the streams listed theirs, many at once."""
        while self._new:
            await asyncio.sleep(GATHER_SECONDS)
            views, self._new = self._new, []
            runs = sorted({view.target.key[0] for view in views})
            named = f"{RUN_LABEL} in ({','.join(runs)})" if len(runs) <= NAMED_RUNS else RUN_LABEL
            kinds = {view.target.object_kind for view in views} | {"Pod"}
            kinds |= {"Workload"} if any(view.target.queued for view in views) else set()
            for kind in sorted(kinds):
                try:
                    items, _ = await (await self.cluster()).read_all(
                        kind, self.namespace, named if kind in LABELLED else ""
                    )
                except FollowError as error:
                    if kind in OPTIONAL:
                        continue
                    log.info(
                        "%s in %s could not be looked up, trying again: %s", kind, self.name, error.message
                    )
                    self._new += [view for view in views if view not in self._new]
                    await asyncio.sleep(self.pace.first_pause)
                    break  # the streams tell whether the cluster is away
                for view in views:
                    self._fill(view, kind, items, whole=False)

    # -- what streams tell -----------------------------------------------------------------------------

    def replace(self, kind: str, objects: list[Object]) -> None:
        """A list came in: see :class:`follow_stream.Sink`."""
        self.listed.add(kind)
        for views in self.views.values():
            for view in views:
                self._fill(view, kind, objects, whole=True)

    def _fill(self, view: View, kind: str, objects: list[Object], *, whole: bool) -> None:
        mine = [trimmed(kind, item) for item in objects if view.concerns(kind, item)]
        if whole:
            view.keep_only(kind, mine)
        for item in mine:
            view.put(kind, item, watched=whole)
        view.listed.add(kind)
        view.wake()

    def take(self, kind: str, change: str, item: Object) -> None:
        """One event of a watch: see :class:`follow_stream.Sink`."""
        for view in self._concerned(kind, item):
            if change == "DELETED":
                view.drop(kind, item)
            else:
                view.put(kind, trimmed(kind, item), watched=True)
            view.wake()

    def _concerned(self, kind: str, item: Object) -> list[View]:
        if kind not in LABELLED:
            return [v for views in self.views.values() for v in views if v.concerns(kind, item)]
        return [view for view in self.views.get(labels_of(item), []) if view.concerns(kind, item)]

    def failed(self, kind: str, error: FollowError) -> None:
        """The cluster did not answer, or refused: told once until it answers again."""
        self.problem = error.message
        self.failing.add(kind)
        self._refused = self._refused or error.status == UNAUTHORISED
        if self.away_since is None:
            self.away_since = time.monotonic()
            log.warning("cluster %s does not answer, trying again: %s", self.name, error.message)
        for view in [view for views in self.views.values() for view in views]:
            view.away_since, view.problem = self.away_since, self.problem

    def worked(self, kind: str) -> None:
        """The cluster answered."""
        self.failing.discard(kind)
        if self.away_since is None or self.failing:
            return
        log.warning("cluster %s answers again after %.0f s", self.name, time.monotonic() - self.away_since)
        self.away_since, self.problem = None, ""
        for view in [view for views in self.views.values() for view in views]:
            view.away_since, view.problem = None, ""
            view.wake()


_FOLLOWERS: dict[tuple[int, Hashable], Follower] = {}
_USERS: dict[tuple[int, Hashable], int] = {}


@asynccontextmanager
async def follower_for(key: Hashable, make: Callable[[], Follower]) -> AsyncIterator[Follower]:
    """The follower that all users of ``key`` in this event loop share; closed a while after the last one left."""
    loop = asyncio.get_running_loop()
    place = (id(loop), key)
    if place not in _FOLLOWERS:
        _FOLLOWERS[place] = make()
    follower = _FOLLOWERS[place]
    _USERS[place] = _USERS.get(place, 0) + 1
    try:
        yield follower
    finally:
        _USERS[place] -= 1
        loop.call_later(follower.pace.linger, _close_unused, place)


def _close_unused(place: tuple[int, Hashable]) -> None:
    """Close a follower that nobody uses any more."""
    if _USERS.get(place, 0) == 0 and place in _FOLLOWERS:
        _USERS.pop(place)
        follower = _FOLLOWERS.pop(place)
        asyncio.get_running_loop().create_task(follower.close())
