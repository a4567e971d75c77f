"""One package for the whole session; each test gets a copy of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.packages import Built, build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The untouched package."""
    return build(tmp_path_factory.mktemp("run"))


@pytest.fixture
def copy(built: Built, tmp_path: Path) -> Callable[[], Path]:
    """Make a copy of the package that a test may change."""

    def make() -> Path:
        target = tmp_path / "package"
        shutil.copytree(built.folder, target)
        return target

    return make
