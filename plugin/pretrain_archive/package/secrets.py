"""Secrets stay out of packages: a scan for what tokens and keys look like.

The shapes are those that issuers publish for their own tokens (fixed prefixes and lengths), private key
blocks, passwords inside URLs, ``Authorization`` headers, and assignments to names such as ``password``, also where
quotes were escaped because JSON stands inside of JSON. A finding names file, line and
kind, never the text itself. Digests, ids and public keys do not match: they have no prefix and no such name.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Secret:
    """Where something that looks like a secret stands, and of which kind it is."""

    path: str
    line: int
    kind: str

    def __str__(self) -> str:
        return f"{self.path} line {self.line}: {self.kind}"


_ASSIGNED = rb"(?:\\*[\"'])?\s*(?:[:=]|\xef\xbc\x9a)\s*(?:\\*[\"'])?"
"""Between a name and its value: quotes, behind any number of backslashes, and a colon of either width."""

SHAPES: dict[str, re.Pattern[bytes]] = {
    "private key": re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
    "AWS access key": re.compile(rb"A(?<![A-Z0-9]A)(?:KI|SI)A[A-Z0-9]{16}(?![A-Z0-9])"),
    "GitHub token": re.compile(rb"g(?<![A-Za-z0-9]g)(?:h[pousr]_[A-Za-z0-9]{36}|ithub_pat_[A-Za-z0-9_]{82})"),
    "GitLab token": re.compile(rb"glpat-(?<![A-Za-z0-9]glpat-)[A-Za-z0-9_-]{20}"),
    "Hugging Face token": re.compile(rb"hf_(?<![A-Za-z0-9]hf_)[A-Za-z]{34}(?![A-Za-z0-9])"),
    "Slack token": re.compile(rb"xox(?<![A-Za-z0-9]xox)[abposr]-[A-Za-z0-9-]{10,}"),
    "Stripe key": re.compile(rb"(?<![A-Za-z0-9])[rs]k_live_[A-Za-z0-9]{16,}"),
    "Google API key": re.compile(rb"AIza(?<![A-Za-z0-9_-]AIza)[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    "OpenAI or Anthropic key": re.compile(rb"sk-(?<![A-Za-z0-9]sk-)(?:ant-|proj-)?[A-Za-z0-9_-]{32,}"),
    "JSON web token": re.compile(
        rb"eyJ(?<![A-Za-z0-9_-]eyJ)[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
    ),
    "password in a URL": re.compile(
        rb"://(?<=[a-z0-9+.-]://)[^\s:/@\"'<>\\]{1,64}:(?!\*+@)[^\s/@\"'<>\\]{1,128}@"
    ),
    "password or secret": re.compile(
        rb"(?i)(?<![a-z])(?:password|passwd|passphrase|secret(?:_access)?_key|client_secret|api_?key|auth_?token"
        rb"|access_token)"
        + _ASSIGNED
        + rb"(?!\*{3}|null|none|true|false|unrecorded|\$\{|<|[\\\"',}\s])[^\s\"',}]{6,}"
    ),
    "token or secret": re.compile(
        rb"(?<=[A-Z0-9])_(?:TOKEN|SECRET)" + _ASSIGNED + rb"(?!/|\d+\b)[A-Za-z0-9._~+/=-]{16,}"
    ),
    "authorization header": re.compile(
        rb"(?i)authorization" + _ASSIGNED + rb"(?:bearer|basic|token)\s+[A-Za-z0-9._~+/=-]{12,}"
    ),
}
"""What stands before a token is looked at behind its first letters: a pattern that begins with letters is fast."""

MARKS: dict[str, tuple[bytes, ...]] = {
    "private key": (b"PRIVATE KEY",),
    "AWS access key": (b"AKIA", b"ASIA"),
    "GitHub token": (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_"),
    "GitLab token": (b"glpat-",),
    "Hugging Face token": (b"hf_",),
    "Slack token": (b"xox",),
    "Stripe key": (b"k_live_",),
    "Google API key": (b"AIza",),
    "OpenAI or Anthropic key": (b"sk-",),
    "JSON web token": (b"eyJ",),
    "password in a URL": (b"@",),
    "password or secret": (
        b"password", b"passwd", b"passphrase", b"secret_key", b"secret_access_key", b"client_secret", b"apikey",
        b"api_key", b"authtoken", b"auth_token", b"access_token",
    ),
    "token or secret": (b"_TOKEN", b"_SECRET"),
    "authorization header": (b"authorization",),
}  # fmt: skip
"""Without one of these (in lower case for :data:`ANY_CASE`) a text cannot hold the shape: most are done here."""

ANY_CASE = {"password or secret", "authorization header"}

BATCH_BYTES = 1 << 20

SHORTEST_WRAPPED = 24
"""Characters: no token fits into less base64."""
_WORDS = re.compile(rb"[A-Za-z0-9+/_-]{%d,}" % SHORTEST_WRAPPED)
"""Both alphabets of RFC 4648."""
_LINES = re.compile(rb"(?<![A-Za-z0-9+/])(?:[A-Za-z0-9+/]{60,80}(?:\r?\n|(?:\\r)?\\n))+[A-Za-z0-9+/]{2,}")
"""Base64 in lines, as ``base64`` writes it, also where JSON escaped the line breaks."""
_BREAKS = re.compile(rb"\r?\n|(?:\\r)?\\n")
_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def scan_all(files: Iterable[tuple[str, bytes]]) -> Iterator[Secret]:
    """Yield what looks like a secret in the names and contents of ``files``; the work grows with their bytes.

    Small files are looked at many at once, and one by one only where there is something: a shape that begins in
    one file and ends in the next is none.
    """
    batch: list[tuple[str, bytes]] = []
    size = 0
    for path, data in files:
        batch.append((path, data))
        size += len(data)
        if size >= BATCH_BYTES:
            yield from _scan_batch(batch)
            batch, size = [], 0
    yield from _scan_batch(batch)


def _scan_batch(batch: Sequence[tuple[str, bytes]]) -> Iterator[Secret]:
    names = "\n".join(path for path, _ in batch)
    if next(scan_name(names), None) is not None:
        yield from (secret for path, _ in batch for secret in scan_name(path))
    if len(batch) == 1 or next(scan("", b"\n".join(data for _, data in batch)), None) is not None:
        yield from (secret for path, data in batch for secret in scan(path, data))


def scan(path: str, data: bytes) -> Iterator[Secret]:
    """Yield what looks like a secret in ``data``, the content of ``path``, and what does inside of its base64.

    Text in UTF-16 is read like any other: without its zero bytes it holds the same letters.
    """
    data = data.replace(b"\0", b"")
    for kind, start in _shapes(data):
        yield Secret(path=path, line=_line(data, start), kind=kind)
    for word in sorted({word for word in _WORDS.findall(data) if _may_be_wrapped(word)}):
        for kind in _unwrapped(word):
            yield Secret(path=path, line=_line(data, data.find(word)), kind=f"{kind}, in base64")
    for lines in _LINES.finditer(data):
        for kind in _unwrapped(_BREAKS.sub(b"", lines[0])):
            yield Secret(path=path, line=_line(data, lines.start()), kind=f"{kind}, in base64")


def scan_name(path: str) -> Iterator[Secret]:
    """Yield what looks like a secret in the name of a file; the finding does not repeat that name."""
    for kind, _ in _shapes(path.encode("utf-8", "surrogateescape")):
        yield Secret(path="the name of a file", line=1, kind=kind)


def _may_be_wrapped(word: bytes) -> bool:
    """Base64 of a token has letters of both cases: digests, ids and paths, most of what is long, have one."""
    return not (word.islower() or word.isupper())


def _line(data: bytes, start: int) -> int:
    return data.count(b"\n", 0, start) + 1


def _shapes(data: bytes) -> Iterator[tuple[str, int]]:
    """Kind and place of everything in ``data`` that has the shape of a secret."""
    lower = data.lower()
    for kind, shape in SHAPES.items():
        text = lower if kind in ANY_CASE else data
        if any(mark in text for mark in MARKS[kind]):
            for found in shape.finditer(data):
                yield kind, found.start()


def _unwrapped(word: bytes) -> Iterator[str]:
    """Kinds of secrets inside a word that is base64 of text, wherever in the word that begins."""
    word, found = word.translate(_URL_SAFE), dict[str, None]()
    for start in range(4):
        whole = word[start : start + (len(word) - start) // 4 * 4]
        rest = word[start + len(whole) :]
        padded = whole + (rest + b"=" * (4 - len(rest)) if len(rest) > 1 else b"")
        found |= dict.fromkeys(kind for kind, _ in _shapes(base64.b64decode(padded).replace(b"\0", b"")))
    yield from found
