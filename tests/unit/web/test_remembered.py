"""Results that pages remember."""

from __future__ import annotations

import pytest

from pretrain_archive.web.remembered import Remembered


def test_made_once_for_a_key() -> None:
    """The same key gives what was made first; another key makes its own; the longest unused one goes."""
    made: list[str] = []

    def make(name: str) -> str:
        made.append(name)
        return f"{name}{len(made)}"

    kept: Remembered[str] = Remembered(most=2)
    told = [kept.of(name, lambda name=name: make(name)) for name in ("a", "b", "a", "c", "a", "b")]  # type: ignore[misc]

    assert ["a1", "b2", "a1", "c3", "a1", "b4"] == told


def test_an_error_is_not_remembered() -> None:
    """What could not be made is tried again."""
    kept: Remembered[int] = Remembered()
    with pytest.raises(ZeroDivisionError):
        kept.of("x", lambda: 1 // 0)

    assert 1 == kept.of("x", lambda: 1)
