"""Why an image is not there: a mistake that stays, or a fault that passes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pretrain_archive.compute.kubernetes.waiting_base import Wait, events_of, name_of, text_of

PULL_REASONS = frozenset({
    "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
    "RegistryUnavailable", "SignatureValidationFailed",
})  # fmt: skip
"""Reasons that the kubelet gives a container that waits for its image (pkg/kubelet/images/types.go)."""
ALWAYS = frozenset({"InvalidImageName", "ErrImageNeverPull", "SignatureValidationFailed"})

PASSING = re.compile(
    r"pull QPS exceeded|too ?many ?requests|\b429\b|rate limit|i/o timeout|timeout|deadline exceeded|"
    r"connection re(fused|set)|no such host|server misbehaving|\b50[0234]\b|unexpected EOF|: EOF|temporar|"
    r"no space left|context canceled|broken pipe",
    re.IGNORECASE,
)
"""Causes that go away by themselves. They are asked first: a rate limit says "denied" too."""

LASTING = re.compile(
    r"not found|manifest unknown|name unknown|does not exist|unauthorized|\b401\b|\b403\b|forbidden|denied|"
    r"authentication required|no basic auth credentials|no match for platform|no matching manifest|"
    r"invalid reference|invalid image name|invalid tag|exec format error",
    re.IGNORECASE,
)
"""Causes that stay until somebody mends image, tag or credentials."""


def image_wait(
    pod: Mapping[str, Any], container: Mapping[str, Any], events: Iterable[Mapping[str, Any]]
) -> Wait | None:
    """Why this container waits for its image, None if it does not."""
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason = str(waiting.get("reason") or "")
    if reason not in PULL_REASONS:
        return None
    image = str(container.get("image") or "")
    cause = _cause(pod, waiting, events, image)
    hopeless = reason in ALWAYS or lasting(cause)
    return Wait(
        reason="image",
        message=f"image {image}: {reason}: {cause or 'no cause given'}",
        object=f"pod/{name_of(pod)}",
        hopeless=hopeless,
        details={"image": image, "state": reason, "cause": cause},
    )


def lasting(cause: str) -> bool:
    """Whether a cause stays; one that is not known is waited for."""
    return not PASSING.search(cause) and bool(LASTING.search(cause))


def _cause(
    pod: Mapping[str, Any], waiting: Mapping[str, Any], events: Iterable[Mapping[str, Any]], image: str
) -> str:
    """What failed. While it backs off an older kubelet only says that it does; then the last event tells."""
    told = str(waiting.get("message") or "")
    if waiting.get("reason") == "ImagePullBackOff" and not re.search(r'image "[^"]*": ', told):
        for event in events_of(events, pod, "Failed", "InspectFailed"):
            text = text_of(event)
            if "pull image" in text and (not image or image in text):
                return text
    return told
