"""What an answer of a cluster means: which pass by themselves, and what a person has to mend."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from typing import Any

from pretrain_archive.domain.errors import ArchiveError, ClusterUnavailableError, InputError, RefusedError

PASSING = frozenset({408, 429, 500, 502, 503, 504})
_CERTIFICATE = re.compile(r"certificate|SSL|TLS", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Call:
    """What was asked: verb, kind, namespace, name."""

    verb: str
    kind: str
    namespace: str
    name: str = ""

    @property
    def text(self) -> str:
        """In words."""
        return f"{self.verb} {self.kind} {self.name}".strip() + f" in namespace {self.namespace}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """An HTTP answer; ``status`` 0 is none, ``problem`` then says why."""

    status: int
    data: bytes = b""
    retry_after: str | None = None
    problem: str = ""

    @property
    def body(self) -> dict[str, Any]:
        """The ``Status`` object of an error, empty if it is none."""
        try:
            found = json.loads(self.data)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def message(self) -> str:
        """What the server said."""
        return str(self.body.get("message") or self.data[:300].decode("utf-8", "replace") or self.problem)

    @property
    def absent(self) -> bool:
        """Whether there is no such object, or no such kind; a missing namespace is an error of its own."""
        return self.status == 404 and not self._namespace

    @property
    def _namespace(self) -> bool:
        details = self.body.get("details")
        return isinstance(details, dict) and details.get("kind") == "namespaces"


def passes(answer: Answer, method: str) -> bool:
    """Whether the same call may succeed a moment later."""
    if answer.status == 0:
        return not _CERTIFICATE.search(answer.problem)
    stale = answer.status == 409 and method == "PATCH"
    return answer.status in PASSING or stale


def unavailable(call: Call, answer: Answer, host: str, tries: int) -> ClusterUnavailableError:
    """No usable answer came in time."""
    said = answer.problem or f"HTTP {answer.status}: {answer.message}"
    return ClusterUnavailableError(
        f"The cluster at {host} did not answer ({call.text}, {tries} tries): {said}.",
        hint="The task tries again; check the network, and the API server's load, if it lasts.",
    )


def refusal(call: Call, answer: Answer, host: str) -> ArchiveError:
    """The error that tells a person what to mend."""
    return _connection(answer, host) or _request(call, answer)


def _connection(answer: Answer, host: str) -> ArchiveError | None:
    match answer.status:
        case 0:
            return InputError(
                "connection", host, f"the cluster cannot be trusted or reached: {answer.problem}",
                hint="Check the address and the certificate authority of the connection or kubeconfig.",
            )  # fmt: skip
        case 401:
            return InputError(
                "connection", host, "the cluster does not accept these credentials",
                hint="Renew the token or certificate of the connection or kubeconfig.",
            )  # fmt: skip
    return None


def _request(call: Call, answer: Answer) -> ArchiveError:
    namespace = "compute.kubernetes.namespace"
    said = answer.message.rstrip(".")
    match answer.status:
        case 403 if "exceeded quota" in said:
            return RefusedError(
                f"the cluster does not take {call.kind} {call.name}", reasons=(said,),
                hint="Ask for less, or have the quota of the namespace raised.",
            )  # fmt: skip
        case 403:
            return InputError(
                namespace, call.namespace, f"{call.verb} of {call.kind} is forbidden: {said}",
                hint=f"Let the account of the connection {call.verb} {call.kind} objects in this namespace.",
            )  # fmt: skip
        case 404 if (answer.body.get("details") or {}).get("kind") == "namespaces":
            return InputError(
                namespace, call.namespace, "there is no such namespace in the cluster",
                hint="Create it, or name another one in the policy.",
            )  # fmt: skip
        case 404:
            return InputError(
                "compute.kubernetes.object_kind", call.kind, f"the cluster does not know it: {said}",
                hint="Install the controller that brings this kind, or choose another one in the policy.",
            )  # fmt: skip
        case _:
            return InputError(
                "compute.kubernetes", call.name or call.namespace,
                f"the cluster refuses to {call.text} (HTTP {answer.status}): {said}",
                hint="Mend what is named in [compute.kubernetes] of the policy.",
            )  # fmt: skip


def pause_of(answer: Answer, tries: int) -> float:
    """Seconds until the next try: what the server asks for, up to ten; else longer each time, and never in step."""
    try:
        asked = float(answer.retry_after or 0)
    except ValueError:
        asked = 0.0
    grown = min(8.0, 0.2 * 2.0 ** min(tries, 6))
    return float(min(10.0, max(0.0, asked)) or grown) * random.uniform(0.75, 1.25)  # noqa: S311 (no secret)


def bytes_of(data: Any) -> bytes:
    """A body as bytes, whatever the client made of it."""
    return data.encode() if isinstance(data, str) else bytes(data or b"")


def cause_of(error: BaseException) -> str:
    """The innermost reason, without the client's object addresses."""
    reason = getattr(error, "reason", None)
    return cause_of(reason) if isinstance(reason, BaseException) else f"{type(error).__name__}: {error}"
