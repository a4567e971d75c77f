"""What a gate reads back from the run's own records."""

from __future__ import annotations

import pytest
from tests.unit.domain.checklists.conftest import Whole, changed, whole

from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.gates import recorded_policy
from pretrain_archive.domain.kinds import RunOpened

__all__ = ["whole"]


def test_policy_of_another_release_is_read(whole: Whole) -> None:
    """A setting that is no longer known, at the top or inside a section, does not make old runs unreadable."""

    def later(policy):
        return {**policy, "colour": "red", "quotas": {**policy["quotas"], "exploration_minutes": 5}}

    assert whole.policy == recorded_policy(changed(RunOpened, policy=later)(whole.view))


def test_run_without_a_policy_is_refused(whole: Whole) -> None:
    """Nothing stands in for a policy that is not recorded."""
    with pytest.raises(RefusedError, match="has no recorded policy"):
        recorded_policy(changed(RunOpened, policy={})(whole.view))
