"""Names by which people and programs mean a checkpoint: ids, references, digests, addresses, paths in or below it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote_from_bytes

_MENTION = re.compile(r"ckpt_[0-9a-f]{32}")


class NamedByRuns:
    """What runs name as where they begin or go on from."""

    def __init__(self) -> None:
        self._users: dict[str, set[str]] = {}

    def __bool__(self) -> bool:
        return bool(self._users)

    def add(self, text: str | None, run_uid: str) -> None:
        """A run names ``text``, as a person or a program wrote it; of an address every folder above counts, too."""
        if not text:
            return
        plain = text.rstrip("/")
        names = {plain}
        if plain.startswith("/"):
            plain = "file://" + quote_from_bytes(os.fsencode(plain))
            names.add(plain)
        if plain.startswith(("file://", "s3://")):
            while plain.count("/") > 3:
                plain = plain.rpartition("/")[0]
                names.add(plain)
        for name in names:
            self._users.setdefault(name, set()).add(run_uid)

    def users(self, names: Iterable[str]) -> Iterator[str]:
        """The runs that use one of these names."""
        for name in names:
            yield from self._users.get(name, ())


def mentions(value: object) -> Iterator[str]:
    """Ids such as ``ckpt_…`` anywhere within a JSON value."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield from _MENTION.findall(item)
        elif isinstance(item, Mapping):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
