"""Model registries that a policy names: what they hold is not deleted, and one that cannot be asked stops all.

A registry answers with the texts in which it names models: sources, tags, descriptions. A checkpoint that is named in
any of them, by its id, its address or its digest, is in use. Only questions are asked; nothing there is changed.
"""

from __future__ import annotations

import base64
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

from pretrain_archive.domain.errors import InputError, StorageError
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.retention.subjects import Kept, Subject

TIMEOUT = 20.0
"""Seconds that a registry has for one answer."""
MOST_BYTES = 64 << 20
MOST_PAGES = 10_000


class Registry(Protocol):
    """Something that names models in use."""

    def texts(self) -> Iterable[str]:
        """Every text in which it names a model; ``StorageError`` where it cannot be asked or gives no answer."""


@dataclass(frozen=True, kw_only=True)
class MlflowRegistry:
    """An MLflow tracking server, asked over its REST interface (``model-versions/search``).

    Every stage and alias counts: a version that is registered is in use until it is deleted there. Credentials come
    from MLflow's own variables, ``MLFLOW_TRACKING_TOKEN`` or ``MLFLOW_TRACKING_USERNAME`` and ``_PASSWORD``.
    """

    url: str

    def texts(self) -> Iterator[str]:
        """See :class:`Registry`."""
        token = ""
        for _ in range(MOST_PAGES):
            answer = self._ask({"max_results": "1000", **({"page_token": token} if token else {})})
            versions = answer.get("model_versions", [])
            if not isinstance(versions, list):
                raise self._fault("its answer lists no model versions")
            for version in versions:
                yield from _texts(version)
            token = str(answer.get("next_page_token") or "")
            if not token:
                return
        raise self._fault(f"it gives more than {MOST_PAGES} pages")

    def _ask(self, query: Mapping[str, str]) -> Mapping[str, Any]:
        address = f"{self.url.rstrip('/')}/api/2.0/mlflow/model-versions/search?{urlencode(query)}"
        request = urllib.request.Request(address, headers=_credentials())  # noqa: S310 - http(s) only, checked
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:  # noqa: S310
                data = reply.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                raise self._fault(f"its answer is longer than {MOST_BYTES} bytes")
            found = json.loads(data)
        except (OSError, urllib.error.URLError, ValueError, RecursionError) as problem:
            raise self._fault(str(problem)) from problem
        if not isinstance(found, dict):
            raise self._fault("its answer is no JSON object")
        return found

    def _fault(self, problem: str) -> StorageError:
        return StorageError(
            f"registry {self.url} cannot be asked: {problem}", hint="Nothing is deleted until it can."
        )


def open_registry(url: str) -> Registry:
    """The registry behind an address in a policy: ``http://…`` or ``https://…`` is an MLflow server."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InputError(
            "retention.registries", url, "is no address of a registry", hint="Use http:// or https://."
        )
    if parts.username or parts.password:
        raise InputError(
            "retention.registries", "(hidden)", "holds credentials",
            hint="Give them in MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.",
        )  # fmt: skip
    return MlflowRegistry(url=url)


def _credentials() -> dict[str, str]:
    """The header that MLflow's own client would send."""
    if token := os.environ.get("MLFLOW_TRACKING_TOKEN"):
        return {"Authorization": f"Bearer {token}"}
    user, password = (os.environ.get(f"MLFLOW_TRACKING_{name}", "") for name in ("USERNAME", "PASSWORD"))
    if not user:
        return {}
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


@dataclass(kw_only=True)
class Registered:
    """What the registries of each project answered: ``faults`` of those that could not be asked, ``names`` in use."""

    faults: dict[str, str] = field(default_factory=dict)
    names: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def ask(
        cls, policies: Mapping[str, LoadedPolicy], opened: Callable[[str], Registry] = open_registry
    ) -> Registered:
        """Ask every registry that a policy names, once each; a fault of one is the answer of its projects."""
        made, answers = cls(), dict[str, set[str] | str]()
        for project, loaded in policies.items():
            for url in loaded.policy.retention.registries if loaded.policy.retention else ():
                if url not in answers:
                    try:
                        answers[url] = set(opened(url).texts())
                    except (StorageError, InputError) as problem:
                        answers[url] = problem.message
                answer = answers[url]
                if isinstance(answer, str):
                    made.faults[project] = answer
                else:
                    made.names.setdefault(project, set()).update(answer)
        return made

    def gap(self, project: str) -> str | None:
        """Why nothing of a project may be deleted, or None."""
        return self.faults.get(project)

    def keeps(self, subject: Subject) -> Kept | None:
        """Whether a registry that the subject's policy names holds it."""
        names = self.names.get(subject.project)
        if not names:
            return None
        plain = subject.location.rstrip("/")
        own = {
            subject.ref,
            subject.ref.partition(":")[2],
            plain,
            plain.removeprefix("file://"),
            subject.digest,
        }
        if names & own or any(
            text.startswith((plain + "/", plain.removeprefix("file://") + "/")) for text in names
        ):
            return Kept(reason="registered in a model registry", by="registry", code="live")
        return None


def _texts(value: object) -> Iterator[str]:
    """Every text within a JSON value; addresses without their last slash."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item.rstrip("/")
        elif isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
