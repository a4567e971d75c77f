"""Sharded safetensors: an index that names, for every tensor, the shard that holds it.

An index is a promise about files; each promise is checked against the shards' own headers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

from pretrain_archive.artifacts.formats import strict_json
from pretrain_archive.domain.errors import CheckpointError
from pretrain_archive.domain.identity import path_to_text, text_to_path

INDEX_SUFFIX = ".safetensors.index.json"
SHARD = re.compile(r"(?P<stem>.+)-\d{5}-of-\d{5}\.safetensors")


def local(folder: Path, path: str) -> Path:
    """The path on this machine of a file that was named by ``path_to_text``."""
    return folder / os.fsdecode(text_to_path(path))


def problems(folder: Path, names: AbstractSet[str], held: Mapping[str, AbstractSet[str]]) -> list[str]:
    """What is wrong between indexes and shards.

    ``names`` are the folder's files; ``held`` the tensors of each readable safetensors file. Files that
    could not be read are in ``names`` only and were reported before.
    """
    indexes = sorted(name for name in names if name.endswith(INDEX_SUFFIX))
    found: list[str] = []
    indexed: set[str] = set()
    for index in indexes:
        try:
            by_shard = _weight_map(folder, index)
        except CheckpointError as error:
            found.append(error.message.rstrip("."))
            indexed |= {name for name in names if SHARD.fullmatch(name)}  # one cause, told once
            continue
        indexed |= set(by_shard)
        for shard, tensors in sorted(by_shard.items()):
            found.extend(_shard_problems(index, shard, tensors, names, held))
    unnamed = sorted(name for name in names - indexed if SHARD.fullmatch(name))
    return found + [f"{name} is a shard that no index names" for name in unnamed]


def _weight_map(folder: Path, index: str) -> dict[str, set[str]]:
    document = strict_json.load_object(local(folder, index), where=index)
    mapping = document.get("weight_map")
    if not isinstance(mapping, dict) or not mapping:
        raise CheckpointError(f"{index}: weight_map must map at least one tensor to its shard.")
    below = index.rpartition("/")[0]
    by_shard: dict[str, set[str]] = {}
    for tensor, shard in mapping.items():
        if not isinstance(shard, str) or not shard or "/" in shard or "\\" in shard or shard in {".", ".."}:
            raise CheckpointError(f"{index}: tensor {tensor!r} names {shard!r}, expected a file beside it.")
        name = path_to_text(shard.encode("utf-8", "surrogatepass"))
        by_shard.setdefault(f"{below}/{name}" if below else name, set()).add(tensor)
    return by_shard


def _shard_problems(
    index: str,
    shard: str,
    tensors: AbstractSet[str],
    names: AbstractSet[str],
    held: Mapping[str, AbstractSet[str]],
) -> list[str]:
    if shard not in names:
        return [f"{index} names {shard}, which is missing"]
    if shard not in held:
        return []
    absent, extra = sorted(tensors - held[shard]), sorted(held[shard] - tensors)
    found = []
    if absent:
        found.append(f"{index} names tensors that {shard} does not hold: {_few(absent)}")
    if extra:
        found.append(f"{shard} holds tensors that {index} does not name: {_few(extra)}")
    return found


def _few(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
