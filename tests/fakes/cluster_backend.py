"""What the HTTP side of a fake cluster works on."""

from __future__ import annotations

import threading
from typing import Protocol

from tests.fakes.cluster_faults import Faults, Request
from tests.fakes.cluster_store import Object, Store


class Backend(Protocol):
    """What the server works on."""

    store: Store
    faults: Faults
    requests: list[Request]
    token: str
    closed: threading.Event
    bookmark_seconds: float
    missing: set[str]

    def log_of(self, pod: Object) -> bytes:
        """What a pod's container wrote."""

    def evict_by_api(self, namespace: str, name: str) -> None:
        """Evict a pod politely."""

    def pending(self, namespace: str, queue: str) -> Object:
        """What waits in a queue, as Kueue's visibility API tells it."""

    def bind(self, namespace: str, name: str, node: str) -> None:
        """Put a pod on a node."""
