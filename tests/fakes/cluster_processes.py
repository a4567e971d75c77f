"""Processes of a fake cluster's pods, found by a mark in their environment, and the words that a kubelet fills in."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from tests.fakes.cluster_store import Object

MARK = "FAKE_CLUSTER_POD"


def marked(text: str) -> dict[int, str]:
    """Living processes whose environment carries the mark, with its value; ``text`` is how the value begins."""
    found: dict[int, str] = {}
    want = f"{MARK}={text}".encode()
    for entry in os.listdir("/proc"):  # noqa: PTH208 (a hot loop)
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            environment = Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
            state = Path(f"/proc/{entry}/stat").read_text().rpartition(") ")[2].split()[0]
        except OSError:
            continue
        value = next((item for item in environment if item.startswith(want)), None)
        if value is not None and state not in "ZX":
            found[int(entry)] = value.decode().partition("=")[2]
    return found


def send_signal(pid: int, number: int) -> None:
    """Signal a process; one that is gone is no error."""
    with suppress(OSError):
        os.kill(pid, number)


def expanded(text: str, environment: dict[str, str]) -> str:
    """``$(NAME)`` as the kubelet expands it."""
    return re.sub(r"\$\(([A-Za-z0-9_.-]+)\)", lambda match: environment.get(match[1], match[0]), text)


def local_names(pod: Object, text: str) -> str:
    """Names of the pod's headless service lead to this machine: the cluster's own name server in one line."""
    subdomain = pod["spec"].get("subdomain")
    if not subdomain or subdomain not in text:
        return text
    return re.sub(
        rf"\b[a-z0-9-]+\.{re.escape(subdomain)}(?:\.[a-z0-9-]+\.svc(?:\.cluster\.local)?|\.svc)?\b",
        "127.0.0.1",
        text,
    )


def field_of(pod: Object, path: str) -> str:
    """A field of the pod, as the downward API gives it."""
    if match := re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path):
        return str((pod["metadata"].get(match[1]) or {}).get(match[2], ""))
    return {
        "metadata.name": pod["metadata"]["name"], "metadata.namespace": pod["metadata"]["namespace"],
        "metadata.uid": pod["metadata"]["uid"], "spec.nodeName": pod["spec"].get("nodeName", ""),
        "status.podIP": "127.0.0.1", "status.hostIP": "127.0.0.1",
    }.get(path, "")  # fmt: skip
