"""The clock of a machine is moved: forward, so that things expire; back, so that they should revive."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from tests.bypass.ground import Ground, Try

HOUR = timedelta(hours=1)
EXPIRED = "the approval expired at"


def _forward(shift: timedelta) -> Callable[[Ground], object]:
    """The machine's clock runs ahead: the approval is over."""

    def act(ground: Ground) -> None:
        ground.clock(shift)
        ground.refused(EXPIRED)

    return act


def _back(
    seen: timedelta, *, stream: str = "", clock: timedelta = timedelta(), seal: bool = False, notes: int = 1
) -> Callable[[Ground], object]:
    """Somebody's records show that time passed; then the clock of the launching machine goes back."""

    def act(ground: Ground) -> None:
        ground.ledger_clock(seen)
        for number in range(notes):
            ground.note(stream or ground.line.run_uid, f"note {number}")
        if seal:
            ground.line.ledger.seal()
        ground.ledger_clock(timedelta())
        ground.note("project/quiet", "the ledger's clock is right again")
        ground.clock(clock)
        said = ground.refused(EXPIRED)
        assert "this machine's clock says" in said

    return act


def _right_ended(ground: Ground) -> None:
    """A right to read ends in an hour, the ledger has seen two pass; the clock says that none did."""
    from pretrain_archive.domain.identity import format_time, parse_time
    from pretrain_archive.domain.kinds import SourceRegistered

    found = ground.line.view().last(SourceRegistered)
    assert found is not None
    end = format_time(parse_time(found[0].recorded_at) + HOUR)
    ground.add(
        "source.registered", found[1].model_copy(update={"access_revoked_at": end}), task="register_source"
    )
    ground.ledger_clock(2 * HOUR)
    ground.note("project/line")
    ground.refused("ended at")


TRIES = [
    *(
        Try(f"forward {name}", "signed", _forward(shift))
        for name, shift in (
            ("a second too much", timedelta(hours=24, seconds=1)), ("25 hours", 25 * HOUR),
            ("a day and a half", 36 * HOUR),
            ("a week", timedelta(days=7)), ("a year", timedelta(days=365)), ("a century", timedelta(days=36_500)),
        )
    ),
    *(
        Try(f"back after {name}, seen in {where}", "signed", _back(seen, stream=stream))
        for name, seen in (("25 hours", 25 * HOUR), ("a month", timedelta(days=30)))
        for where, stream in (
            ("the run", ""), ("another run", "run_somebody"), ("a project", "project/other"), ("the ledger", "data/x"),
        )
    ),
    Try("back behind the approval", "signed", _back(25 * HOUR, clock=-25 * HOUR)),
    Try("back by a year", "signed", _back(48 * HOUR, clock=timedelta(days=-365))),
    Try("back to just before the end", "signed", _back(25 * HOUR, clock=23 * HOUR)),
    Try("back after it was sealed", "signed", _back(25 * HOUR, seal=True)),
    Try("back after many records", "signed", _back(26 * HOUR, notes=30)),
    Try("back a little after the end", "signed", _back(timedelta(hours=24, minutes=2), clock=-HOUR)),
    Try("a right to read that ended", "signed", _right_ended),
]  # fmt: skip
