"""Every try of every attack class, on every target, ends without a process and without a pod."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest
import tests.bypass.attacks as classes
from tests.bypass.ground import Try

LEAST = 20
ALL: dict[str, list[Try]] = {
    info.name: importlib.import_module(f"{classes.__name__}.{info.name}").TRIES
    for info in pkgutil.iter_modules(classes.__path__)
    if not info.name.startswith("_")
}
TARGETS = ("local", "kubernetes")

pytestmark = [pytest.mark.requirement("R125", "R133", "R141"), pytest.mark.timeout(120)]


@pytest.mark.parametrize("name", ALL)
def test_class_has_twenty_different_tries(name: str) -> None:
    """A class counts only with at least twenty tries of different names and deeds."""
    tries = ALL[name]
    assert len(tries) >= LEAST
    assert len({found.name for found in tries}) == len(tries)
    assert len({id(found.act) for found in tries}) >= LEAST


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "attack",
    [pytest.param(found, id=f"{name}: {found.name}") for name, tries in ALL.items() for found in tries],
)
def test_nothing_starts(attack: Try, target: str, request: pytest.FixtureRequest) -> None:
    """The attack is made, the launch is refused, and nothing was ever started."""
    make: Any = request.getfixturevalue(f"{target}_ground")
    ground = make(attack.stage)
    attack.act(ground)
    assert [] == ground.started()


@pytest.mark.parametrize("target", TARGETS)
def test_ground_sees_a_start(target: str, request: pytest.FixtureRequest) -> None:
    """Without an attack the signed run starts, and the ground sees it: the tries above could fail."""
    ground = request.getfixturevalue(f"{target}_ground")("signed")
    ended = ground.launch()
    assert "completed" == ended.state
    assert ground.started()
