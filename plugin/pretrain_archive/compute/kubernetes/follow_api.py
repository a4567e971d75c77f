"""What following asks of a cluster, over the asynchronous client, with plain dicts.

The client's own models and its ``Watch`` are not used: they build an object per line and read lines of at most
128 KiB, while a job that carries a manifest may be longer.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Protocol

from pretrain_archive.compute.kubernetes.api_places import PLACES
from pretrain_archive.compute.kubernetes.sound import sound
from pretrain_archive.domain.errors import ArchiveError

LABELLED = frozenset({"Job", "TrainJob", "Pod"})
"""Kinds whose objects carry the run's label; events and Kueue's workloads do not."""

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
            found = await self._read(PLACES[kind].path(namespace), page)
            listed = found.get("items") or []
            if not isinstance(listed, list):
                raise FollowError(f"the list of {kind} is none: {str(listed)[:200]}")
            items += [sound(item) for item in listed if isinstance(item, dict)]
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
        answer = await self._send(PLACES[kind].path(namespace), query, seconds=seconds + 15)
        try:
            yield {"type": "OPENED", "object": {}}
            async for line in _lines(answer.content):
                event = json.loads(line)
                if not isinstance(event, dict) or not isinstance(event.get("object") or {}, dict):
                    raise FollowError(f"a line of the watch is no event: {str(event)[:200]}")
                if event.get("type") == "ERROR":
                    status = event.get("object") or {}
                    code = status.get("code")
                    raise FollowError(
                        str(status.get("message") or status), status=code if isinstance(code, int) else 0
                    )
                yield {**event, "object": sound(event.get("object") or {})}
        except (ValueError, RecursionError) as error:
            raise FollowError(f"a line of the watch cannot be read: {error}") from error
        except _broken() as error:
            raise FollowError(f"the watch broke off: {error or type(error).__name__}") from error
        finally:
            answer.close()

    async def _read(self, path: str, query: list[tuple[str, str]]) -> Object:
        answer = await self._send(path, query, seconds=REQUEST_SECONDS)
        try:
            found = json.loads(await answer.read())
        except (ValueError, RecursionError) as error:
            raise FollowError(f"{path}: the answer is no JSON: {error}") from error
        except _broken() as error:
            raise FollowError(f"{path}: {error or type(error).__name__}") from error
        finally:
            answer.release()
        if not isinstance(found, dict):
            raise FollowError(f"{path}: the answer is no object: {str(found)[:200]}")
        return sound(found)

    async def _send(self, path: str, query: list[tuple[str, str]], *, seconds: float) -> Any:
        """The raw answer of a request that was good; anything else is a :class:`FollowError`."""
        try:
            answer = await self.client.call_api(
                path, "GET", query_params=query, auth_settings=["BearerToken"],
                header_params={"Accept": "application/json"},
                _preload_content=False, _return_http_data_only=True, _request_timeout=seconds,
            )  # fmt: skip
        except _broken() as error:
            raise FollowError(f"{path}: {error or type(error).__name__}") from error
        if answer.status >= 300:
            text = (await answer.read())[:2000].decode("utf-8", "replace")
            answer.release()
            raise FollowError(f"{path}: {_message(text)}", status=answer.status)
        return answer


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
    """Errors of a connection, of the client, and of the HTTP library that it brings.

    A session that was closed under a request (its credentials had run out) is a RuntimeError there.
    """
    import aiohttp  # noqa: PLC0415 (heavy)
    from kubernetes_asyncio.client.exceptions import ApiException  # noqa: PLC0415

    return (OSError, TimeoutError, RuntimeError, aiohttp.ClientError, ApiException)


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
