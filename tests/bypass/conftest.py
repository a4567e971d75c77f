"""Grounds for the attacks: stages are made once per target, every try gets a copy."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.bypass.ground import Ground, Stages, cached_probe, policy_of

MakeGround = Callable[[str], Ground]


@pytest.fixture(scope="session")
def local_stages(tmp_path_factory: pytest.TempPathFactory) -> Stages:
    """The stages of a run on this machine."""
    return Stages(tmp_path_factory.mktemp("stages"), policy_of("local"))


@pytest.fixture
def local_ground(
    local_stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MakeGround]:
    """Makes the ground of one try."""
    made: list[Ground] = []
    cached_probe(monkeypatch)

    def make(stage: str) -> Ground:
        line = local_stages.at(stage, tmp_path / "ground")
        made.append(Ground(line=line, monkeypatch=monkeypatch, other=local_stages.uids["other"]))
        return made[-1]

    yield make
    for ground in made:
        ground.line.ledger.close()
    local_stages.restore()
    shutil.rmtree(tmp_path / "ground", ignore_errors=True)
