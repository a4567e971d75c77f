"""Sharded weights: an index that names, for every tensor, the shard that holds it.

An index is a promise about files; each promise is checked against the shards' own headers where these can be read
(safetensors), and against the files' being there where not (``pytorch_model.bin``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from pretrain_archive.artifacts.formats import strict_json
from pretrain_archive.artifacts.readers import FileEntry, Reader, local
from pretrain_archive.domain.errors import CheckpointError
from pretrain_archive.domain.identity import path_to_text

__all__ = ["INDEX", "INDEX_SUFFIX", "local", "problems"]

INDEX_SUFFIX = ".safetensors.index.json"
INDEX = re.compile(r".+\.(?:safetensors|bin)\.index(?:\.[A-Za-z0-9_-]{1,32})?\.json")
SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5,6})-of-(?P<count>\d{5,6})\.(?:safetensors|bin)")
OF_RANK = re.compile(r"shard-\d{5}-(?P<stem>.+)")
"""What PyTorch's Hugging Face writer calls the shards of each rank before they are brought together: none has an index.
"""


def problems(
    reader: Reader, files: Mapping[str, FileEntry], held: Mapping[str, AbstractSet[str]]
) -> list[str]:
    """What is wrong between indexes and shards.

    ``files`` are the checkpoint's by path; ``held`` the tensors of each readable safetensors file. Files that could
    not be read are in ``files`` only and were reported before.
    """
    found: list[str] = []
    indexed: set[str] = set()
    shards = {name for name in files if SHARD.fullmatch(name.rpartition("/")[2])}
    ranked = {name for name in shards if OF_RANK.match(name.rpartition("/")[2])}
    for index in sorted(name for name in files if is_index(name)):
        try:
            by_shard = _weight_map(reader, files[index])
        except CheckpointError as error:
            found.append(error.message.rstrip("."))
            indexed |= shards  # one cause, told once
            continue
        indexed |= set(by_shard)
        for shard, tensors in sorted(by_shard.items()):
            found.extend(_shard_problems(index, shard, tensors, files, held))
        found.extend(_counted(index, by_shard))
    found += [f"{name} is a shard that no index names" for name in sorted(shards - ranked - indexed)]
    return found + _ranked(ranked - indexed)


def is_index(path: str) -> bool:
    """Whether a file is an index, by its name."""
    return INDEX.fullmatch(path.rpartition("/")[2]) is not None


def _weight_map(reader: Reader, index: FileEntry) -> dict[str, set[str]]:
    mapping = strict_json.read_object(reader, index).get("weight_map")
    if not isinstance(mapping, dict) or not mapping:
        raise CheckpointError(f"{index.path}: weight_map must map at least one tensor to its shard.")
    below = index.path.rpartition("/")[0]
    by_shard: dict[str, set[str]] = {}
    for tensor, shard in mapping.items():
        if not isinstance(shard, str) or not shard or "/" in shard or "\\" in shard or shard in {".", ".."}:
            raise CheckpointError(
                f"{index.path}: tensor {tensor!r} names {shard!r}, expected a file beside it."
            )
        name = path_to_text(shard.encode("utf-8", "surrogatepass"))
        by_shard.setdefault(f"{below}/{name}" if below else name, set()).add(tensor)
    return by_shard


def _shard_problems(
    index: str,
    shard: str,
    tensors: AbstractSet[str],
    files: Mapping[str, FileEntry],
    held: Mapping[str, AbstractSet[str]],
) -> list[str]:
    if shard not in files:
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


def _counted(index: str, by_shard: Mapping[str, AbstractSet[str]]) -> list[str]:
    """Shards state in their names how many there are: an index that names fewer leaves weights out."""
    named = [found for shard in by_shard if (found := SHARD.fullmatch(shard.rpartition("/")[2]))]
    counts = {(found["stem"], int(found["count"])) for found in named}
    return [
        f"{index} names {seen} shards of {stem}, their names say {count}"
        for stem, count in sorted(counts)
        if (seen := sum(1 for found in named if found["stem"] == stem)) != count
    ]


def _ranked(names: AbstractSet[str]) -> list[str]:
    """Numbers that the shards of no rank have, where each rank wrote its part of every numbered file."""
    seen: dict[tuple[str, str, int], set[int]] = {}
    for name in names:
        folder, _, last = name.rpartition("/")
        found = SHARD.fullmatch(last)
        if found:
            stem = OF_RANK.sub(r"\g<stem>", found["stem"])
            seen.setdefault((folder, stem, int(found["count"])), set()).add(int(found["number"]))
    return [
        f"of {stem} {len(numbers)} of {count} numbered shards are there"
        for (_, stem, count), numbers in sorted(seen.items())
        if len(numbers) != count
    ]


def _few(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
