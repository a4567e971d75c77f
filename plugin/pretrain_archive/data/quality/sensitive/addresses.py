"""E-mail and network addresses.

Every finder here yields offset and end of what it found and begins with a test that a text without any
candidate fails at the speed of a memory search.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator

from pretrain_archive.data.quality.sensitive import context
from pretrain_archive.data.quality.sensitive.domains import is_domain

Span = tuple[int, int]

# RFC 5321: local part up to 64 octets. Quoted local parts, addresses beyond ASCII and marks that are legal but
# in text and code part an address from what stands before it (user=ana@…) are not looked for.
_LOCAL = re.compile(r"[A-Za-z0-9!%'+_~-]+(?:\.[A-Za-z0-9!%'+_~-]+)*\Z")
_DOMAIN = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z][A-Za-z0-9-]{1,62}")
_LOCAL_START = re.compile(r"[A-Za-z0-9_]")
_LONGEST_LOCAL = 64
_LONGEST_DOMAIN = 255


def emails(text: str) -> Iterator[Span]:
    """Addresses ``local@domain`` whose last label is a known top-level domain.

    None of these: ``git@host:path``, ``user:password@host`` of a URL, a decorator, a matrix product
    (``q@k.T``), a picture's ``logo@2x.png``.
    """
    at = text.find("@")
    while at >= 0:
        if (span := _email(text, at)) is not None:
            yield span
        at = text.find("@", at + 1)


def _email(text: str, at: int) -> Span | None:
    left = text[max(0, at - _LONGEST_LOCAL) : at]
    local = _LOCAL.search(left)
    domain = _DOMAIN.match(text, at + 1, at + 1 + _LONGEST_DOMAIN)
    if local is None or domain is None:
        return None
    start = at - len(left) + local.start()
    first = _LOCAL_START.search(text, start, at)
    if first is None:
        return None
    start = first.start()
    end = domain.end()
    if not is_domain(domain.group()) or text[end : end + 1] in ("@", "_", "("):
        return None
    before = text[max(0, start - 256) : start].rsplit(None, 1)
    token = before[-1] if before and not text[start - 1 : start].isspace() else ""
    if "://" in token and "?" not in token:
        return None
    if text[end : end + 1] == ":" and text[start:at] in ("git", "hg", "svn"):
        return None
    return start, end


_IPV4 = re.compile(r"[0-9][0-9]{0,2}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}(?![0-9])")
_PORT_OR_NET = re.compile(r":[0-9]{2,5}(?![0-9.])|/(?:[89]|[12][0-9]|3[0-2])(?![0-9.])|\s+- - \[")
_LARGE = 100


def ipv4(text: str, places: Iterable[Span]) -> Iterator[Span]:
    """Dotted quads in ``places`` where digits are close together that are addresses and no versions.

    Words of an address before it, a URL, a port, a network size or an access log's form make it one; words of
    a version make it none. Without any of these one of its numbers must be 100 or more, since four-part
    versions seldom have that; so ``1.2.3.4`` alone is not taken for an address.
    Loopback addresses and masks are nobody's.
    """
    for place, stop in places:
        if text.count(".", place, stop) < 3:
            continue
        for match in _IPV4.finditer(text, place, stop):
            start, end = match.span()
            if _is_ipv4(text, start, end, match.group()):
                yield start, end


def _is_ipv4(text: str, start: int, end: int, found: str) -> bool:
    parts = found.split(".")
    if any((len(part) > 1 and part[0] == "0") or int(part) > 255 for part in parts):
        return False
    # This machine, no machine, a mask: they identify nobody.
    if parts[0] in ("0", "127") or parts[:2] == ["255", "255"] or _is_joined(text, start, end):
        return False
    left = context.before(text, start)
    if left.endswith("://") or context.says_address(left):
        return True
    if context.says_version(left):
        return False
    return left.endswith("@") or bool(_PORT_OR_NET.match(text, end)) or max(map(int, parts)) >= _LARGE


def _is_joined(text: str, start: int, end: int) -> bool:
    """Whether the quad is part of something longer: a name with a version, a fifth number, a suffix."""
    last, after, beyond = text[start - 1 : start], text[end : end + 1], text[end + 1 : end + 2]
    if (last.isascii() and last.isalnum()) or last in (".", "_", "-", "+"):
        return last != ""
    if after.isascii() and after.isalnum():
        return True
    return after in (".", "_", "-", "+") and beyond.isascii() and beyond.isalnum()


_COLONS = re.compile(r":[0-9A-Fa-f]{0,4}:")
_AROUND = re.compile(r"[0-9A-Fa-f:]{1,40}:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9A-Fa-f:]{2,45}")
_MOST_BEFORE = 45
_HEX_COLON = frozenset("0123456789abcdefABCDEF:")


def ipv6(text: str) -> Iterator[Span]:
    """IPv6 addresses (RFC 4291) of the ranges that are in use.

    None of these: clock times, ``a::b`` of a programming language, slices, hardware addresses, key fingerprints.
    """
    done = 0
    for match in _COLONS.finditer(text):
        if match.start() < done:
            continue
        start = match.start()
        while start > done and match.start() - start < _MOST_BEFORE and text[start - 1] in _HEX_COLON:
            start -= 1
        around = _AROUND.match(text, start)
        if around is None:
            continue
        done = around.end()
        end = start + len(around.group().rstrip(":")) if not around.group().endswith("::") else around.end()
        if _is_ipv6(text, start, end):
            yield start, end


def _is_ipv6(text: str, start: int, end: int) -> bool:
    found = text[start:end]
    last, after = text[start - 1 : start], text[end : end + 1]
    if last.isascii() and (last.isalnum() or last in ("_", ".")) and last:
        return False
    if after.isascii() and (after.isalnum() or after == "_"):
        return False
    try:
        address = ipaddress.IPv6Address(found)
    except ValueError:
        return False
    return _is_in_use(address, found, before=context.before(text, start))


def _is_in_use(address: ipaddress.IPv6Address, found: str, *, before: str) -> bool:
    groups = [group for group in found.split(":") if group]
    if all(len(group) == 2 for group in groups) or (before.endswith("[") and before[-2:-1].isalnum()):
        return False
    if found.startswith("::"):
        return address.ipv4_mapped is not None
    # Global unicast, unique local, link local and multicast; a short name before a double colon is none.
    return found[0] in "23fF" and len(groups[0]) == 4 and any(char.isdigit() for char in found)
