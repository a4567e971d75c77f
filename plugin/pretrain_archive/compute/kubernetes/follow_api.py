"""What following asks of a cluster, over the asynchronous client, with plain dicts.

The client's own models and its ``Watch`` are not used: they build an object per line and read lines of at most
128 KiB, while a job that carries a manifest may be longer.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Protocol
from urllib.parse import quote

from pretrain_archive.domain.errors import ArchiveError

LABEL_RUN = "pretrain-archive/run"
LABEL_ATTEMPT = "pretrain-archive/attempt"

PLACES = {
    "Job": ("/apis/batch/v1", "jobs", LABEL_RUN),
    "TrainJob": ("/apis/trainer.kubeflow.org/v1alpha1", "trainjobs", LABEL_RUN),
    "Pod": ("/api/v1", "pods", LABEL_RUN),
    "Event": ("/api/v1", "events", ""),
    "Workload": ("/apis/kueue.x-k8s.io/v1beta1", "workloads", ""),
}
"""Kind → API, plural, label that its objects carry. Events and Kueue's workloads carry none of ours."""

PAGE = 500
LONGEST_LINE = 16 << 20
REQUEST_SECONDS = 20.0

Object = dict[str, Any]


class FollowError(ArchiveError):
    """A list or watch did not work; ``status`` is HTTP's, 0 where no answer came."""

    code = "cluster_unavailable"

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class AsyncCluster(Protocol):
    """What a follower needs. It does not promise that a watch reports each state that an object went through."""

    async def read_all(self, kind: str, namespace: str, selector: str) -> tuple[list[Object], str]:
        """All objects that carry the labels, and the version of the list; :class:`FollowError`."""

    def watch(
        self, kind: str, namespace: str, selector: str, version: str, *, seconds: float
    ) -> AsyncIterator[Object]:
        """Events (``type``, ``object``) after ``version`` until the server ends it; :class:`FollowError`.

        The first one is ``OPENED``, without an object: the server accepted the watch.
        """

    async def delete(self, kind: str, namespace: str, name: str) -> bool:
        """Delete with everything below it; False if it was not there; :class:`FollowError`."""


class ClientCluster:
    """An :class:`AsyncCluster` over an ``ApiClient`` of kubernetes_asyncio, which the caller opens and closes."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def read_all(self, kind: str, namespace: str, selector: str) -> tuple[list[Object], str]:
        """See :class:`AsyncCluster`."""
        items: list[Object] = []
        query = [("limit", str(PAGE)), *_selected(selector)]
        token = ""
        while True:
            page = [*query, ("continue", token)] if token else query
            found = await self._read("GET", _path(kind, namespace), page)
            items += found.get("items") or []
            meta = found.get("metadata") or {}
            token = meta.get("continue") or ""
            if not token:
                return items, str(meta.get("resourceVersion") or "")

    async def watch(
        self, kind: str, namespace: str, selector: str, version: str, *, seconds: float
    ) -> AsyncIterator[Object]:
        """See :class:`AsyncCluster`."""
        query = [
            ("watch", "true"), ("allowWatchBookmarks", "true"), ("resourceVersion", version),
            ("timeoutSeconds", f"{seconds:.0f}"), *_selected(selector),
        ]  # fmt: skip
        answer = await self._send("GET", _path(kind, namespace), query, seconds=seconds + 15)
        try:
            yield {"type": "OPENED", "object": {}}
            async for line in _lines(answer.content):
                event = json.loads(line)
                if event.get("type") == "ERROR":
                    status = event.get("object") or {}
                    raise FollowError(
                        str(status.get("message") or status), status=int(status.get("code") or 0)
                    )
                yield event
        except ValueError as error:
            raise FollowError(f"a line of the watch cannot be read: {error}") from error
        except _broken() as error:
            raise FollowError(f"the watch broke off: {error or type(error).__name__}") from error
        finally:
            answer.close()

    async def delete(self, kind: str, namespace: str, name: str) -> bool:
        """See :class:`AsyncCluster`."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        try:
            await self._read("DELETE", f"{_path(kind, namespace)}/{quote(name, safe='')}", [], body=body)
        except FollowError as error:
            if error.status == 404:
                return False
            raise
        return True

    async def _read(self, method: str, path: str, query: list[tuple[str, str]], *, body: Any = None) -> Any:
        answer = await self._send(method, path, query, body=body, seconds=REQUEST_SECONDS)
        try:
            return json.loads(await answer.read())
        except ValueError as error:
            raise FollowError(f"{method} {path}: the answer is no JSON: {error}") from error
        except _broken() as error:
            raise FollowError(f"{method} {path}: {error or type(error).__name__}") from error
        finally:
            answer.release()

    async def _send(
        self, method: str, path: str, query: list[tuple[str, str]], *, seconds: float, body: Any = None
    ) -> Any:
        """The raw answer of a request that was good; anything else is a :class:`FollowError`."""
        try:
            answer = await self.client.call_api(
                path, method, query_params=query, body=body, auth_settings=["BearerToken"],
                header_params={"Accept": "application/json", "Content-Type": "application/json"},
                _preload_content=False, _return_http_data_only=True, _request_timeout=seconds,
            )  # fmt: skip
        except _broken() as error:
            raise FollowError(f"{method} {path}: {error or type(error).__name__}") from error
        if answer.status >= 300:
            text = (await answer.read())[:2000].decode("utf-8", "replace")
            answer.release()
            raise FollowError(f"{method} {path}: {_message(text)}", status=answer.status)
        return answer


def _path(kind: str, namespace: str) -> str:
    api, plural, _ = PLACES[kind]
    return f"{api}/namespaces/{quote(namespace, safe='')}/{plural}"


def _selected(selector: str) -> list[tuple[str, str]]:
    return [("labelSelector", selector)] if selector else []


def _message(text: str) -> str:
    """What a Status object says, or the text itself."""
    try:
        status = json.loads(text)
        return str(status.get("message") or text)
    except (ValueError, AttributeError):
        return text


def _broken() -> tuple[type[Exception], ...]:
    """Errors of a connection, of the client, and of the HTTP library that it brings."""
    import aiohttp  # noqa: PLC0415 (heavy)
    from kubernetes_asyncio.client.exceptions import ApiException  # noqa: PLC0415

    return (OSError, TimeoutError, aiohttp.ClientError, ApiException)


async def _lines(content: Any) -> AsyncIterator[bytes]:
    """Lines of a stream; ``ValueError`` for one above :data:`LONGEST_LINE`. An unfinished last line is dropped."""
    rest = bytearray()
    async for block in content.iter_any():
        rest += block
        if b"\n" not in block:
            if len(rest) > LONGEST_LINE:
                raise ValueError(f"a line of more than {LONGEST_LINE} bytes")
            continue
        *whole, last = rest.split(b"\n")
        for line in whole:
            if line.strip():
                yield bytes(line)
        rest = bytearray(last)
