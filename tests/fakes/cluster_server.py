"""The HTTP side of a fake Kubernetes API server: paths, verbs, watch streams, errors and injected faults.

It stands on the standard library. kmock's emulator was looked at first: it keeps no resource versions (lists answer
with the text "..."), reads no selectors, knows no 409 on a stale write, no 410, no bookmarks, no graceful deletion
and no finalizers, and those are exactly what a launch must survive.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.fakes.cluster_backend import Backend
from tests.fakes.cluster_faults import REASONS, Fault, Request
from tests.fakes.cluster_patch import matches_fields, matches_labels
from tests.fakes.cluster_paths import cut_of, patched, request_of
from tests.fakes.cluster_rules import admit, keep_parts
from tests.fakes.cluster_store import KINDS, ApiError, Change, Object
from tests.fakes.cluster_strict import check_fields

_TICK = 0.05


class ApiServer(ThreadingHTTPServer):
    """Serves a backend on a free port of this machine."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, backend: Backend, *, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.backend = backend
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: ApiServer
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class names it so)
        """Say nothing."""

    def do_GET(self) -> None:
        """Read."""
        self._serve("get")

    def do_POST(self) -> None:
        """Create."""
        self._serve("create")

    def do_PUT(self) -> None:
        """Replace."""
        self._serve("update")

    def do_PATCH(self) -> None:
        """Change."""
        self._serve("patch")

    def do_DELETE(self) -> None:
        """Delete."""
        self._serve("delete")

    # -- one request ---------------------------------------------------------------------------------

    def _serve(self, verb: str) -> None:
        backend = self.server.backend
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length) if length else b""
        if backend.closed.is_set():
            self._drop()
            return
        parts = urlsplit(self.path)
        request = request_of(
            verb, parts.path, dict(parse_qsl(parts.query)), raw, self.headers.get("User-Agent", "")
        )
        if request is None:
            self._discover(parts.path)
            return
        backend.requests.append(request)
        fault = backend.faults.take(request)
        try:
            self._answer(request, fault)
        except ApiError as error:
            request.status = error.code
            self._json(error.code, error.body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _answer(self, request: Request, fault: Fault | None) -> None:
        if fault is not None and fault.delay:
            self.server.backend.closed.wait(fault.delay)
        if fault is not None and not fault.after and (fault.drop or fault.status):
            self._break(request, fault)
            return
        self._authenticate()
        if request.verb == "watch":
            request.status = 200
            self._watch(request)
            return
        code, body = self._act(request)
        if fault is not None and fault.after:
            self._break(request, fault)
            return
        request.status = code
        self._json(code, body)

    def _break(self, request: Request, fault: Fault) -> None:
        if fault.drop:
            self._drop()
            return
        error = ApiError(fault.status, fault.reason or REASONS.get(fault.status, "Unknown"), fault.message)
        request.status = fault.status
        headers = {} if fault.retry_after is None else {"Retry-After": f"{fault.retry_after:g}"}
        self._json(fault.status, error.body, headers)

    def _authenticate(self) -> None:
        token = self.server.backend.token
        if token and self.headers.get("Authorization") != f"Bearer {token}":
            raise ApiError(401, "Unauthorized", "Unauthorized")

    def _act(self, request: Request) -> tuple[int, Any]:  # noqa: C901, PLR0911, PLR0912 (one row for each verb)
        store, ns = self.server.backend.store, request.namespace
        kind, name = request.resource, request.name
        if KINDS.get(kind, ("",))[0] in self.server.backend.missing:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        match request.verb, request.subresource:
            case "get", "log":
                return 200, self.server.backend.log_of(store.get(kind, ns, name))
            case "get", "pendingworkloads":
                return 200, self.server.backend.pending(ns, name)
            case "get", _:
                return 200, store.get(kind, ns, name)
            case "list", _:
                return 200, self._list(request)
            case "create", "eviction":
                self.server.backend.evict_by_api(ns, name)
                return 201, {"kind": "Status", "apiVersion": "v1", "status": "Success"}
            case "create", "binding":
                self.server.backend.bind(ns, name, str(request.body["target"]["name"]))
                return 201, {"kind": "Status", "apiVersion": "v1", "status": "Success"}
            case "create", _:
                if request.query.get("fieldValidation") == "Strict":
                    check_fields(kind, request.body)
                if request.query.get("dryRun"):
                    store.require_namespace(kind, ns)
                    return 201, admit(kind, dict(request.body))
                return 201, store.create(kind, ns, admit(kind, dict(request.body)))
            case "update", sub:
                return 200, store.update(
                    kind, ns, name, lambda old: keep_parts(kind, sub, old, dict(request.body))
                )
            case "patch", sub:
                kind_of = self.headers.get("Content-Type", "").partition(";")[0]
                return 200, store.update(
                    kind,
                    ns,
                    name,
                    lambda old: keep_parts(kind, sub, old, patched(kind_of, old, request.body)),
                )
            case _:
                return 200, self._delete(request)

    def _delete(self, request: Request) -> Object:
        options = {**(request.body or {}), **request.query}
        grace = options.get("gracePeriodSeconds")
        return self.server.backend.store.delete(
            request.resource, request.namespace, request.name, policy=options.get("propagationPolicy"),
            grace=None if grace is None else int(grace),
            uid=(options.get("preconditions") or {}).get("uid"),
        )  # fmt: skip

    def _list(self, request: Request) -> Object:
        store, query = self.server.backend.store, request.query
        group, version, kind = KINDS[request.resource]
        with store.changed:
            found = store.find(
                request.resource, request.namespace,
                labels=query.get("labelSelector", ""), fields=query.get("fieldSelector", ""),
            )  # fmt: skip
            at, meta = store.version, {}
            begin, limit = 0, int(query.get("limit") or 0)
            if mark := query.get("continue"):
                seen, _, offset = mark.partition(":")
                if int(seen) < store.forgotten:
                    raise ApiError(410, "Expired", "The provided continue parameter is too old")
                at, begin = int(seen), int(offset)
            if limit and begin + limit < len(found):
                meta = {"continue": f"{at}:{begin + limit}", "remainingItemCount": len(found) - begin - limit}
                found = found[begin : begin + limit]
            else:
                found = found[begin:]
        return {
            "kind": f"{kind}List", "apiVersion": f"{group}/{version}" if group else version,
            "metadata": {"resourceVersion": str(at), **meta}, "items": found,
        }  # fmt: skip

    # -- watching ------------------------------------------------------------------------------------

    def _watch(self, request: Request) -> None:
        store, query = self.server.backend.store, request.query
        end = time.monotonic() + float(query.get("timeoutSeconds") or 3600)
        at = int(query.get("resourceVersion") or 0)
        self._head(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})
        if at == 0:
            with store.changed:
                at = store.version
                found = self._list(request)["items"]
            for item in found:
                self._line("ADDED", item)
        bookmark = time.monotonic() + self.server.backend.bookmark_seconds
        while time.monotonic() < end and not self.server.backend.closed.is_set():
            if self.server.backend.faults.take(cut_of(request)) is not None:
                self._drop()
                return
            try:
                changes, at = store.since(at, request.resource)
            except ApiError as error:
                self._line("ERROR", error.body)
                break
            for change in changes:
                self._tell(request, change)
            if query.get("allowWatchBookmarks") == "true" and time.monotonic() >= bookmark:
                bookmark = time.monotonic() + self.server.backend.bookmark_seconds
                group, version, kind = KINDS[request.resource]
                self._line("BOOKMARK", {
                    "kind": kind, "apiVersion": f"{group}/{version}" if group else version,
                    "metadata": {"resourceVersion": str(at), "creationTimestamp": None},
                })  # fmt: skip
            with store.changed:
                if store.version == at:
                    store.changed.wait(_TICK)
        self.wfile.write(b"0\r\n\r\n")

    def _tell(self, request: Request, change: Change) -> None:
        labels, fields = request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")

        def fits(found: Object | None) -> bool:
            return found is not None and (
                request.namespace in ("", found["metadata"].get("namespace", ""))
                and matches_labels(found, labels) and matches_fields(found, fields)
            )  # fmt: skip

        before, now = fits(change.old), fits(change.object) and change.type != "DELETED"
        if before or now:
            kind = "MODIFIED" if before and now else "ADDED" if now else "DELETED"
            self._line(kind, change.object)

    def _line(self, kind: str, found: Object) -> None:
        line = json.dumps({"type": kind, "object": found}).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.flush()

    # -- bytes ---------------------------------------------------------------------------------------

    def _discover(self, path: str) -> None:
        if path == "/version":
            self._json(200, {"major": "1", "minor": "34", "gitVersion": "v1.34.0-fake"})
        else:
            self._json(404, ApiError(404, "NotFound", f"no such path: {path}").body)

    def _head(self, code: int, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _json(self, code: int, body: Any, headers: dict[str, str] | None = None) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = "text/plain" if isinstance(body, bytes) else "application/json"
        self._head(code, {"Content-Type": kind, "Content-Length": str(len(content)), **(headers or {})})
        self.wfile.write(content)

    def _drop(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
