"""Secrets stay out of packages: a scan for what tokens and keys look like.

The shapes are those that issuers publish for their own tokens (fixed prefixes and lengths), private key
blocks, passwords inside URLs, and assignments to names such as ``password``. A finding names file, line and
kind, never the text itself. Digests, ids and public keys do not match: they have no prefix and no such name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Secret:
    """Where something that looks like a secret stands, and of which kind it is."""

    path: str
    line: int
    kind: str

    def __str__(self) -> str:
        return f"{self.path} line {self.line}: {self.kind}"


SHAPES: dict[str, re.Pattern[bytes]] = {
    "private key": re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
    "AWS access key": re.compile(rb"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])"),
    "GitHub token": re.compile(rb"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{82})"),
    "GitLab token": re.compile(rb"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{20}"),
    "Hugging Face token": re.compile(rb"(?<![A-Za-z0-9])hf_[A-Za-z]{34}(?![A-Za-z0-9])"),
    "Slack token": re.compile(rb"(?<![A-Za-z0-9])xox[abposr]-[A-Za-z0-9-]{10,}"),
    "Stripe key": re.compile(rb"(?<![A-Za-z0-9])[rs]k_live_[A-Za-z0-9]{16,}"),
    "Google API key": re.compile(rb"(?<![A-Za-z0-9_-])AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    "OpenAI or Anthropic key": re.compile(rb"(?<![A-Za-z0-9])sk-(?:ant-|proj-)?[A-Za-z0-9_-]{32,}"),
    "JSON web token": re.compile(
        rb"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
    ),
    "password in a URL": re.compile(
        rb"[a-z][a-z0-9+.-]{1,20}://[^\s:/@\"'<>\\]{1,64}:(?!\*+@)[^\s/@\"'<>\\]{1,128}@"
    ),
    "password or secret": re.compile(
        rb"(?i)(?<![a-z])(?:password|passwd|secret(?:_access)?_key|client_secret|api_?key|auth_?token|access_token)"
        rb"[\"']?\s*[:=]\s*[\"']?(?!\*{3}|null|none|true|false|unrecorded|\$\{|<|[\"',}\s])[^\s\"',}]{6,}"
    ),
}


def scan(path: str, data: bytes) -> Iterator[Secret]:
    """Yield what looks like a secret in ``data``, the content of ``path``."""
    for kind, shape in SHAPES.items():
        for found in shape.finditer(data):
            yield Secret(path=path, line=data.count(b"\n", 0, found.start()) + 1, kind=kind)
