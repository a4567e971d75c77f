"""Strict field validation of an API server, by the official client's own models of the objects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kubernetes import client  # type: ignore[import-untyped]
from tests.fakes.cluster_store import ApiError, Object

MODELS = {"jobs": "V1Job", "pods": "V1Pod", "services": "V1Service"}
_LIST = re.compile(r"list\[(\w+)\]")
_DICT = re.compile(r"dict\(str, (\w+)\)")


def check_fields(resource: str, body: Object) -> None:
    """400 in the API server's words for fields that an object of this kind does not have."""
    if (model := MODELS.get(resource)) is None:
        return
    if found := list(_unknown(body, model, "")):
        kind = model.removeprefix("V1")
        told = ", ".join(f'unknown field "{field}"' for field in found)
        raise ApiError(
            400,
            "BadRequest",
            f'{kind} in version "v1" cannot be handled as a {kind}: strict decoding error: {told}',
        )


def _unknown(value: Any, model: str, where: str) -> Iterator[str]:
    if isinstance(value, list) and (inner := _LIST.fullmatch(model)):
        for number, item in enumerate(value):
            yield from _unknown(item, inner[1], f"{where}[{number}]")
        return
    if not isinstance(value, dict):
        return
    if inner := _DICT.fullmatch(model):
        for name, item in value.items():
            yield from _unknown(item, inner[1], f"{where}.{name}")
        return
    known = getattr(client, model, None)
    if known is None:
        return
    types = {known.attribute_map[name]: kind for name, kind in known.openapi_types.items()}
    for name, item in value.items():
        path = f"{where}.{name}".lstrip(".")
        if name not in types:
            yield path
        else:
            yield from _unknown(item, types[name], path)
