"""One list and one watch of one kind of object, kept going whatever the cluster does.

Rules: a dropped connection resumes after the last version that was seen; 410 lists anew; 403 on the watch falls
back to listing at intervals; anything else is tried again with a growing pause.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from pretrain_archive.compute.kubernetes.follow_api import AsyncCluster, FollowError, Object

log = logging.getLogger(__name__)

GONE, FORBIDDEN, MISSING = 410, 403, 404


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How often a stream asks. Seconds throughout.

    ``watch`` is how long the server keeps one watch open; ``poll`` the interval of listing where watching is not
    permitted; ``first_pause`` to ``longest_pause`` lie between tries at a cluster that does not answer. ``linger``
    is how long what is known of a job is kept after its trigger left: for a visit it is back within it.
    """

    watch: float = 240.0
    poll: float = 15.0
    first_pause: float = 0.5
    longest_pause: float = 30.0
    linger: float = 90.0


class Sink(Protocol):
    """Who is told what a stream sees."""

    def replace(self, kind: str, objects: list[Object]) -> None:
        """A list: what it does not hold is gone."""

    def take(self, kind: str, change: str, item: Object) -> None:
        """One event of the watch."""

    def failed(self, kind: str, error: FollowError) -> None:
        """A request did not work and is tried again."""

    def worked(self, kind: str) -> None:
        """A request worked."""


@dataclass(kw_only=True)
class Stream:
    """Runs until it is cancelled."""

    kind: str
    namespace: str
    selector: str
    cluster: Callable[[], Awaitable[AsyncCluster]]
    sink: Sink
    pace: Pace = field(default_factory=Pace)
    optional: bool = False
    version: str = ""
    polls: bool = False
    pause: float = 0.0

    async def run(self) -> None:
        """Follow; ends only for an ``optional`` kind that may not or cannot be read."""
        while True:
            try:
                if not self.version or self.polls:
                    await self._list()
                if self.polls or not self.version:
                    await asyncio.sleep(self.pace.poll)
                else:
                    await self._watch()
            except FollowError as error:
                if not await self._after(error):
                    return
            except Exception as error:  # a stream that dies unseen would leave every job without news
                log.warning("following %s in %s: %s", self.kind, self.namespace, error, exc_info=True)
                await self._after(FollowError(f"{type(error).__name__}: {error}"))

    async def _list(self) -> None:
        items, version = await (await self.cluster()).read_all(self.kind, self.namespace, self.selector)
        self.version = version
        self._good()
        self.sink.replace(self.kind, items)

    async def _watch(self) -> None:
        begin = time.monotonic()
        events = (await self.cluster()).watch(
            self.kind, self.namespace, self.selector, self.version, seconds=self.pace.watch
        )
        opened = False
        try:
            async for event in events:
                opened = True
                self._event(event)
        except FollowError as error:
            if not opened or error.status:
                raise
            log.debug(
                "watch of %s in %s: %s", self.kind, self.namespace, error.message
            )  # no cluster is away yet
        if time.monotonic() - begin < 1:  # a server that ends watches at once must not be asked in a circle
            await asyncio.sleep(self.pace.first_pause)

    def _event(self, event: Object) -> None:
        item = event.get("object") or {}
        self.version = (item.get("metadata") or {}).get("resourceVersion") or self.version
        self._good()
        if event.get("type") not in {"BOOKMARK", "OPENED"}:
            self.sink.take(self.kind, str(event.get("type")), item)

    def _good(self) -> None:
        self.pause = 0.0
        self.sink.worked(self.kind)

    async def _after(self, error: FollowError) -> bool:
        """Decide what comes after ``error``; False where this kind is done without."""
        if error.status == GONE:
            log.debug("%s in %s: version %s is gone, listing anew", self.kind, self.namespace, self.version)
            self.version = ""
            return True
        if self.optional and error.status in {FORBIDDEN, MISSING}:
            log.info("%s in %s are not followed: %s", self.kind, self.namespace, error.message)
            return False
        if error.status == FORBIDDEN and self.version and not self.polls:
            log.info("%s in %s may not be watched and are listed instead", self.kind, self.namespace)
            self.polls = True
            return True
        self.sink.failed(self.kind, error)
        self.pause = min(self.pace.longest_pause, self.pause * 2 or self.pace.first_pause)
        await asyncio.sleep(self.pause * random.uniform(0.5, 1.0))  # noqa: S311 (no secret: spreads the load)
        return True
