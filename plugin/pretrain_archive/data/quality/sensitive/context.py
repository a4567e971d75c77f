"""The words around a number, which tell an address from a version and a telephone from an order."""

from __future__ import annotations

import re
from typing import Final

BEFORE: Final = 32
"""Characters before a candidate that are looked at."""

_VERSION = re.compile(
    r"(?:\bv|\bver\.?|versions?|release[sd]?|build|builds|built with|\brev\.?|revision|firmware|"
    r"upgrade[sd]?(?: to)?|"
    r"\btool|package|section|sect\.|§|chapter|clause|paragraph|figure|table|\boid\b|[=~<>^]=|"
    r"版本|版|章|节|条|图|表)\W{0,3}(?:\w+\W{1,2}){0,2}\Z",
    re.IGNORECASE,
)
_ADDRESS = re.compile(
    r"(?:\bips?\b|\bip(?:v4)?[ _-]?addr\w*|address(?:es)?|hosts?|hostname|server|client|gateway|\bdns\b|"
    r"nameserver|ping|\bssh\b|subnet|netmask|router|peer|remote|endpoint|\bfrom\b|"
    r"connect(?:ed|ing)?(?: to)?|listen(?:ing)?(?: on)?|"
    r"地址|主机|服务器|网关|客户端)\W{0,3}(?:\w+\W{1,2}){0,1}\Z",
    re.IGNORECASE,
)
_PHONE = re.compile(
    r"(?:phone|tel|telephone|mobile|cell|fax|call|whatsapp|sms|text me|电话|手机|致电|拨打|联系|热线|短信)"
    r"[^0-9\n]{0,12}\Z",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"(?:order|invoice|tracking|ticket|serial|sku|part|item|reference|ref|transaction|isbn|issn|doi|batch|lot|case|"
    r"commit|sha|hash|uuid|\bid|订单|单号|编号|流水|批次|序列)[^0-9\n]{0,12}\Z",
    re.IGNORECASE,
)


def before(text: str, start: int) -> str:
    """What stands before ``start``."""
    return text[max(0, start - BEFORE) : start]


def says_version(left: str) -> bool:
    """Whether the words before speak of a version or a numbered part."""
    return _VERSION.search(left) is not None


def says_address(left: str) -> bool:
    """Whether the words before speak of a host or an address."""
    return _ADDRESS.search(left) is not None


def says_phone(left: str) -> bool:
    """Whether the words before announce a telephone number."""
    return _PHONE.search(left) is not None


def says_order(left: str) -> bool:
    """Whether the words before announce an order, a serial number or the like."""
    return _ORDER.search(left) is not None
