"""Whether an object of the cluster is the one that was asked for: defaults may be added, nothing may differ."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_QUANTITY = re.compile(r"([0-9.]+)(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")
_UNITS = {
    "": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
}  # fmt: skip


def first_difference(wanted: Any, found: Any, where: str = "") -> str:
    """Where ``found`` is not as ``wanted``, in words; empty if it holds all of it.

    Fields that only ``found`` has are defaults of the server; elements of a list are no defaults. Quantities are
    compared as numbers: the server writes 1024Mi as 1Gi.
    """
    if isinstance(wanted, Mapping):
        if not isinstance(found, Mapping):
            return f"{where} is {found!r:.80}"
        parts = (first_difference(value, found.get(key), f"{where}.{key}") for key, value in wanted.items())
        return next(filter(None, parts), "")
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        if not isinstance(found, Sequence) or isinstance(found, str) or len(found) != len(wanted):
            return f"{where} has other elements"
        parts = (
            first_difference(left, right, f"{where}[{number}]")
            for number, (left, right) in enumerate(zip(wanted, found, strict=True))
        )
        return next(filter(None, parts), "")
    if wanted == found or (wanted in ("", None, 0, False) and found is None) or _equal(wanted, found):
        return ""
    return f"{where.lstrip('.')} is {found!r:.80} and not {wanted!r:.80}"


def _equal(wanted: Any, found: Any) -> bool:
    left, right = (_QUANTITY.fullmatch(str(value)) for value in (wanted, found))
    if left is None or right is None or isinstance(wanted, bool) or isinstance(found, bool):
        return False
    try:
        return float(left[1]) * _UNITS[left[2] or ""] == float(right[1]) * _UNITS[right[2] or ""]
    except ValueError:
        return False
