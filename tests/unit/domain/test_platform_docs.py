"""What docs/platform.md says is what the program does: its policy loads, its items, steps and follow-ups are all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.support.governed import policy_text

from pretrain_archive.domain.governance_changes import KEY_COMPONENTS
from pretrain_archive.domain.governance_texts import HINTS
from pretrain_archive.domain.kinds import FollowUp
from pretrain_archive.domain.policy import parse_policy
from pretrain_archive.domain.policy_platform import Platform, Support

PAGE = (Path(__file__).parents[3] / "docs" / "platform.md").read_text("utf-8")


@pytest.mark.requirement("R233")
def test_the_policy_that_is_shown_is_one() -> None:
    """It loads, and names every key that there is."""
    [section] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    platform = parse_policy(policy_text("p", section).encode(), name="p.toml").policy.platform

    assert set(Platform.model_fields) == platform.model_fields_set
    assert set(Support.model_fields) == platform.support["driver"].model_fields_set
    assert all(platform.teams.model_dump().values())


def test_every_item_and_follow_up_is_explained() -> None:
    """Nothing that can be missing or be named is left out of the page."""
    assert set(HINTS) == set(re.findall(r"^\| `(stage\.\w+)`", PAGE, re.MULTILINE))
    kinds = set(FollowUp.model_json_schema()["properties"]["kind"]["enum"])
    assert kinds == set(re.findall(r"^\| `(\w+):", PAGE, re.MULTILINE))
    for component in KEY_COMPONENTS:
        assert component in PAGE


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[platform]\nexperts = [' ']", id="a blank name"),
        pytest.param("[platform]\ndrill_valid_days = 0", id="no day"),
        pytest.param("[platform.teams]\nweather = 'x'", id="no such team"),
        pytest.param("[platform.support.rain]\nsupplier = 'x'", id="no such component"),
        pytest.param("[platform.support.driver]\nsupplier = 'x'\ncovers = 'y'", id="support without an end"),
    ],
)
def test_a_policy_that_is_wrong(text: str) -> None:
    """What means nothing is refused, and no end of a support is made up."""
    with pytest.raises(Exception, match="platform") as raised:
        parse_policy(policy_text("p", text).encode(), name="p.toml")
    assert isinstance(raised.value.__cause__, ValidationError)
