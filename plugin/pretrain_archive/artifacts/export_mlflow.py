"""Releases in an MLflow model registry: one version per release, however often and however many times it is tried.

MLflow has no create-if-absent. So a version is looked for by its tags (run and checkpoint digest) before one is made,
and again afterwards: of several that were made at the same moment the one with the lowest number stays, and whoever
sees the others removes them. What an answer that was lost had made is found by the next look.

The registry's REST API 2.0 is spoken directly (https://mlflow.org/docs/latest/rest-api.html): MLflow's own client
cannot be installed beside Airflow's newest libraries.
"""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from pretrain_archive.artifacts.formats import strict_json
from pretrain_archive.domain.errors import ArchiveError, CheckpointError

TAG = "pretrain_archive."
"""Of the names of our tags; RUN and DIGEST are the key of a release."""
RUN, DIGEST, TRY = f"{TAG}run", f"{TAG}checkpoint_digest", f"{TAG}try"
TIMEOUT = 30.0
"""Seconds for one answer."""
MOST_BYTES = 16 << 20
"""Of an answer: a page of versions stays far below it."""
PAGE = 200
MOST_PAGES = 1000
ANSWERS_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses by which a server says that the same request may succeed later."""


class RegistryUnavailableError(ArchiveError):
    """The registry gave no answer, or one that says to come back."""

    code = "registry_unavailable"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A release as it is registered. ``source`` says where the bytes are; ``tags`` lead back to the archive."""

    name: str
    source: str
    description: str
    tags: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Registered:
    """The one version; ``found`` it stood already; ``duplicates`` stand beside it and were left to people."""

    version: str
    found: bool
    duplicates: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Version:
    """A version that stands: its number, the try that made it (empty if none of ours) and its source."""

    number: str
    maker: str
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """What the registry is shown: a token, or a user with a password; neither where it asks for nothing."""

    token: str = field(default="", repr=False)
    user: str = ""
    password: str = field(default="", repr=False)

    def header(self) -> dict[str, str]:
        """The request header."""
        if self.token:
            return {"Authorization": f"Bearer {self.token}"}
        if self.user:
            pair = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
            return {"Authorization": f"Basic {pair}"}
        return {}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Credentials are not carried to another address."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class MlflowRegistry:
    """The registry behind an MLflow tracking server."""

    kind = "mlflow"

    def __init__(self, url: str, *, access: Access | None = None, timeout: float = TIMEOUT) -> None:
        self.url = url.rstrip("/")
        self._access = access or Access()
        self._timeout = timeout
        self._opener = urllib.request.build_opener(_NoRedirect())

    def register(self, entry: Entry) -> Registered:
        """Make ``entry`` a version of the registered model of its name, or find the one that it is already.

        Raises :class:`RegistryUnavailableError` where trying later may help, else :class:`ArchiveError`.
        """
        nonce, lost = "", None
        standing = self.versions(entry)
        if not standing:
            nonce = uuid.uuid4().hex
            lost = self._create(entry, nonce)
            standing = self.versions(entry)
        if not standing:
            raise lost or ArchiveError(f"{self.url} made a version of {entry.name} and does not list it.")
        first, *others = standing
        kept = tuple(other.number for other in others if not self._removed(entry, other))
        return Registered(version=first.number, found=first.maker != nonce, duplicates=kept)

    def versions(self, entry: Entry) -> list[Version]:
        """Every version of this release, lowest number first."""
        found = []
        for row in self._search(entry):
            tags = {str(tag.get("key")): str(tag.get("value")) for tag in row.get("tags") or ()}
            same = (tags.get(RUN), tags.get(DIGEST)) == (entry.tags[RUN], entry.tags[DIGEST])
            number = str(row.get("version"))
            if row.get("name") == entry.name and same and number.isdecimal():
                made = Version(number=number, maker=tags.get(TRY, ""), source=str(row.get("source")))
                found.append(made)
        return sorted(found, key=lambda version: int(version.number))

    def _create(self, entry: Entry, nonce: str) -> RegistryUnavailableError | None:
        """Ask for a version; an error says that nobody knows whether it was made."""
        tags = [{"key": key, "value": value} for key, value in sorted({**entry.tags, TRY: nonce}.items())]
        self._ensure_model(entry)
        request = {"name": entry.name, "source": entry.source, "description": entry.description, "tags": tags}
        try:
            self._call("POST", "model-versions/create", request)
        except RegistryUnavailableError as error:
            return error
        return None

    def _removed(self, entry: Entry, version: Version) -> bool:
        """Remove a version that a try of ours made beside the one that stays, unless a person made use of it."""
        where = {"name": entry.name, "version": version.number}
        if not version.maker or version.source != entry.source:
            return False
        try:
            told = self._call("GET", "model-versions/get", where).get("model_version")
            used = isinstance(told, dict) and (
                told.get("aliases") or told.get("current_stage", "None") not in {"", "None"}
            )
            if used or not isinstance(told, dict):
                return False
            self._call("DELETE", "model-versions/delete", where)
        except RegistryUnavailableError:
            raise
        except ArchiveError as error:
            return "RESOURCE_DOES_NOT_EXIST" in error.message  # another try removed it meanwhile
        return True

    def _ensure_model(self, entry: Entry) -> None:
        try:
            self._call("POST", "registered-models/create", {"name": entry.name})
        except ArchiveError as error:
            if "RESOURCE_ALREADY_EXISTS" not in error.message:
                raise

    def _search(self, entry: Entry) -> Iterator[dict[str, Any]]:
        wanted = " and ".join(f"tag.`{key}` = '{entry.tags[key]}'" for key in (RUN, DIGEST))
        query, token = {"filter": wanted, "max_results": str(PAGE)}, ""
        for _ in range(MOST_PAGES):
            page = self._call(
                "GET", "model-versions/search", query | ({"page_token": token} if token else {})
            )
            yield from (row for row in page.get("model_versions") or () if isinstance(row, dict))
            token = str(page.get("next_page_token") or "")
            if not token:
                return
        raise ArchiveError(f"{self.url} lists versions without end.", hint="Look at the registry's own log.")

    def _call(self, method: str, path: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """One request; the answer as a JSON object."""
        address, data = f"{self.url}/api/2.0/mlflow/{path}", None
        if method == "GET":
            address += "?" + urlencode(fields)
        else:
            data = json.dumps(fields).encode()
        head = {"Content-Type": "application/json", **self._access.header()}
        request = urllib.request.Request(address, data=data, method=method, headers=head)  # noqa: S310
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                raw = answer.read(MOST_BYTES + 1)
        except urllib.error.HTTPError as error:
            raise self._refusal(error, path) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise RegistryUnavailableError(
                f"{self.url} does not answer: {reason}.", hint="Look whether the registry is up."
            ) from error
        return self._read(raw, path)

    def _read(self, raw: bytes, path: str) -> dict[str, Any]:
        if len(raw) > MOST_BYTES:
            raise ArchiveError(f"{self.url} answers {path} with more than {MOST_BYTES} bytes.")
        try:
            value = strict_json.loads(raw or b"{}", where=f"{self.url} {path}")
        except CheckpointError as error:
            raise ArchiveError(error.message, hint="Is this an MLflow tracking server?") from error
        if not isinstance(value, dict):
            raise ArchiveError(f"{self.url} answers {path} with no JSON object.")
        return value

    def _refusal(self, error: urllib.error.HTTPError, path: str) -> ArchiveError:
        """An answer that is no success, with what the server says, shortened."""
        with error:
            try:
                told = json.loads(error.read(4096))
                text = f"{told.get('error_code', '')} {told.get('message', '')}".strip()
            except (ValueError, AttributeError, OSError, http.client.HTTPException):
                text = ""
        line = f"{self.url} answers {path} with {error.code} {text[:500] or error.reason}."
        if error.code in ANSWERS_LATER:
            return RegistryUnavailableError(line, hint="The export is tried again.")
        hint = "Give credentials: MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."
        return ArchiveError(line, hint=hint if error.code in {401, 403} else "Read the registry's log.")
