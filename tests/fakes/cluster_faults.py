"""What can go wrong with a request on purpose, and what every request was."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired",
    422: "Invalid", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


@dataclass(kw_only=True)
class Request:
    """A request as it arrived; ``verb`` is the API's (get, list, watch, create, update, patch, delete)."""

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    agent: str = ""
    status: int = 0


@dataclass(kw_only=True)
class Fault:
    """What happens to the next ``times`` requests of a kind.

    ``drop`` closes the connection without an answer; ``after`` does what was asked first, so that the caller does
    not learn of it; ``delay`` are seconds before anything happens.
    """

    verb: str
    resource: str
    times: int = 1
    status: int = 0
    reason: str = ""
    message: str = "injected by the test"
    retry_after: float | None = None
    drop: bool = False
    delay: float = 0.0
    after: bool = False
    name: str = ""
    subresource: str | None = None

    def fits(self, request: Request) -> bool:
        """Whether this fault is meant for the request."""
        return (
            self.times != 0
            and self.verb in ("*", request.verb)
            and self.resource in ("*", request.resource)
            and self.name in ("", request.name)
            and self.subresource in (None, request.subresource)
        )


class Faults:
    """The faults that wait for their request, in the order in which they were planted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Fault] = []

    def plant(self, fault: Fault) -> Fault:
        """Let a fault happen; ``times`` -1 is for ever."""
        with self._lock:
            self._waiting.append(fault)
        return fault

    def clear(self) -> None:
        """Nothing goes wrong any more."""
        with self._lock:
            self._waiting.clear()

    def take(self, request: Request) -> Fault | None:
        """The fault that this request meets, used up once."""
        with self._lock:
            fault = next((fault for fault in self._waiting if fault.fits(request)), None)
            if fault is not None and fault.times > 0:
                fault.times -= 1
            return fault
