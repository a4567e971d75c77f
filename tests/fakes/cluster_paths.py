"""What a path, a verb and a body ask of a Kubernetes API server."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote

from tests.fakes.cluster_faults import Request
from tests.fakes.cluster_patch import apply_json_patch, merge, merge_strategic
from tests.fakes.cluster_store import CLUSTER_WIDE, KINDS, ApiError, Object

_PATH = re.compile(
    r"^/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<ns>[^/]+)(?=/[^/]))?/(?P<res>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?$"
)


def cut_of(request: Request) -> Request:
    """What the fault that cuts a running watch is looked up by."""
    return Request(verb="watching", resource=request.resource, namespace=request.namespace)


def request_of(verb: str, path: str, query: dict[str, str], raw: bytes, agent: str) -> Request | None:
    """The request behind a call, None if the path is none of objects."""
    match = _PATH.match(path)
    if match is None:
        return None
    resource, name = match["res"], unquote(match["name"] or "")
    if resource not in KINDS:
        return None
    namespace = unquote(match["ns"] or "")
    if verb == "get" and not name:
        verb = "watch" if query.get("watch") in ("true", "1", "True") else "list"
    if verb == "delete" and not name:
        verb = "deletecollection"
    if resource in CLUSTER_WIDE:
        namespace = ""
    return Request(
        verb=verb, resource=resource, namespace=namespace, name=name, subresource=match["sub"] or "", query=query,
        body=json.loads(raw) if raw else None, agent=agent,
    )  # fmt: skip


def patched(kind: str, old: Object, patch: Any) -> Object:
    """The object after a patch of that content type."""
    if kind == "application/json-patch+json":
        try:
            return dict(apply_json_patch(old, patch))
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise ApiError(422, "Invalid", f"the patch cannot be applied: {error}") from error
    return dict(
        merge_strategic(old, patch) if kind == "application/strategic-merge-patch+json" else merge(old, patch)
    )
