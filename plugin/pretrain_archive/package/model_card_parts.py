"""What a model card is made of: sections of rows and tables in both languages, gaps with their reasons.

No markup here: values are data and are escaped where they are written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Words = tuple[str, str]
"""The same in English and 简体中文."""
Said = str | Words
"""A value: data reads the same in both languages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A labelled value; None or empty is unrecorded, for the reason ``gap``. ``code`` sets it as a literal."""

    label: Words
    value: Said | None
    gap: Words
    code: bool = False

    @property
    def known(self) -> bool:
        """Whether somebody recorded it."""
        return bool(self.value)


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows under a head; a cell that is None is unrecorded."""

    head: tuple[Words, ...]
    rows: tuple[tuple[Said | None, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A chapter of the card."""

    title: Words
    rows: tuple[Row, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[Said, ...] = ()


def row(en: str, zh: str, value: Said | None, gap: Words, *, code: bool = False) -> Row:
    """A row whose label is given in both languages."""
    return Row(label=(en, zh), value=value, gap=gap, code=code)


def listed(values: Iterable[str]) -> str:
    """Several values as one text; empty if there are none."""
    return "; ".join(value for value in values if value.strip())


def gaps(sections: Iterable[Section]) -> list[tuple[Words, Words, Words]]:
    """(section, label, reason) of everything that is unrecorded, in the order of the card."""
    return [
        (section.title, entry.label, entry.gap)
        for section in sections
        for entry in section.rows
        if not entry.known
    ]
