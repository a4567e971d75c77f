"""Telephone numbers, payment cards, account and identity numbers.

A run of digits alone is never enough: a check digit, a strict national form or the words before it must agree.
Check digits and national rules are those of python-stdnum and phonenumbers (Google's libphonenumber).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib import import_module
from typing import Final, NamedTuple

from pretrain_archive.data.quality.sensitive import context

Span = tuple[int, int]

# Digits with at most two marks between two of them. One pass over a text finds all places that can hold a number;
# only there the forms are looked for.
_CLUSTER = re.compile(r"[0-9](?:[ .\-/:()]{0,2}[0-9]){3,}")
_SEPARATORS = str.maketrans("", "", " .-/")
_DIGITS = "0123456789"
_LEAST = 7
"""Characters of the shortest number of any form."""

_FORMS = re.compile(
    r"(?P<ric>[0-9]{17}[0-9Xx])|"
    r"(?P<card>[0-9]{4}(?P<four>[ -])[0-9]{4}(?P=four)[0-9]{4}(?P=four)[0-9]{1,7}|"
    r"[0-9]{4}(?P<six>[ -])[0-9]{6}(?P=six)[0-9]{4,5}|[0-9]{13,19})|"
    r"(?P<fr_nir>[12] ?[0-9]{2} ?(?:0[1-9]|1[0-2]) ?[0-9]{2} ?[0-9]{3} ?[0-9]{3} ?[0-9]{2})|"
    r"(?P<br_cpf>[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2})|"
    r"(?P<kr_rrn>[0-9]{6}-[1-8][0-9]{6})|"
    r"(?P<ssn>[0-9]{3}(?P<part>[- ]?)[0-9]{2}(?P=part)[0-9]{4})"
)


class Number(NamedTuple):
    """A number that was found."""

    kind: str
    start: int
    end: int


def clusters(text: str) -> list[Span]:
    """Where digits are close together, four or more; at a memory search's speed in a text without any."""
    if not _has_digits(text):
        return []
    return [match.span() for match in _CLUSTER.finditer(text)]


def _has_digits(text: str) -> bool:
    return any(digit in text for digit in _DIGITS)


def numbers(text: str, places: Iterable[Span]) -> Iterator[Number]:
    """Cards and identity numbers in ``places`` (of :func:`clusters`)."""
    for place, stop in places:
        # A check character may follow the last digit.
        start, upto = place, min(stop + 1, len(text))
        while stop - start >= _LEAST and (match := _FORMS.search(text, start, upto)) is not None:
            end = match.end()
            kind = _kind_of(text, match) if _stands_alone(text, match.start(), end) else ""
            if kind:
                yield Number(kind, match.start(), end)
            start = end if kind else _next_group(text, match.start(), upto)


def _next_group(text: str, start: int, upto: int) -> int:
    """Where the digits after the next mark begin, since what was no number may hide one behind its first group."""
    while start < upto and text[start].isdigit():
        start += 1
    while start < upto and not text[start].isdigit():
        start += 1
    return start


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether neither a letter, a digit nor a fraction adjoins: what does belongs to something longer."""
    last, after = text[start - 1 : start], text[end : end + 2]
    if (last.isascii() and last.isalnum()) or last in ("_", "#", "$", "€", "£", "¥"):
        return False
    if last in (".", ",", "-", "/", "+", "=") and last != "=" and text[start - 2 : start - 1].isalnum():
        return False
    if last == ".":
        return False
    if after[:1].isascii() and (after[:1].isalnum() or after[:1] == "_"):
        return False
    return not (after[:1] in (".", ",", "-", "/") and after[1:].isascii() and after[1:].isalnum())


def _kind_of(text: str, match: re.Match[str]) -> str:
    """The kind of what has the form of a number, empty if its check digits or the words before say no."""
    found, start = match.group(), match.start()
    digits = found.translate(_SEPARATORS)
    if digits == found:
        if len(digits) == 18 and _valid("cn.ric", digits):
            return "cn_resident_id"
        if len(digits) == 15 and _valid("fr.nir", digits) and 1 <= int(digits[3:5]) <= 12:
            return "national_id"
    if match["card"]:
        return "card" if _is_card(digits) and not context.says_order(context.before(text, start)) else ""
    if match["ssn"]:
        left = context.before(text, start)
        sure = _SAYS_SSN.search(left) or (found[3] == "-" and not context.says_order(left))
        return "us_ssn" if sure and _valid("us.ssn", digits) else ""
    for group, module in _NATIONAL:
        if match[group] and _valid(module, digits):
            return "national_id"
    return ""


_SAYS_SSN = re.compile(r"(?:\bssn\b|social security)[^0-9\n]{0,12}\Z", re.IGNORECASE)
# Numbers with two check digits, or with one beside a date; their forms are those people write.
_NATIONAL: Final = (("br_cpf", "br.cpf"), ("fr_nir", "fr.nir"), ("kr_rrn", "kr.rrn"))

# Issuers after ISO/IEC 7812: Visa, Mastercard, American Express, Discover, Diners, JCB, UnionPay, Maestro.
_ISSUERS = re.compile(
    r"4(?:[0-9]{12}|[0-9]{15}|[0-9]{18})|(?:5[1-5][0-9]{2}|222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}|"
    r"3[47][0-9]{13}|(?:6011|65[0-9]{2}|64[4-9][0-9])[0-9]{12}|3(?:0[0-5]|[689][0-9])[0-9]{11}|"
    r"35(?:2[89]|[3-8][0-9])[0-9]{12}|62[0-9]{14,17}"
)


def _is_card(digits: str) -> bool:
    return len(set(digits)) > 1 and _ISSUERS.fullmatch(digits) is not None and _valid("luhn", digits)


_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?")
_CODICE = re.compile(r"[A-Z]{6}[0-9]{2}[A-EHLMPRST][0-9]{2}[A-Z][0-9]{3}[A-Z]")
_CODED = re.compile(r"[A-Z][A-Z][0-9][0-9]")
"""What both have: an account number at its beginning, a tax code behind its first four letters."""


def coded(text: str) -> Iterator[Number]:
    """International account numbers (ISO 13616), and Italian tax codes, which hold a birth date and a check letter."""
    if not _has_digits(text):
        return
    for match in _CODED.finditer(text):
        start = match.start()
        if not _goes_on(text, start - 1):
            if (found := _IBAN.match(text, start)) and (end := _iban_end(text, start, found.group())):
                yield Number("iban", start, end)
        elif start >= 4 and (found := _CODICE.match(text, start - 4)):
            joined = _goes_on(text, start - 5) or _goes_on(text, found.end())
            if not joined and _valid("it.codicefiscale", found.group()):
                yield Number("national_id", start - 4, found.end())


def _goes_on(text: str, at: int) -> bool:
    """Whether the character at ``at`` is one of an ASCII word."""
    char = text[at : at + 1] if at >= 0 else ""
    return char.isascii() and (char.isalnum() or char == "_")


def _iban_end(text: str, start: int, found: str) -> int:
    """Where the number ends; the words after it may look like groups of it, so shorter ones are tried."""
    while len(found) >= 15:
        after = text[start + len(found) : start + len(found) + 1]
        if not (after.isascii() and after.isalnum()) and _is_iban(found):
            return start + len(found)
        cut = found.rfind(" ")
        found = found[:cut] if cut > 0 else ""
    return 0


def _is_iban(found: str) -> bool:
    from stdnum import iban  # noqa: PLC0415 (heavy)

    # A country's own rules would also ask for a bank that exists, which examples and closed banks do not.
    return bool(iban.is_valid(found.replace(" ", ""), check_country=False))


_INTERNATIONAL = re.compile(r"\+[1-9][0-9]{0,2}(?:[ .\-]?\(?0?\)?[ .\-]?\(?[0-9]{1,5}\)?){1,6}")
_NATIONAL_PHONE = re.compile(
    # North America: (212) 555-0123, 212-555-0123; China: 138 1234 5678, 010-12345678.
    r"(?P<US>\([2-9][0-9]{2}\) ?[2-9][0-9]{2}[-.][0-9]{4}|[2-9][0-9]{2}-[2-9][0-9]{2}-[0-9]{4})|"
    r"(?P<CN>1[3-9][0-9](?P<mark>[ -]?)[0-9]{4}(?P=mark)[0-9]{4}|0[1-9][0-9]{1,2}-[2-9][0-9]{6,7})"
)


def phones(text: str, places: Iterable[Span]) -> Iterator[Span]:
    """Telephone numbers: with a plus sign and a country, or in a strict national form.

    Eleven digits in a row (a Chinese mobile) count only behind a word that announces a telephone.
    """
    if "+" in text:
        for match in _INTERNATIONAL.finditer(text):
            start, end = match.span()
            last = text[start - 1 : start]
            joined = last.isascii() and (last.isalnum() or last in (")", "]", "_")) and last != ""
            if not joined and _ends(text, end) and _is_phone(match.group(), None):
                yield start, end
    for place, stop in places:
        if stop - place < _LEAST:
            continue
        # The bracket of an area code stands before the first digit.
        for match in _NATIONAL_PHONE.finditer(text, max(0, place - 1), stop):
            if _is_national(text, match):
                yield match.span()


def _is_national(text: str, match: re.Match[str]) -> bool:
    start, end = match.span()
    if not (_begins(text, start) and _ends(text, end)):
        return False
    left = context.before(text, start)
    if not context.says_phone(left) and (match.group().isdigit() or context.says_order(left)):
        return False
    return _is_phone(match.group(), "US" if match["US"] else "CN")


def _begins(text: str, start: int) -> bool:
    last = text[start - 1 : start]
    return not (
        last.isascii() and (last.isalnum() or last in ("_", "-", ".", "+", "/", "#", "$")) and last != ""
    )


def _ends(text: str, end: int) -> bool:
    after = text[end : end + 2]
    if after[:1].isascii() and (after[:1].isalnum() or after[:1] == "_"):
        return False
    return not (after[:1] in (".", "-", "/", ",") and after[1:].isdigit())


def _is_phone(found: str, region: str | None) -> bool:
    import phonenumbers  # noqa: PLC0415 (heavy)

    try:
        number = phonenumbers.parse(found, region)
    except phonenumbers.NumberParseException:
        return False
    # Examples (555-0100 …) are possible but not valid: their area is real, so they count as well.
    return phonenumbers.is_valid_number(number) or (
        phonenumbers.is_possible_number(number) and number.country_code == 1 and "555" in found
    )


@lru_cache(maxsize=16)
def _validator(module: str) -> Callable[[str], bool]:
    validator: Callable[[str], bool] = import_module(f"stdnum.{module}").is_valid
    return validator


def _valid(module: str, number: str) -> bool:
    return _validator(module)(number)
