"""A source that is withdrawn while somebody is at work with what rests on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.main_line import Line
from tests.support.source_facts import launches, take_back

from pretrain_archive.artifacts.evaluation import require_present
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import StreamMovedError
from pretrain_archive.gates.permit import consume_permit
from pretrain_archive.services import closing, launching


@pytest.fixture
def line(tmp_path: Path) -> Line:
    """A line of its own."""
    return Line(folder=tmp_path)


@pytest.mark.requirement("R037", "R125")
def test_withdrawn_right_before_the_token_is_used_starts_nothing(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launch itself, between deriving the token and consuming it: no token is used, no process starts."""
    line.to_signed_launch()

    def withdraw_and_consume(*values: object, **more: object) -> object:
        take_back(line)
        return consume_permit(*values, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(launching, "consume_permit", withdraw_and_consume)
    with pytest.raises(StreamMovedError, match="source/"):
        line.launch()

    assert 0 == launches(line)


@pytest.mark.requirement("R037", "R113")
def test_withdrawn_while_the_model_is_read_once_more_makes_no_release(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is withdrawn between the check of the signature and the release stops the release all the same."""
    line.to_signed_launch()
    line.launch()
    line.register()
    line.evaluate()
    line.sign("run")
    line.sign("close")

    def read_and_withdraw(checkpoint: kinds.CheckpointRegistered) -> None:
        require_present(checkpoint)
        take_back(line)

    monkeypatch.setattr(closing, "require_present", read_and_withdraw)
    with pytest.raises(StreamMovedError, match="source/"):
        line.close()

    assert line.view().latest(kinds.ReleaseMade) is None
    assert "closed" != line.view().state
