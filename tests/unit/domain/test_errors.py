"""An error reads as sentences: what was wrong, and what to do next."""

from __future__ import annotations

import pytest

from pretrain_archive.domain.errors import ArchiveError


@pytest.mark.parametrize(
    ("message", "hint", "text"),
    [
        pytest.param(
            "the run is closed", "Trigger a new one.", "the run is closed. Trigger a new one.", id="no stop"
        ),
        pytest.param("It is closed.", "Trigger a new one.", "It is closed. Trigger a new one.", id="a stop"),
        pytest.param("known: a, b", "", "known: a, b", id="no hint"),
        pytest.param("已关闭。", "请重新触发。", "已关闭。 请重新触发。", id="a Chinese stop"),
    ],
)
def test_a_hint_begins_a_sentence_of_its_own(message, hint, text):
    """There is one full stop between them, whoever wrote the message."""
    assert text == str(ArchiveError(message, hint=hint))
