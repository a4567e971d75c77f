"""The licence of a source: an SPDX expression where one exists, else the contract that allows the use.

Expressions follow SPDX 2.3 annex D (https://spdx.github.io/spdx-spec/v2.3/SPDX-license-expressions/) as PEP 639
has them canonicalised: ids in their listed case, operators in capitals. Nothing is rejected here: what is no
expression is somebody's own words, and is kept as such.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.identity import format_time, parse_time

CONTRACT = "contract: "
"""How the licence of a source begins that is not told by an SPDX expression."""

SPDX_PAGE = "https://spdx.org/licenses/{id}.html"
_OPERATOR = re.compile(r"\s(?:AND|OR|WITH)\s|[()+]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Licence:
    """A licence: ``text`` to be recorded; ``spdx`` the canonical expression, None for a contract."""

    text: str
    spdx: str | None

    @property
    def words(self) -> str:
        """The contract's own words, or the expression."""
        return self.text if self.spdx else self.text[len(CONTRACT) :]

    @property
    def page(self) -> str | None:
        """The address of the licence's SPDX page; None for a compound, an id of one's own or a contract."""
        if self.spdx is None or _OPERATOR.search(self.spdx) or self.spdx.startswith("LicenseRef-"):
            return None
        return SPDX_PAGE.format(id=self.spdx)


def read_licence(text: str) -> Licence:
    """Tell an SPDX expression from a contract; ``text`` may be what :attr:`Licence.text` says already.

    ``cc-by-4.0`` becomes ``CC-BY-4.0``; ``Contract 2024-17 with X`` becomes ``contract: Contract 2024-17 with X``.
    """
    given = " ".join(text.split())
    words = given.removeprefix(CONTRACT.strip()).strip()
    spdx = _canonical(given) if words == given else None
    if spdx is not None:
        return Licence(text=spdx, spdx=spdx)
    return Licence(text=CONTRACT + words, spdx=None)


def stated_licence(text: str) -> Licence:
    """:func:`read_licence` of what a person typed; one word that is no SPDX id is refused: it is a slip of the pen.

    ``Apache2`` would else be kept as a contract of that name. A contract with such a name is written
    ``contract: C-2024-17``.
    """
    licence = read_licence(text)
    if licence.spdx is None and re.fullmatch(r"[A-Za-z0-9.+_-]+", text.strip()):
        hint = "Write an id of the SPDX list, such as Apache-2.0, or 'contract: ' and the contract's name."
        raise InputError("licence", text.strip(), "is no SPDX id, and one word names no contract", hint=hint)
    return licence


def _canonical(given: str) -> str | None:
    from packaging.licenses import (  # noqa: PLC0415 - its lists are large, and most callers have no licence to read
        InvalidLicenseExpression,
        canonicalize_license_expression,
    )

    try:
        return str(canonicalize_license_expression(given))
    except InvalidLicenseExpression:
        return None


def words(field: str, text: str) -> str:
    """The text without space around it; ``InputError`` for bytes that are no Unicode, which no record can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(field, text, "is not Unicode text", hint="Write it in UTF-8.") from None
    return text.strip()


def moment(field: str, text: str | None) -> str | None:
    """A moment as it is recorded (RFC 3339, UTC); None where nothing is said. ``InputError`` if it is none."""
    if text is None or not text.strip():
        return None
    try:
        return format_time(parse_time(text.strip()))
    except ValueError as error:
        hint = "Write date, time and zone, for example 2026-11-29T10:00:00Z."
        raise InputError(field, text, "not a moment with a zone", hint=hint) from error
