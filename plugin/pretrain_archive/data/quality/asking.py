"""What a policy asks of a check: its suite with the project's limits, what is measured for it, and what it rests on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

from pretrain_archive.data.globs import Filter
from pretrain_archive.data.hashing import Expecting, Progress
from pretrain_archive.data.quality.documents import Fields, Shard
from pretrain_archive.data.quality.scanning.plan import Measures
from pretrain_archive.data.quality.suite import Limits, Suite
from pretrain_archive.data.quality.suite_files import load_suite, read_suite
from pretrain_archive.data.shards import of_path, of_tree
from pretrain_archive.data.tree import Tree
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.identity import path_to_text
from pretrain_archive.domain.policy import Quality

Source = Callable[[], Iterable[Shard]]
"""A function that lists files of data; it may be asked again."""


def asked_suite(settings: Quality, limits: Limits, file: Path | None = None) -> Suite:
    """The suite under a policy's limits; ``file`` replaces the policy's suite."""
    if file is not None:
        suite = read_suite(file, profile=settings.profile)
    else:
        suite = load_suite(settings.suite, profile=settings.profile)
    limits = replace(
        limits,
        by_rule={**settings.limits, **limits.by_rule},
        severities={**settings.severities, **limits.severities},
    )
    suite = limits.apply(suite)
    rules = tuple(
        replace(rule, kwargs={**rule.kwargs, "value_set": sorted(settings.languages)})
        if rule.needs == "languages" and not rule.kwargs.get("value_set") and settings.languages
        else rule
        for rule in suite.rules
    )
    return replace(suite, rules=rules)


def measures_of(settings: Quality, label_field: str = "label") -> Measures:
    """What the scan measures for a policy."""
    from pretrain_archive.data.quality.neardup.settings import Settings as Near  # noqa: PLC0415
    from pretrain_archive.data.quality.sensitive.settings import KINDS  # noqa: PLC0415
    from pretrain_archive.data.quality.sensitive.settings import Settings as Sensitive  # noqa: PLC0415

    return Measures(
        fields=Fields(text=settings.text_field, label=label_field),
        language="all" if settings.languages else "declared",
        sensitive=Sensitive(
            kinds=tuple(kind for kind in KINDS if kind in settings.sensitive_kinds),
            forbidden_terms=tuple(settings.forbidden_terms),
            allow=tuple(settings.sensitive_allow),
        ),
        near_duplicates=Near(),
    )


def present_of(settings: Quality, *, others: bool, parent: bool) -> frozenset[str]:
    """What a check has that a rule may need."""
    has = {
        "languages": settings.languages,
        "terms": settings.forbidden_terms,
        "benchmarks": others,
        "parent": parent,
    }
    return frozenset(name for name, value in has.items() if value)


def folders_of(places: Mapping[str, str]) -> dict[str, Source]:
    """Folders or files by name as sets to compare with; ``InputError`` for one that is not there."""
    made: dict[str, Source] = {}
    for name, place in places.items():
        if not os.path.exists(place):  # noqa: PTH110 - a name of any bytes
            raise InputError(f"data.quality.benchmarks.{name}", place, "is not there")
        made[name] = files_at(place, Filter())[1]
    return made


def files_at(place: str | bytes | os.PathLike[str] | Tree, chosen: Filter) -> tuple[str, Source]:
    """What to call a place, and a function that lists its files: those of a tree or folder, or one file."""
    if not isinstance(place, str | bytes | os.PathLike):
        return place.uri, partial(of_tree, place, chosen)
    path = os.path.realpath(os.fsencode(place))
    if not os.path.isfile(path):  # noqa: PTH113
        return path_to_text(path), partial(of_path, path, chosen)
    name = os.path.basename(path)  # noqa: PTH119
    size = os.path.getsize(path)  # noqa: PTH202
    shard = Shard(path=path_to_text(name), size=size, open=partial(_opened, path))
    return path_to_text(path), lambda: [shard] if chosen.takes(name) else []


def expect_files(progress: Progress | None, shards: Source) -> None:
    """Tell ``progress`` how much there is; the files are listed once more, where somebody wants to know."""
    if isinstance(progress, Expecting):
        sizes = [0, 0]
        for shard in shards():
            sizes = [sizes[0] + 1, sizes[1] + shard.size]
        progress.expect(*sizes)


def _opened(path: bytes) -> BinaryIO:
    return open(path, "rb")  # noqa: PTH123 - the reader closes it
