"""Names by which people and programs mean a checkpoint: ids, references, digests, addresses, paths in, below or above.

An address is compared by what it means, not by how it is spelled: links, ``..``, doubled slashes, percent-encoding
and other names of a scheme are seen through. A folder that is named stands for every checkpoint in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from urllib.parse import quote, quote_from_bytes, unquote_to_bytes

_MENTION = re.compile(r"ckpt_[0-9a-f]{32}")
_HEX = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.IGNORECASE)
_S3 = re.compile(r"s3[an]?://", re.IGNORECASE)
_FILE = re.compile(r"file:(?://(?:localhost)?)?(?=/)", re.IGNORECASE)


class NamedByRuns:
    """What runs name as where they begin or go on from."""

    def __init__(self) -> None:
        self._users: dict[str, set[str]] = {}
        self._whole: dict[str, set[str]] = {}

    def __bool__(self) -> bool:
        return bool(self._users)

    def add(self, text: str | None, run_uid: str) -> None:
        """A run names ``text``, as a person or a program wrote it; of an address every folder above counts, too."""
        if not text or not text.strip():
            return
        plain = text.strip().rstrip("/") or "/"
        names = {plain, *_MENTION.findall(plain)}
        if found := _HEX.fullmatch(plain):
            names.add(f"sha256:{found[1].lower()}")
        for address in addresses(plain):
            self._whole.setdefault(address, set()).add(run_uid)
            names.update((address, *_above(address)))
        for name in names:
            self._users.setdefault(name, set()).add(run_uid)

    def users(self, names: Iterable[str]) -> Iterator[str]:
        """The runs that use one of these names, something in it, or the folder that it lies in."""
        for name in names:
            yield from self._users.get(name, ())
            if "://" in name:
                for folder in _above(name):
                    yield from self._whole.get(folder, ())


def addresses(text: str) -> set[str]:
    """The addresses, as records spell them, that ``text`` can mean: none if it is neither a path nor an address."""
    if found := _S3.match(text):
        bucket, _, key = text[found.end() :].partition("/")
        readings = {key.encode("utf-8", "surrogateescape"), unquote_to_bytes(key)}
        return {f"s3://{bucket}/{quote(each.strip(b'/'))}".rstrip("/") for each in readings}
    if found := _FILE.match(text):
        raw = text[found.end() :]
        paths = {os.fsencode(raw), unquote_to_bytes(raw)}
    elif text.startswith(("/", "~")):
        paths = {os.fsencode(os.path.expanduser(text))}  # noqa: PTH111 - a name of any bytes
    else:
        return set()
    seen = {os.path.normpath(path) for path in paths}
    for path in paths:
        with suppress(OSError, ValueError):  # a link may have been made anew since: both readings count
            seen.add(os.path.realpath(path))
    return {"file://" + quote_from_bytes(b"/" + path.lstrip(b"/")) for path in seen}


def _above(address: str) -> Iterator[str]:
    """Every folder above an address, up to the first one in its bucket or below the root."""
    while address.count("/") > 3:
        address = address.rpartition("/")[0]
        yield address


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
