"""The ledger cannot be reached: from the first call on, from any later one on, or for one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.bypass.ground import Ground, Try

from pretrain_archive.domain.errors import ArchiveError, LedgerUnavailableError

METHODS = ("append", "records", "runs", "lineage", "seal", "proofs", "newest_time", "attest")


class Broken:
    """A ledger whose calls fail by number or by name; what fails before a write was never written."""

    def __init__(self, inner: Any, fails: Callable[[int, str], bool], *, after: bool = False) -> None:
        self._inner, self._fails, self._after = inner, fails, after
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in METHODS:
            return found

        def call(*args: Any, **more: Any) -> Any:
            number = len(self.calls)
            self.calls.append(name)
            if self._fails(number, name) and not self._after:
                raise LedgerUnavailableError("the ledger cannot be reached")
            made = found(*args, **more)
            if self._fails(number, name):
                raise LedgerUnavailableError("the answer was lost")
            return made

        return call


def _fails(
    when: Callable[[int, str], bool], *, after: bool = False, times: int = 1
) -> Callable[[Ground], object]:
    """The launch is tried ``times`` times while calls fail."""

    def act(ground: Ground) -> None:
        hit = 0
        for number in range(times):
            ground.ledger = Broken(ground.line.ledger, when, after=after)
            try:
                ground.launch(try_number=number + 1)
            except ArchiveError:
                hit += 1
            else:
                raise AssertionError(f"the launch was not refused after {ground.ledger.calls}")
        assert hit == times

    return act


def _from(first: int) -> Callable[[int, str], bool]:
    return lambda number, _: number >= first


def _once(at: int) -> Callable[[int, str], bool]:
    return lambda number, _: number == at


def _named(name: str, nth: int = 0) -> Callable[[int, str], bool]:
    seen: list[int] = []

    def fails(number: int, called: str) -> bool:
        if called == name and number not in seen:
            seen.append(number)
        return called == name and seen.index(number) >= nth

    return fails


TRIES = [
    *(Try(f"from call {n} on", "signed", _fails(_from(n))) for n in range(16)),
    *(Try(f"only at call {n}", "signed", _fails(_once(n))) for n in (0, 1, 2, 3, 5, 8, 11)),
    *(
        Try(f"every {name}", "signed", _fails(_named(name)))
        for name in ("append", "records", "lineage", "seal", "proofs")
    ),
    *(Try(f"every {name}", "signed", _fails(_named(name))) for name in ("newest_time", "attest")),
    Try("the intent is written and its answer lost", "signed", _fails(_named("append"), after=True)),
    Try("no answer at all, tried three times", "signed", _fails(_from(0), times=3)),
    Try("no write, tried three times", "signed", _fails(_named("append"), times=3)),
]
