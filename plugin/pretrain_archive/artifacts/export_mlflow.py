"""Releases in an MLflow model registry: one version per release, however often and however many times it is tried.

MLflow has no create-if-absent. So a version is looked for by its tags (run and checkpoint digest) before one is made,
and again afterwards: of several that were made at the same moment the one with the lowest number stays, and whoever
sees the others removes them. What an answer that was lost had made is found by the next look.

The registry's REST API 2.0 is spoken directly (https://mlflow.org/docs/latest/rest-api.html): MLflow's own client
cannot be installed beside Airflow's newest libraries.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pretrain_archive.artifacts.mlflow_rest import TIMEOUT, Access, RegistryUnavailableError, Rest
from pretrain_archive.domain.errors import ArchiveError

TAG = "pretrain_archive."
"""Of the names of our tags; RUN and DIGEST are the key of a release."""
RUN, DIGEST, TRY = f"{TAG}run", f"{TAG}checkpoint_digest", f"{TAG}try"
PAGE = 200
MOST_PAGES = 100
"""Of versions of one release: there is one, a few where tries met."""
MOST_DIGITS, MOST_TOKEN = 18, 4096
"""Of a version's number and of a token for the next page, in characters."""


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


class MlflowRegistry:
    """The registry behind an MLflow tracking server."""

    kind = "mlflow"

    def __init__(self, url: str, *, access: Access | None = None, timeout: float = TIMEOUT) -> None:
        self.url = url.rstrip("/")
        self._call = Rest(self.url, access or Access(), timeout).call

    def register(self, entry: Entry) -> Registered:
        """Make ``entry`` a version of the registered model of its name, or find the one that it is already.

        A version with our tags and another source is not this release, whoever made it: it stays beside and is named.
        Raises :class:`RegistryUnavailableError` where trying later may help, else :class:`ArchiveError`.
        """
        nonce, lost = "", None
        ours, others = self._parted(entry)
        if not ours:
            nonce = uuid.uuid4().hex
            lost = self._create(entry, nonce)
            ours, others = self._parted(entry)
        if not ours:
            raise lost or ArchiveError(f"{self.url} made a version of {entry.name} and does not list it.")
        first = ours[0]
        left = [other for other in ours[1:] if not self._removed(entry, other)]
        kept = tuple(v.number for v in sorted([*left, *others], key=lambda v: int(v.number)))
        return Registered(version=first.number, found=first.maker != nonce, duplicates=kept)

    def lists(self, entry: Entry, number: str) -> bool:
        """Whether the registry has version ``number`` of this release now; raises as :meth:`register`."""
        return number in {version.number for version in self._parted(entry)[0]}

    def _parted(self, entry: Entry) -> tuple[list[Version], list[Version]]:
        """Versions that carry this release's key, lowest number first: those with its source, and the others."""
        found = []
        for row in self._search(entry):
            tags, number = _tags(row), str(row.get("version"))
            same = (tags.get(RUN), tags.get(DIGEST)) == (entry.tags[RUN], entry.tags[DIGEST])
            plain = number.isascii() and number.isdecimal() and len(number) <= MOST_DIGITS
            if row.get("name") == entry.name and same and plain:
                made = Version(number=number, maker=tags.get(TRY, ""), source=str(row.get("source")))
                found.append(made)
        found.sort(key=lambda version: int(version.number))
        return [v for v in found if v.source == entry.source], [v for v in found if v.source != entry.source]

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
        if not version.maker:
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
            asked = query | ({"page_token": token} if token else {})
            page = self._call("GET", "model-versions/search", asked)
            rows, last = page.get("model_versions"), token
            yield from (
                row for row in (rows if isinstance(rows, list) else ())[:PAGE] if isinstance(row, dict)
            )
            token = str(page.get("next_page_token") or "")
            if not token:
                return
            if token == last or len(token) > MOST_TOKEN:
                break
        raise ArchiveError(f"{self.url} lists versions without end.", hint="Look at the registry's own log.")


def _tags(row: Mapping[str, Any]) -> dict[str, str]:
    """A version's tags; what has not the form of one is none."""
    given = row.get("tags")
    listed = [tag for tag in given if isinstance(tag, dict)] if isinstance(given, list) else []
    return {str(tag.get("key")): str(tag.get("value")) for tag in listed}
