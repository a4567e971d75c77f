"""Headers that every answer carries: the pages stand on Airflow's origin, so a flaw here would act as the user."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'self'; base-uri 'none'"
)

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "SAMEORIGIN",
}


class SecurityHeaders:
    """ASGI middleware that adds :data:`HEADERS`, and forbids storing what is not marked as a static file."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and add the headers to its answer."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    if name == "Content-Security-Policy":
                        # A report that stands for itself brings a policy of its own, which allows less.
                        headers.setdefault(name, value)
                    else:
                        headers[name] = value
                headers.setdefault("Cache-Control", "private, no-store")
            await send(message)

        await self.app(scope, receive, with_headers)
