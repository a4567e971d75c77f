"""A package tells where its run's device time went."""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit.domain.told_run import Told

from pretrain_archive.domain.cost import account, document
from pretrain_archive.package.evidence import collect
from pretrain_archive.storage.files import FileStore


def test_the_account_is_in_the_package(tmp_path: Path) -> None:
    """The evidence holds the account that the records give, for whoever has no ledger any more."""
    told = Told()
    told.open()
    told.launch(1, 0)
    told.start(1, 1)
    told.steps(1, *[(1 + step, step) for step in range(1, 11)])
    told.end(1, 12, took=12, state="failed")

    parts = {part.path: part.data for part in collect(FileStore(tmp_path), told.view).parts}

    assert document(account(told.view)) == json.loads(parts["evidence/cost.json"])
