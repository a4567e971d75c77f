"""Selectors and patches of the Kubernetes API, as far as clients of jobs and pods use them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MERGE_KEYS = {
    "conditions": "type", "containers": "name", "initContainers": "name", "env": "name", "volumes": "name",
    "ownerReferences": "uid", "ports": "containerPort", "volumeMounts": "mountPath",
}  # fmt: skip
"""Lists that a strategic merge patch merges by this key; all others it replaces."""
_REQUIREMENT = re.compile(r"\s*([^\s,!=()]+)\s+(in|notin)\s+\(([^)]*)\)\s*|\s*([^,]+)\s*")


def matches_labels(found: Mapping[str, Any], selector: str) -> bool:
    """Whether the labels fit: ``a=b``, ``a==b``, ``a!=b``, ``a``, ``!a``, ``a in (b,c)``, ``a notin (b)``."""
    labels = found.get("metadata", {}).get("labels") or {}
    for match in _REQUIREMENT.finditer(selector):
        name, operator, values, plain = match.groups()
        if name:
            wanted = {value.strip() for value in values.split(",")}
            if (labels.get(name) in wanted) != (operator == "in"):
                return False
        elif not _plain(labels, plain.strip()):
            return False
    return True


def _plain(labels: Mapping[str, str], term: str) -> bool:
    if not term:
        return True
    if "!=" in term:
        name, _, value = term.partition("!=")
        return labels.get(name.strip()) != value.strip()
    if "=" in term:
        name, _, value = term.replace("==", "=").partition("=")
        return labels.get(name.strip()) == value.strip()
    return (term[1:].strip() not in labels) if term.startswith("!") else term in labels


def matches_fields(found: Mapping[str, Any], selector: str) -> bool:
    """Whether the fields fit: ``path=value`` and ``path!=value``, separated by commas."""
    for term in filter(None, selector.split(",")):
        negated = "!=" in term
        path, _, value = term.partition("!=" if negated else "=")
        at: Any = found
        for part in path.rstrip("=").split("."):
            at = at.get(part) if isinstance(at, Mapping) else None
        if (str(at or "") == value.lstrip("=")) == negated:
            return False
    return True


def merge(target: Any, patch: Any) -> Any:
    """RFC 7396: objects merge, null removes, anything else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def merge_strategic(target: Any, patch: Any, name: str = "") -> Any:
    """The same with lists of known objects merged by their key."""
    if isinstance(patch, list) and isinstance(target, list) and name in MERGE_KEYS:
        key = MERGE_KEYS[name]
        merged = {item.get(key): item for item in target}
        for item in patch:
            if item.get("$patch") == "delete":
                merged.pop(item.get(key), None)
            else:
                merged[item.get(key)] = merge_strategic(merged.get(item.get(key), {}), item)
        return list(merged.values())
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_strategic(result.get(key), value, key)
    return result


def apply_json_patch(target: Any, operations: list[Mapping[str, Any]]) -> Any:
    """RFC 6902 with add, replace, remove and test; raises ``ValueError`` where a path or a test fails."""
    for operation in operations:
        *parents, last = [
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
        ]
        at = target
        for part in parents:
            at = at[int(part)] if isinstance(at, list) else at.get(part)
            if at is None:
                raise ValueError(f"the path {operation['path']} is not there")
        where: Any = len(at) if last == "-" else int(last) if isinstance(at, list) else last
        match operation["op"]:
            case "test":
                here = at.get(last) if isinstance(at, Mapping) else at[where]
                if here != operation["value"]:
                    raise ValueError(f"the test of {operation['path']} failed")
            case "remove":
                del at[where]
            case "add" if isinstance(at, list):
                at.insert(where, operation["value"])
            case _:
                at[where] = operation["value"]
    return target
