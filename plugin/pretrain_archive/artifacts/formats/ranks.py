"""Folders in which every rank writes files of its own: Megatron-LM and NeMo (legacy), and DeepSpeed.

Which ranks there should be stands only in pickles. What can be said without them: ranks count from 0, every pair of
ranks that occur has its file, and every rank has the same kinds of files. A gap is a rank whose file is missing.

Layouts: Megatron ``iter_0000100/mp_rank_00[_000[_000]]/model_optim_rng.pt`` (``megatron/training/checkpointing.py``);
DeepSpeed ``global_step100/mp_rank_00_model_states.pt``, ``[bf16_]zero_pp_rank_0_mp_rank_00_optim_states.pt`` and
``zero_pp_rank_0_mp_rank_00_model_states.pt`` (``deepspeed/runtime/engine.py``).
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

RANK_FOLDER = re.compile(r"mp_rank_(?P<a>\d{2,4})(?:_(?P<b>\d{3,4}))?(?:_(?P<c>\d{3,4}))?")
DEEPSPEED = re.compile(
    r"(?P<kind>(?:bf16_)?zero_pp_rank_)(?P<a>\d{1,5})_mp_rank_(?P<b>\d{2,5})(?P<tail>_(?:optim|model)_states\.pt)"
    r"|(?P<plain>mp_rank_)(?P<c>\d{2,5})(?P<end>_model_states\.pt)"
)
MOST_RANKS = 1_000_000


def has_megatron(paths: Iterable[str]) -> bool:
    """Whether files lie in rank folders as Megatron names them."""
    return any(RANK_FOLDER.fullmatch(part) for path in paths for part in path.split("/")[:-1])


def has_deepspeed(paths: Iterable[str]) -> bool:
    """Whether files are named as DeepSpeed names them."""
    return any(DEEPSPEED.fullmatch(path.rpartition("/")[2]) for path in paths)


def problems(paths: Iterable[str]) -> list[str]:
    """The ranks, and files of ranks, that are missing by the names of the others."""
    paths = list(paths)
    return [*_folder_problems(paths), *_file_problems(paths)]


def _folder_problems(paths: list[str]) -> list[str]:
    below: dict[str, dict[tuple[int, ...], set[str]]] = defaultdict(lambda: defaultdict(set))
    spelled: dict[tuple[str, tuple[int, ...]], str] = {}
    for path in paths:
        parts = path.split("/")
        for at, part in enumerate(parts[:-1]):
            if found := RANK_FOLDER.fullmatch(part):
                folder, rank = "/".join(parts[:at]), _numbers(found.group("a", "b", "c"))
                below[folder][rank].add("/".join(parts[at + 1 :]))
                spelled[folder, rank] = part
                break
    problems = []
    for folder, ranks in below.items():
        problems += [f"{_joined(folder, _mp(gap))} is missing" for gap in _gaps(ranks)]
        every = set().union(*ranks.values())
        for rank, files in sorted(ranks.items()):
            place = _joined(folder, spelled[folder, rank])
            problems += [f"{place}/{name} is missing: other ranks have it" for name in sorted(every - files)]
    return problems[:50]


def _file_problems(paths: list[str]) -> list[str]:
    groups: dict[tuple[str, str, str], set[tuple[int, ...]]] = defaultdict(set)
    for path in paths:
        folder, _, name = path.rpartition("/")
        if found := DEEPSPEED.fullmatch(name):
            kind = found["kind"] or found["plain"]
            groups[folder, kind, found["tail"] or found["end"]].add(_numbers(found.group("a", "b", "c")))
    problems = []
    for (folder, kind, tail), ranks in sorted(groups.items()):
        for gap in _gaps(ranks):
            middle = f"{gap[0]}_mp_rank_{gap[1]:02d}" if len(gap) == 2 else f"{gap[0]:02d}"
            problems.append(f"{_joined(folder, kind + middle + tail)} is missing: other ranks have theirs")
    return [*problems, *_halves(groups)][:50]


def _halves(groups: Mapping[tuple[str, str, str], set[tuple[int, ...]]]) -> Iterator[str]:
    """Model-parallel ranks that have an optimizer and no weights, or weights where others also have an optimizer."""
    models: dict[str, set[int]] = defaultdict(set)
    optimizers: dict[str, set[int]] = defaultdict(set)
    for (folder, _, tail), found in groups.items():
        half = models if tail == "_model_states.pt" else optimizers
        half[folder] |= {rank[-1] for rank in found}
    for folder, known in sorted(optimizers.items()):
        for rank in sorted(known - models[folder]):
            yield f"{_joined(folder, f'mp_rank_{rank:02d}_model_states.pt')} is missing"
        for rank in sorted(models[folder] - known):
            yield f"{_joined(folder, f'mp_rank_{rank:02d}')} has no optimizer states: other ranks have theirs"


def _gaps(ranks: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Tuples that are missing in the box from zero to the highest rank of each kind."""
    known = set(ranks)
    widths = {len(rank) for rank in known}
    found: list[tuple[int, ...]] = []
    for width in sorted(widths):
        of_width = [rank for rank in known if len(rank) == width]
        sides = [range(max(rank[at] for rank in of_width) + 1) for at in range(width)]
        total = 1
        for side in sides:
            total *= len(side)
        if total > MOST_RANKS:  # a name with a huge number must not be counted up to
            return [tuple(0 for _ in sides)] if tuple(0 for _ in sides) not in known else found
        found += list(itertools.islice((gap for gap in itertools.product(*sides) if gap not in known), 50))
    return found


def _numbers(texts: Iterable[str | None]) -> tuple[int, ...]:
    return tuple(int(text) for text in texts if text)


def _mp(rank: tuple[int, ...]) -> str:
    return f"mp_rank_{rank[0]:02d}" + "".join(f"_{number:03d}" for number in rank[1:])


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
