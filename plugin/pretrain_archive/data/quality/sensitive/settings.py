"""What is looked for. Settings say so by digest where the words themselves are sensitive."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pretrain_archive.domain.errors import InputError

KINDS: Final = (
    "email",
    "ipv4",
    "ipv6",
    "phone",
    "card",
    "iban",
    "cn_resident_id",
    "us_ssn",
    "national_id",
    "secret",
    "forbidden_term",
)
"""All kinds of findings; ``national_id`` are numbers of other countries whose check digits make them certain."""

_MOST_TERMS: Final = 100_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Kinds to look for, forbidden terms and what is allowed all the same; can be sent to other processes.

    ``allow`` are regular expressions: a finding whose whole text matches one is none. Terms match as whole
    words without regard to case, terms with CJK characters wherever they stand. ``high_entropy`` also takes
    random-looking quoted strings for secrets, which in source code and data finds far too much.
    """

    kinds: tuple[str, ...] = KINDS
    forbidden_terms: tuple[str, ...] = field(default=(), repr=False)
    allow: tuple[str, ...] = field(default=(), repr=False)
    high_entropy: bool = False

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in KINDS:
                raise InputError("kinds", kind, f"not one of {', '.join(KINDS)}")
        if len(self.forbidden_terms) > _MOST_TERMS:
            raise InputError("forbidden_terms", len(self.forbidden_terms), f"more than {_MOST_TERMS} terms")
        if not all(term.strip() for term in self.forbidden_terms):
            raise InputError("forbidden_terms", "", "a term is blank and would match everywhere")
        for number, pattern in enumerate(self.allow, 1):
            try:
                re.compile(pattern)
            except re.error as error:
                # The pattern may spell out an address: it is named by its place in the list.
                raise InputError("allow", f"pattern {number}", f"no regular expression: {error}") from None

    def to_json(self) -> dict[str, object]:
        """For reports: kinds, numbers and digests; neither terms nor patterns."""
        return {
            "kinds": list(self.kinds),
            "forbidden_terms": len(self.forbidden_terms),
            "forbidden_terms_digest": digest_of(self.forbidden_terms),
            "allow": len(self.allow),
            "allow_digest": digest_of(self.allow),
            "high_entropy": self.high_entropy,
        }


def digest_of(texts: Sequence[str]) -> str:
    """SHA-256 of the sorted list as JSON, the same for any order and for terms given twice."""
    text = json.dumps(sorted(set(texts)), ensure_ascii=False, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def read_terms(content: bytes, *, name: str = "forbidden terms") -> tuple[str, ...]:
    """The terms of a list: UTF-8, one a line; blank lines and those that begin with ``#`` are left out.

    Raises:
        InputError: The list is not UTF-8.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(name, f"{len(content)} bytes", "is not UTF-8", hint="Save it as UTF-8.") from None
    lines = (line.strip() for line in text.splitlines())
    return tuple(dict.fromkeys(line for line in lines if line and not line.startswith("#")))
