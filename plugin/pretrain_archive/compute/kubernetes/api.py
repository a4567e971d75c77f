"""What a launch asks of a cluster, with plain dicts in and out.

The client's own models are not used: they lose fields that they do not know, and custom resources have none.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from pretrain_archive.compute.kubernetes.api_errors import (
    Answer,
    Call,
    bytes_of,
    cause_of,
    passes,
    pause_of,
    refusal,
    unavailable,
)
from pretrain_archive.compute.kubernetes.api_places import PLACES, QUEUES
from pretrain_archive.compute.kubernetes.sound import sound
from pretrain_archive.domain.errors import ArchiveError, ClusterUnavailableError

if TYPE_CHECKING:
    from kubernetes.client import ApiClient  # type: ignore[import-untyped]

log = logging.getLogger(__name__)

Object = dict[str, Any]
Objects = list[Object]
Query = list[tuple[str, str]]

PAGE = 500
STRICT = (("fieldValidation", "Strict"),)
"""A field that the cluster does not know is an error, and is not dropped."""


class TakenError(ArchiveError):
    """An object of this name exists already."""

    code = "name_taken"
    exit_code = 4


class ClusterApi(Protocol):
    """Objects of a cluster by kind, namespace and name.

    It does not promise that a write which was answered with an error did not happen: a caller reads again. Raises
    ``ClusterUnavailableError`` if no answer came within a bound, and ``InputError`` naming field, value and remedy
    for what the cluster refuses.
    """

    def create(self, kind: str, namespace: str, body: Mapping[str, Any]) -> Object:
        """Store a new object and return it; :class:`TakenError` if its name is taken."""

    def rehearse(self, kind: str, namespace: str, body: Mapping[str, Any]) -> None:
        """Ask whether the cluster would take the object; nothing is stored. Raises as :meth:`create` if not."""

    def read(self, kind: str, namespace: str, name: str) -> Object | None:
        """The object, None if there is none."""

    def list(self, kind: str, namespace: str, *, labels: str = "", fields: str = "") -> Objects:
        """Objects that both selectors match; none where the cluster does not know the kind."""

    def patch(self, kind: str, namespace: str, name: str, patch: Mapping[str, Any]) -> Object | None:
        """Merge (RFC 7386) and return the object, None if there is none."""

    def delete(
        self, kind: str, namespace: str, name: str, *, uid: str | None = None, foreground: bool = False
    ) -> bool:
        """Delete with everything below it; False if it was not there, or is another one than ``uid``."""

    def pending(self, namespace: str, queue: str) -> Objects:
        """What waits in a LocalQueue of Kueue, by workload with its position; none where that is not told."""

    def log(self, namespace: str, pod: str, *, lines: int = 40) -> str:
        """The last lines of a pod's log; empty if there is none."""


class KubernetesApi:
    """A cluster behind the official client. ``patience`` bounds all tries of one call, in seconds.

    A copy of the client's configuration is used: retries are made here, so that no ``Retry-After`` of an hour is
    obeyed, and every call has a time limit.
    """

    def __init__(
        self, api_client: ApiClient, *, patience: float = 30.0, connect_seconds: float = 5.0,
        answer_seconds: float = 20.0, sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        import copy  # noqa: PLC0415

        from kubernetes.client import ApiClient as Client  # noqa: PLC0415 (heavy)

        configuration = copy.copy(api_client.configuration)
        configuration.retries = 0
        self._client = Client(configuration)
        self._host = str(configuration.host)
        self._timeout = (connect_seconds, answer_seconds)
        self._patience, self._sleep = patience, sleep

    @property
    def server(self) -> str:
        """The address of the cluster."""
        return self._host

    # -- the port ------------------------------------------------------------------------------------

    def create(self, kind: str, namespace: str, body: Mapping[str, Any]) -> Object:
        """See :class:`ClusterApi`."""
        call = Call("create", kind, namespace, str(body["metadata"]["name"]))
        answer = self._ask(call, "POST", PLACES[kind].path(namespace), query=[*STRICT], body=dict(body))
        if answer.status == 409:
            raise TakenError(f"{kind} {call.name} is there already in namespace {namespace}.")
        return self._object(call, answer)

    def rehearse(self, kind: str, namespace: str, body: Mapping[str, Any]) -> None:
        """See :class:`ClusterApi`: a dry run. A webhook that takes none, or a taken name, says nothing of the job."""
        call = Call("create", kind, namespace, str(body["metadata"]["name"]))
        query = [*STRICT, ("dryRun", "All")]
        answer = self._ask(call, "POST", PLACES[kind].path(namespace), query=query, body=dict(body))
        if answer.status == 409 or (answer.status == 400 and "does not support dry run" in answer.message):
            return
        self._object(call, answer)

    def read(self, kind: str, namespace: str, name: str) -> Object | None:
        """See :class:`ClusterApi`."""
        call = Call("get", kind, namespace, name)
        answer = self._ask(call, "GET", PLACES[kind].path(namespace, name))
        return None if answer.absent else self._object(call, answer)

    def list(self, kind: str, namespace: str, *, labels: str = "", fields: str = "") -> Objects:
        """See :class:`ClusterApi`."""
        call = Call("list", kind, namespace)
        query = {"limit": str(PAGE), "labelSelector": labels, "fieldSelector": fields}
        found: Objects = []
        mark, again = "", True
        while True:
            asked = [(key, value) for key, value in (*query.items(), ("continue", mark)) if value]
            answer = self._ask(call, "GET", PLACES[kind].path(namespace), query=asked)
            if answer.status == 410 and again:  # the rest of the list was forgotten: once more from the start
                found, mark, again = [], "", False
                continue
            if answer.absent:
                return found
            page = self._object(call, answer)
            found += [self._checked(call, item) for item in _list(page.get("items"))]
            mark = str((page.get("metadata") or {}).get("continue") or "")
            if not mark:
                return found

    def patch(self, kind: str, namespace: str, name: str, patch: Mapping[str, Any]) -> Object | None:
        """See :class:`ClusterApi`."""
        call = Call("patch", kind, namespace, name)
        answer = self._ask(
            call, "PATCH", PLACES[kind].path(namespace, name), body=dict(patch),
            content="application/merge-patch+json",
        )  # fmt: skip
        return None if answer.absent else self._object(call, answer)

    def delete(
        self, kind: str, namespace: str, name: str, *, uid: str | None = None, foreground: bool = False
    ) -> bool:
        """See :class:`ClusterApi`. The policy is always given: the server's default for a Job leaves its pods."""
        call = Call("delete", kind, namespace, name)
        body: Object = {"propagationPolicy": "Foreground" if foreground else "Background"}
        if uid:
            body["preconditions"] = {"uid": uid}
        answer = self._ask(call, "DELETE", PLACES[kind].path(namespace, name), body=body)
        if answer.absent or (answer.status == 409 and uid):
            return False
        self._object(call, answer)
        return True

    def pending(self, namespace: str, queue: str) -> Objects:
        """See :class:`ClusterApi`. Asked once: a service that is away, or not allowed, only leaves a number out."""
        path = QUEUES.path(namespace, queue, "pendingworkloads")
        answer = self._once("GET", path, [("limit", "1000")], None, "application/json")
        items = answer.body.get("items") if answer.status == 200 else None
        return [sound(item) for item in _list(items) if isinstance(item, dict)]

    def log(self, namespace: str, pod: str, *, lines: int = 40) -> str:
        """See :class:`ClusterApi`."""
        call = Call("get", "Pod", namespace, pod)
        query = [("tailLines", str(lines)), ("limitBytes", "65536")]
        answer = self._ask(call, "GET", PLACES["Pod"].path(namespace, pod, "log"), query=query)
        if answer.absent or answer.status == 400:  # 400: the container has not started
            return ""
        if answer.status >= 400:
            self._refuse(call, answer)
        return answer.data.decode("utf-8", "replace")

    # -- one call ------------------------------------------------------------------------------------

    def _ask(
        self, call: Call, method: str, path: str, *, query: Query | None = None,
        body: Object | None = None, content: str = "application/json",
    ) -> Answer:  # fmt: skip
        """Ask until there is an answer that waiting does not change."""
        until = time.monotonic() + self._patience
        tries = 0
        while True:
            answer = self._once(method, path, query or [], body, content)
            tries += 1
            if not passes(answer, method):
                return answer
            pause = pause_of(answer, tries)
            if time.monotonic() + pause > until:
                raise unavailable(call, answer, self._host, tries)
            log.debug(
                "%s %s: %s, trying again in %.1f s", method, path, answer.problem or answer.status, pause
            )
            self._sleep(pause)

    def _once(self, method: str, path: str, query: Query, body: Object | None, content: str) -> Answer:
        from kubernetes.client import ApiException  # noqa: PLC0415 (heavy)
        from urllib3.exceptions import HTTPError  # noqa: PLC0415

        headers = {"Accept": "application/json", "Content-Type": content, "User-Agent": "pretrain-archive"}
        try:
            self._client.update_params_for_auth(headers, query, ["BearerToken"])
            response = self._client.rest_client.request(
                method, self._host + path, query_params=query, headers=headers, body=body,
                _request_timeout=self._timeout,
            )  # fmt: skip
        except ApiException as error:
            known = {str(key).lower(): str(value) for key, value in dict(error.headers or {}).items()}
            if not error.status:
                return Answer(status=0, problem=str(error.reason or error))
            return Answer(
                status=int(error.status), data=bytes_of(error.body), retry_after=known.get("retry-after")
            )
        except (HTTPError, OSError, ValueError) as error:
            return Answer(status=0, problem=cause_of(error))
        return Answer(status=int(response.status), data=bytes_of(response.data))

    def _object(self, call: Call, answer: Answer) -> Object:
        if answer.status >= 400:
            self._refuse(call, answer)
        try:
            found = json.loads(answer.data)
        except (ValueError, RecursionError):
            found = None
        return self._checked(call, found)

    def _checked(self, call: Call, found: Any) -> Object:
        """An object has metadata; anything else comes from something that is no API server."""
        if not isinstance(found, dict) or not isinstance(found.get("metadata"), dict):
            raise ClusterUnavailableError(
                f"{self._host} answered {call.text} with something that is no object of Kubernetes.",
                hint="Check that the address of the connection is that of a Kubernetes API server.",
            )
        return sound(found)

    def _refuse(self, call: Call, answer: Answer) -> NoReturn:
        raise refusal(call, answer, self._host)


def _list(items: Any) -> list[Any]:
    """What should be a list; anything else is one thing that is no object."""
    return items if isinstance(items, list) else [items] if items else []
