"""One request to an MLflow server's REST interface 2.0, and an answer that nobody vouches for.

An answer is bounded in bytes and in time as a whole (a server that sends a byte now and then answers never), no
redirect is followed, and what a server says of a refusal is shortened, printable and without the credentials that it
was shown.
"""

from __future__ import annotations

import base64
import http.client
import json
import queue
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from pretrain_archive.artifacts.formats import strict_json
from pretrain_archive.domain.errors import ArchiveError, CheckpointError

TIMEOUT = 30.0
"""Seconds for one whole answer."""
MOST_BYTES = 16 << 20
"""Of an answer: a page of versions stays far below it."""
MOST_TOLD = 500
"""Characters of what a server says."""
ANSWERS_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses by which a server says that the same request may succeed later."""
CREDENTIALS = "MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"


class RegistryUnavailableError(ArchiveError):
    """The registry gave no answer, or one that says to come back."""

    code = "registry_unavailable"


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """What the registry is shown: a token, or a user with a password; neither where it asks for nothing."""

    token: str = field(default="", repr=False)
    user: str = ""
    password: str = field(default="", repr=False)

    def header(self) -> dict[str, str]:
        """The request header; :class:`ArchiveError` for a token that no header can carry, without repeating it."""
        if self.token:
            if not (self.token.isascii() and self.token.isprintable()):
                raise ArchiveError(
                    "MLFLOW_TRACKING_TOKEN holds a character that no token has.",
                    hint="Look for a line break or a letter beyond ASCII in it.",
                )
            return {"Authorization": f"Bearer {self.token}"}
        return {"Authorization": f"Basic {self._pair()}"} if self.user else {}

    def _pair(self) -> str:
        return base64.b64encode(f"{self.user}:{self.password}".encode()).decode()

    def hide(self, text: str) -> str:
        """``text`` without the credentials, for a server that repeats what it was shown."""
        pair = self._pair() if self.user else ""
        for secret in sorted({self.token, self.password, pair} - {""}, key=len, reverse=True):
            text = text.replace(secret, "…")
        return text


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Credentials are not carried to another address."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Rest:
    """The server at ``url``; each method raises :class:`ArchiveError` for whatever is no good answer."""

    def __init__(self, url: str, access: Access, timeout: float) -> None:
        self.url = url
        self._access = access
        self._timeout = timeout
        self._opener = urllib.request.build_opener(_NoRedirect())

    def call(self, method: str, path: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """One request; the answer as a JSON object."""
        address, data = f"{self.url}/api/2.0/mlflow/{path}", None
        if method == "GET":
            address += "?" + urlencode(fields)
        else:
            data = json.dumps(fields).encode()
        head = {"Content-Type": "application/json", **self._access.header()}
        request = urllib.request.Request(address, data=data, method=method, headers=head)  # noqa: S310
        return self._read(self._within(lambda: self._ask(request, path)), path)

    def _within(self, work: Callable[[], bytes]) -> bytes:
        """What ``work`` gives within the time for one answer; a socket's own limit is for each byte."""
        done: queue.SimpleQueue[bytes | BaseException] = queue.SimpleQueue()

        def run() -> None:
            try:
                done.put(work())
            except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
                done.put(error)

        threading.Thread(target=run, daemon=True).start()
        try:
            found = done.get(timeout=self._timeout)
        except queue.Empty:
            raise self._silent(f"no whole answer in {self._timeout:g} s") from None
        if isinstance(found, BaseException):
            raise found
        return found

    def _ask(self, request: urllib.request.Request, path: str) -> bytes:
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                return bytes(answer.read(MOST_BYTES + 1))
        except urllib.error.HTTPError as error:
            raise self._refusal(error, path) from error
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            raise self._silent(str(getattr(error, "reason", None) or error)) from error

    def _silent(self, reason: str) -> RegistryUnavailableError:
        told = self._told(reason).rstrip(".")
        return RegistryUnavailableError(
            f"{self.url} does not answer: {told}.", hint="Look whether the registry is up."
        )

    def _read(self, raw: bytes, path: str) -> dict[str, Any]:
        if len(raw) > MOST_BYTES:
            raise ArchiveError(f"{self.url} answers {path} with more than {MOST_BYTES} bytes.")
        try:
            value = strict_json.loads(raw or b"{}", where=f"{self.url} {path}")
        except CheckpointError as error:
            raise ArchiveError(
                self._told(error.message), hint="Is this an MLflow tracking server?"
            ) from error
        if not isinstance(value, dict):
            raise ArchiveError(f"{self.url} answers {path} with no JSON object.")
        return value

    def _refusal(self, error: urllib.error.HTTPError, path: str) -> ArchiveError:
        """An answer that is no success, with what the server says of it."""
        with error:
            try:
                told = json.loads(error.read(4096))
                text = f"{told.get('error_code', '')} {told.get('message', '')}".strip()
            except (ValueError, AttributeError, RecursionError, OSError, http.client.HTTPException):
                text = ""
        line = f"{self.url} answers {path} with {error.code} {self._told(text or str(error.reason))}."
        if error.code in ANSWERS_LATER:
            return RegistryUnavailableError(line, hint="The export is tried again.")
        hint = f"Give credentials: {CREDENTIALS}."
        return ArchiveError(line, hint=hint if error.code in {401, 403} else "Read the registry's log.")

    def _told(self, text: str) -> str:
        """Foreign words on one line, as they may stand in a record or a log."""
        plain = self._access.hide(text).encode("utf-8", "backslashreplace").decode()
        return "".join(char if char.isprintable() else " " for char in plain)[:MOST_TOLD].strip()
