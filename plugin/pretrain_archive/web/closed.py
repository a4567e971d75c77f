"""The answer when the pages cannot be protected: 403 to everything, without FastAPI or Airflow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]

BODY = (
    b"The pages of the archive are closed: Airflow's login could not be loaded.\n"
    b"The API server's log says why.\n"
)


async def closed_app(
    scope: Message, _receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """An ASGI application that refuses every request."""
    if scope["type"] != "http":
        return
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(BODY)).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": BODY})
